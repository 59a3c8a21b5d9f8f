"""Unit propagation. Every literal is visited O(1) times."""

from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.reduce.graph import sign_of

#: Results of `fixpoint` that are not the number of a falsified clause.
FIXPOINT, CONTRADICTION = range(-1, -3, -1)


@inline
def _assign(literal, values, queue, tail):
    """Make a literal true. -> length of the queue, or -1 if the literal is false already"""
    v, sign = abs(literal), sign_of(literal)
    if values[v] == -sign:
        return -1
    if values[v] == 0:
        values[v] = sign
        queue[tail] = literal
        return tail + 1
    return tail


@kernel
def fixpoint(literals, offsets, fixed, values, start, fill, where, left, queue):
    """Fill `values`. -> FIXPOINT, or a falsified clause, or CONTRADICTION within `fixed`

    literals, offsets  int32, int64: clauses in CSR form
    fixed              int32: literals that are given
    values             int8 (n + 1): +1 true, -1 false, 0 open; out, zero on entry
    start, fill        int64 (2 n + 3), (2 n + 2): literal code c = 2 v + (literal < 0) occurs in
                       clauses where[start[c]:start[c + 1]]; fill is a copy of start on entry
    where              int32 (total literals): scratch, the clauses of each literal code
    left               int32 (n_clauses): scratch, literals of a clause that are not yet false
    queue              int32 (n + 1): scratch, literals that became true, in order

    A literal that becomes true visits the clauses of its negation and lowers their `left`. When
    `left` is one, the clause is scanned, once, for its remaining literal, which becomes true.
    """
    n_clauses = len(offsets) - 1
    head = 0
    tail = 0
    for literal in fixed:
        tail = _assign(literal, values, queue, tail)
        if tail < 0:
            return CONTRADICTION
    for j in range(n_clauses):
        left[j] = offsets[j + 1] - offsets[j]
        if left[j] == 0:
            return j
        for k in range(offsets[j], offsets[j + 1]):
            code = 2 * abs(literals[k]) + (1 if literals[k] < 0 else 0)
            where[fill[code]] = j
            fill[code] += 1
        if left[j] == 1:
            tail = _assign(literals[offsets[j]], values, queue, tail)
            if tail < 0:
                return j
    while head < tail:
        literal = queue[head]
        head += 1
        negation = 2 * abs(literal) + (1 if literal > 0 else 0)
        for k in range(start[negation], start[negation + 1]):
            j = where[k]
            left[j] -= 1
            if left[j] == 0:
                return j
            if left[j] == 1:
                for p in range(offsets[j], offsets[j + 1]):
                    after = _assign(literals[p], values, queue, tail)
                    if after >= 0:
                        tail = after
                        break
    return FIXPOINT
