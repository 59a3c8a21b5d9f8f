"""Condition 1, which makes a formula *extremal*."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from nelson.formula.checks import largest_variable
from nelson.formula.flat import occurrences

if TYPE_CHECKING:
    from nelson.formula.formula import Formula


def condition1(f: Formula) -> tuple[int, int] | None:
    """None if f is extremal, else the indices (i, j) of two clauses that break Condition 1."""
    return breach(f.literals, f.offsets)


def breach(literals: np.ndarray, offsets: np.ndarray) -> tuple[int, int] | None:
    """`condition1` of flat clauses in normal form.

    Extremal: no assignment violates two clauses that share a variable; in other words, two such
    clauses always hold a complementary pair of literals. The two clauses that are returned share a
    variable and hold no such pair. Linear in the formula for bounded clause length;
    `kernels.reduce.graph.condition1` says how variables in very many clauses are treated.
    """
    from nelson.kernels.reduce import graph

    n = largest_variable(literals)
    start, clauses = occurrences(literals, offsets, n)
    mark, hubs = np.zeros(n, np.int8), np.zeros(2 * n, np.int32)
    i = j = -1
    for first, last in _pieces(offsets, start):
        some = start[first : last + 1]
        i, j = graph.condition1(literals, offsets, some, clauses, mark, hubs[first:last])
        if i >= 0:
            break
    if i < 0 and hubs.any():
        most = int(hubs.max())
        work, group = np.empty(4 * most, np.int32), np.empty(most, np.int32)
        scratch = mark, np.zeros((2, n), np.int32), work, group, np.empty(128, np.int64)
        for code in np.flatnonzero(hubs):
            i, j = graph.search_hub(literals, offsets, start, clauses, code, hubs[code], *scratch)
            if i >= 0:
                break
    return None if i < 0 else (min(int(i), int(j)), max(int(i), int(j)))


def _pieces(offsets: np.ndarray, start: np.ndarray) -> list[tuple[int, int]]:
    """The literals in ranges that take about 10^8 steps each at most, if one literal does not take
    more: a kernel looks at the deadline when it is called.
    """
    longest = int(np.diff(offsets).max(initial=1))
    work = np.cumsum(np.diff(start).astype(float)) * longest
    ends: list[int] = []
    if len(work):
        ends = (np.searchsorted(work, np.arange(1e8, work[-1], 1e8)) + 1).tolist()
    return list(itertools.pairwise(sorted({0, *ends, len(start) - 1})))
