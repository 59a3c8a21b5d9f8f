"""Layers, cycles, imports inside functions: what `make check` checks, and that it can fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

pytestmark = pytest.mark.process
LINT = Path(sys.executable).with_name("lint-imports")


def layers(source: Path) -> subprocess.CompletedProcess[str]:
    """import-linter with the contracts of pyproject.toml on a package below `source`."""
    if not LINT.exists():
        pytest.skip("NO IMPORT-LINTER: layers are not checked")
    return subprocess.run(
        [str(LINT), "--no-cache", "--config", str(ROOT / "pyproject.toml")],
        env={**os.environ, "PYTHONPATH": str(source)},
        cwd=source,
        capture_output=True,
        text=True,
        timeout=120,
    )


def functions(package: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "check_imports.py"), str(package)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def source(tmp_path):
    """A copy of both packages, to be broken."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "nelson", tmp_path / "nelson", ignore=ignored)
    paper = ROOT / "paper" / "src" / "nelson_paper"
    shutil.copytree(paper, tmp_path / "nelson_paper", ignore=ignored)
    return tmp_path


def add(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_the_package_keeps_its_layers(source):
    done = layers(source)
    assert done.returncode == 0 and "4 kept, 0 broken" in done.stdout, done.stdout
    assert functions(source / "nelson").returncode == 0
    assert functions(source / "nelson_paper").returncode == 0


def test_the_library_imports_nothing_of_the_paper(source):
    add(source / "nelson" / "cli" / "common.py", "\n\ndef f():\n    import nelson_paper.tasks\n")
    done = layers(source)
    assert done.returncode != 0 and "nelson.cli.common -> nelson_paper.tasks" in done.stdout


def test_an_import_against_the_layers_is_seen_inside_a_function_too(source):
    add(
        source / "nelson" / "formula" / "checks.py",
        "\n\ndef broken():\n    from nelson.cli import common\n    return common\n",
    )
    done = layers(source)
    assert done.returncode != 0
    assert "nelson.formula.checks -> nelson.cli.common" in done.stdout, done.stdout


def test_a_cycle_inside_a_room_is_seen(source):
    add(source / "nelson" / "errors.py", "\n")
    add(source / "nelson" / "sampling" / "samples.py", "\nfrom nelson.sampling import registry\n")
    add(source / "nelson" / "sampling" / "registry.py", "\nfrom nelson.sampling import samples\n")
    done = layers(source)
    assert done.returncode != 0 and "No cycles are allowed in nelson.sampling" in done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n\ndef f():\n    from nelson.errors import NelsonError\n", "inside a function"),
        ("\n\ndef f():\n    import json\n", "inside a function"),
        ("\nfrom nelson.formula.encode import _literals\n", "the private name _literals"),
    ],
)
def test_imports_inside_functions_and_of_private_names_are_seen(source, text, said):
    add(source / "nelson" / "formula" / "checks.py", text)
    done = functions(source / "nelson")
    assert done.returncode == 1 and said in done.stdout, done.stdout


def test_imports_inside_functions_at_a_boundary_are_allowed(source):
    before = functions(source / "nelson").stdout
    add(
        source / "nelson" / "formula" / "checks.py",
        "\n\ndef f():\n    import torch\n    from nelson.kernels.core import rng\n",
    )
    assert functions(source / "nelson").stdout == before


def test_declaring_a_space_loads_few_modules_and_no_sampler():
    code = (
        "import sys; before = set(sys.modules); import nelson; nelson.Space().flag('a');"
        "print(*(set(sys.modules) - before))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120
    )
    loaded = done.stdout.split()
    assert loaded, done.stderr
    ours = [name for name in loaded if name.split(".")[0] == "nelson"]
    assert len(ours) <= 120, sorted(ours)
    heavy = {"scipy", "numba", "torch", "ray", "pysat", "psutil", "pandas", "pyarrow", "networkx"}
    assert not heavy & set(loaded)
    assert not {"subprocess", "tempfile"} & set(loaded)
    assert "nelson.sampling" not in ours
