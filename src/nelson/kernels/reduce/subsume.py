"""Subsumption of clauses, and self-subsuming resolution.

    c subset of d                            ->  remove d
    c = A or l,  d = A or B or not l         ->  remove not l from d (self-subsuming resolution)

Each c is compared only with the clauses of its rarest variable: every d above is among them. 64-bit
signatures (each variable of a clause sets one bit) rule out nearly all of these. Een and Biere,
Effective preprocessing in SAT through variable and clause elimination, SAT 2005.
"""

import numpy as np

from nelson.kernels.core.compile import helper, kernel
from nelson.kernels.reduce.graph import sign_of

_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_TOP = np.uint64(58)


@helper
def _signature(literals, offsets, gone, j):
    bits = np.uint64(0)
    for t in range(offsets[j], offsets[j + 1]):
        if gone[t] == 0:
            bits |= _ONE << ((np.uint64(abs(literals[t])) * _MIX) >> _TOP)
    return bits


@kernel
def tidy(literals, offsets, mark, dead, gone):
    """After variables were renamed: mark repeated literals in `gone` and tautologies in `dead`.

    -> number of marks. mark int8 (n,): scratch, zero on entry and on return.
    """
    marked = 0
    for j in range(offsets.size - 1):
        for t in range(offsets[j], offsets[j + 1]):
            v, sign = abs(literals[t]) - 1, sign_of(literals[t])
            if mark[v] == sign:
                gone[t] = 1
                marked += 1
            elif mark[v] == -sign:
                dead[j] = 1
                marked += 1
            else:
                mark[v] = sign
        for t in range(offsets[j], offsets[j + 1]):
            mark[abs(literals[t]) - 1] = 0
    return marked


@kernel
def signatures(literals, offsets, gone, signature, size):
    for j in range(offsets.size - 1):
        signature[j] = _signature(literals, offsets, gone, j)
        size[j] = offsets[j + 1] - offsets[j]


@kernel
def subsume(
    literals, offsets, start, where, order, first, steps, signature, size, mark, dead, gone
):
    """Compare clauses order[first:] with the others, with at most about `steps` visits.

    -> (next place in order, clauses subsumed, literals removed, work)

    start, where       clauses by literal code, from `graph.occurrences`
    signature, size    of each clause, kept up to date
    mark int8 (n,)     scratch, zero on entry and on return
    dead uint8 (L,), gone uint8 (literals,): out, removed clauses and removed literals
    """
    subsumed, removed, work = 0, 0, 0
    for i in range(first, order.size):
        if work > steps:
            return i, subsumed, removed, work
        c = order[i]
        if dead[c]:
            continue
        rarest, fewest = -1, where.size + 1
        for t in range(offsets[c], offsets[c + 1]):
            if gone[t]:
                continue
            v = abs(literals[t]) - 1
            mark[v] = sign_of(literals[t])
            if start[2 * v + 2] - start[2 * v] < fewest:
                rarest, fewest = v, start[2 * v + 2] - start[2 * v]
        work += fewest + size[c]
        if rarest >= 0 and fewest > 1:
            for s in range(start[2 * rarest], start[2 * rarest + 2]):
                d = where[s]
                if d == c or dead[d] or size[d] < size[c] or signature[c] & ~signature[d]:
                    continue
                same, place = 0, -1
                for t in range(offsets[d], offsets[d + 1]):
                    if gone[t]:
                        continue
                    sign = mark[abs(literals[t]) - 1]
                    if sign == 0:
                        continue
                    if sign == sign_of(literals[t]):
                        same += 1
                    elif place >= 0:  # a second clash: neither rule applies
                        same = -1
                        break
                    else:
                        place = t
                work += offsets[d + 1] - offsets[d]
                if same == size[c]:
                    dead[d] = 1
                    subsumed += 1
                elif same == size[c] - 1 and place >= 0:
                    gone[place] = 1
                    size[d] -= 1
                    signature[d] = _signature(literals, offsets, gone, d)
                    removed += 1
        for t in range(offsets[c], offsets[c + 1]):
            mark[abs(literals[t]) - 1] = 0
    return order.size, subsumed, removed, work
