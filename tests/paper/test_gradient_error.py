"""The error of a gradient, and its floor, on cases done by hand and on exact draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nelson_paper.gradient_error import gradient_error, gradient_floor
from tests.problems import complete_edges, exact_law, exact_marginals, sink_free, weights

SEED = 20230207


def test_gradient_error_and_its_floor_by_hand():
    assert gradient_error([0.5, 0.25], [0.4, 0.5]) == pytest.approx(0.35)
    # sqrt(2 / pi) * sqrt(mu (1 - mu) / m), twice
    floor = 2 * 0.05 * math.sqrt(2 / math.pi)
    assert gradient_floor([0.5, 0.5], 100) == pytest.approx(floor)


def test_the_floor_is_what_exact_draws_leave():
    """Mean of 200 errors of exact draws against the floor: within 5 standard errors (6e-7)."""
    f = sink_free(complete_edges(5))
    theta = weights(f)
    mu = exact_marginals(f, theta)
    states, p = exact_law(f, theta)
    rng = np.random.default_rng(SEED)
    errors = [
        gradient_error(states[rng.choice(len(states), 500, p=p)].mean(0), mu) for _ in range(200)
    ]
    band = 5 * np.std(errors) / math.sqrt(200)
    assert abs(np.mean(errors) - gradient_floor(mu, 500)) < band
    assert abs(np.mean(errors) - gradient_floor(mu, 800)) > band
