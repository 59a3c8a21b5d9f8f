"""Chi-square test of routes against the law that they should have, over all round trips."""

from __future__ import annotations

import numpy as np

#: Expected draws in a cell: with fewer the statistic does not follow the chi-square law.
LEAST = 5.0


def numbered(routes: np.ndarray) -> np.ndarray:
    """A different number for each route: the row (m, n) read as digits in base n, n <= 15."""
    n = routes.shape[1]
    return routes @ n ** np.arange(n, dtype=np.int64)


def chi_square(drawn: np.ndarray, routes: np.ndarray, p: np.ndarray) -> tuple[float, int]:
    """Statistic and degrees of freedom of routes (m, n) against the law p of all routes (k, n).

    Routes are sorted by probability, and rare ones share a cell until it expects LEAST draws. The
    statistic is infinite if a route of probability 0 was drawn.
    """
    order = np.argsort(numbered(routes))
    at = np.searchsorted(numbered(routes)[order], numbered(drawn))
    counts = np.bincount(order[at], minlength=len(p)).astype(float)
    if counts[p == 0].any():
        return float("inf"), 1
    rank = np.argsort(-p, kind="stable")
    counts, expected = counts[rank], len(drawn) * p[rank]
    # Cell c holds the routes whose cumulated expectation lies in [c LEAST, (c + 1) LEAST), or a
    # single route that is expected more often.
    cumulated = np.cumsum(expected) - expected
    _, cell = np.unique(np.floor(cumulated / LEAST), return_inverse=True)
    counts, expected = np.bincount(cell, counts), np.bincount(cell, expected)
    if len(expected) > 1 and expected[-1] < LEAST:  # the last cell may expect less
        counts[-2] += counts[-1]
        expected[-2] += expected[-1]
        counts, expected = counts[:-1], expected[:-1]
    return float(((counts - expected) ** 2 / expected).sum()), len(expected) - 1
