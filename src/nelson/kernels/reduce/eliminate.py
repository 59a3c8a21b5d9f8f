"""Elimination of variables by resolution.

    exists v: F  =  F without the clauses of v,  and
                    for each pair of clauses (v or A), (not v or B) its resolvent (A or B)

If a subset G of its clauses defines v, pairs of two clauses outside G need no resolvent: where all
other clauses hold, G forces v, and the resolvents with the forcing clause of G imply the one left
out. Then the solutions of the result correspond one to one to those of F, and v is rebuilt as "some
clause of G with v is otherwise false". If v is not defined, two solutions of F may become one.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import helper, kernel
from nelson.kernels.reduce.clause_store import gather, link, remove
from nelson.kernels.reduce.definition import CLAUSES, UNSATISFIABLE, conflicting, shrink
from nelson.kernels.reduce.graph import sign_of

#: How `eliminate` ended: all variables tried, steps used up, store full, formula unsatisfiable.
DONE, PAUSED, FULL, CONFLICT = range(4)
_ONE = np.uint64(1)


class DefinitionScratch(NamedTuple):
    """Work space for the clauses of one variable; m is CLAUSES."""

    clauses: np.ndarray  # int32 (m,)
    positive: np.ndarray  # uint64 (m,)
    negative: np.ndarray  # uint64 (m,)
    use: np.ndarray  # uint8 (m,): clauses of the satisfiability test
    gate: np.ndarray  # uint8 (m,): clauses of the definition
    stack: np.ndarray  # uint64 (2, 66)
    sorted: np.ndarray  # int32 (m,): shortest first
    local: np.ndarray  # int8 (n,): number among the variables of the test, -1: none
    mark: np.ndarray  # int8 (n,): sign in a clause, 0: none


@helper
def define(s, w, v, m):
    """Mark in w.gate the clauses, of the m gathered ones, that define v. -> (defined?, work)"""
    share = 0.0
    for i in range(m):
        w.gate[i] = 0
        w.sorted[i] = i
        share += 2.0 ** (1 - s.size[w.clauses[i]])
    if share < 1.0:  # see `tally`
        return False, m
    for i in range(1, m):  # sort by length: definitions mostly consist of short clauses
        this, k = w.sorted[i], i
        while k > 0 and s.size[w.clauses[w.sorted[k - 1]]] > s.size[w.clauses[this]]:
            w.sorted[k] = w.sorted[k - 1]
            k -= 1
        w.sorted[k] = this
    variables, taken, work = 0, 0, m
    for i in range(m):
        j = w.clauses[w.sorted[i]]
        fresh = 0
        for place in range(s.begin[j], s.begin[j] + s.size[j]):
            if w.local[abs(s.literals[place]) - 1] < 0:
                fresh += 1
        if variables + fresh > 64:  # one of the fresh variables may be v, which needs no number
            break
        positive, negative = np.uint64(0), np.uint64(0)
        for place in range(s.begin[j], s.begin[j] + s.size[j]):
            u = abs(s.literals[place]) - 1
            if u == v:
                continue
            if w.local[u] < 0:
                w.local[u] = variables
                variables += 1
            bit = _ONE << np.uint64(w.local[u])
            if s.literals[place] > 0:
                positive |= bit
            else:
                negative |= bit
        w.positive[i] = positive
        w.negative[i] = negative
        w.use[i] = 1
        taken += 1
        work += s.size[j]
    for i in range(taken):
        j = w.clauses[w.sorted[i]]
        for place in range(s.begin[j], s.begin[j] + s.size[j]):
            w.local[abs(s.literals[place]) - 1] = -1
    answer, cost = conflicting(w.positive, w.negative, w.use, taken, w.stack)
    work += cost
    if answer != UNSATISFIABLE:
        return False, work
    work += shrink(w.positive, w.negative, w.use, taken, w.stack)
    for i in range(taken):
        w.gate[w.sorted[i]] = w.use[i]
    return True, work


@helper
def _set_marks(s, w, j, on):
    """Mark the signs of the literals of clause j, or clear the marks."""
    for place in range(s.begin[j], s.begin[j] + s.size[j]):
        literal = s.literals[place]
        w.mark[abs(literal) - 1] = sign_of(literal) if on else 0


@helper
def _resolvent_size(s, w, v, a, b):
    """Length of the resolvent on v of clause a, which is marked, and b; -1 for a tautology."""
    size = s.size[a] - 1
    for place in range(s.begin[b], s.begin[b] + s.size[b]):
        literal = s.literals[place]
        sign = w.mark[abs(literal) - 1]
        if sign == 0:
            size += 1
        elif sign != sign_of(literal) and abs(literal) - 1 != v:
            return -1
    return size


@helper
def _weigh(s, w, v, p, m, defined, most, longest):
    """-> (resolvents, literals of them, work); resolvents = -1 if there are more than `most`, or
    one has more than `longest` literals.
    """
    count, total, work = 0, 0, 0
    for a in range(p):
        _set_marks(s, w, w.clauses[a], True)
        for b in range(p, m):
            if defined and not w.gate[a] and not w.gate[b]:
                continue
            size = _resolvent_size(s, w, v, w.clauses[a], w.clauses[b])
            work += s.size[w.clauses[b]]
            if size >= 0:
                count += 1
                total += size
            if count > most or size > longest:
                count = -1
                break
        _set_marks(s, w, w.clauses[a], False)
        if count < 0:
            return -1, 0, work
    return count, total, work


@helper
def _resolve(s, w, v, p, m, defined):
    """Append the resolvents. -> is one of them empty?"""
    empty = False
    for a in range(p):
        j = w.clauses[a]
        _set_marks(s, w, j, True)
        for b in range(p, m):
            if defined and not w.gate[a] and not w.gate[b]:
                continue
            k = w.clauses[b]
            size = _resolvent_size(s, w, v, j, k)
            if size < 0:
                continue
            if size == 0:
                empty = True
                continue
            new, place = s.used[0], s.used[1]
            s.begin[new] = place
            s.size[new] = size
            for source in range(s.begin[j], s.begin[j] + s.size[j]):
                if abs(s.literals[source]) - 1 != v:
                    s.literals[place] = s.literals[source]
                    link(s, place, new)
                    place += 1
            for source in range(s.begin[k], s.begin[k] + s.size[k]):
                if w.mark[abs(s.literals[source]) - 1] == 0:
                    s.literals[place] = s.literals[source]
                    link(s, place, new)
                    place += 1
            s.used[0] += 1
            s.used[1] = place
            for t in range(s.begin[new], place):
                s.touched[abs(s.literals[t]) - 1] = 1
        _set_marks(s, w, j, False)
    return empty


@helper
def _record(s, w, d, v, p, m, defined):
    """Record the definition of v, by its positive or its negative clauses: the fewer literals."""
    total = np.int64(0)
    for a in range(m):
        if w.gate[a] or not defined:
            total += s.size[w.clauses[a]] if a < p else -s.size[w.clauses[a]]
    first, last = (0, p) if total <= 0 else (p, m)
    entry, clause = d.used[0], d.used[1]
    d.target[entry] = v
    d.flip[entry] = 0 if total <= 0 else 1
    place = d.start[clause]
    for a in range(first, last):
        if w.gate[a] or not defined:
            j = w.clauses[a]
            for source in range(s.begin[j], s.begin[j] + s.size[j]):
                if abs(s.literals[source]) - 1 != v:
                    d.literals[place] = s.literals[source]
                    place += 1
            clause += 1
            d.start[clause] = place
    d.used[0] = entry + 1
    d.used[1] = clause
    d.first[entry + 1] = clause


@kernel
def eliminate(s, d, w, order, first, steps, only_defined, growth, longest):
    """Eliminate variables of order[first:] if that adds at most `growth` clauses, none longer than
    `longest`. -> (next place in order, DONE | PAUSED | FULL | CONFLICT, work)

    only_defined: eliminate only variables that their clauses define.
    """
    work = 0
    for i in range(first, order.size):
        if work > steps:
            return i, PAUSED, work
        v = order[i]
        p, q = s.held[2 * v], s.held[2 * v + 1]
        s.touched[v] = 0
        if p + q == 0 or p + q > CLAUSES or (only_defined and (p == 0 or q == 0)):
            continue
        p = gather(s, 2 * v, w.clauses, 0)
        m = gather(s, 2 * v + 1, w.clauses, p)
        defined, cost = define(s, w, v, m)
        work += cost + 2 * m
        if only_defined and not defined:
            continue
        count, total, cost = _weigh(s, w, v, p, m, defined, m + growth, longest)
        work += cost
        if count < 0:
            continue
        if s.used[0] + count > s.begin.size or s.used[1] + total > s.literals.size:
            s.touched[v] = 1
            return i, FULL, work
        empty = _resolve(s, w, v, p, m, defined)
        _record(s, w, d, v, p, m, defined)
        remove(s, w.clauses, m)
        s.touched[v] = 0
        work += 2 * cost + total
        if empty:
            return i, CONFLICT, work
    return order.size, DONE, work
