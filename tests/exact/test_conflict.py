"""Minimal sets of clause groups that cannot hold together, against brute force."""

import itertools

import numpy as np
import pytest

from nelson.errors import BudgetExceeded, FormulaError
from nelson.exact import solver as module
from nelson.exact.solver import Conflict, conflict
from nelson.formula import Formula


def satisfiable(clauses, n):
    return any(
        all(any((v > 0) == x[abs(v) - 1] for v in clause) for clause in clauses)
        for x in itertools.product([False, True], repeat=n)
    )


def random_groups(rng, n):
    """Hard clauses and groups over n variables, near the threshold, so that both answers occur."""

    def clauses(count):
        return [
            [int(v * rng.choice([-1, 1])) for v in rng.choice(n, rng.integers(1, 4), False) + 1]
            for _ in range(count)
        ]

    return clauses(rng.integers(0, 9)), [
        clauses(rng.integers(1, 3)) for _ in range(rng.integers(3, 8))
    ]


@pytest.mark.slow
def test_random_groups_against_brute_force():
    """300 cases: the set conflicts, and no set with one group less does. (Fewer groups are then
    satisfiable as well.) All three kinds of answers occur."""
    rng, kinds = np.random.default_rng(0), {"none": 0, "hard": 0, "groups": 0}
    for _ in range(300):
        hard, groups = random_groups(rng, n=5)
        found = conflict(hard, groups)
        if found is None:
            kinds["none"] += 1
            assert satisfiable([*hard, *itertools.chain(*groups)], 5)
            continue
        kinds["groups" if found.groups else "hard"] += 1
        assert found.minimal and list(found.groups) == sorted(set(found.groups))
        assert not satisfiable([*hard, *itertools.chain(*(groups[g] for g in found.groups))], 5)
        for left_out in found.groups:
            rest = [groups[g] for g in found.groups if g != left_out]
            assert satisfiable([*hard, *itertools.chain(*rest)], 5)
    assert min(kinds.values()) > 10, kinds


def test_the_three_answers():
    assert conflict([[1]], [[[2]], [[-2, 1]]]) is None
    assert conflict([[1], [-1]], [[[2]]]) == Conflict(())
    assert conflict([[]], [[[2]]]) == Conflict(())
    assert conflict([[1]], [[[2]], [[-1]], [[3]]]) == Conflict((1,))
    assert conflict([], [[[2]], [[]], [[3]]]) == Conflict((1,))  # an empty clause in a group
    assert conflict([], [[], [[1]], [[-1]]]) == Conflict((1, 2))  # an empty group says nothing
    assert conflict([], []) is None


def test_hard_clauses_may_be_a_formula():
    assert conflict(Formula([[1, 2], [-1, 2]]), [[[-2, 3]], [[-3]], [[4]]]) == Conflict((0, 1))


def test_a_thousand_groups():
    """Two of 1,000 groups conflict, through a chain of hard clauses. One solver answers within a
    few calls: the first core excludes almost all groups."""
    n = 1000
    hard = [[-v, v + 1] for v in range(1, n)]
    groups = [[[v, n + v]] for v in range(1, n - 1)] + [[[1]], [[-n]]]
    assert conflict(hard, groups) == Conflict((n - 2, n - 1))


def test_a_large_core_is_made_minimal():
    """All of 200 groups are needed: x_1, x_1 -> x_2, ..., not x_200."""
    groups = [[[1]], *([[-v, v + 1]] for v in range(1, 199)), [[-199]]]
    assert conflict([], groups) == Conflict(tuple(range(200)))


def test_out_of_time(monkeypatch):
    """Before the first answer: an error. After it: the core so far, not called minimal."""
    answers = iter([None])
    monkeypatch.setattr(module, "solve_within", lambda *a: next(answers))
    with pytest.raises(BudgetExceeded, match="5 seconds"):
        conflict([], [[[1]], [[-1]]], seconds=5)
    answers_left = iter([True, False])

    def first_only(solver, seconds, evidence=()):
        return solver.solve(assumptions=list(evidence)) if next(answers_left) else None

    monkeypatch.setattr(module, "solve_within", first_only)
    assert conflict([], [[[1]], [[-1]], [[2]]]) == Conflict((0, 1), minimal=False)


def test_a_time_that_is_no_time_is_refused():
    with pytest.raises(FormulaError):
        conflict([], [], seconds=float("nan"))
