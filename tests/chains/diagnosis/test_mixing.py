"""R-hat and effective sample size of chains of numbers, where both are known."""

import math

import numpy as np
import pytest

from nelson.chains.diagnosis.mixing import mixing
from nelson.errors import FormulaError

SEED = 20260712


def autoregressive(rho: float, chains: int, length: int, seed: int = SEED) -> np.ndarray:
    """x_t = rho x_(t-1) + sqrt(1 - rho^2) e_t, started in its law N(0, 1)."""
    e = np.random.default_rng(seed).standard_normal((chains, length))
    x = e.copy()
    for t in range(1, length):
        x[:, t] = rho * x[:, t - 1] + math.sqrt(1 - rho**2) * e[:, t]
    return x


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, -0.3])
def test_effective_size_of_autoregressive_chains(rho):
    """Known: draws (1 - rho) / (1 + rho). The estimate has a relative error of some percent."""
    x = autoregressive(rho, 8, 8000)
    expected = x.size * (1 - rho) / (1 + rho)
    assert 0.85 * expected < mixing(x)[1] < 1.15 * expected
    assert abs(mixing(x)[0] - 1) < 0.01
    if rho == 0.9:  # a reader that believes in independent draws is wrong by a factor of 19
        assert mixing(x)[1] < 0.07 * x.size


def test_rhat_sees_chains_that_disagree_or_drift():
    """Chains with means of variance b: R-hat is sqrt(1 + b), b estimated from 8 means."""
    x = autoregressive(0.0, 8, 2000)
    apart = x + np.linspace(-1, 1, 8)[:, None]
    b = np.repeat(np.linspace(-1, 1, 8), 2).var(ddof=1)
    assert abs(mixing(apart)[0] - math.sqrt(1 + b)) < 0.02
    assert mixing(apart)[1] < 100
    drift = x + np.linspace(0, 3, 2000)
    assert mixing(x)[0] < 1.01 < 1.15 < mixing(drift)[0]
    assert mixing(np.ones((4, 10)))[0] == 1 and math.isnan(mixing(np.ones((4, 10)))[1])
    assert mixing(np.repeat(np.arange(4.0), 10).reshape(4, 10))[0] == math.inf
    with pytest.raises(FormulaError, match="length at least 4"):
        mixing(np.ones((4, 3)))


def test_the_order_of_equal_values_means_nothing():
    """Flags of independent chains; ranks by position would let chains seem to disagree."""
    flags = np.random.default_rng(SEED).random((8, 4000)) < 0.1
    rhat, size = mixing(flags)
    assert rhat < 1.01 and 0.85 * flags.size < size < 1.15 * flags.size
    assert mixing(np.repeat(flags[:, :8], 500, axis=1))[1] < 0.02 * flags.size  # long stays


def test_scores_bear_heavy_tails_and_monotone_maps_change_nothing():
    x = autoregressive(0.5, 8, 2000)
    assert mixing(np.exp(5 * x)) == mixing(x)
