"""Which clauses depend on each other: Condition 1, components, the dependency graph.

Two clauses are neighbours when they share a variable. All of this is about literals alone, no
weights; `nelson.theory.local_lemma` adds those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nelson.formula.memo import Slot

if TYPE_CHECKING:
    from nelson.formula import Formula

_COMPONENTS: Slot[np.ndarray] = Slot("component of each variable")
_DEGREES: Slot[tuple[np.ndarray, bool]] = Slot("degree of each clause, and whether it is exact")

#: Pairs (clause, clause of one of its variables) up to which the dependency graph is walked.
WALK = 1_000_000_000
#: Neighbours, over all clauses, up to which the graph is stored.
STORE = 30_000_000


def condition1(f: Formula) -> tuple[int, int] | None:
    """None if f is extremal, else clause indices (i, j) that break Condition 1.

    Extremal: no assignment violates two clauses that share a variable, i.e. such clauses always
    hold a complementary pair of literals. The witness shares a variable and holds none. Linear in
    the formula for bounded clause length; see `kernels.graph.condition1` for hubs.
    """
    from nelson.kernels.reduce import graph

    start, clause = _occurrences(f)
    n = len(start) // 2
    mark, hubs = np.zeros(n, np.int8), np.zeros(2 * n, np.int32)
    i, j = graph.condition1(f.literals, f.offsets, start, clause, mark, hubs)
    if i < 0 and hubs.any():
        most = int(hubs.max())
        work, group = np.empty(4 * most, np.int32), np.empty(most, np.int32)
        scratch = mark, np.zeros((2, n), np.int32), work, group, np.empty(128, np.int64)
        for code in np.flatnonzero(hubs):
            i, j = graph.search_hub(
                f.literals, f.offsets, start, clause, code, hubs[code], *scratch
            )
            if i >= 0:
                break
    return None if i < 0 else (min(int(i), int(j)), max(int(i), int(j)))


def components(f: Formula) -> np.ndarray:
    """Connected component of each variable, int32 (n_total,), counted from 0.

    Variables are joined when a clause holds both. P_theta(. | C) is a product over components.
    """
    return f.memo.once(_COMPONENTS, lambda: _components(f))


def _components(f: Formula) -> np.ndarray:
    from nelson.kernels.reduce import graph

    labels = np.arange(f.n_total, dtype=np.int32)
    graph.components(f.literals, f.offsets, labels)
    labels.setflags(write=False)
    return labels


def clause_lengths(f: Formula) -> dict[int, int]:
    """How many clauses there are of each length."""
    lengths, counts = np.unique(np.diff(f.offsets), return_counts=True)
    return dict(zip(lengths.tolist(), counts.tolist(), strict=True))


@dataclass(frozen=True)
class Degree:
    """Degrees of the dependency graph. Where `exact` is False all three are upper bounds."""

    max: int
    mean: float
    edges: int
    exact: bool


def degree(f: Formula) -> Degree:
    """Neighbours of a clause: those that share a variable with it.

    Exact in O(sum_v occ(v)^2). Where hub variables make that too much, a clause is given
    min(L - 1, sum over its variables of occ(v) - 1), which counts a neighbour once a shared
    variable: an upper bound, so the criteria that use it stay sound.
    """
    if f.n_clauses == 0:
        return Degree(0, 0.0, 0, True)
    degrees, exact = _degrees(f)
    total = int(degrees.sum(dtype=np.int64))
    return Degree(int(degrees.max()), total / f.n_clauses, total // 2, exact)


def owners(f: Formula) -> np.ndarray:
    """The clause of each literal."""
    return np.repeat(np.arange(f.n_clauses), np.diff(f.offsets))


def _occurrences(f: Formula) -> tuple[np.ndarray, np.ndarray]:
    """Clauses by literal, up to the last variable that a clause mentions."""
    from nelson.kernels.reduce import graph

    code = 2 * (np.abs(f.literals) - 1) + (f.literals < 0)
    last = int(code.max(initial=-1)) // 2 + 1
    start = np.zeros(2 * last + 1, np.int64)
    np.cumsum(np.bincount(code, minlength=2 * last), out=start[1:])
    clause = np.empty(f.literals.size, np.int32)
    graph.occurrences(f.literals, f.offsets, start[:-1].copy(), clause)
    return start, clause


def _degrees(f: Formula) -> tuple[np.ndarray, bool]:
    """Degree of each clause, int32 (L,), and whether they are exact."""
    return f.memo.once(_DEGREES, lambda: _count_degrees(f))


def _count_degrees(f: Formula) -> tuple[np.ndarray, bool]:
    from nelson.kernels.reduce import graph

    start, clause = _occurrences(f)
    held = np.diff(start[::2]).astype(np.float64)  # clauses of a variable, either sign
    exact = bool(held @ held <= WALK)
    degrees = np.zeros(f.n_clauses, np.int32)
    if exact:
        stamp, none = np.full(f.n_clauses, -1, np.int32), np.empty(0, np.int32)
        graph.neighbours(f.literals, f.offsets, start, clause, stamp, degrees, none)
    else:
        seen = held[np.abs(f.literals) - 1] - 1
        bound = np.bincount(owners(f), weights=seen, minlength=f.n_clauses)
        degrees[:] = np.minimum(bound, f.n_clauses - 1)
    return degrees, exact


def adjacency(f: Formula) -> tuple[np.ndarray, np.ndarray] | None:
    """(degrees, neighbours clause by clause), both int32; None where that is too large."""
    from nelson.kernels.reduce import graph

    degrees, exact = _degrees(f)
    size = int(degrees.sum(dtype=np.int64))
    if not exact or size > STORE:
        return None
    store = np.empty(size, np.int32)
    if size:
        start, clause = _occurrences(f)
        stamp = np.full(f.n_clauses, -1, np.int32)
        graph.neighbours(f.literals, f.offsets, start, clause, stamp, degrees, store)
    return degrees, store


def by_component(f: Formula) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(clauses, first, variables, start): both sorted by component, with CSR starts.

    Empty clauses belong to no component and are left out.
    """
    labels = components(f)
    count = int(labels.max()) + 1 if labels.size else 0
    full = np.flatnonzero(np.diff(f.offsets))
    label = labels[np.abs(f.literals[f.offsets[full]]) - 1]
    members = full[np.argsort(label, kind="stable")]
    edges = np.arange(count + 1)
    variables = np.argsort(labels, kind="stable")
    first = np.searchsorted(np.sort(label), edges)
    return members, first, variables, np.searchsorted(labels[variables], edges)
