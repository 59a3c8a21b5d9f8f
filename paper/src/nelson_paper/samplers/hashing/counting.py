"""How many parity constraints leave a small cell, and from that the size of the whole space.

Let N be the weight of a space (or the number of its elements) and mu = N / 2^k the mean weight of
a cell of k equations. Weights are at most 1, so the variance of a cell's weight is at most mu.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from nelson_paper.samplers.hashing.cells import DIMENSIONS, HashedSpace

#: Probability that `bracket` errs.
DELTA = 0.05
#: Cells that `estimate` averages.
CELLS = 32


def gamma(limit: float) -> float:
    """log2((P + 2 sqrt(P + 1) + 2) / P) for P = limit. By Chebyshev's inequality a cell of mean
    mu >= P 2^gamma is below P with probability at most 1/4, and so is one of mean mu <= P 2^-gamma
    above P.
    """
    return math.log2((limit + 2 * math.sqrt(limit + 1) + 2) / limit)


def bracket(space: HashedSpace, rng: random.Random, limit: float, weighted: bool) -> int:
    """k such that most cells of k equations are at most `limit`, and (k > 0) most of k - 1 are not.

    With probability 1 - DELTA,  log2(N / P) - gamma <= k <= log2(N / P) + gamma + 1.  (ComputeK of
    PAWS.) The first guess comes from `_rough`, with one cell per step. Then each k is tested with
    T = 8 ln((m + 1) / DELTA) votes: a majority errs with probability at most exp(-T / 8) if one
    vote errs with at most 1/4 (Hoeffding), and there are m + 1 values of k.
    """

    def small(k: int) -> bool:
        return space.cell(rng, k, limit, weighted) is not None

    votes = math.ceil(8 * math.log((space.m + 1) / DELTA))
    known: dict[int, bool] = {-1: False, space.m: True}

    def mostly_small(k: int) -> bool:
        if k not in known:
            yes = no = 0
            while 2 * max(yes, no) <= votes:
                yes, no = (yes + 1, no) if small(k) else (yes, no + 1)
            known[k] = yes > no
        return known[k]

    k = _rough(space, small)
    while not mostly_small(k):
        k += 1
    while mostly_small(k - 1):
        k -= 1
    return k


def _rough(space: HashedSpace, small: Callable[[int], bool]) -> int:
    """About the k at which cells become small: from the cheap ends inwards, then bisection.

    Cells of few free dimensions are cheap for any formula; else few equations are cheaper.
    """
    low, high = -1, space.m
    free = 1
    while low < 0 and free <= min(space.m, DIMENSIONS - len(space.hidden)):
        if small(space.m - free):
            high = space.m - free
        else:
            low = space.m - free
        free *= 2
    k = 0
    while low < k < high:
        if small(k):
            high = k
        else:
            low = k
            k = 2 * k + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if small(middle) else (middle, high)
    return high


def estimate(space: HashedSpace, rng: random.Random, limit: float) -> float:
    """log2 N by the mean weight of CELLS cells of k equations, k from `bracket`.

    Unbiased before the logarithm, of relative variance at most 1 / (mu CELLS), and
    mu >= P 2^-(gamma + 1): for P = 32 it is within a factor of 1.8 with probability 0.93 at least.
    """
    k = bracket(space, rng, limit, weighted=True)
    total = 0.0
    for _ in range(CELLS if k else 1):
        cell = space.cell(rng, k)
        total += sum(cell.weights) if cell else 0.0
    if total == 0.0:
        raise ValueError(f"{CELLS} cells of {k} parities were all empty")  # chance below 2^-32
    return k + math.log2(total / (CELLS if k else 1))
