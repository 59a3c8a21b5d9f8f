"""Samplers whose law is known, the formulas on which they are judged, and the judge at level DELTA.

Seeds are fixed. A right sampler is rejected by chance with probability at most DELTA. About 50 are
accepted in this folder: 5e-3 in all if random numbers change. Each has a rejection beside it.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import nelson
from nelson.exact.listing import structures
from nelson.formula import Formula
from tests.problems import exact_law, random_ksat

SEED = 20240229
DELTA = 1e-4
judge = partial(nelson.judge, delta=DELTA)
SMALL = random_ksat(8, 16, 3, seed=1)  # 37 structures
LARGE = random_ksat(40, 80, 3, seed=3)  # 3-SAT, L = 2n: too many to list, D4 compiles it at once


def simulated(bias=None):
    """A sampler with a known law, q(x) ~ bias(x) exp(theta . x) C(x), on any small formula.

    On the formula of a pair it follows that law conditioned: new variables come last, and `bias`
    looks at the first variables only.
    """

    def draw(formula, theta, n, seed):
        states = structures(formula, 1 << 20)
        log = np.zeros(len(states)) if bias is None else np.log(bias(states))
        log += 0 if theta is None else states @ theta
        p = np.exp(log - log.max())
        u = np.random.default_rng(seed).random(n) * p.sum()
        return states[np.searchsorted(p.cumsum(), u)]

    return draw


def parity(good: float, bad: float, n: int = 8):
    """A bias that no single variable and no pair shows."""
    return lambda states: np.where(states[:, :n].sum(axis=1) % 2 == 0, good, bad)


def distance(formula: Formula, bias, theta=None) -> tuple[float, float, float]:
    """L1 distance of the simulated law from the right one, and its smallest and largest ratio."""
    states, p = exact_law(formula, theta)
    q = p * bias(states)
    q /= q.sum()
    return float(np.abs(p - q).sum()), float((q / p).min()), float((q / p).max())
