"""Routes against the law they should have: chi-square over all round trips, rare ones together."""

from __future__ import annotations

import numpy as np

LEAST = 5.0  # expected draws in a cell, so that the statistic is about chi-square


def numbered(routes: np.ndarray) -> np.ndarray:
    """A number for each row (m, n), n <= 15: base n, location by location."""
    n = routes.shape[1]
    return routes @ n ** np.arange(n, dtype=np.int64)


def chi_square(drawn: np.ndarray, routes: np.ndarray, p: np.ndarray) -> tuple[float, int]:
    """Statistic and degrees of freedom of routes (m, n) against the law p of all routes (k, n).

    Routes are sorted by probability; those expected fewer than LEAST times join their neighbours
    until a cell is expected LEAST times. Infinite if something was drawn that has no probability.
    """
    order = np.argsort(numbered(routes))
    at = np.searchsorted(numbered(routes)[order], numbered(drawn))
    counts = np.bincount(order[at], minlength=len(p)).astype(float)
    if counts[p == 0].any():
        return float("inf"), 1
    rank = np.argsort(-p, kind="stable")
    counts, expected = counts[rank], len(drawn) * p[rank]
    # Cell c holds the routes whose cumulated expectation lies in [c LEAST, (c + 1) LEAST), or one
    # route that is expected more often than that.
    cumulated = np.cumsum(expected) - expected
    _, cell = np.unique(np.floor(cumulated / LEAST), return_inverse=True)
    counts, expected = np.bincount(cell, counts), np.bincount(cell, expected)
    if len(expected) > 1 and expected[-1] < LEAST:  # the last cell may be short
        counts[-2] += counts[-1]
        expected[-2] += expected[-1]
        counts, expected = counts[:-1], expected[:-1]
    return float(((counts - expected) ** 2 / expected).sum()), len(expected) - 1
