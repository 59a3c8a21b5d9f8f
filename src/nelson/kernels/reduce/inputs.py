"""Which variables are functions of others, so that no function needs itself? The rest are inputs.

Two passes look for definitions (`eliminate.define`). `define_before` takes the clauses of v whose
other variables come before v in a given order: files mostly number the inputs of a gate before its
output. `define_more` goes through the variables without a definition, and takes the clauses whose
other variables do not depend on v.

    value of v = flip xor OR over terms of "all literals of the term are false"

The terms are the clauses with +v, or those with -v, of the definition: whichever have fewer
literals. A clause is part of at most one definition: if it were part of those of t and of u, each
would need the other. A clause that the definitions do not imply is a *test*.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import helper, kernel
from nelson.kernels.reduce.definition import CLAUSES
from nelson.kernels.reduce.eliminate import define


class Found(NamedTuple):
    """Definitions of variables, and work space; n variables, m clauses."""

    defined: np.ndarray  # uint8 (n,)
    definer: np.ndarray  # int32 (m,): the variable that the clause helps to define, or -1
    mark: np.ndarray  # uint8 (n,): all 0 between two variables
    queue: np.ndarray  # int32 (n,)


#: Roles of a clause: it computes its variable; it must be tested; all definitions imply it.
TERM, TEST, IMPLIED = range(3)


@helper
def _fits(s, v, j, f, rank, by_rank):
    """Do the other variables of clause j come before v; or, if not by_rank, are they not marked?"""
    for place in range(s.begin[j], s.begin[j] + s.size[j]):
        u = abs(s.literals[place]) - 1
        if u != v and (rank[u] > rank[v] if by_rank else f.mark[u] != 0):
            return False
    return True


@helper
def _defined(s, w, v, f, rank, by_rank):
    """Look for a definition of v in its clauses that fit, at most CLAUSES of them.

    -> (how many clauses, is there one, visits)
    """
    m = 0
    for sign in range(2):
        place = s.head[2 * v + sign]
        while place >= 0 and m < CLAUSES:
            if _fits(s, v, s.owner[place], f, rank, by_rank):
                w.clauses[m] = s.owner[place]
                m += 1
            place = s.after[place]
    good, work = define(s, w, v, m)
    return m, good, work + s.held[2 * v] + s.held[2 * v + 1]


@helper
def _take(w, v, m, f):
    f.defined[v] = 1
    for i in range(m):
        if w.gate[i]:
            f.definer[w.clauses[i]] = v


@helper
def _mark_dependent(s, v, f):
    """Mark all variables that depend on v. -> how many; they are in the queue"""
    f.queue[0] = v
    f.mark[v] = 1
    done, known = 0, 1
    while done < known:
        u = f.queue[done]
        done += 1
        for sign in range(2):
            place = s.head[2 * u + sign]
            while place >= 0:
                t = f.definer[s.owner[place]]
                if t >= 0 and not f.mark[t]:
                    f.mark[t] = 1
                    f.queue[known] = t
                    known += 1
                place = s.after[place]
    return known


@kernel
def define_before(s, w, order, rank, f, limit):
    """Define each variable by variables that come before it, within `limit` visits.

    order: all variables; rank: its inverse.
    """
    for i in range(order.size):
        if limit > 0:
            m, good, work = _defined(s, w, order[i], f, rank, True)
            limit -= work
            if good:
                _take(w, order[i], m, f)


@helper
def define_one(s, w, v, f):
    """Define v, which has no definition, by variables that do not depend on it.

    -> (was that possible, visits)
    """
    visits = 0
    if s.held[2 * v] + s.held[2 * v + 1] <= CLAUSES:
        m, good, visits = _defined(s, w, v, f, f.queue, False)  # nothing is marked
        if not good:
            return False, visits
    known = _mark_dependent(s, v, f)
    m, good, work = _defined(s, w, v, f, f.queue, False)
    if good:
        _take(w, v, m, f)
    for k in range(known):
        f.mark[f.queue[k]] = 0
    return good, visits + work + 4 * known


@kernel
def define_more(s, w, order, f, limit):
    """Define variables of `order` that have no definition, within `limit` visits."""
    for i in range(order.size):
        if limit > 0 and not f.defined[order[i]]:
            limit -= define_one(s, w, order[i], f)[1]


@helper
def _literals_of_side(s, f, v, code):
    """Literals of the clauses that define v and hold the literal of that code."""
    total, place = 0, s.head[code]
    while place >= 0:
        if f.definer[s.owner[place]] == v:
            total += s.size[s.owner[place]]
        place = s.after[place]
    return total


@helper
def _clashes(s, mark, k, v):
    """Does clause k hold the negation of a marked literal, other than that of v?"""
    for place in range(s.begin[k], s.begin[k] + s.size[k]):
        u = abs(s.literals[place]) - 1
        if u != v and mark[u] and (mark[u] > 0) != (s.literals[place] > 0):
            return True
    return False


@helper
def _is_implied(s, f, j, v, code, mark):
    """Does clause j hold wherever the clauses of v with that literal compute v?"""
    for place in range(s.begin[j], s.begin[j] + s.size[j]):
        mark[abs(s.literals[place]) - 1] = 1 if s.literals[place] > 0 else -1
    good, place = True, s.head[code]
    while place >= 0 and good:
        k = s.owner[place]
        if f.definer[k] == v:
            good = _clashes(s, mark, k, v)
        place = s.after[place]
    for place in range(s.begin[j], s.begin[j] + s.size[j]):
        mark[abs(s.literals[place]) - 1] = 0
    return good


@kernel
def roles(s, f, mark, code, role):
    """Write code (n,): the literal whose clauses compute a defined variable; role (m,) of clauses.

    mark int8 (n,): zeros.
    """
    for v in range(f.defined.size):
        if f.defined[v]:
            more = _literals_of_side(s, f, v, 2 * v) > _literals_of_side(s, f, v, 2 * v + 1)
            code[v] = 2 * v + int(more)
    for j in range(role.size):
        v = f.definer[j]
        role[j] = TEST
        if v >= 0:
            sign = 1 if code[v] == 2 * v else -1
            for place in range(s.begin[j], s.begin[j] + s.size[j]):
                if s.literals[place] == sign * (v + 1):
                    role[j] = TERM
            if role[j] == TEST and _is_implied(s, f, j, v, code[v], mark):
                role[j] = IMPLIED


@helper
def _missing(s, f, code, v, number):
    """A variable that v is computed from and that has no number yet; -1 if there is none."""
    place = s.head[code[v]]
    while place >= 0:
        j = s.owner[place]
        if f.definer[j] == v:
            for at in range(s.begin[j], s.begin[j] + s.size[j]):
                u = abs(s.literals[at]) - 1
                if u != v and f.defined[u] and number[u] < 0:
                    return u
        place = s.after[place]
    return -1


@kernel
def arrange(s, f, code, roots, number):
    """Number the defined variables: first what roots[0] needs, then what roots[1] needs, ..; each
    after the variables that it is computed from. number int32 (n,): -1 on entry.
    """
    known = 0
    for i in range(roots.size):
        if not f.defined[roots[i]] or number[roots[i]] >= 0:
            continue
        f.queue[0], height = roots[i], 1
        while height:
            v = f.queue[height - 1]
            u = _missing(s, f, code, v, number)
            if u >= 0:
                f.queue[height] = u
                height += 1
            else:
                number[v] = known
                known += 1
                height -= 1
