"""Condition 1 against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nelson.errors import Unsatisfiable
from nelson.formula import Formula
from nelson.formula.extremal import condition1
from tests import problems
from tests.formula.brute_force import formulas, is_witness, plain_condition1

N = 6
LITERALS = st.integers(1, N).flatmap(lambda v: st.sampled_from([v, -v]))
CLAUSES = st.lists(st.lists(LITERALS, max_size=4), max_size=12)
EVIDENCE = st.dictionaries(st.integers(1, N), st.booleans(), max_size=N)


@pytest.mark.slow
@given(formulas())
@settings(deadline=None, max_examples=300)
def test_condition1_is_brute_force(f):
    witness = condition1(f)
    assert (witness is None) == plain_condition1(f) == f.is_extremal
    assert witness is None or (witness[0] < witness[1] and is_witness(f, *witness))


@pytest.mark.parametrize("name", problems.extremal())
def test_extremal_problems_are(name):
    f = problems.extremal()[name]
    assert condition1(f) is None
    assert plain_condition1(f)


@pytest.mark.parametrize("name", problems.non_extremal())
def test_non_extremal_problems_are_not(name):
    f = problems.non_extremal()[name]
    assert is_witness(f, *condition1(f))


@pytest.mark.slow
@given(st.integers(3, 9), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_condition1_finds_the_one_bad_pair_at_a_hub(depth, seed):
    """Decision trees have hub literals with 2^(depth-1) clauses; one flipped sign breaks them.

    Dropping the last inner literal of a leaf makes it compatible with its sibling, and only that:
    the search for hubs, which skips pairs it knows to clash, must still find the pair.
    """
    f = problems.decision_tree(depth)
    assert condition1(f) is None
    rng = np.random.default_rng(seed)
    clauses = f.clauses()
    rng.shuffle(clauses)
    victim = int(rng.integers(len(clauses)))
    inner = max(abs(x) for x in clauses[victim] if abs(x) < 2**depth)
    clauses[victim] = [x for x in clauses[victim] if abs(x) != inner]
    g = Formula(clauses, n_vars=f.n_vars)
    witness = condition1(g)
    assert is_witness(g, *witness)
    assert victim in witness


def test_condition1_long_clauses_without_a_split():
    """A hub whose clauses clash in pairs over private variables: all pairs must be compared."""
    m = 60
    clauses: list[list[int]] = [[1] for _ in range(m)]
    variable = 1
    for i in range(m):
        for j in range(i):
            variable += 1
            clauses[i].append(variable)
            clauses[j].append(-variable)
    assert condition1(Formula(clauses)) is None
    clauses[41].remove(next(x for x in clauses[41] if -x in clauses[17]))
    assert condition1(Formula(clauses)) == (17, 41)


@pytest.mark.slow
@given(formulas(max_vars=6, max_clauses=4), st.data())
@settings(deadline=None, max_examples=200)
def test_conditioning_keeps_extremal(f, data):
    """x and -x in two clauses: fix x, and one of the two is gone."""
    v = data.draw(st.integers(1, f.n_vars))
    try:
        g = f.given({v: data.draw(st.booleans())})
    except Unsatisfiable:
        return
    assert not f.is_extremal or g.is_extremal


@st.composite
def extremal_formulas(draw: st.DrawFn) -> Formula:
    """Random clauses, each kept if the formula stays extremal."""
    kept: list[list[int]] = []
    for clause in draw(st.lists(st.lists(LITERALS, min_size=1, max_size=4), max_size=30)):
        if plain_condition1(Formula([*kept, clause], n_vars=N)):
            kept.append(clause)
    return Formula(kept, n_vars=N)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(extremal_formulas(), EVIDENCE)
def test_conditioning_an_extremal_formula_leaves_it_extremal(
    f: Formula, evidence: dict[int, bool]
) -> None:
    assert plain_condition1(f)
    assert f.is_extremal
    try:
        g = f.given(evidence)
    except Unsatisfiable:
        return
    assert plain_condition1(g)
    assert g.is_extremal


@pytest.mark.slow
@settings(deadline=None)  # the first call compiles
@given(CLAUSES)
def test_is_extremal_is_condition_1(clauses: list[list[int]]) -> None:
    """The twin: formulas that are not extremal are told apart."""
    f = Formula(clauses, n_vars=N)
    assert f.is_extremal == plain_condition1(f)
