"""`nelson judge`: exit codes and output."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import nelson
from nelson.cli import app
from tests.judging.known_laws import SEED, SMALL
from tests.problems import weights


def run(*args: object, **options) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of `nelson judge`."""
    done = CliRunner().invoke(app, ["judge", *map(str, args)], **options)
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def cnf(tmp_path):
    path = tmp_path / "f.cnf"
    SMALL.to_dimacs(path)
    return path


@pytest.mark.slow
def test_the_command_says_so_with_its_exit_code(tmp_path, cnf):
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    for path, method in ((good, "prs"), (bad, "lovasz")):
        rows = nelson.sample(SMALL, None, 4000, method=method, seed=SEED).literals()
        path.write_text("".join(" ".join(map(str, row)) + " 0\n" for row in rows))
    code, out, _ = run("--samples", good, cnf)
    assert code == 0 and out.startswith("ACCEPT")
    code, out, _ = run("--samples", bad, cnf, "--json")
    assert code == 1 and json.loads(out)["accept"] is False
    code, out, _ = run("--method", "prs", cnf, "--test", "conditionals", "--seed", 1)
    assert code == 3 and out.startswith("UNDECIDED")
    code, out, _ = run("--samples", "-", cnf, input=good.read_text())
    assert code == 0
    code, out, _ = run("--method", "prs", cnf, "-n", "1e3", "--json")
    assert json.loads(out)["evidence"]["samples"] == 1000


@pytest.mark.slow
def test_the_command_tells_bad_input_from_a_rejection(tmp_path, cnf):
    for args in (
        (cnf,),
        ("--method", "prs", "--samples", "x", cnf),
        ("--method", "no-such", cnf),
        ("--samples", tmp_path / "none.txt", cnf),
        ("--samples", "prs", cnf),  # the name of a sampler is not the name of a file
        ("--method", "prs", tmp_path / "none.cnf"),
        ("--method", "prs", cnf, "--delta", 2),
        ("--method", "prs", cnf, "-n", "inf"),
        ("--samples", "-", "-"),
    ):
        code, out, err = run(*args)
        assert code == 2 and not out and err, args
    cnf.write_text("p cnf 1 2\n1 0\n-1 0\n")
    assert run("--method", "prs", cnf)[0] == 20


@pytest.mark.process
def test_the_command_runs_as_a_process(cnf):
    """Weights come from the formula's file if it has any, as they do for `nelson sample`."""
    SMALL.replace(theta=weights(SMALL)).to_dimacs(cnf)
    command = [sys.executable, "-m", "nelson.cli", "judge", "--method", "prs", str(cnf)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and "theta from" in done.stdout, done.stderr
