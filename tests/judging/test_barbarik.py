"""Barbarik: the formula of a pair, the constants, and both kinds of error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import nelson
from nelson.errors import FormulaError
from nelson.exact.listing import structures
from nelson.formula import Formula
from nelson.formula.random_ksat import random_ksat
from nelson.judging import pair_design
from nelson.judging.pair_design import Design
from tests.judging.known_laws import SEED, SMALL, distance, judge, parity, simulated
from tests.problems import all_states, non_extremal, weights


def test_chain_formulas_have_the_number_of_solutions_asked_for():
    for bits in (1, 2, 4, 5):
        for c in range(1, 1 << bits, 2):
            f = Formula(pair_design.chain(c, list(range(1, bits + 1))), n_vars=bits)
            assert int(np.sum(f.satisfied(all_states(bits)))) == c


@pytest.mark.parametrize("encoded", [False, True])
def test_a_pair_formula_holds_two_structures_and_equally_many_extensions(encoded):
    formula = non_extremal()["horn"]
    if encoded:
        formula = Formula([[1, 2]], n_vars=8).xor([1, 2, 3, 4, 5, 6, 7])
    states = structures(formula)
    assert states is not None
    for s, t in ((0, 1), (0, len(states) - 1)):
        made = pair_design.pair_formula(formula, states[s], states[t], 100, SEED)
        assert made.formula.n_vars == formula.n_vars + made.new
        found = structures(made.formula)
        assert found is not None and len(found) == 2 * made.extensions >= 200
        seen, count = np.unique(found[:, : formula.n_vars], axis=0, return_counts=True)
        np.testing.assert_array_equal(np.unique(states[[s, t]], axis=0), seen)
        assert count.tolist() == [made.extensions] * 2


def test_the_design_keeps_both_errors():
    """Exact binomial tails at the two ends: delta / t for a close sampler, 1/5 for a far pair."""
    for epsilon, eta in ((0.1, 1.6), (0.0, 0.5), (0.05, 0.8)):
        design = Design(epsilon, eta, 0.05)
        for log_alpha in (-4.0, -1.0, 0.0, 0.5, 3.0):
            n, bar, low = design.plan(log_alpha)
            odds = np.exp(log_alpha) * (1 + (eta + 6 * epsilon) / 4)
            most = np.floor(bar * n)
            assert stats.binom.sf(most, n, low) <= 0.05 / design.pairs
            assert stats.binom.cdf(most, n, odds / (1 + odds)) <= 0.2
    # The paper's own figures: 0.1, 1.6, 0.2 need 14 pairs.
    assert Design(0.1, 1.6, 0.2).pairs == 14
    for wrong in ((0.4, 1.6), (0.1, 0.5), (0.1, 2.1)):
        with pytest.raises(FormulaError):
            Design(*wrong, 0.1)


@pytest.mark.slow
def test_barbarik_accepts_what_is_close():
    """Laws within epsilon: the law itself, and one at the edge of what is tolerated. 2 x 5 runs at
    delta = 0.1 reject 1 on average, if all of delta is used; 6 or more with probability 1.5e-4.
    """
    edge = parity(1.1, 0.9)
    _, low, high = distance(SMALL, edge)
    assert 0.89 < low < 0.9 and 1.09 < high < 1.11
    rejected = 0
    for bias in (None, edge):
        for seed in range(5):
            verdict = judge(
                SMALL, simulated(bias), test="barbarik", epsilon=0.11, delta=0.1, seed=seed
            )
            rejected += verdict.accept is not True
    assert rejected < 6


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_barbarik_rejects_what_is_far(weighted):
    """A law at L1 distance eta or more, which no single variable shows: rejected in all of 5 runs
    (with probability 0.9 or more each; measured, always).
    """
    theta = 0.5 * weights(SMALL) if weighted else None
    bias = parity(1.0, 0.03)
    far, _, _ = distance(SMALL, bias, theta)
    eta = 0.8
    assert far > eta
    verdicts = [
        judge(SMALL, simulated(bias), theta, test="barbarik", epsilon=0, eta=eta, delta=0.1, seed=k)
        for k in range(5)
    ]
    assert all(verdict.accept is False for verdict in verdicts)
    right = judge(
        SMALL, simulated(), theta, test="barbarik", epsilon=0, eta=eta, delta=0.01, seed=1
    )
    assert right.accept is True and right.evidence["reference"].startswith("exact")


def test_barbarik_rejects_a_sampler_that_leaves_the_pair():
    def wrong(formula, theta, n, seed):
        x = simulated()(formula, theta, n, seed)
        if formula.n_vars > 8:
            x[0, 0] = ~x[0, 0]
        return x

    verdict = judge(SMALL, wrong, test="barbarik", seed=SEED)
    assert verdict.accept is False and "violate" in verdict.reason


def test_barbarik_does_not_judge_a_sampler_that_is_another_one_on_pairs():
    """Sweeps of single variables cannot cross from one structure to the other."""
    verdict = judge(SMALL, "lovasz", sweeps=30, test="barbarik", seed=SEED)
    assert verdict.accept is None and "single variables" in verdict.reason
    x = nelson.sample(SMALL, None, 100, method="prs", seed=SEED)
    verdict = judge(SMALL, x, test="barbarik")
    assert verdict.accept is None and "give the sampler" in verdict.reason


@pytest.mark.slow
def test_barbarik_holds_the_method_of_auto():
    """`auto` enumerates this formula and would compile the formulas of the pairs. The test keeps
    the first method, so that it can decide. Exact draws are rejected with probability 0.01.
    """
    formula = random_ksat(12, 12, 5, seed=1)
    verdict = judge(formula, "auto", test="barbarik", delta=0.01, seed=SEED)
    assert verdict.accept is True and verdict.evidence["method"] == "enumerate"
