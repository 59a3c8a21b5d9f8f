"""PAWS: embed, cut by parities, draw in the cell. The theory is in `samplers/xor.py`."""

from __future__ import annotations

import random
from collections.abc import Iterator

from nelson_paper.samplers.hashing.cells import HashedSpace
from nelson_paper.samplers.hashing.counting import bracket, gamma

#: P: a cell of P or more elements is a failed try.
CELL = 64
#: Equations added to those that make most cells smaller than P.
ALPHA = 1


def factor(cell: int = CELL, alpha: int = ALPHA) -> float:
    """c: all elements are drawn with probabilities within 1/c of each other."""
    share = 2 ** (gamma(cell) - alpha)
    return 1 - share / cell / (1 - 1 / cell - share) ** 2


def success(cell: int = CELL, alpha: int = ALPHA) -> float:
    """Least probability that a try succeeds, before the rejection that corrects weights."""
    return factor(cell, alpha) * 2 ** -(gamma(cell) + alpha + 1) * cell / (cell - 1)


def draws(space: HashedSpace, rng: random.Random, info: dict) -> Iterator[list[bool] | None]:
    """Values of variables 1..n, or None for a try that failed; without end."""
    k = bracket(space, rng, CELL - 1, weighted=False)
    info["parities"] = min(k + ALPHA, space.m)
    while True:
        cell = space.cell(rng, info["parities"], CELL - 1, weighted=False)
        j = rng.randrange(CELL - 1)
        if cell is None or j >= len(cell.weights) or rng.random() >= cell.weights[j]:
            yield None
        else:
            yield cell.rows(j)
