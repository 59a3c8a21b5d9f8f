"""Components against brute force: labels of variables, and the split into renumbered parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from nelson.formula import Formula
from nelson.formula.components import by_component, clause_components, components, split
from tests.formula.brute_force import formulas, plain_components


@pytest.mark.slow
@given(formulas())
@settings(deadline=None, max_examples=200)
def test_components_are_brute_force(f):
    labels = components(f)
    assert labels.dtype == np.int32
    assert labels.shape == (f.n_total,)
    assert set(labels.tolist()) == set(range(plain_components(f)))
    for clause in f:
        assert len({labels[abs(x) - 1] for x in clause}) <= 1


@pytest.mark.slow
@given(formulas())
@settings(deadline=None, max_examples=200)
def test_groups_hold_each_clause_and_variable_once(f):
    labels, groups = components(f), by_component(f)
    full = np.flatnonzero(np.diff(f.offsets))
    assert sorted(groups.clauses.tolist()) == full.tolist()
    assert sorted(groups.variables.tolist()) == list(range(f.n_total))
    for c in range(len(groups.start) - 1):
        assert (labels[groups.variables[groups.start[c] : groups.start[c + 1]]] == c).all()
        for j in groups.clauses[groups.first[c] : groups.first[c + 1]]:
            assert labels[abs(f.clauses()[j][0]) - 1] == c


def original(part) -> list[list[int]]:
    """The clauses of a part, in the numbers of the whole formula."""
    f = Formula.from_arrays(part.literals, part.offsets, n_vars=part.n_vars)
    return [[int(np.sign(x) * (part.variables[abs(x) - 1] + 1)) for x in clause] for clause in f]


@pytest.mark.slow
@pytest.mark.parametrize("most", [None, 1, 2])
@given(formulas())
@settings(deadline=None, max_examples=200)
def test_split_is_the_formula_again(most, f):
    f = Formula([clause for clause in f if clause], n_vars=f.n_vars)
    parts = split(f.literals, f.offsets, f.n_total, most)
    clauses = [clause for part in parts for clause in original(part)]
    assert sorted(map(sorted, clauses)) == sorted(map(sorted, f))
    used = np.concatenate([np.zeros(0, int), *(part.variables for part in parts)])
    assert sorted(used.tolist()) == sorted({abs(x) - 1 for clause in f for x in clause})
    count = len(set(clause_components(f).tolist()))
    assert len(parts) == (count if most is None else min(count, most))
    if most is None:
        sizes = [(-part.n_vars, part.variables[0]) for part in parts]
        assert sizes == sorted(sizes)
