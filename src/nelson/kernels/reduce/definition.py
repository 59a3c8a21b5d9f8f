"""Is a variable defined by the others? Asked of the clauses that hold it, and of nothing else.

    v is a function of the other variables  <=>  clauses of v, without v, have no common solution

(<= always; => within the clauses looked at): an assignment of the others that satisfies all of them
leaves both values of v open, and any other forces one. This finds AND, OR, XOR, if-then-else,
equivalences, majorities, counters, whatever their arity, with no pattern for any. A minimal
unsatisfiable subset of these clauses is the definition. Fleury and Biere, Mining definitions in
Kissat with Kittens, FMSD 2022; Lagniez, Lonca and Marquis, Definability for model counting, AIJ
2020.

Clauses are two 64-bit masks over at most 64 local variables.
"""

import numpy as np

from nelson.kernels.core.compile import helper

_ZERO, _ONE = np.uint64(0), np.uint64(1)

#: Most clauses of a variable that is looked at.
CLAUSES = 64
#: Nodes of the search tree for one question.
NODES = 256

SATISFIABLE, UNSATISFIABLE, UNKNOWN = 0, 1, 2


@helper
def conflicting(positive, negative, use, m, stack):
    """Are the clauses i < m with use[i] unsatisfiable? Plain DPLL. -> (answer, work)

    stack uint64 (2, 66): the variables that are true, and those that are false, at open nodes.
    """
    stack[0, 0] = _ZERO
    stack[1, 0] = _ZERO
    height, work = 1, 0
    for _ in range(NODES):
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
    """Drop clauses from an unsatisfiable set as long as it stays so, the last first. -> work"""
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
