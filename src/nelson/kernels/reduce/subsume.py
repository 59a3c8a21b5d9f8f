"""Subsumed clauses, and literals that a clause is stronger without.

    c within d                               ->  d goes
    c = A or l,  d = A or B or not l         ->  not l goes from d (self-subsuming resolution)

For each c, only the clauses of its rarest variable are compared: they hold all of its variables.
Signatures (64 bits, one set for each variable of a clause) rule out nearly all of them. Een and
Biere, Effective preprocessing in SAT through variable and clause elimination, SAT 2005.
"""

import numpy as np

from nelson.kernels.core.compile import helper, kernel

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
    """After a renaming: places of repeated literals to gone, tautologies to dead. -> how many.

    mark int8 (n,): scratch, zero on entry and on return.
    """
    found = 0
    for j in range(offsets.size - 1):
        for t in range(offsets[j], offsets[j + 1]):
            v, sign = abs(literals[t]) - 1, 1 if literals[t] > 0 else -1
            if mark[v] == sign:
                gone[t] = 1
                found += 1
            elif mark[v] == -sign:
                dead[j] = 1
                found += 1
            else:
                mark[v] = sign
        for t in range(offsets[j], offsets[j + 1]):
            mark[abs(literals[t]) - 1] = 0
    return found


@kernel
def signatures(literals, offsets, gone, signature, size):
    for j in range(offsets.size - 1):
        signature[j] = _signature(literals, offsets, gone, j)
        size[j] = offsets[j + 1] - offsets[j]


@kernel
def subsume(
    literals, offsets, start, where, order, first, steps, signature, size, mark, dead, gone
):
    """Compare clauses order[first:] with the others, at most about `steps` visits.

    -> (next place in order, clauses subsumed, literals removed, work)

    start, where       clauses by literal code, as of `graph.occurrences`
    signature, size    of each clause, kept up to date
    mark int8 (n,)     scratch, zero on entry and on return
    dead uint8 (L,), gone uint8 (literals,): out, clauses and places that go
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
            mark[v] = 1 if literals[t] > 0 else -1
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
                    if sign == (1 if literals[t] > 0 else -1):
                        same += 1
                    elif place >= 0:  # a second clash: c and d have no use for each other
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
