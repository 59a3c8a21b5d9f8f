"""The options of a draw: the same names and defaults wherever they are spelled out."""

from __future__ import annotations

import inspect
from dataclasses import fields

import numpy as np
import pytest

import nelson
from nelson.formula.checks import count
from nelson.learning.metrics import evaluate
from nelson.learning.optimizers import Newton
from nelson.sampling.options import Options, gpu_number

#: Options for callers within the package.
INTERNAL = {"verdict", "reuse", "determined", "skip"}
FIELDS = {field.name: field.default for field in fields(Options) if field.name not in INTERNAL}


@pytest.mark.parametrize(
    ("function", "missing"),
    [(nelson.sample, set()), (nelson.stream, {"strict", "terms"})],
)
def test_signatures_have_the_defaults_of_the_options(function, missing):
    parameters = inspect.signature(function).parameters
    shared = {name: parameters[name].default for name in FIELDS if name in parameters}
    assert set(FIELDS) - set(shared) == missing
    assert shared == {name: FIELDS[name] for name in shared}
    assert set(parameters) - set(FIELDS) <= {"formula", "theta", "n", "block"}


@pytest.mark.parametrize(
    ("device", "number"), [(None, None), ("cpu", None), ("cuda", 0), ("cuda:3", 3)]
)
def test_devices(device, number):
    assert gpu_number(device) == Options(device=device).gpu == number


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "mps"])
def test_unknown_devices_are_named(device):
    with pytest.raises(nelson.FormulaError, match=device):
        Options(device=device)


def test_distinct_samples_are_drawn_on_the_cpu():
    with pytest.raises(nelson.FormulaError, match="unique=True"):
        Options(unique=True, device="cuda")


# --- the projection that a formula carries ------------------------------------------------------

PROJECTED = nelson.Formula([[1, 2], [-2, 3], [3, 4]], projection=[4, 1])


def test_a_formula_that_carries_a_projection_is_drawn_on_it():
    """As on the command line: `--project`, else the projection of the file, else all variables."""
    whole = nelson.sample(PROJECTED, n=100, seed=1, project="all")
    assert whole.variables == (1, 2, 3, 4) and PROJECTED.satisfied(whole.to_numpy()).all()
    projected = nelson.sample(PROJECTED, n=100, seed=1)
    assert projected.variables == (4, 1)
    assert np.array_equal(projected.to_numpy(), whole.to_numpy()[:, [3, 0]])
    assert nelson.sample(PROJECTED, n=3, project=[2]).variables == (2,)
    assert nelson.sample(PROJECTED, n=3, project=[]).variables == ()
    assert nelson.sample(PROJECTED, n=3, project=iter([2, 1])).variables == (2, 1)
    with pytest.raises(nelson.FormulaError, match='"all"'):
        nelson.sample(PROJECTED, n=3, project="every")
    [block] = nelson.stream(PROJECTED, n=100, seed=1)
    assert block.variables == (4, 1) and np.array_equal(block.packed, projected.packed)
    [block] = nelson.stream(PROJECTED, n=100, seed=1, project="all")
    assert np.array_equal(block.packed, whole.packed)


def test_the_projection_of_a_dimacs_file(tmp_path):
    file = tmp_path / "projected.cnf"
    file.write_text("p cnf 3 2\nc ind 3 1 0\n1 2 0\n-2 3 0\n")
    formula = nelson.Formula.from_dimacs(file)
    assert set(nelson.sample(formula).variables) == {1, 3}
    assert nelson.sample(formula, project="all").variables == (1, 2, 3)


def test_what_works_on_all_variables_still_does():
    """Judging, learning, counting and torch need every variable, whatever the formula carries."""
    data = nelson.sample(PROJECTED, n=500, seed=2, project="all")
    assert nelson.judge(PROJECTED, "prs", n=2000, seed=1).accept
    fit = nelson.learn(PROJECTED, data, seed=3, optimizer=Newton(iterations=3))
    assert fit.theta.shape == (4,)
    report = evaluate(PROJECTED, fit.theta, data, samples=200)
    assert report["examples"] == 500
    projected = nelson.sample(PROJECTED, n=500, seed=2)
    with pytest.raises(nelson.FormulaError, match=r'variable 2, 3; .*project="all"'):
        nelson.learn(PROJECTED, projected)


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1000, 1e3, np.int32(1000), np.float32(1e3), np.uint64(1000)])
def test_counts_may_be_floats_without_a_fraction(n):
    assert len(nelson.sample(PROJECTED, n=n, seed=1)) == 1000
    assert sum(len(block) for block in nelson.stream(PROJECTED, n=n, seed=1)) == 1000
    options = Options(max_rounds=n, sweeps=n, threads=n)
    assert (options.max_rounds, options.sweeps, options.threads) == (1000, 1000, 1000)
    assert {type(value) for value in (options.max_rounds, options.sweeps)} == {int}


@pytest.mark.parametrize("n", [1.5, np.nan, np.inf, -1, -1.0, True, np.True_, "3", [3], None])
@pytest.mark.parametrize("name", ["n", "max_rounds"])
def test_what_is_no_count_is_refused(n, name):
    with pytest.raises(nelson.FormulaError, match=f"{name} = .*whole number"):
        count(n, name)
    if n is not None:
        with pytest.raises(nelson.FormulaError, match=f"{name} = "):
            nelson.sample(PROJECTED, **{name: n})


@pytest.mark.parametrize("theta", [1000, 1e3, np.int64(1000)])
@pytest.mark.parametrize("draw", [nelson.sample, nelson.stream])
def test_a_number_of_samples_in_the_place_of_theta_is_recognised(draw, theta):
    with pytest.raises(nelson.FormulaError, match=r"second argument.*4 log-odds.*n=1000\?"):
        draw(PROJECTED, theta)


@pytest.mark.parametrize("theta", [0.5, True, -3])
def test_other_numbers_are_no_theta_either(theta):
    with pytest.raises(nelson.FormulaError, match=f"theta = {theta}; expected None or a vector"):
        nelson.sample(PROJECTED, theta)
