"""Random K-SAT, the formulas of most benchmarks."""

from __future__ import annotations

import numpy as np

from nelson.formula.formula import Formula


def random_ksat(n: int, clauses: int, k: int = 3, seed: int = 0) -> Formula:
    """`clauses` clauses of k distinct variables, each negated by a fair coin.

    A clause that is drawn twice is kept once, so there may be a few clauses fewer. A million
    clauses take a second.

    >>> formula = nelson.random_ksat(100, 300, k=3, seed=1)
    >>> formula.n_vars, formula.n_clauses
    (100, 300)
    """
    random = np.random.default_rng([seed, 6])
    signs = 2 * random.integers(0, 2, size=(clauses, k)) - 1
    return Formula((distinct_variables(random, n, k, clauses) * signs).astype(np.int32), n_vars=n)


def distinct_variables(random: np.random.Generator, n: int, k: int, m: int) -> np.ndarray:
    """(m, k): k distinct variables of 1..n in each row; rows with a repetition are drawn again."""
    rows = random.integers(1, n + 1, size=(m, k))
    while True:
        ordered = np.sort(rows, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not len(again):
            return rows
        rows[again] = random.integers(1, n + 1, size=(len(again), k))
