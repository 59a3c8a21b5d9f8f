"""Groups of literals of which at most one, or exactly one, is true."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nelson.formula import Formula
from nelson.formula.groups import groups_of
from tests.problems import exact_law, random_ksat


def found(f: Formula) -> list[tuple[list[int], bool]]:
    groups = groups_of(f)
    parts = np.split(groups.literals, groups.offsets[1:-1])
    return list(zip([part.tolist() for part in parts], groups.exactly.tolist(), strict=True))


def apart(literals: list[int]) -> list[list[int]]:
    """At most one of them is true."""
    return [[-a, -b] for a, b in itertools.combinations(literals, 2)]


def test_exactly_one_and_at_most_one_are_told_apart():
    first, second = [1, 2, 3, 4], [5, -6, 7]
    f = Formula([*apart(first), first, *apart(second), [8, 9, 1], [8, -2]], n_vars=10)
    groups = found(f)
    assert groups[0] == ([1, 2, 3, 4], True)
    assert [(sorted(g), exactly) for g, exactly in groups[1:]] == [([-6, 5, 7], False)]


def test_larger_groups_come_first_and_share_no_variable():
    f = Formula([*apart([1, 2, 3]), [1, 2, 3], *apart([3, 4, 5, 6]), [3, 4, 5, 6]], n_vars=6)
    groups = found(f)
    assert groups[0] == ([3, 4, 5, 6], True)
    assert groups[1][0] in ([1, 2], [2, 1]) and not groups[1][1]
    assert groups == found(Formula.from_arrays(f.literals, f.offsets, n_vars=6))


@pytest.mark.parametrize("seed", range(6))
def test_what_is_found_holds_in_every_solution(seed):
    """Random clauses of two literals have many cliques; a group that is wrong would show."""
    rng = np.random.default_rng(seed)
    f = random_ksat(9, 8, 3, seed)
    pairs = [[-int(a) - 1, -int(b) - 1] for a, b in rng.integers(0, 9, (14, 2)) if a != b]
    f = Formula([*f.clauses(), *pairs, [-1, 2], [-2, 3]], n_vars=9)
    states, _ = exact_law(f)
    groups, seen = found(f), []
    assert groups
    for literals, exactly in groups:
        true = sum((states[:, abs(one) - 1] == (one > 0)).astype(int) for one in literals)
        assert len(literals) > 1 and true.max(initial=0) <= 1
        assert not exactly or (true == 1).all()
        seen += [abs(one) for one in literals]
    assert len(seen) == len(set(seen))


def test_many_groups_among_many_clauses():
    """40,000 variables in groups of eight: 145,000 clauses, each group found."""
    size, many = 8, 5000
    first = 1 + size * np.arange(many)[:, None]
    pairs = np.array(list(itertools.combinations(range(size), 2)))
    both = -(first[:, :, None] + pairs[None]).reshape(-1, 2)
    rows = first + np.arange(size)
    literals = np.concatenate([both.reshape(-1), rows.reshape(-1)])
    lengths = np.concatenate([np.full(len(both), 2), np.full(many, size)])
    f = Formula.from_arrays(literals, np.concatenate([[0], np.cumsum(lengths)]), n_vars=size * many)
    groups = groups_of(f)
    assert len(groups.exactly) == many and groups.exactly.all()
    assert np.array_equal(np.sort(groups.literals), np.arange(1, size * many + 1))
