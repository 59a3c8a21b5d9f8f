"""K-SAT with preferences: random formulas, and examples that a solver enumerates."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import nelson
from nelson.errors import BudgetExceeded, FormulaError, Unsatisfiable
from nelson_paper.tasks import KSat
from nelson_paper.tasks.ksat.task import first_models
from tests.paper.tasks.helpers import pixel_spread
from tests.problems import all_states
from tests.structured import random_ksat


def test_random_formulas_are_the_papers():
    """K = 5, L = n; distinct variables; fair signs: 7,500 coins within 4 sigma (6e-5)."""
    f = KSat.random(1500, seed=1).formula
    assert (f.n_vars, f.n_clauses) == (1500, 1500)
    assert all(len({abs(v) for v in clause}) == 5 for clause in f.clauses())
    positive = int((f.literals > 0).sum())
    assert abs(positive - 3750) < 4 * np.sqrt(7500 / 4)
    assert abs(7500 * 0.47 - 3750) > 4 * np.sqrt(7500 / 4)  # a coin of 0.47 would be seen
    assert f == random_ksat(1500, 1500, 5, seed=1)
    small = KSat.random(10, clauses=7, k=4).formula
    assert (small.n_vars, small.n_clauses) == (10, 7)
    assert set(np.diff(small.offsets)) == {4}


@pytest.mark.slow
def test_formulas_without_solution_are_drawn_again():
    hopeless = 0
    for seed in range(10):
        drawn = random_ksat(5, 13, 2, seed=seed)
        hopeless += not drawn.satisfied(all_states(5)).any()
        assert KSat.random(5, 13, 2, seed=seed).formula.satisfied(all_states(5)).any()
    assert hopeless >= 3  # there was something to draw again
    with pytest.raises(Unsatisfiable, match="none is satisfiable"):
        KSat.random(4, 60, 2)
    with pytest.raises(FormulaError, match="5 distinct variables of 4"):
        KSat.random(4)
    with pytest.raises(FormulaError, match="-1 clauses"):
        KSat.random(6, -1)


def test_undecided_is_not_unsatisfiable(monkeypatch):
    monkeypatch.setattr("nelson_paper.tasks.ksat.task.satisfiable", lambda *a, **k: None)
    with pytest.raises(BudgetExceeded, match="no solver decided"):
        KSat.random(10)


def test_the_papers_examples_are_neighbours():
    """Errata 16: far more variables are constant over 200 enumerated models than over 200 draws."""
    task = KSat.random(400)
    rows = task.examples(200, kind="paper")
    assert task.valid(rows).all()
    assert len(np.unique(rows, axis=0)) == 200  # none twice
    constant = (rows.mean(axis=0) % 1 == 0).mean()
    uniform = task.sample(None, 200, method="lovasz", sweeps=4).x
    assert (uniform.mean(axis=0) % 1 == 0).mean() < 0.05
    assert constant > 0.5


def test_enumeration_ends():
    task = KSat.random(6, 20, 3, seed=2)
    count = int(task.formula.satisfied(all_states(6)).sum())
    assert len(task.examples(count, kind="paper")) == count > 0
    with pytest.raises(FormulaError, match=f"expected {count}: the formula has no more models"):
        task.examples(count + 1, kind="paper")
    with pytest.raises(BudgetExceeded, match="0 of 5 models"):
        task.examples(5, kind="paper", seconds=0.0)
    with pytest.raises(FormulaError, match="-1 examples"):
        task.examples(-1)
    with pytest.raises(Unsatisfiable):
        first_models(nelson.Formula([[1], [-1]], n_vars=1), 1)
    free = first_models(nelson.Formula([[1]], n_vars=3), 4)  # variables that no clause has
    assert len(np.unique(free, axis=0)) == 4


def test_enumeration_needs_pysat(monkeypatch):
    task = KSat.small()
    monkeypatch.setitem(sys.modules, "pysat.solvers", None)
    with pytest.raises(FormulaError, match="pip install"):
        task.examples(5, kind="paper")


def test_any_formula_will_do():
    task = KSat(nelson.Formula([[1, 2], [-1, 2, 3]], n_vars=4), scale=2.0)
    assert task.describe() == "4 variables, 2 clauses of 2 to 3 literals"
    assert task.valid(task.examples(50)).all()


@pytest.mark.slow
def test_picture_of_the_papers_examples(tmp_path):
    pytest.importorskip("matplotlib", reason="pip install nelson-mrf[plots]")
    paper = KSat.random(60)
    data = paper.examples(50, kind="paper")
    overview = tmp_path / "paper.png"
    assert pixel_spread(paper.picture(data, paper.planted, data, overview, kind="paper")) > 0.05
