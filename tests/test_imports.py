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
    """A copy of the package, to be broken."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "nelson", tmp_path / "nelson", ignore=ignored)
    return tmp_path


def add(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_the_package_keeps_its_layers(source):
    done = layers(source)
    assert done.returncode == 0 and "2 kept, 0 broken" in done.stdout, done.stdout
    assert functions(source / "nelson").returncode == 0


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
    add(source / "nelson" / "sampling" / "guarantee.py", "\nfrom nelson.sampling import registry\n")
    add(source / "nelson" / "sampling" / "registry.py", "\nfrom nelson.sampling import guarantee\n")
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
