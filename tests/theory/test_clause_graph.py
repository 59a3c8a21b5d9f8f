"""The dependency graph against brute force."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from nelson.theory import clause_graph
from tests import problems
from tests.formula.brute_force import formulas, plain_neighbours


@pytest.mark.slow
@given(formulas())
@settings(deadline=None, max_examples=200)
def test_degree_is_brute_force(f):
    near = plain_neighbours(f)
    d = clause_graph.degree(f)
    assert d.exact
    assert d.max == max(map(len, near), default=0)
    assert d.edges == sum(map(len, near)) // 2
    degrees, neighbours = clause_graph.adjacency(f)
    ends = degrees.cumsum()
    assert [set(neighbours[b - k : b]) for b, k in zip(ends, degrees, strict=True)] == near


def test_degree_bound_is_above_the_exact_one(monkeypatch):
    f = problems.random_ksat(30, 60, 3, seed=3)
    exact = clause_graph.degree(f)
    monkeypatch.setattr(clause_graph, "MAX_PAIRS", 0)
    bound = clause_graph.degree(problems.random_ksat(30, 60, 3, seed=3))
    assert exact.exact
    assert not bound.exact
    assert exact.max <= bound.max <= f.n_clauses - 1
    assert exact.edges <= bound.edges
