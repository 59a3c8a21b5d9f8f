"""A task of structured prediction: inputs, valid outputs, and the formula of valid outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nelson.formula import Formula

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Part:
    """x (rows, inputs) float32, y (rows, variables of the formula) bool."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Task:
    """The first `outputs` variables of the formula are predicted; they determine all others.

    ancestors (outputs, outputs) bool, [a, b]: b is a or an ancestor of a. None: no hierarchy.
    hidden    width of the network's two hidden layers
    """

    name: str
    formula: Formula
    outputs: int
    train: Part
    valid: Part
    test: Part
    hidden: int
    dropout: float
    ancestors: np.ndarray | None = None


def split(rows: int, seed: int, shares: tuple[float, float] = (0.6, 0.2)) -> list[np.ndarray]:
    """The numbers of the rows of train, valid and test, at random."""
    order = np.random.default_rng(seed).permutation(rows)
    first = round(shares[0] * rows)
    return np.split(order, [first, first + round(shares[1] * rows)])
