"""A d-DNNF as the compiler writes it: read, evaluated, and flattened to decisions.

The text has a node for each conjunction, most of them with one child or one parent. `emit` merges
and-nodes into the branches of or-nodes. This leaves a list of *decisions* of two *branches* each; a
branch is a list of literals and a list of further decisions, all of which hold together. About a
third of D4's nodes remain.

    kept      the root; an or-node of k >= 2 live children, as a chain of k - 1 decisions;
              a conjunction with several parents, as a decision of one branch
    merged    every other node, into the branches that lead to it
    dead      nodes that lead to `false`; they are dropped

Every kernel is linear in the edges. Nodes are processed bottom-up, in the order of their last
outgoing edge, so that a decision comes after all decisions below it.
"""

import math
from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import inline, kernel

OR, AND, TRUE, FALSE = range(4)
#: Fate of a node, see above.
DEAD, MERGED, KEPT = range(3)
#: A link (see `_link`) with at most this many literals is merged into each of its parents.
SMALL = 2


class NnfGraph(NamedTuple):
    """Nodes and edges in the order of the text; edges out of node i: at[first[i]:first[i + 1]]."""

    kind: np.ndarray
    child: np.ndarray
    start: np.ndarray  # literals of edge e are literals[start[e]:start[e + 1]]
    literals: np.ndarray
    first: np.ndarray
    at: np.ndarray
    order: np.ndarray  # nodes, bottom-up; the root is the last


class Fate(NamedTuple):
    """Fate of each node."""

    state: np.ndarray  # DEAD, MERGED, KEPT
    live: np.ndarray  # outgoing edges that do not lead to `false`
    name: np.ndarray  # the last (topmost) decision of a kept node


#: Characters of the text: "\n", "-", "0" (the first digit), "a" (the first letter).
_NEWLINE, _MINUS, _DIGIT, _LETTER = b"\n-0a"
#: Larger numbers are read as this one, which no circuit has; as int32 it is -2^31.
_MOST = 2**31


@inline
def _number(text, at):
    """Read the number whose digits begin at `at`. -> (number, place behind it)"""
    number = 0
    while at < text.size and _DIGIT <= text[at] < _DIGIT + 10:
        number = min(10 * number + (text[at] - _DIGIT), _MOST)  # must not overflow
        at += 1
    return number, at


@kernel
def measure(text, size):
    """Sizes in D4's text (uint8): size = largest node, edges, literals of all edges."""
    at, end = 0, text.size
    while at < end:
        letter, numbers, largest = text[at] >= _LETTER, 0, 0
        while at < end and text[at] != _NEWLINE:
            if _DIGIT <= text[at] < _DIGIT + 10:
                number, at = _number(text, at)
                numbers += 1
                largest = max(largest, number)
            else:
                at += 1
        at += 1
        if letter:
            size[0] = max(size[0], largest)
        elif numbers:
            size[1] += 1
            size[2] += numbers - 3  # parent, child, and the 0 at the end


@kernel
def read(text, kind, parent, child, start, literals):
    """Fill arrays of the sizes that `measure` found. -> False if the text is not a circuit"""
    at, end, edge, written = 0, text.size, 0, 0
    while at < end:
        letter = text[at]
        numbers, sign, last = 0, 1, 1
        while at < end and text[at] != _NEWLINE:
            if text[at] == _MINUS:
                sign = -1
            elif _DIGIT <= text[at] < _DIGIT + 10:
                number, at = _number(text, at)
                last = number
                if letter >= _LETTER:
                    if numbers == 0 and _kind(letter) < 0:
                        return False
                    if numbers == 0:
                        kind[number] = _kind(letter)
                elif numbers < 2:
                    if number < 1 or number >= kind.size:
                        return False
                    if numbers == 0:
                        parent[edge] = number
                    else:
                        child[edge] = number
                elif number:
                    if written == literals.size:  # a later line is too short
                        return False
                    literals[written] = sign * number
                    written += 1
                numbers, sign = numbers + 1, 1
                continue
            at += 1
        at += 1
        if numbers and last != 0:
            return False
        if numbers and letter < _LETTER:
            if numbers < 3:
                return False
            edge += 1
            start[edge] = written
    return written == literals.size and edge == parent.size


@kernel
def ordered(parent, child, used):
    """Do all edges out of a node come before the edges into it? used: one zero per node."""
    for e in range(parent.size):
        if used[parent[e]]:
            return False
        used[child[e]] = 1
    return True


@inline
def _kind(letter):
    if letter == 111:  # o
        return OR
    if letter == 97:  # a
        return AND
    if letter == 116:  # t
        return TRUE
    return FALSE if letter == 102 else -1  # f


@kernel
def group(parent, first, at):
    """Sort edges by parent, keeping their order (counting sort). first: zeros, nodes + 1."""
    for e in range(parent.size):
        first[parent[e] + 1] += 1
    for i in range(1, first.size):
        first[i] += first[i - 1]
    for e in range(parent.size):
        at[first[parent[e]]] = e
        first[parent[e]] += 1
    for i in range(first.size - 1, 0, -1):
        first[i] = first[i - 1]
    first[0] = 0


@kernel
def classify(g, fate, parents):
    """Fill `fate`. parents: one zero per node. -> number of decisions"""
    state, live = fate.state, fate.live
    for q in range(g.order.size):
        i = g.order[q]
        for k in range(g.first[i], g.first[i + 1]):
            live[i] += int(state[g.child[g.at[k]]] != DEAD)
        lost = g.first[i + 1] - g.first[i] - live[i]
        dead = g.kind[i] == FALSE or (g.kind[i] == OR and live[i] == 0)
        state[i] = DEAD if dead or (g.kind[i] == AND and lost > 0) else MERGED
    for q in range(g.order.size):
        i = g.order[q]
        for k in range(g.first[i], g.first[i + 1]):
            if state[i] != DEAD and state[g.child[g.at[k]]] != DEAD:
                parents[g.child[g.at[k]]] += 1
    decisions = 0
    for q in range(g.order.size):
        i = g.order[q]
        if state[i] == DEAD:
            continue
        if g.kind[i] == OR and live[i] > 1:
            state[i] = KEPT
            decisions += live[i] - 1
        elif (parents[i] > 1 and live[i] > 0 and not _link(g, state, live, i)) or (
            q == g.order.size - 1
        ):
            state[i] = KEPT
            decisions += 1
        fate.name[i] = decisions - 1
    return decisions


@inline
def _link(g, state, live, i):
    """Is the node a link: one edge with few literals, cheaper to repeat than to visit?"""
    if live[i] > 1:
        return False
    for k in range(g.first[i], g.first[i + 1]):
        e = g.at[k]
        if state[g.child[e]] != DEAD:
            end = state[g.child[e]] == KEPT or g.kind[g.child[e]] == TRUE
            return end and g.start[e + 1] - g.start[e] <= SMALL
    return False


@kernel
def emit(g, fate, variables, out, stack):
    """Write the branches of all kept nodes to `out`, a `passes.Decisions`. -> (literals, kids)

    variables: variable of the formula for each variable of the circuit. stack: scratch, all edges.
    """
    state, n_lits, n_kids, branch = fate.state, 0, 0, 0
    for q in range(g.order.size):
        i = g.order[q]
        if state[i] != KEPT:
            continue
        choice = g.kind[i] == OR and fate.live[i] > 1
        done = 0
        for k in range(g.first[i], g.first[i + 1]):
            if state[g.child[g.at[k]]] == DEAD:
                continue
            stack[0], height = g.at[k], 1
            while height:
                height -= 1
                e = stack[height]
                for z in range(g.start[e], g.start[e + 1]):
                    literal = g.literals[z]
                    out.lits[n_lits] = 2 * variables[abs(literal) - 1] + int(literal > 0)
                    n_lits += 1
                j = g.child[e]
                if state[j] == KEPT:
                    out.kids[n_kids] = fate.name[j]
                    n_kids += 1
                    continue
                for z in range(g.first[j], g.first[j + 1]):
                    if state[g.child[g.at[z]]] != DEAD:
                        stack[height] = g.at[z]
                        height += 1
            if not choice:
                continue
            branch += 1
            out.lit_ptr[branch], out.kid_ptr[branch] = n_lits, n_kids
            done += 1
            if done > 2:  # the second branch leads to the decision among the earlier children
                out.kids[n_kids] = branch // 2 - 1
                n_kids, branch = n_kids + 1, branch + 1
                out.lit_ptr[branch], out.kid_ptr[branch] = n_lits, n_kids
        if not choice:
            out.single[branch // 2] = 1
            for _ in range(2):
                branch += 1
                out.lit_ptr[branch], out.kid_ptr[branch] = n_lits, n_kids
    return n_lits, n_kids


@kernel
def evaluate(kind, parent, child, start, literals, log_p, value):
    """log value of each node, bottom-up; log_p (n, 2): log P(x_i = 0), log P(x_i = 1).

    value: on entry 0 for AND and TRUE, -inf for OR and FALSE.
    """
    for e in range(parent.size):
        term = value[child[e]]
        for k in range(start[e], start[e + 1]):
            literal = literals[k]
            if literal > 0:
                term += log_p[literal - 1, 1]
            else:
                term += log_p[-literal - 1, 0]
        i = parent[e]
        if kind[i] == AND:
            value[i] += term
        elif term != -np.inf:
            high, low = max(value[i], term), min(value[i], term)
            value[i] = high + math.log1p(math.exp(low - high))
