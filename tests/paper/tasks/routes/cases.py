"""Small routes and their chi-square test.

Seeds are fixed. Accepting tests ask for a p-value above P = 1e-4 (chi-square, Kolmogorov-Smirnov)
or for less than 5 sigma. There are about 20 of them, so if the random numbers change, one of them
fails with probability 2e-3. Next to each stands a wrong sampler that it rejects.
"""

from __future__ import annotations

import numpy as np

from nelson.judging.tails import chi_square_tail
from nelson_paper.tasks.routes import Routes
from nelson_paper.tasks.routes.check import chi_square
from nelson_paper.tasks.routes.data import BAYG29

SEED = 20260301
P = 1e-4


def p_value(drawn, routes, law):
    return chi_square_tail(*chi_square(drawn, routes, law))


def first(n: int) -> Routes:
    """The first n locations of bayg29."""
    return Routes(BAYG29[:n])


def normal_theta(task: Routes, scale: float = 1.0, seed: int = SEED) -> np.ndarray:
    return scale * np.random.default_rng(seed).standard_normal(task.n_vars)
