"""`pip install nelson-paper` brings all that `nelson bench` and `nelson demo` need."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from tests import ROOT

#: Foreign samplers, with which results are compared where they are installed.
OPTIONAL = {"pycmsgen", "pycryptosat"}
#: What `make demo` does not install.
ABSENT = ("torch", "ray", "pandas", "sklearn", "safetensors", "tensorboard", "cpmpy")


def requirements(texts: list[str], extras: dict[str, list[str]]) -> set[str]:
    """Names of the required distributions, those of the extras of nelson-mrf included."""
    names: set[str] = set()
    for text in texts:
        name, listed = re.match(r"([\w-]+)(?:\[([\w,-]*)\])?", text).groups()
        names.add(name.lower())
        for extra in (listed or "").split(","):
            names |= requirements(extras.get(extra, []), extras)
    return names


@pytest.mark.slow
def test_what_the_paper_imports_is_required():
    library = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    paper = tomllib.loads((ROOT / "paper" / "pyproject.toml").read_text())["project"]
    extras = library["optional-dependencies"]
    required = requirements(paper["dependencies"], extras)
    required |= requirements(library["dependencies"], extras)
    required |= {"markupsafe", "cycler"}  # of jinja2 and matplotlib
    homes = packages_distributions()
    imported = set()
    for path in (ROOT / "paper" / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    foreign = imported - sys.stdlib_module_names - {"nelson", "nelson_paper"} - OPTIONAL
    assert {"pyarrow", "matplotlib", "networkx", "jinja2"} <= foreign  # the test finds some
    for module in foreign:
        assert {name.lower() for name in homes[module]} & required, module


@pytest.mark.process
@pytest.mark.slow
def test_bench_runs_in_the_environment_of_the_demo(tmp_path):
    for name in ABSENT:  # child processes, too, find these before what is installed
        (tmp_path / f"{name}.py").write_text("raise ImportError('not in this environment')\n")
    paths = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    words = ("bench", "table3", "--only", "lovasz", "--only", "n=10", "-o", str(tmp_path / "out"))
    done = subprocess.run(
        [sys.executable, "-m", "nelson.cli", *words],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "out").rglob("*.parquet")), done.stdout
