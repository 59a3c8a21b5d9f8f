"""Helpers of the tests of tasks."""

from __future__ import annotations

import numpy as np


def broken(task) -> np.ndarray:
    """An assignment that breaks the first clause of a task's formula."""
    x = np.zeros(task.n_vars, bool)
    for literal in next(iter(task.formula.clauses())):
        x[abs(literal) - 1] = literal < 0
    return x


def pixel_spread(path) -> float:
    """Standard deviation of the pixels of a PNG: 0 if it is blank."""
    from matplotlib.image import imread

    return float(np.asarray(imread(path))[..., :3].std())
