"""Partial rejection on graphs, one sample at a time: pop cycles, pop clusters.

Cycle popping (Wilson, STOC 1996; Propp and Wilson, J. Algorithms 1998). Each vertex but the root
holds an endless stack of arcs, drawn independently: arc a leaving u with probability p_a. The tops
of the stacks form a graph with one arc per vertex. While it has a cycle, pop the cycle: its
vertices go on to their next arcs. The result is a tree directed to the root, with P(T) proportional
to prod p_a.

Cluster popping (Gorodezky and Pak, Random Struct. Alg. 2014; Guo and Jerrum, SIAM J. Comput. 2019).
Each arc is kept with probability p_a. A cluster is a set of vertices without the root that no kept
arc leaves. While there are clusters, pop the minimal ones (the strongly connected components that
no kept arc leaves): draw all arcs that leave their vertices again. The result has the product law,
conditioned on a path from each vertex to the root.

Both are extremal: two bad events (a cycle, a minimal cluster) that share a vertex never hold at the
same time. So the result is exact, it does not depend on the order of popping, and it is independent
of the popped arcs: leaving out samples that take too long causes no bias.

A draw is a function of (seed, context, sample, vertex or arc, how often its vertex was popped). It
has 53 bits, so probabilities are off by at most 2^-53.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.rng import counter, keys, scramble
from nelson.kernels.core.vector import peek_volatile

#: The state of a sample: not finished (time ran out), finished, or over its budget of pops.
MISSING, FINISHED, SPENT = 0, 1, 2
_11 = np.uint64(11)
_PATIENCE = 1 << 14  # draws between two reads of the stop cell


class Graph(NamedTuple):
    """Arcs sorted by tail: arcs out[v] .. out[v + 1] - 1 leave v."""

    out: np.ndarray  # int64, vertices + 1
    head: np.ndarray  # int64
    law: np.ndarray  # float64; cycles: cumulative among the arcs of a vertex; clusters: p_a
    column: np.ndarray  # int64: the arc's column in a row of x
    twin: np.ndarray  # int64: the arc in the other direction; empty: arcs are written one by one


class Job(NamedTuple):
    seed: np.uint64
    context: int
    start: int  # number of the first sample
    most: int  # budget of a sample: draws (cycles) or popped clusters


class Result(NamedTuple):
    x: np.ndarray  # (samples, columns) uint8, zeros
    pops: np.ndarray  # (samples,) int64: arcs popped; clusters popped
    done: np.ndarray  # (samples,) uint8


class Space(NamedTuple):
    """Work space of one thread; one entry per vertex, in `kept` one per arc."""

    turn: np.ndarray  # int64: how often the vertex was drawn before
    state: np.ndarray  # int64
    arc: np.ndarray  # int64
    number: np.ndarray  # int64
    low: np.ndarray  # int64
    stack: np.ndarray  # int64
    calls: np.ndarray  # int64
    kept: np.ndarray  # uint8


def space(vertices: int, arcs: int) -> Space:
    turn, state, arc, number, low, stack, calls = np.zeros((7, vertices), np.int64)
    return Space(turn, state, arc, number, low, stack, calls, np.zeros(arcs, np.uint8))


@inline
def uniform(key0, key1, round, variable):
    random = scramble(key0 + counter(round, variable, 0), key1)
    return np.float64(random >> _11) * 2.0**-53


@inline
def _choose(g, v, u):
    """The first arc of v whose cumulative probability exceeds u."""
    low, high = g.out[v], g.out[v + 1] - 1
    while low < high:
        middle = (low + high) >> 1
        if u < g.law[middle]:
            high = middle
        else:
            low = middle + 1
    return low


# --------------------------------------------------------------------------------------- cycles


@inline
def _tree(g, root, key0, key1, most, s, stop):
    """Fill s.arc with a tree. -> arcs drawn; -1: over the budget; -2: stopped.

    Wilson's order of popping: walk from each vertex until the walk meets the tree. A vertex met
    again closes a cycle, and its next arc overwrites the popped one.
    """
    n = g.out.size - 1
    s.turn[:] = 0
    s.state[:] = 0
    s.state[root] = 1
    drawn = 0
    for v in range(n):
        u = v
        while s.state[u] == 0:
            if drawn == most:
                return -1
            if drawn % _PATIENCE == _PATIENCE - 1 and peek_volatile(stop, 0) != 0:
                return -2
            a = _choose(g, u, uniform(key0, key1, s.turn[u], u))
            s.turn[u] += 1
            drawn += 1
            s.arc[u] = a
            u = g.head[a]
        u = v
        while s.state[u] == 0:
            s.state[u] = 1
            u = g.head[s.arc[u]]
    return drawn


@kernel
def pop_cycles(g, root, job, s, result, first, last, stop):
    """Trees of samples first .. last - 1."""
    n = g.out.size - 1
    for i in range(first, last):
        if peek_volatile(stop, 0) != 0:
            return
        key0, key1 = keys(job.seed, job.context, job.start + i)
        drawn = _tree(g, root, key0, key1, job.most, s, stop)
        if drawn == -2:
            return
        if drawn == -1:
            result.done[i] = SPENT
            result.pops[i] = job.most
            continue
        for v in range(n):
            if v != root:
                result.x[i, g.column[s.arc[v]]] = 1
        result.pops[i] = drawn - (n - 1)
        result.done[i] = FINISHED
