"""Terms over several variables, and their law by enumeration.

Chi-square tests reject a right sampler with probability ALPHA each; about 25 of them: 3e-5 in all.
"""

from __future__ import annotations

import numpy as np

from tests.problems import exact_law, extremal, non_extremal

ALPHA = 1e-6
DRAWS = 50_000
SEED = 31
SMALL = {**extremal(), **non_extremal()}


def law(formula, phi, theta):
    """P(x) ~ exp(theta . x + phi(x)) C(x) by enumeration."""
    states, _ = exact_law(formula)
    score = states @ theta + phi(states)
    p = np.exp(score - score.max())
    return states, p / p.sum()


def terms_of(seed=0):
    rng = np.random.default_rng([seed, 5])
    return [
        {(1, 2): 1.5, (2, -3): -1.0},
        ([1, 3], rng.normal(size=(2, 2))),
        ([3, 1, 2], rng.normal(size=8)),
    ]


def theta_of(formula, seed=0):
    return np.random.default_rng([seed, 6]).normal(size=formula.n_vars)
