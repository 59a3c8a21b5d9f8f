"""Files with `c ind` lines: the commands mean the projected solutions, and say so.

The shares have bands of 5 sigma: a false alarm has probability 6e-7 each, and the other law is 30
sigma away. Seeds are fixed.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.cli.commands import literals, run, run_process

#: x2 and x3 are free if x1, else both true: (1, 1) has 2 of 5 solutions, 1 of 4 projected ones.
PAIR = "c ind 2 3 0\np cnf 3 2\n1 2 0\n1 3 0\n"
DRAWS = 10_000


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pair.cnf"
    path.write_text(PAIR)
    return path


def share(text):
    """The share of rows in which x2 and x3 are true."""
    return (literals(text) > 0).all(axis=1).mean()


def near(p):
    return pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / DRAWS))


@pytest.mark.process
def test_c_ind_lines_mean_projected_solutions(file):
    done = run_process("sample", file, "-n", DRAWS, "--seed", 1)
    assert done.returncode == 0 and share(done.stdout) == near(1 / 4)
    first, last = done.stderr.splitlines()
    assert "uniform over the projected solutions" in first and "--project-law marginal" in first
    assert "exact" in last and "projected solutions (eliminated)" in last


@pytest.mark.slow
def test_the_other_law_and_columns_of_a_choice(file):
    for options in (["--project-law", "marginal"], ["--project", "2,3"]):
        done = run("sample", file, "-n", DRAWS, "--seed", 1, *options)
        assert share(done.stdout) == near(2 / 5) and "projected" not in done.stderr
    options = ["--project", "2,3", "--project-law", "solutions"]
    assert share(run("sample", file, "-n", DRAWS, "--seed", 1, *options).stdout) == near(1 / 4)


def test_weights_outside_of_the_projection_are_an_error(file):
    done = run("sample", file, "--weight", "1=3")
    assert done.returncode == 1 and "outside of the projection" in done.stderr
    done = run("sample", file, "--project-law", "uniform")
    assert done.returncode == 1 and '"marginal" or "solutions"' in done.stderr
    done = run("sample", file, "-n", DRAWS, "--seed", 1, "--weight", "2=3")
    assert "weighted over the projected solutions" in done.stderr
    assert share(done.stdout) == near(3 / 8)


def test_all_projected_solutions_once(file):
    done = run("sample", file, "-n", 5, "--unique", "--seed", 1)
    assert done.returncode == 3 and len(literals(done.stdout)) == 4
    assert run("count", file, "--projected").stdout == "4\n"
    done = run("count", file)
    assert done.stdout == "5\n" and "--projected" in done.stderr


@pytest.mark.slow
def test_samples_pass_the_test_of_their_own_law_only(file, tmp_path):
    for law, other in (("solutions", "marginal"), ("marginal", "solutions")):
        out = tmp_path / f"{law}.npz"
        run("sample", file, "-n", DRAWS, "--seed", 1, "--project-law", law, "-o", out)
        for claim in (law, other):
            done = run("judge", file, "--samples", out, "--project-law", claim, "--json")
            assert json.loads(done.stdout)["accept"] is (claim == law)
    done = run("judge", file, "--samples", tmp_path / "solutions.npz")
    assert done.returncode == 0 and "each projected solution counted once" in done.stdout
