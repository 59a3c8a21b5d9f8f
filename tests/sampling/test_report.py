"""`nelson.report`, on edge cases and against known values."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nelson
from nelson.errors import FormulaError
from nelson.formula import Formula
from tests import problems
from tests.formula.brute_force import plain_condition1


def words(r) -> str:
    """The printed report without its line breaks."""
    return " ".join(str(r).split())


def edge_cases() -> dict[str, Formula]:
    return {
        "no variables": Formula([]),
        "no clauses": Formula([], n_vars=3),
        "empty clause": Formula([[1, 2], []], n_vars=2),
        "only an empty clause": Formula([[]], n_vars=0),
        "units": Formula([[1], [-2], [3]]),
        "contradiction": Formula([[1], [-1]]),
        "unsatisfiable": Formula([[1, 2], [1, -2], [-1, 2], [-1, -2]]),
        "pigeonhole": problems.pigeonhole(3),
        "extremal after propagation": Formula([[1], [1, 2], [3, 4], [-3, 5]]),
        "auxiliary": Formula([[1, 2, -3], [-1, 3], [-2, 3]], n_vars=2, n_aux=1),
    }


@pytest.mark.parametrize("name", edge_cases())
@pytest.mark.parametrize("weighted", [False, True])
def test_report_on_edge_cases(name, weighted):
    f = edge_cases()[name]
    r = nelson.report(f, problems.weights(f) if weighted else None, pilot=False)
    text = json.dumps(r.to_dict(), allow_nan=False)
    assert json.loads(text) == r.to_dict()
    assert "Condition 1" in str(r)
    assert r.extremal == plain_condition1(f)
    solutions = len(problems.exact_law(f)[1]) if not f.n_aux else 3
    if r.satisfiable is not None:
        assert r.satisfiable == (solutions > 0)
    if name in ("empty clause", "contradiction", "unsatisfiable", "pigeonhole"):
        assert r.satisfiable is False
        assert r.choice is None
    if name == "extremal after propagation":
        assert not r.extremal
        assert r.work.equality
        assert r.notes
        assert r.fixed == 1


def test_report_shows_the_witness_as_literals():
    r = nelson.report(Formula([[5, 4], [1, -2], [3, -2]]), pilot=False)
    assert r.witness == (1, 2)
    assert "clause 2 (1 -2) and clause 3 (3 -2)" in words(r)


def test_report_conditions_on_infinite_theta():
    f = problems.sink_free(problems.cycle_edges(5))
    r = nelson.report(f, np.array([np.inf, 0, 0, 0, 0]), pilot=False)
    # 0 -> 1 forces the whole cycle round.
    assert (r.evidence, r.fixed, r.satisfiable, r.work.value) == (1, 5, True, 0.0)
    theta = np.array([np.inf, -np.inf, 0, 0, 0])
    assert nelson.report(f, theta, pilot=False).satisfiable is False
    for bad in (np.full(5, np.nan), np.zeros(4)):
        with pytest.raises(FormulaError):
            nelson.report(f, bad)


def test_report_on_cycle_by_enumeration_and_by_pilot():
    small = nelson.report(problems.sink_free(problems.cycle_edges(10)))
    assert small.work.how == "enumerated"
    assert small.work.value == pytest.approx(45)
    assert small.choice is not None
    assert (small.choice.method, small.choice.guarantee) == ("lovasz", "exact")
    # 24 variables: too large to enumerate. 6 standard errors of 8 batches (7 degrees of freedom):
    # a false alarm once in 1,800 seeds, and the seed is fixed. Twin: it is not the answer for C_23.
    big = nelson.report(problems.sink_free(problems.cycle_edges(24)), seed=1)
    assert big.work.how.startswith("pilot run")
    assert big.work.equality
    assert abs(big.work.value - 276) < 6 * big.work.standard_error
    assert abs(big.work.value - 23 * 11) > 0.5 * 6 * big.work.standard_error


@pytest.mark.process
def test_report_on_a_non_extremal_formula():
    f, theta = problems.errata3(1)
    r = nelson.report(f, theta)
    assert not r.extremal
    assert not r.work.equality
    assert r.work.standard_error > 0
    assert r.choice.guarantee in ("diagnosed", "exact")
    assert "Theorem 2 is for extremal formulas" in words(r)


def test_given_and_seconds():
    """`given` is evidence, as infinite theta is; a limit bounds the pilot run and the choice."""
    f = Formula([[1, 2], [-1, 3], [2, 4, 5]])
    by_theta = nelson.report(f, [np.inf, 0, 0, 0, 0])
    for given in ([1], {1: True}):
        r = nelson.report(f, given=given, seconds=20.0)
        assert r.evidence == 1 and r.fixed == by_theta.fixed == 2
        assert r.work == by_theta.work and r.choice.method == by_theta.choice.method
    assert nelson.report(f, given=[-1]).fixed == 2  # x2 follows
    assert nelson.report(f, given=[1, -3]).satisfiable is False
