"""Wrong samplers are rejected, and a tolerance accepts those that are close enough."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.exact.law import Law, law
from nelson.formula import Formula
from nelson.judging.tails import Band
from tests.judging.known_laws import (
    LARGE,
    SEED,
    SMALL,
    distance,
    judge,
    parity,
    simulated,
)
from tests.problems import (
    complete_edges,
    non_extremal,
    random_ksat,
    sink_free,
    weights,
    xor_gates,
)


def test_plain_resampling_is_rejected_on_3sat():
    """Errata 3: L = 2n, where resampling alone is biased; its sweeps repair that."""
    small = random_ksat(12, 24, 3, seed=4)
    for test in ("auto", "marginals", "conditionals"):
        verdict = judge(small, "lovasz", test=test, seed=SEED)
        assert verdict.accept is False and verdict.evidence["p_value"] < 1e-30, str(verdict)
    assert judge(small, "lovasz", sweeps=60, seed=SEED).accept is True


@pytest.mark.slow
def test_sweeps_that_cannot_leave_a_part_of_the_valid_space_are_rejected():
    """Random 3-SAT whose 65 structures fall into parts between which no single flip leads: sweeps
    never repair how resampling spread its weight over them, and no single variable tells.
    """
    formula = random_ksat(12, 24, 3, seed=3)
    for sweeps in (30, 300):
        verdict = judge(formula, "lovasz", sweeps=sweeps, n=200_000, seed=SEED)
        assert verdict.accept is False and verdict.evidence["p_value"] < 1e-10
    assert judge(formula, "prs", n=200_000, seed=SEED).accept is True


@pytest.mark.process
def test_plain_resampling_is_rejected_where_structures_cannot_be_listed():
    pytest.importorskip("py_d4")
    for theta in (None, weights(LARGE)):
        verdict = judge(LARGE, "lovasz", theta, seed=SEED)
        assert verdict.test == "marginals" and verdict.accept is False, str(verdict)
        assert "chi-square" in verdict.evidence["skipped"]
        right = judge(LARGE, "lovasz", theta, sweeps=60, seed=SEED)
        assert right.accept is True and right.test == "marginals", str(right)


@pytest.mark.process
@pytest.mark.parametrize("name", ["horn", "path", "shared literal"])
def test_cmsgen_is_rejected_where_it_is_biased(name):
    """Biased on formulas of three variables already, uniform or weighted."""
    pytest.importorskip("pycmsgen")
    formula = non_extremal()[name]
    for theta in (None, weights(formula)):
        verdict = judge(formula, "cmsgen", theta, seed=SEED)
        assert verdict.accept is False and verdict.test == "chi-square", str(verdict)
        assert judge(formula, "prs", theta, seed=SEED).accept is True


@pytest.mark.process
def test_cmsgen_is_rejected_by_marginals_and_by_pairs():
    pytest.importorskip("pycmsgen")
    pytest.importorskip("py_d4")
    assert judge(LARGE, "cmsgen", seed=SEED).accept is False
    # Weights steer its decisions only, on the formula of a pair too.
    small = random_ksat(10, 20, 3, seed=3)
    verdict = judge(small, "cmsgen", weights(small), test="barbarik", seed=SEED)
    assert verdict.accept is False, str(verdict)


def test_what_marginals_do_not_see_chi_square_sees():
    """All single variables and pairs right to 0.01, and half of the structures twice as likely."""
    free = Formula([], n_vars=8)
    bias = parity(2.0, 1.0)
    assert distance(free, bias)[0] == pytest.approx(1 / 3)
    assert judge(free, simulated(bias), test="marginals", seed=SEED).accept is True
    assert judge(free, simulated(bias), seed=SEED).accept is False
    assert judge(free, simulated(), seed=SEED).accept is True
    # Given the others, a parity is the same coin for each variable: balanced, as it should be.
    assert judge(free, simulated(bias), test="conditionals", seed=SEED).accept is None


def test_pairs_are_seen_where_single_variables_are_right():
    free = Formula([], n_vars=4)

    def bias(states):
        return np.where(states[:, 0] == states[:, 1], 1.1, 0.9)

    verdict = judge(free, simulated(bias), test="marginals", seed=SEED)
    assert verdict.accept is False and "variables 1 and 2" in verdict.evidence["worst"]


@pytest.mark.process
def test_the_score_is_seen_where_variables_and_pairs_are_not():
    """50 variables, all of them shifted by a fifth of what a single one would show."""
    formula = Formula([[2 * k + 1, 2 * k + 2] for k in range(25)])
    assert isinstance(law(formula), Law)

    def shifted(formula, theta, n, seed):
        return nelson.sample(formula, np.full(50, 0.012), n, method="prs", seed=seed)

    verdict = judge(formula, shifted, test="marginals", n=50_000, seed=SEED)
    assert verdict.accept is False and "number of true" in verdict.evidence["worst"], str(verdict)


@pytest.mark.slow
def test_a_rare_structure_far_from_all_others_is_no_reason_to_reject():
    """All gates are false where all inputs are: one structure of 4,096 has a score 31 standard
    deviations from the mean. Twelve right samplers, level 0.01 each: two rejections or more have
    probability 0.006. The normal limit of the variance, with the fourth moment of samples that lack
    this structure, rejected 8 of these 12.
    """
    formula = xor_gates(12, 1500, 1)
    verdicts = [
        judge(formula, nelson.sample(formula, n=1000, seed=seed), test="marginals", seed=seed)
        for seed in range(12)
    ]
    assert sum(verdict.accept is False for verdict in verdicts) <= 1

    def upper(formula, theta, n, seed):
        x = nelson.sample(formula, n=2 * n, seed=seed).to_numpy()
        return x[x.sum(axis=1) > 740][:n]

    assert judge(formula, upper, test="marginals", n=2000, seed=SEED).accept is False


def test_the_worst_variable_is_named():
    formula = sink_free(complete_edges(4))
    theta = np.zeros(6)
    theta[3] = 0.3

    def wrong(formula, _, n, seed):
        return nelson.sample(formula, theta, n, method="prs", seed=seed)

    verdict = judge(formula, wrong, test="marginals", seed=SEED)
    assert verdict.accept is False and verdict.evidence["worst"].startswith("variable 4")


# --- tolerance ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_tolerance_accepts_what_is_close_enough():
    """A law within 8% of uniform: not the law, but what epsilon = 0.08 allows."""

    def bias(states):
        return np.where(states[:, 0], 1.05, 0.95)

    _, low, high = distance(SMALL, bias)
    assert low > 0.92 and high < 1.08
    options = {"n": 200_000, "seed": SEED}
    for test in ("chi-square", "marginals"):
        tolerant = judge(SMALL, simulated(bias), test=test, epsilon=0.08, **options)
        assert tolerant.accept is True and "0.92 to 1.08" in tolerant.law
        assert judge(SMALL, simulated(bias), test=test, **options).accept is False
    assert judge(SMALL, simulated(bias), test="conditionals", **options).accept is False
    assert (
        judge(SMALL, simulated(bias), test="conditionals", epsilon=0.08, **options).accept is None
    )


def test_a_band_is_what_it_says():
    """Of all laws within the band, the extreme probabilities of an event are reached."""
    band = Band.of(None, 0.5)
    p = np.array([0.1, 0.5, 0.9])
    least, most = band.events(p)
    np.testing.assert_allclose(most, [0.15, 1 - 0.5 / 1.5, 1 - 0.1 / 1.5])
    np.testing.assert_allclose(least, [0.1 / 1.5, 1 / 3, 0.85])
    assert Band.of(0.0).exact and Band.of(None).exact and not Band.of(0.1, 16.0).exact
