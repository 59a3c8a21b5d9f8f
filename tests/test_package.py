"""The wheel: what it is called, what is in it, and that it draws in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.parser import Parser

import pytest

from nelson.kernels.core import built_kernels
from tests import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.process]

DRAW = """
import nelson
samples = nelson.sample(nelson.Formula([[1, 2], [-1, 3]]), None, 100, seed=0)
assert len(samples) == 100 and samples.guarantee == "exact", samples
print(nelson.__file__)
"""


def run(*command: object) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


#: A million samples by each of the usual ways, and a million rows of a space.
DRAW_MANY = """
import sys
import nelson
million = 1_000_000
extremal = nelson.Formula([[1, 2], [-2, 3], [-3, 4]])
dense = nelson.Formula([[1, 2, 3], [-1, 2, 4], [1, -3, -4], [2, 3, -4]])
theta = [0.3, -0.2, 0.1, 0.5]
for formula, how in [
    (extremal, {}), (extremal, {"method": "cftp"}), (dense, {"method": "circuit"}),
    (dense, {"method": "lovasz", "sweeps": 2}), (dense, {}),
]:
    assert len(nelson.sample(formula, theta, million, seed=0, **how)) == million
space = nelson.Space()
x, y = space.integer("x", 0, 99), space.integer("y", 0, 99)
space.require(x + y <= 120)
assert len(space.sample(million, seed=0)) == million
assert not {"numba", "llvmlite"} & set(sys.modules)
print(nelson.__file__)
"""
#: One kernel: packs bits into words.
PACK = """
import numpy as np
from nelson.kernels.core.bits import pack
print(len(pack(np.ones((70, 3), bool))))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "-s", "-w", "--no-isolation", "--outdir", folder, ROOT)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def test_the_wheel_is_called_nelson_mrf_and_holds_the_package(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = wheel.namelist()
        about = next(name for name in names if name.endswith(".dist-info/METADATA"))
        told = Parser().parsestr(wheel.read(about).decode())
    assert told["Name"] == "nelson-mrf"
    top = {name.split("/")[0] for name in names}
    assert "nelson" in top and len(top) == 2, top  # and not nelson_paper, lab, examples
    assert "nelson/py.typed" in names
    assert not [name for name in names if "tests" in name]


def test_the_sdist_holds_what_is_needed_to_test_it(built):
    with tarfile.open(built[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    for wanted in ("src/nelson/__init__.py", "tests/__init__.py", "Makefile", "constraints.txt"):
        assert wanted in names, wanted
    for wanted in ("paper/pyproject.toml", "lab/__main__.py", "examples/trees/task.py"):
        assert wanted in names, wanted


def test_the_wheel_of_the_paper_has_its_files_and_adds_its_commands(tmp_path):
    run(sys.executable, "-m", "build", "-w", "--no-isolation", "--outdir", tmp_path, ROOT / "paper")
    with zipfile.ZipFile(next(tmp_path.glob("nelson_paper-*.whl"))) as wheel:
        names = wheel.namelist()
        about = next(name for name in names if name.endswith("entry_points.txt"))
        told = wheel.read(about).decode()
    for wanted in ("experiments/templates/page.css", "tasks/data/streets.cnf", "py.typed"):
        assert f"nelson_paper/{wanted}" in names, wanted
    assert "[nelson.commands]" in told and "bench = " in told and "demo = " in told


def test_a_new_environment_with_the_wheel_draws_a_sample(built, tmp_path):
    """Needs the package index, as `make install` does."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    run(
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-compile",
        "-c",
        ROOT / "constraints.txt",
        built[0],
    )
    said = run(python, "-I", "-c", DRAW)
    assert str(tmp_path) in said, said
    assert "nelson" in run(tmp_path / "env" / "bin" / "nelson", "--help")
    torch = run(python, "-m", "pip", "list", "--format=freeze")
    assert "torch" not in torch and "ray" not in torch.split("="), torch  # the core alone
    bench = subprocess.run(
        [tmp_path / "env" / "bin" / "nelson", "bench"], capture_output=True, text=True, cwd=tmp_path
    )
    assert bench.returncode == 1 and "pip install nelson-paper" in bench.stderr


def test_a_wheel_brings_compiled_kernels(built, tmp_path):
    """With an empty cache a million samples of each kind do not load Numba. The twin: without the
    folder of built kernels, the first kernel is compiled."""
    if not built_kernels.built_levels():
        pytest.skip("no kernels were built for this processor: make kernels")
    assert "linux" in built[0].name or "any" not in built[0].name  # of this system only
    place, cache = tmp_path / "place", tmp_path / "cache"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", place]
    run(*pip, built[0])
    paths = os.pathsep.join([str(place), *sys.path])
    environment = os.environ | {"PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(cache)}

    def python(code: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=600
        )

    done = python(DRAW_MANY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(place))
    assert "compiling kernels" not in done.stderr and not list(cache.rglob("*.nbc"))
    shutil.rmtree(place / "nelson" / "kernels" / "built")
    twin = python(PACK)
    assert twin.returncode == 0 and "compiling kernels" in twin.stderr
    assert list(cache.rglob("*.nbc"))
