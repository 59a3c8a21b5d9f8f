"""Clauses that come and go: one growing array, linked by literal.

`head[code]` is the first place that holds a literal, `after[place]` the next. Space of removed
clauses is not used again; the caller compacts. Literal +v has code 2(v-1), -v has code 2(v-1)+1.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import helper, kernel
from nelson.kernels.reduce.implication import code_of


class Store(NamedTuple):
    literals: np.ndarray  # int32 (capacity)
    begin: np.ndarray  # int32 (clauses,)
    size: np.ndarray  # int32 (clauses,); 0 once removed
    owner: np.ndarray  # int32 (capacity): clause of a place
    after: np.ndarray  # int32 (capacity): next place of the same literal, -1 at the end
    head: np.ndarray  # int32 (codes,)
    held: np.ndarray  # int32 (codes,): clauses that hold it
    used: np.ndarray  # int64 (2,): clauses, places
    touched: np.ndarray  # uint8 (n,): its clauses changed since it was looked at


class Definitions(NamedTuple):
    """Entries of `kernels.rebuild`."""

    target: np.ndarray  # int32 (variables,)
    flip: np.ndarray  # uint8 (variables,)
    first: np.ndarray  # int64 (variables + 1,)
    start: np.ndarray  # int64 (clauses + 1,)
    literals: np.ndarray  # int32
    used: np.ndarray  # int64 (2,): entries, clauses


@helper
def link(s, place, j):
    code = code_of(s.literals[place])
    s.owner[place] = j
    s.after[place] = s.head[code]
    s.head[code] = place
    s.held[code] += 1


@kernel
def tally(literals, offsets, held, share):
    """held int32 (codes,): clauses of each literal. share float64 (n,): sum over the clauses of a
    variable of 2^-(other literals), the part of all assignments of the others that they exclude.
    Both zero on entry.
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
    """Append the clauses of a literal; places of removed ones are unlinked on the way."""
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
    for a in range(m):
        j = clauses[a]
        for place in range(s.begin[j], s.begin[j] + s.size[j]):
            s.held[code_of(s.literals[place])] -= 1
            s.touched[abs(s.literals[place]) - 1] = 1
        s.size[j] = 0
