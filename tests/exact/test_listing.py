"""All structures of a small formula: by a search, and by testing every assignment."""

from __future__ import annotations

import numpy as np
import pytest

from nelson.budget import Budget
from nelson.exact import listing
from nelson.formula import Formula


def random_formula(rng: np.random.Generator) -> Formula:
    """Up to ten variables, of which the last may be auxiliary; clauses of one to five literals."""
    n = int(rng.integers(0, 11))
    visible = int(rng.integers(0, n + 1))
    clauses = []
    for _ in range(int(rng.integers(0, 15)) if n else 0):
        size = int(rng.integers(1, min(n, 5) + 1))
        variables = rng.choice(n, size, replace=False) + 1
        clauses.append((variables * rng.choice([-1, 1], size)).tolist())
    return Formula(clauses, n_vars=visible, n_aux=n - visible)


def both(formula: Formula, monkeypatch) -> tuple[np.ndarray, np.ndarray]:
    """The structures by testing all assignments, and by the search."""
    rows = []
    for most in (1 << 18, -1):
        monkeypatch.setattr(listing, "_MAX_TESTED", most)
        rows.append(listing._search(formula, 1 << 18, Budget()))
    return rows[0], rows[1]


@pytest.mark.slow
def test_both_ways_give_the_same_rows(monkeypatch):
    rng, seen = np.random.default_rng(0), set()
    for _ in range(500):
        tested, searched = both(random_formula(rng), monkeypatch)
        assert tested.dtype == searched.dtype == bool and np.array_equal(tested, searched)
        assert tested.shape == searched.shape
        seen.add(min(len(tested), 2))
    assert seen == {0, 1, 2}  # no solution, one, several


def test_rows_are_those_that_satisfy_the_formula(monkeypatch):
    f = Formula([[1, -2, 3], [-1, 4], [2, -4], [-3, -4]], n_vars=4)
    every = np.array(np.unravel_index(np.arange(16), (2, 2, 2, 2))).T.astype(bool)
    for rows in both(f, monkeypatch):
        assert np.array_equal(rows, every[f.satisfied(every)])
        assert not np.array_equal(rows, every[f.satisfied(every)][::-1])


@pytest.mark.parametrize("clauses", [[], [[]], [[1], [-1]]])
def test_no_clause_and_no_solution(clauses, monkeypatch):
    tested, searched = both(Formula(clauses, n_vars=2), monkeypatch)
    assert np.array_equal(tested, searched) and len(tested) == (0 if clauses else 4)


def test_only_tiny_formulas_are_tested(monkeypatch):
    calls, real = [], listing._tested
    monkeypatch.setattr(listing, "_tested", lambda f: calls.append(f.n_total) or real(f))
    for n in (10, 14, 15, 40):
        listing.structures(Formula([[k, k + 1] for k in range(1, n)], n_vars=n))
    assert calls == [10, 14]
