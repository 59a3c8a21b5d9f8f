"""Do the other variables define a variable v? Only the clauses of v are used.

    v is a function of the other variables  <=>  the clauses of v, without v, are unsatisfiable

(<= holds always, => within the clauses used.) An assignment of the others that satisfies all of
these clauses leaves both values of v possible; any other assignment forces one. This finds AND, OR,
XOR, if-then-else, equivalences, majorities and counters of any arity, without patterns for them. A
minimal unsatisfiable subset of these clauses is the definition. Fleury and Biere, Mining
definitions in Kissat with Kittens, FMSD 2022; Lagniez, Lonca and Marquis, Definability for model
counting, AIJ 2020.

A clause is two 64-bit masks over at most 64 local variables.
"""

import numpy as np

from nelson.kernels.core.compile import helper

_ZERO, _ONE = np.uint64(0), np.uint64(1)

#: Variables with more clauses than this are left alone.
CLAUSES = 64
#: Most nodes of the search tree of one satisfiability test.
MAX_NODES = 256

SATISFIABLE, UNSATISFIABLE, UNKNOWN = range(3)


@helper
def conflicting(positive, negative, use, m, stack):
    """Are the clauses i < m with use[i] unsatisfiable? Plain DPLL. -> (answer, work)

    stack uint64 (2, 66): for each open node, the true variables and the false variables.
    """
    stack[0, 0] = _ZERO
    stack[1, 0] = _ZERO
    height, work = 1, 0
    for _ in range(MAX_NODES):
        if height == 0:
            return UNSATISFIABLE, work
        height -= 1
        true, false = stack[0, height], stack[1, height]
        conflict, settled, branch = False, False, _ZERO
        while not settled and not conflict:
            settled, branch, shortest = True, _ZERO, 65
            work += m
            for i in range(m):
                if not use[i] or (positive[i] & true) | (negative[i] & false):
                    continue
                rest = (positive[i] & ~false) | (negative[i] & ~true)
                if rest == _ZERO:
                    conflict = True
                    break
                lowest = rest & (~rest + _ONE)
                if rest == lowest:
                    if positive[i] & lowest:
                        true |= lowest
                    else:
                        false |= lowest
                    settled = False
                    continue
                length = 0
                while rest:
                    rest &= rest - _ONE
                    length += 1
                if length < shortest:
                    shortest, branch = length, lowest
        if conflict:
            continue
        if branch == _ZERO:
            return SATISFIABLE, work
        stack[0, height] = true | branch
        stack[1, height] = false
        stack[0, height + 1] = true
        stack[1, height + 1] = false | branch
        height += 2
    return UNKNOWN, work


@helper
def shrink(positive, negative, use, m, stack):
    """Drop clauses, the last first, as long as the set stays unsatisfiable. -> work"""
    work = 0
    for back in range(m):
        i = m - 1 - back
        if use[i]:
            use[i] = 0
            answer, cost = conflicting(positive, negative, use, m, stack)
            work += cost
            if answer != UNSATISFIABLE:
                use[i] = 1
    return work
