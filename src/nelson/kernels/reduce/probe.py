"""Failed literals: what unit propagation says of a formula once one literal is assumed.

    l leads to a conflict                  ->  not l                    (failed)
    l and not l both lead to t             ->  t                        (necessary)
    l leads to t, not l leads to not t     ->  t = l                    (equivalent)

Propagation counts, for each clause, the literals that are not false (`left`); a literal that
becomes true visits the clauses of its negation. To take an assumption back, visit them again.
"""

from nelson.kernels.core.compile import helper, inline, kernel
from nelson.kernels.reduce.implication import code_of

DONE, PAUSED, CONFLICT = 0, 1, 2


@inline
def _assign(literal, values, trail, tail):
    values[abs(literal) - 1] = 1 if literal > 0 else -1
    trail[tail] = literal
    return tail + 1


@helper
def _propagate(literals, offsets, start, where, values, left, trail, head, tail):
    """-> (entries of the trail whose clauses were visited, length of the trail, conflict, work).

    The visits of an entry are always completed, so that they can be undone.
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
                if value == (1 if literals[t] > 0 else -1):
                    break
            work += offsets[j + 1] - offsets[j]
    return head, tail, conflict, work


@helper
def _take_back(start, where, values, left, trail, base, head, tail):
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
    """Probe literals order[first:], at most about `steps` visits.

    -> (next place in order, DONE | PAUSED | CONFLICT, failed literals, necessary ones, pairs, work)

    values int8 (n,)          0 open, +1 true, -1 false; what is found is left here
    left int32                literals of each clause that are not false, in step with `values`
    trail, keep int32 (n,)    scratch
    stamp int32 (codes,)      scratch, zero on entry: 1 + the last place in `order` that led here
    pairs int32 (., 2)        out: literals that are equal, as many as fit
    Literals of one variable stand side by side in `order`.
    """
    failed, necessary, found, work = 0, 0, 0, 0
    for i in range(first, order.size):
        if work > steps:
            return i, PAUSED, failed, necessary, found, work
        assumed = order[i]
        if values[abs(assumed) - 1] != 0:
            continue
        tail = _assign(assumed, values, trail, 0)
        head, tail, conflict, cost = _propagate(
            literals, offsets, start, where, values, left, trail, 0, tail
        )
        work += 2 * cost + tail
        kept = 0
        if not conflict:
            twin = i > 0 and order[i - 1] == -assumed
            for k in range(1, tail):
                implied = trail[k]
                code = code_of(implied)
                if twin and stamp[code] == i:
                    keep[kept] = implied
                    kept += 1
                elif twin and stamp[code ^ 1] == i and found < pairs.shape[0]:
                    pairs[found, 0] = implied
                    pairs[found, 1] = assumed
                    found += 1
                stamp[code] = i + 1
        _take_back(start, where, values, left, trail, 0, head, tail)
        if conflict:
            keep[0] = -assumed
            failed += 1
            kept = 1
        else:
            necessary += kept
        if kept > 0:
            tail = 0
            for k in range(kept):
                tail = _assign(keep[k], values, trail, tail)
            head, tail, conflict, cost = _propagate(
                literals, offsets, start, where, values, left, trail, 0, tail
            )
            work += cost
            if conflict:
                return i, CONFLICT, failed, necessary, found, work
    return order.size, DONE, failed, necessary, found, work
