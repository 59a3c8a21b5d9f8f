"""Clauses that are added and removed: one growing array, with a linked list per literal.

`head[code]` is the first place that holds a literal, `after[place]` the next. The space of removed
clauses is not reused; the caller compacts. Codes: see `graph.py`.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import helper, kernel
from nelson.kernels.reduce.graph import code_of


class Store(NamedTuple):
    literals: np.ndarray  # int32 (capacity)
    begin: np.ndarray  # int32 (clauses,)
    size: np.ndarray  # int32 (clauses,); 0: removed
    owner: np.ndarray  # int32 (capacity): clause of a place
    after: np.ndarray  # int32 (capacity): next place of the same literal, -1 at the end
    head: np.ndarray  # int32 (codes,)
    held: np.ndarray  # int32 (codes,): number of clauses that hold a literal
    used: np.ndarray  # int64 (2,): clauses, places
    touched: np.ndarray  # uint8 (n,): 1 if clauses of the variable changed since its last visit


class DefinitionLog(NamedTuple):
    """Entries of `rebuild.py`."""

    target: np.ndarray  # int32 (variables,)
    flip: np.ndarray  # uint8 (variables,)
    first: np.ndarray  # int64 (variables + 1,)
    start: np.ndarray  # int64 (clauses + 1,)
    literals: np.ndarray  # int32
    used: np.ndarray  # int64 (2,): entries, clauses


@helper
def link(s, place, j):
    """Insert a place of clause j into the list of its literal."""
    code = code_of(s.literals[place])
    s.owner[place] = j
    s.after[place] = s.head[code]
    s.head[code] = place
    s.held[code] += 1


@kernel
def tally(literals, offsets, held, share):
    """Count clauses per literal and bound which variables may be defined. Both zero on entry.

    held int32 (codes,): number of clauses of each literal. share float64 (n,): for each variable,
    the sum over its clauses of 2^-(number of other literals). This bounds the share of assignments
    of the other variables that these clauses exclude.
    """
    for j in range(offsets.size - 1):
        part = 2.0 ** (1 - (offsets[j + 1] - offsets[j]))
        for t in range(offsets[j], offsets[j + 1]):
            held[code_of(literals[t])] += 1
            share[abs(literals[t]) - 1] += part


@kernel
def load(literals, offsets, s):
    """Fill an empty store."""
    for j in range(offsets.size - 1):
        s.begin[j] = offsets[j]
        s.size[j] = offsets[j + 1] - offsets[j]
        for place in range(offsets[j], offsets[j + 1]):
            s.literals[place] = literals[place]
            link(s, place, j)
    s.used[0] = offsets.size - 1
    s.used[1] = literals.size


@helper
def gather(s, code, clauses, m):
    """Append the clauses of a literal to clauses[m:], unlinking removed ones. -> new m"""
    before, place = -1, s.head[code]
    while place >= 0:
        j = s.owner[place]
        if s.size[j]:
            clauses[m] = j
            m += 1
            before = place
        elif before >= 0:
            s.after[before] = s.after[place]
        else:
            s.head[code] = s.after[place]
        place = s.after[place]
    return m


@helper
def remove(s, clauses, m):
    """Remove clauses[:m] and mark their variables as touched."""
    for a in range(m):
        j = clauses[a]
        for place in range(s.begin[j], s.begin[j] + s.size[j]):
            s.held[code_of(s.literals[place])] -= 1
            s.touched[abs(s.literals[place]) - 1] = 1
        s.size[j] = 0
