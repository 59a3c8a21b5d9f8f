"""The dependency graph: two clauses are neighbours when they share a variable.

The graph depends on the literals alone; `nelson.theory.local_lemma` adds the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nelson.formula import Formula
from nelson.formula.checks import largest_variable
from nelson.formula.flat import check_ahead, occurrences, owners
from nelson.formula.memo import Slot
from nelson.kernels.core.deadline import check_time

_DEGREES: Slot[tuple[np.ndarray, bool]] = Slot("degree of each clause, and whether it is exact")

#: Neighbours are enumerated if there are at most this many pairs of a clause and a clause that
#: holds one of its variables, which takes about a second; beyond, degrees are upper bounds.
MAX_PAIRS = 40_000_000


@dataclass(frozen=True)
class Degree:
    """Degrees of the dependency graph. If `exact` is False, all three are upper bounds."""

    max: int
    mean: float
    edges: int
    exact: bool


def clause_lengths(f: Formula) -> dict[int, int]:
    """How many clauses there are of each length."""
    lengths, counts = np.unique(np.diff(f.offsets), return_counts=True)
    return dict(zip(lengths.tolist(), counts.tolist(), strict=True))


def degree(f: Formula) -> Degree:
    """The degrees of all clauses: their largest, their mean, and the edges of the graph.

    Exact in O(sum_v occ(v)^2), where occ(v) is the number of clauses with variable v. If variables
    in very many clauses make that too expensive, a clause gets the upper bound
    min(L - 1, sum over its variables of occ(v) - 1), so the criteria that use it stay sound.
    """
    if f.n_clauses == 0:
        return Degree(0, 0.0, 0, True)
    degrees, exact = _degrees(f)
    total = int(degrees.sum(dtype=np.int64))
    return Degree(int(degrees.max()), total / f.n_clauses, total // 2, exact)


def adjacency(f: Formula) -> tuple[np.ndarray, np.ndarray] | None:
    """(degrees, neighbours clause by clause), both int32; None if the graph is too large."""
    # The graph is stored if it has at most this many entries: 120 MB.
    max_stored = 30_000_000
    degrees, exact = _degrees(f)
    size = int(degrees.sum(dtype=np.int64))
    if not exact or size > max_stored:
        return None
    neighbours = np.empty(size, np.int32)
    if size:
        _enumerate_neighbours(f, degrees, neighbours)
    return degrees, neighbours


def _degrees(f: Formula) -> tuple[np.ndarray, bool]:
    """Degree of each clause, int32 (L,), and whether all are exact."""
    return f.memo.once(_DEGREES, lambda: _count_degrees(f))


def _count_degrees(f: Formula) -> tuple[np.ndarray, bool]:
    check_time()
    variables = np.abs(f.literals) - 1
    occ = np.bincount(variables).astype(np.float64)
    degrees = np.zeros(f.n_clauses, np.int32)
    check_time()
    if occ @ occ <= MAX_PAIRS:
        _enumerate_neighbours(f, degrees, np.empty(0, np.int32))
        return degrees, True
    check_time()
    bound = np.bincount(owners(f.offsets), weights=occ[variables] - 1, minlength=f.n_clauses)
    degrees[:] = np.minimum(bound, f.n_clauses - 1)
    return degrees, False


def _enumerate_neighbours(f: Formula, degrees: np.ndarray, neighbours: np.ndarray) -> None:
    """Fill `degrees`, and `neighbours` unless it is empty."""
    from nelson.kernels.reduce import graph

    start, clauses = occurrences(f.literals, f.offsets, largest_variable(f.literals))
    counts = np.diff(start[::2]).astype(np.float64)
    check_ahead(float(counts @ counts), 2e-8)  # pairs of clauses
    stamp = np.full(f.n_clauses, -1, np.int32)
    graph.neighbours(f.literals, f.offsets, start, clauses, stamp, degrees, neighbours)
