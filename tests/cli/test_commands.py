"""Help, version, `nelson report`, and how fast the command line starts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.commands import STREETS, UNSAT, run


@pytest.mark.parametrize("command", ["sample", "report", "compile", "demo"])
def test_help_shows_an_example(command):
    done = run(command, "--help")
    assert done.returncode == 0
    assert f"nelson {command} ".strip() in done.stdout.split("Examples:")[1]


def test_version():
    from nelson._version import __version__

    assert run("--version").stdout.strip() == f"nelson {__version__}"


def test_info_prints_a_table_or_json():
    done = run("report", STREETS)
    assert done.returncode == 0, done.stderr
    assert "7" in done.stdout
    parsed = json.loads(run("report", STREETS, "--json").stdout)
    assert parsed["n_vars"] == 7
    assert parsed["n_clauses"] == 6


def test_info_of_an_unsatisfiable_formula_does_not_hang():
    done = run("report", "-", stdin=UNSAT)
    assert done.returncode in (0, 20)
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_start_up_imports_nothing_heavy():
    """`nelson sample` must start fast: not even numba before a formula is read."""
    code = "import sys, nelson.cli; print(*(m for m in sys.argv[1:] if m in sys.modules))"
    heavy = ("numba", "numpy", "torch", "ray", "pysat", "scipy", "rich.progress", "matplotlib")
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
