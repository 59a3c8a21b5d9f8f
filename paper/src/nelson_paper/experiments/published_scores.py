"""The two numbers of the authors' evaluation (jiangnanhugo/nelson-cd): likelihood and MAP@10."""

from __future__ import annotations

import numpy as np

from nelson.learning.metrics import potential
from nelson_paper.experiments import published

#: Mean and standard deviation of `published_map` for a random ranking of two halves of 100.
RANDOM_MAP, RANDOM_MAP_SD = 0.607, 0.190
MAP_NOTE = (
    "The model ranks the two halves of a list of 200 solutions, and it learned from the first. "
    "Both halves are a random split of one list, so this measures how much the model remembers. A "
    f"random ranking gets {100 * RANDOM_MAP:.0f}% on average, with a standard deviation of "
    f"{100 * RANDOM_MAP_SD:.0f}% on one list; the authors' scripts name one formula for each size."
)


def published_likelihood(theta: np.ndarray, x: np.ndarray) -> float:
    """The number that the authors' evaluation prints as the log-likelihood: -(mean of phi).

    Their potential is phi(x) = sum_i t_i x_i + (1 - t_i) (1 - x_i), with log-odds 2 t_i - 1, so
    t = (theta + 1) / 2 for our log-odds theta. There is no log Z. With theta = 0 it is -n / 2.
    """
    t = (np.asarray(theta, np.float64) + 1) / 2
    x = np.asarray(x, np.float64)
    return -float((x @ t + (1 - x) @ (1 - t)).mean())


def published_map(theta: np.ndarray, preferred: np.ndarray, others: np.ndarray) -> float:
    """The MAP@10 of the authors' evaluation: both halves of a solution list ranked together.

    The mean, over the preferred solutions among the first ten, of the precision at their rank; 0 if
    there are none. Their code ranks the lowest potential first, because its learning step lowers
    the potential of the examples (errata 1); ours raises it, so the highest comes first here.
    """
    phi = potential(theta, np.concatenate([others, preferred]))
    top = np.argsort(-phi, kind="stable")[:10]
    hits = top >= len(others)
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean()) if hits.any() else 0.0


def within_chance(paper: published.Published) -> str:
    """How many of the paper's figures are within two standard deviations of a random ranking."""
    known = [v for row in paper.figures.values() for v in row.values() if not isinstance(v, str)]
    near = sum(abs(v / 100 - RANDOM_MAP) <= 2 * RANDOM_MAP_SD for v in known)
    return (
        f"Of the {len(known)} figures that the paper prints here, {near} are within two standard "
        "deviations of a random ranking of one list."
    )
