"""One contract for every sampler of the registry: validity, seeds, evidence, projection, budgets,
UNSAT, tails, contexts, streams.

The tests iterate the registry itself, so that a new sampler is held to all of this by its one
registry line. Those whose package is not installed are skipped. `test_promises.py` judges the laws.
"""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.chains.guarantee import GUARANTEES
from nelson.sampling.registry import get
from tests.problems import (
    complete_edges,
    extremal,
    non_extremal,
    pigeonhole,
    random_ksat,
    sink_free,
    weights,
)
from tests.sampling.contract import BEYOND, MIXED, THREE_OF_K4, assert_good, draw, stream, theta_for


@pytest.mark.parametrize("problem", ["complete4", "path", "mixed"])
def test_valid_with_tails(name, problem):
    formula = {**extremal(), **non_extremal(), "mixed": MIXED}[problem]
    if problem in BEYOND.get(name, ()):
        s = draw(name, formula)
        assert len(s) == 0 and s.status == "budget" and "did not meet" in s.info["reason"]
        return
    for n in (1, 65):
        s = draw(name, formula, theta_for(name, formula), n)
        assert_good(s, formula, n)
        assert s.status == "ok" and s.info["method"] == name
        assert s.guarantee in GUARANTEES


def test_seeds(name):
    formula = random_ksat(12, 14, 4, 1)
    first, again, other = (draw(name, formula, n=40, seed=seed) for seed in (1, 1, 2))
    assert_good(first, formula, 40)
    assert np.array_equal(first.packed, again.packed)
    assert not np.array_equal(first.packed, other.packed)


def test_given_and_project(name):
    formula = sink_free(complete_edges(4))
    theta = theta_for(name, formula)
    full = draw(name, formula, theta, 70, given=[2, -5])
    assert_good(full, formula, 70)
    x = full.to_numpy()
    assert x[:, 1].all() and not x[:, 4].any() and 0 < x[:, 0].mean() < 1
    s = draw(name, formula, theta, 70, given={2: True, 5: False}, project=[5, 1, 2])
    assert s.variables == (5, 1, 2) and np.array_equal(s.to_numpy(), x[:, [4, 0, 1]])
    with pytest.raises(nelson.Unsatisfiable):
        draw(name, formula, given=[2, -2])


def test_infinite_weights_are_evidence_for_uniform_samplers_too(name):
    theta = np.zeros(6)
    theta[[1, 4]] = np.inf, -np.inf
    x = draw(name, sink_free(complete_edges(4)), theta, 20).to_numpy()
    assert len(x) == 20 and x[:, 1].all() and not x[:, 4].any()


def test_contexts(name):
    formula = THREE_OF_K4
    rows = np.zeros((3, 6))
    if get(name).weighted:
        rows[:2] = weights(formula, 1), weights(formula, 2)
    rows[2, 3] = np.inf  # another evidence: another problem
    s = draw(name, formula, rows, 65)
    assert s.to_numpy().shape == (3, 65, 6) and s.status == "ok"
    assert_good(s, formula, 65)
    assert s.to_numpy()[2, :, 3].all()
    assert not np.array_equal(s.packed[0], s.packed[1])  # each context has its own randomness
    again = draw(name, formula, rows, 65)
    assert np.array_equal(s.packed, again.packed)


def test_nothing_to_draw(name):
    assert draw(name, nelson.Formula([], n_vars=0), n=5).to_numpy().shape == (5, 0)
    s = draw(name, nelson.Formula([], n_vars=3), [0, np.inf, -np.inf], 10)
    assert s.mean()[1:].tolist() == [1.0, 0.0] and len(s) == 10
    fixed = draw(name, nelson.Formula([[1], [-1, -2]], n_vars=2), n=3)
    assert fixed.to_numpy().tolist() == [[True, False]] * 3
    empty = draw(name, sink_free(complete_edges(4)), n=0)
    assert len(empty) == 0 and empty.status == "ok"


@pytest.mark.slow
def test_unsatisfiable_is_proved(name):
    for formula in (pigeonhole(3), nelson.Formula([[1, 2], [1, -2], [-1, 2], [-1, -2]])):
        with pytest.raises(nelson.Unsatisfiable):
            draw(name, formula, n=10)
    with pytest.raises(nelson.Unsatisfiable):
        draw(name, nelson.Formula([[1], [-1]]), n=10)
    with pytest.raises(nelson.Unsatisfiable):
        list(stream(name, pigeonhole(3), 100, block=64, seed=1))


@pytest.mark.slow
def test_a_budget_ends_it_with_what_is_there(name):
    formula = random_ksat(60, 120, 4, 3)
    s = draw(name, formula, n=3_000_000, seconds=0.4, project=[1, 2])
    assert (s.status == "ok") == (len(s) == 3_000_000)
    assert s.status == "ok" or s.info["reason"]
    s = draw(name, formula, n=64, seconds=0.0)
    assert_good(s, formula)
    assert s.status == "ok" or s.info["reason"]


def test_a_timeout_is_not_called_unsatisfiable(name, monkeypatch):
    from nelson.exact import solver

    monkeypatch.setattr(solver, "satisfiable", lambda *args, **options: None)
    hard = random_ksat(200, 820, 3, 1)
    s = draw(name, hard, n=10, seconds=0.0)
    assert len(s) == 0 and s.status == "budget" and s.info["reason"]
    with pytest.raises(nelson.BudgetExceeded, match="0 of 10 samples"):
        draw(name, hard, n=10, seconds=0.0, strict=True)


def test_streams(name):
    formula = random_ksat(12, 14, 4, 1)
    first, again = (
        [b.to_numpy() for b in stream(name, formula, 150, block=64, seed=3)] for _ in range(2)
    )
    assert [len(block) for block in first] == [64, 64, 22]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], first[1])
    assert formula.satisfied(np.concatenate(first)).all()
    endless = stream(name, formula, block=64, seed=3)
    assert np.array_equal(next(endless).to_numpy(), first[0])
    assert np.array_equal(next(endless).to_numpy(), first[1])


def test_unique(name):
    s = draw(name, THREE_OF_K4, n=20, unique=True)
    assert len(np.unique(s.to_numpy(), axis=0)) == len(s) == 20
    s = draw(name, nelson.Formula([[1, 2], [-1, 3]]), n=50, unique=True)
    assert len(np.unique(s.to_numpy(), axis=0)) == len(s) == 4 and s.info["exhausted"]


def test_weights_or_an_error(name):
    formula = nelson.Formula([[1, 2, 3]])
    theta = [3.0, -3.0, 0.0]
    if get(name).weighted:
        x = draw(name, formula, theta, 200).to_numpy()
        assert x[:, 0].mean() > 0.5 > x[:, 1].mean()
    else:
        with pytest.raises(nelson.FormulaError, match=f"uniform sampler '{name}'.*lovasz"):
            draw(name, formula, theta)


def test_sweeps_or_an_error(name):
    formula = non_extremal()["path"]
    if get(name).sweeps is None:
        with pytest.raises(nelson.FormulaError, match=r"sweeps = 3 .*lovasz"):
            draw(name, formula, sweeps=3)
    else:
        assert draw(name, formula, sweeps=3).info["sweeps"] == 3
