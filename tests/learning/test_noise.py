"""The test that ends a run: its level, the quantile, and the moments that it is computed from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from nelson import Formula
from nelson.kernels.core.bits import pack
from nelson.kernels.cpu.packed_samples import dot, pair_counts
from nelson.learning import PAPER
from nelson.learning.learn import learn
from nelson.learning.moments import Draw, chi2_quantile, curvature, judge
from tests.learning.planted import SEED
from tests.problems import exact_law, exact_marginals, weights


@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_the_gap_test_keeps_its_level(shift):
    """At the maximum 99% pass: of 300, fewer than 285 do with probability 1e-7. Shifted, few do."""
    f = Formula([[-i, i + 1] for i in range(1, 9)], n_vars=9)  # strongly correlated
    theta = weights(f, 5)
    mu = exact_marginals(f, theta)
    states, p = exact_law(f, theta + shift)
    rng = np.random.default_rng(SEED)
    passed = 0
    for _ in range(300):
        x = states[rng.choice(len(states), 1000, p=p)]
        draw = Draw(x.mean(0), pack(x), 1000, 0, 0.0, "exact")
        free = np.ones(9, bool)
        gap = judge(mu - draw.mean, mu * (1 - mu), 1 / 1000, curvature(draw, free).trace2, 0.01)
        passed += gap.within
    assert passed >= 285 if shift == 0 else passed < 60


def test_chi2_quantile_is_good_to_a_few_percent():
    for nu in (3, 10, 60.5, 1000):
        for p, within in ((0.95, 0.02), (0.99, 0.02), (1 - 1e-6, 0.08)):
            assert chi2_quantile(nu, p) == pytest.approx(chi2.ppf(p, nu), rel=within)


def test_pair_counts_and_dot_are_those_of_unpacked_samples():
    for m in (1, 63, 64, 200):
        x = np.random.default_rng([SEED, m]).random((m, 7)) < 0.4
        w = np.random.default_rng([SEED, m, 1]).normal(size=7)
        np.testing.assert_array_equal(pair_counts(pack(x)), x.astype(int).T @ x.astype(int))
        np.testing.assert_allclose(dot(pack(x), m, w), x @ w, atol=1e-12)


def test_data_and_samples_that_contradict_each_other_entirely_are_no_noise():
    """All data say 0 of a variable and all samples say 1: no variance, and no division by it."""
    gap = judge(np.array([-1.0, 0.1]), np.array([0.0, 0.25]), 0.01, 2.0, 0.01)
    assert gap.chi2 == np.inf and not gap.within and gap.gap_max == 1.0
    free = Formula([], n_vars=2)
    data = np.array([[0, 0], [0, 1]] * 10)
    fit = learn(free, data, optimizer=replace(PAPER, iterations=1), theta0=[90.0, 0.0], seed=1)
    assert not fit.converged and "more than noise" in fit.why
