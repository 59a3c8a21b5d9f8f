"""Failed literals: conclusions from unit propagation after assuming one literal.

    l leads to a conflict                  ->  not l                    (failed)
    l and not l both lead to t             ->  t                        (necessary)
    l leads to t, not l leads to not t     ->  t = l                    (equivalent)

Propagation counts, for each clause, the literals that are not false (`left`). A literal that
becomes true visits the clauses of its negation; taking an assumption back visits them again.
"""

from nelson.kernels.core.compile import helper, inline, kernel
from nelson.kernels.reduce.graph import code_of, sign_of

#: How `probe` ended: all literals probed, steps used up, formula unsatisfiable.
DONE, PAUSED, CONFLICT = range(3)


@inline
def _assign(literal, values, trail, tail):
    values[abs(literal) - 1] = sign_of(literal)
    trail[tail] = literal
    return tail + 1


@helper
def _propagate(literals, offsets, start, where, values, left, trail, head, tail):
    """Unit propagation of trail[head:tail].

    -> (entries of the trail whose clauses were visited, length of the trail, conflict, work). The
    visits of an entry are always completed, so that they can be undone.
    """
    work = 0
    conflict = False
    while head < tail and not conflict:
        negation = code_of(trail[head]) ^ 1
        head += 1
        work += start[negation + 1] - start[negation] + 1
        for s in range(start[negation], start[negation + 1]):
            j = where[s]
            left[j] -= 1
            if left[j] == 0:
                conflict = True
            if left[j] != 1 or conflict:
                continue
            for t in range(offsets[j], offsets[j + 1]):
                value = values[abs(literals[t]) - 1]
                if value == 0:
                    tail = _assign(literals[t], values, trail, tail)
                    break
                if value == sign_of(literals[t]):
                    break
            work += offsets[j + 1] - offsets[j]
    return head, tail, conflict, work


@helper
def _take_back(start, where, values, left, trail, base, head, tail):
    """Undo trail[base:tail], of which entries up to `head` were propagated."""
    for i in range(base, head):
        negation = code_of(trail[i]) ^ 1
        for s in range(start[negation], start[negation + 1]):
            left[where[s]] += 1
    for i in range(base, tail):
        values[abs(trail[i]) - 1] = 0


@kernel
def probe(
    literals, offsets, start, where, order, first, steps, values, left, trail, keep, stamp, pairs
):
    """Probe the literals order[first:], with at most about `steps` visits.

    -> (next place in order, DONE | PAUSED | CONFLICT, failed literals, necessary ones, pairs, work)

    values int8 (n,)          0 open, +1 true, -1 false; failed and necessary literals are set here
    left int32                literals of each clause that are not false under `values`
    trail, keep int32 (n,)    scratch
    stamp int32 (codes,)      scratch, zero on entry: 1 + last place in `order` that implied it
    pairs int32 (., 2)        out: pairs of equal literals, up to the size of the array

    The two literals of a variable are neighbours in `order`.
    """
    failed, necessary, equal, work = 0, 0, 0, 0
    for i in range(first, order.size):
        if work > steps:
            return i, PAUSED, failed, necessary, equal, work
        assumed = order[i]
        if values[abs(assumed) - 1] != 0:
            continue
        tail = _assign(assumed, values, trail, 0)
        head, tail, conflict, cost = _propagate(
            literals, offsets, start, where, values, left, trail, 0, tail
        )
        work += 2 * cost + tail
        n_kept = 0
        if not conflict:
            twin = i > 0 and order[i - 1] == -assumed
            for k in range(1, tail):
                implied = trail[k]
                code = code_of(implied)
                if twin and stamp[code] == i:
                    keep[n_kept] = implied
                    n_kept += 1
                elif twin and stamp[code ^ 1] == i and equal < pairs.shape[0]:
                    pairs[equal, 0] = implied
                    pairs[equal, 1] = assumed
                    equal += 1
                stamp[code] = i + 1
        _take_back(start, where, values, left, trail, 0, head, tail)
        if conflict:
            keep[0] = -assumed
            failed += 1
            n_kept = 1
        else:
            necessary += n_kept
        if n_kept > 0:
            tail = 0
            for k in range(n_kept):
                tail = _assign(keep[k], values, trail, tail)
            head, tail, conflict, cost = _propagate(
                literals, offsets, start, where, values, left, trail, 0, tail
            )
            work += cost
            if conflict:
                return i, CONFLICT, failed, necessary, equal, work
    return order.size, DONE, failed, necessary, equal, work
