"""Criteria of the local lemma and Theorem 2, against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nelson.formula import Formula
from nelson.theory import local_lemma
from tests import problems
from tests.formula.brute_force import formulas


def plain_q(f: Formula, theta: np.ndarray) -> tuple[float, float]:
    """(q_empty, sum_j q_j) from the definition."""
    states = problems.all_states(f.n_vars)
    p = np.prod(np.where(states, 1 / (1 + np.exp(-theta)), 1 / (1 + np.exp(theta))), axis=1)
    violated = np.zeros(len(states), int)
    for clause in f:
        violated += ~np.any([states[:, abs(x) - 1] == (x > 0) for x in clause], axis=0)
    return p[violated == 0].sum(), p[violated == 1].sum()


# --- criteria ------------------------------------------------------------------------------------


@pytest.mark.slow
@given(formulas(max_clauses=8, min_length=2), st.floats(-3, 3), st.integers(0, 1000))
@settings(deadline=None, max_examples=200)
def test_criteria_imply_each_other_and_a_solution(f, shift, seed):
    """symmetric => asymmetric => Shearer, cluster => Shearer, and Shearer => satisfiable."""
    theta = problems.weights(f, seed) + shift
    shearer = local_lemma.shearer(f, theta).holds
    asymmetric = local_lemma.asymmetric(f, theta, slack=False).holds
    if local_lemma.symmetric(f, theta).holds:
        assert asymmetric
    if asymmetric or local_lemma.cluster(f, theta, slack=False).holds:
        assert shearer
    if shearer:
        assert len(problems.exact_law(f, theta)[1]) > 0


@pytest.mark.slow
@given(formulas(max_clauses=6, min_length=3), st.integers(0, 1000))
@settings(deadline=None, max_examples=200)
def test_theorem_2_is_below_the_bound_of_the_criteria(f, seed):
    """q_j / q_empty <= mu_j wherever mu exists (extremal formulas are Shearer's worst case)."""
    theta = problems.weights(f, seed)
    if f.is_extremal:
        for criterion in (local_lemma.asymmetric(f, theta), local_lemma.cluster(f, theta)):
            if criterion.holds:
                assert local_lemma.expected_resamplings(f, theta) <= criterion.bound * (1 + 1e-6)


@pytest.mark.slow
@given(formulas(max_clauses=6, min_length=2))
@settings(deadline=None, max_examples=100)
def test_shearer_of_an_extremal_formula_is_satisfiability(f):
    if f.is_extremal:
        assert local_lemma.shearer(f).holds == (len(problems.exact_law(f)[1]) > 0)


def test_criteria_by_hand():
    """One clause of length k: mu = p / (1 - p), so a slack of 1 / p. Two disjoint ones: twice."""
    f = Formula([[1, 2, 3], [4, 5, 6]])
    for criterion in (local_lemma.asymmetric(f), local_lemma.cluster(f)):
        assert criterion.holds
        assert criterion.slack == pytest.approx(8, rel=0.02)
        assert criterion.bound == pytest.approx(2 / 7)
    assert local_lemma.symmetric(f).slack == pytest.approx(8 / math.e)
    # Sink-free orientations of a 4-regular graph: p = 1/16, and mu = p / (1 - p) (1 + mu)^4 has a
    # solution up to p / (1 - p) = max mu / (1 + mu)^4 = 27/256, at mu = 1/3.
    f = problems.sink_free(problems.complete_edges(5))
    assert local_lemma.cluster(f).slack == pytest.approx(16 * 27 / 283, rel=0.02)
    assert not local_lemma.asymmetric(Formula([[1, 2], [-2, 3], [-3, -1]])).holds


@pytest.mark.slow
@given(formulas(), st.integers(0, 1000))
@settings(deadline=None, max_examples=100)
def test_violation_probability(f, seed):
    theta = problems.weights(f, seed)
    true = 1 / (1 + np.exp(-theta))
    p = [np.prod([1 - true[x - 1] if x > 0 else true[-x - 1] for x in c]) for c in f]
    np.testing.assert_allclose(local_lemma.violation(f, theta), p, rtol=1e-12)


# --- Theorem 2 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(3, 21))
def test_cycle_takes_n_choose_2(n):
    """C_n: q_empty = 2 / 2^n, and n(n-1) orientations have one sink: n(n-1)/2 in all."""
    f = problems.sink_free(problems.cycle_edges(n))
    assert local_lemma.expected_resamplings(f) == pytest.approx(n * (n - 1) / 2, rel=1e-12)


@pytest.mark.slow
@given(formulas(), st.integers(0, 1000))
@settings(deadline=None, max_examples=200)
def test_expected_resamplings_is_the_definition(f, seed):
    """On one component the ratio of the definition; over several it adds up for Theorem 2."""
    theta = problems.weights(f, seed)
    if f.has_empty_clause or not f.is_extremal:
        return
    empty, one = plain_q(f, theta)
    expected = one / empty if empty > 0 else math.inf
    assert local_lemma.expected_resamplings(f, theta) == pytest.approx(expected, rel=1e-9)


def test_expected_resamplings_adds_over_components():
    two = problems.sink_free([*problems.cycle_edges(5), (5, 6), (6, 7), (7, 5)])
    assert local_lemma.expected_resamplings(two) == pytest.approx(10 + 3)
    assert local_lemma.expected_resamplings(problems.sink_free(problems.cycle_edges(30))) is None


def test_expected_resamplings_at_extreme_weights():
    """theta = +-50 does not underflow: x_i = 0 for all i is needed 20 times over."""
    f = Formula([[-(i + 1), i + 2] for i in range(19)] + [[-20, 1, 21]], n_vars=21)
    assert local_lemma.expected_resamplings(f) is None
    f = Formula([[-(2 * i + 1), -(2 * i + 2)] for i in range(3)])
    assert local_lemma.expected_resamplings(f, np.full(6, 50.0)) == pytest.approx(
        3 * np.exp(50) / 2
    )


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_component_of_many_variables_is_refused_without_an_overflow():
    """2^1100 is beyond the range of a float."""
    f = Formula([[i, i + 1] for i in range(1, 1100)], n_vars=1100)
    assert local_lemma.expected_resamplings(f) is None
