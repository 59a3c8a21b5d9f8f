"""A task of structured prediction: inputs, valid outputs, and the formula of valid outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nelson.formula import Formula


class Parts(NamedTuple):
    """Numbers of rows."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray

    @property
    def learned(self) -> np.ndarray:
        """What a method may learn from when it is tuned: all rows but the test rows."""
        return np.concatenate([self.train, self.valid])


@dataclass(frozen=True)
class Task:
    """The first `outputs` variables of the formula are predicted; they determine all others.

    x         (rows, inputs) float32
    y         (rows, variables) bool
    parts     of a seed
    hidden    width of the network's two hidden layers
    given     (rows, variables) float32: log-odds that the inputs make sure, 0 where they do not
    ancestors (outputs, outputs) bool, [a, b]: b is a or an ancestor of a. None: no hierarchy.
    """

    name: str
    formula: Formula
    outputs: int
    x: np.ndarray
    y: np.ndarray
    parts: Callable[[int], Parts]
    hidden: int
    dropout: float
    given: np.ndarray | None = None
    ancestors: np.ndarray | None = None


def split(rows: int, seed: int, shares: tuple[float, float] = (0.6, 0.2)) -> Parts:
    """Train, valid and test, at random."""
    order = np.random.default_rng(seed).permutation(rows)
    first = round(shares[0] * rows)
    return Parts(*np.split(order, [first, first + round(shares[1] * rows)]))
