"""The fitting core for exact laws: L-BFGS and Newton reach the same minimum."""

import numpy as np
import pytest

from nelson.budget import Budget
from nelson.learning.optimum import minimise, newton_step

RANDOM = np.random.default_rng(0)
A = RANDOM.normal(size=(30, 40))  # 10 flat directions
B = RANDOM.normal(size=30)


def half_square(x):
    """The gradient of |A x - B|^2 / 2."""
    return A.T @ (A @ x - B)


def test_minimise_finds_the_minimum_of_least_norm():
    found = minimise(half_square, np.zeros(40), tolerance=1e-9)
    assert found.converged and found.slope <= 1e-9
    np.testing.assert_allclose(found.at, np.linalg.lstsq(A, B)[0], atol=1e-6)
    assert not minimise(half_square, np.zeros(40), evaluations=2).converged
    assert not minimise(half_square, np.zeros(40), budget=Budget.of(0.0)).converged


@pytest.mark.parametrize("mean", [0.3, 0.999, 1e-4])
def test_newton_and_l_bfgs_find_the_same_log_odds(mean):
    """P(x = 1) = 1 / (1 + exp(-theta)): far from the minimum a full Newton step is far too long."""

    def gap(theta):
        return 1 / (1 + np.exp(-theta)) - mean

    def newton(theta, gradient):
        p = gradient + mean
        return newton_step(lambda v: p * (1 - p) * v, gradient, p * (1 - p), ridge=0.0)

    start, right = np.full(3, 6.0), np.log(mean / (1 - mean))
    for direction in (None, newton):
        found = minimise(gap, start, direction=direction, tolerance=1e-7 * mean)
        assert found.converged
        np.testing.assert_allclose(found.at, right, rtol=1e-4)


def test_a_gradient_of_noise_ends_without_a_claim():
    """A twin of the tests above: where no step makes the gradient small, nothing has converged."""
    random = np.random.default_rng(1)
    found = minimise(lambda x: random.normal(size=4), np.zeros(4), evaluations=200)
    assert not found.converged and found.evaluations <= 200
