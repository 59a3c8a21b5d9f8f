"""Tail probabilities against scipy.stats, and the correction for many tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from nelson.judging import tails
from nelson.judging.verdict import combined, family
from tests.judging.known_laws import SEED


def test_tails_are_those_of_scipy():
    for degrees in (1, 2, 3, 10, 100, 5000, 262_143):
        for p in (0.9999, 0.5, 0.01, 1e-6, 1e-30, 1e-200):
            x = stats.chi2.isf(p, degrees)
            assert tails.chi_square_tail(x, degrees) == pytest.approx(p, rel=1e-9)
    rng = np.random.default_rng(SEED)
    m = np.repeat([1, 10, 1000, 1_000_000], 200)
    p = rng.random(len(m)) ** 3
    k = np.clip(rng.binomial(m, p) + rng.integers(-3, 4, len(m)), 0, m)
    low, high = tails.binomial_tails(k, m, p)
    np.testing.assert_allclose(low, stats.binom.cdf(k, m, p), rtol=1e-9)
    np.testing.assert_allclose(high, stats.binom.sf(k - 1, m, p), rtol=1e-9)
    z = np.array([0.0, -1.0, 5.0])
    np.testing.assert_allclose(tails.normal_tail(z), 2 * stats.norm.sf(np.abs(z)))


def test_tails_at_the_edges():
    assert tails.chi_square_tail(0.0, 3) == 1.0
    assert tails.chi_square_tail(1e6, 3) == 0.0
    low, high = tails.binomial_tails([0, 5, 3], [5, 5, 5], [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(low, [1, 1, 1])
    np.testing.assert_array_equal(high, [1, 1, 0])
    assert tails.two_sided(np.array([3]), 5, np.array([0.0]), np.array([0.0]))[0] == 0


def test_many_tests_share_the_level():
    pairs = family("pairs", np.array([0.5, 1e-4, 0.2]), lambda k: f"pair {k}")
    assert pairs.tests == 3 and pairs.p == pytest.approx(3e-4) and pairs.worst == "pair 1"
    single = family("variables", np.array([0.01]), lambda k: f"variable {k}")
    answer = combined([single, pairs], 1e-3)
    assert answer.evidence["p_value"] == pytest.approx(6e-4) and answer.accept is False
    assert answer.evidence["worst"] == "pair 1" and "4 tests" in answer.reason
    assert combined([single, pairs], 1e-4).accept is True
