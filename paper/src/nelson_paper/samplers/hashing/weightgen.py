"""WeightGen: find a cell of the right weight, draw by weight in it. The theory is in
`samplers/weightgen.py`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from nelson_paper.samplers.hashing.cells import HashedSpace
from nelson_paper.samplers.hashing.counting import estimate

#: Tolerance: probabilities are within a factor 1 + EPSILON. The theory needs more than 6.84; the
#: paper's experiments use 16.
EPSILON = 16.0


def kappa_pivot(epsilon: float = EPSILON) -> tuple[float, int]:
    """kappa in (0, 1) with (1 + kappa) (7.55 + 0.29 / (1 - kappa)^2) - 1 = epsilon, and the pivot
    ceil(4.03 (1 + 1/kappa)^2).
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        kappa = (low + high) / 2
        if (1 + kappa) * (7.55 + 0.29 / (1 - kappa) ** 2) - 1 < epsilon:
            low = kappa
        else:
            high = kappa
    return low, math.ceil(4.03 * (1 + 1 / low) ** 2)


def thresholds(epsilon: float = EPSILON) -> tuple[float, float, int]:
    """loThresh, hiThresh, pivot."""
    kappa, pivot = kappa_pivot(epsilon)
    return pivot / (math.sqrt(2) * (1 + kappa)), 1 + math.sqrt(2) * (1 + kappa) * pivot, pivot


def draws(space: HashedSpace, rng: random.Random, info: dict) -> Iterator[list[bool] | None]:
    """Values of variables 1..n, or None for a try that failed; without end."""
    low, high, pivot = thresholds()
    weight = estimate(space, rng, 32.0)
    most = min(max(math.ceil(weight + math.log2(1.8) - math.log2(pivot)), 0), space.m)
    info["parities"] = most
    while True:
        for k in range(max(most - 3, 0), most + 1):
            cell = space.cell(rng, k, high)
            if cell is not None and sum(cell.weights) >= low:
                (j,) = rng.choices(range(len(cell.weights)), cell.weights)
                yield cell.rows(j)
                break
        else:
            yield None
