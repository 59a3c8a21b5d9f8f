"""Cluster popping: subgraphs in which every vertex reaches the root. The law, the citations and the
arrays are in `examples.arcs.kernels.popping`.

`reaching`, which checks samples, handles the 64 samples of a word at once. Popping cannot do so: a
minimal cluster is a strongly connected component, and these differ from lane to lane. So samples
are drawn one at a time, and a pass over a sample visits only vertices that do not reach the root
yet.
"""

import numpy as np

from examples.arcs.kernels.popping import FINISHED, SPENT, uniform
from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.rng import keys
from nelson.kernels.core.vector import peek_volatile


@inline
def _redraw(g, v, key0, key1, s):
    for a in range(g.out[v], g.out[v + 1]):
        s.kept[a] = uniform(key0, key1, s.turn[v], a) < g.law[a]
    s.turn[v] += 1


@inline
def _close(g, v, size, key0, key1, s):
    """Close a strongly connected component: v and the vertices above it on the stack.

    It reaches the root if one of its arcs goes to a vertex that does; that is known, as components
    come in reverse topological order. If no arc leaves it, it is popped at once: a pop changes only
    arcs of its own vertices, and the rest of the pass does not depend on these.
    -> (vertices on the stack, vertices that now reach the root, clusters popped)
    """
    bottom = size - 1
    while s.stack[bottom] != v:
        bottom -= 1
    for k in range(bottom, size):
        s.low[s.stack[k]] = -v - 1  # marks the members
    reaches, leaves = False, False
    for k in range(bottom, size):
        u = s.stack[k]
        for a in range(g.out[u], g.out[u + 1]):
            if s.kept[a]:
                if s.state[g.head[a]] == 1:
                    reaches = True
                elif s.low[g.head[a]] != -v - 1:
                    leaves = True
    for k in range(bottom, size):
        if reaches:
            s.state[s.stack[k]] = 1
        elif not leaves:
            _redraw(g, s.stack[k], key0, key1, s)
    return bottom, size - bottom if reaches else 0, 0 if reaches or leaves else 1


@inline
def _pass(g, key0, key1, s):
    """Tarjan's algorithm over the vertices that do not reach the root yet (state 0), without
    recursion. -> (vertices that now reach it, clusters popped)

    number: order of discovery in this pass, 0: not seen. low: as in Tarjan's paper; negative: the
    component is complete. arc: the next arc to follow. A vertex that reaches the root keeps doing
    so: its arcs are never drawn again.
    """
    s.number[:] = 0
    clock, size, gained, popped = 0, 0, 0, 0
    for v in range(g.out.size - 1):
        if s.state[v] != 0 or s.number[v] != 0:
            continue
        depth = 0
        s.calls[0] = v
        while depth >= 0:
            u = s.calls[depth]
            if s.number[u] == 0:
                clock += 1
                s.number[u], s.low[u], s.arc[u] = clock, clock, g.out[u]
                s.stack[size] = u
                size += 1
            if s.arc[u] < g.out[u + 1]:
                a = s.arc[u]
                h = g.head[a]
                if s.kept[a] == 0 or s.state[h] != 0:
                    s.arc[u] += 1
                elif s.number[h] == 0:
                    depth += 1  # the same arc comes again once h is finished
                    s.calls[depth] = h
                else:
                    if s.low[h] >= 0:  # h is on the stack
                        s.low[u] = min(s.low[u], s.low[h])
                    s.arc[u] += 1
                continue
            if s.low[u] == s.number[u]:
                size, more, pops = _close(g, u, size, key0, key1, s)
                gained += more
                popped += pops
            depth -= 1
    return gained, popped


@inline
def _tell_edges(g, root, s, row):
    """Kept arcs of a bidirected graph -> kept edges of the undirected graph.

    Search from the root against the arcs. When the first end of an edge leaves the queue, the arc
    that points to this end decides whether the edge is kept. So one arc of each edge is used, and
    the choice depends only on arcs used before: without conditioning, edges are independent with
    their p_e. The vertices that the search finds are those that reach the root, and also the root's
    component. Given that these are all vertices, the edges have the product law conditioned on
    connection (Guo and Jerrum, Lemma 12).
    """
    s.state[:] = 0  # 1: in the queue, 2: has left it
    s.state[root] = 1
    s.stack[0] = root
    at, size = 0, 1
    while at < size:
        u = s.stack[at]
        at += 1
        s.state[u] = 2
        for a in range(g.out[u], g.out[u + 1]):
            v = g.head[a]
            if s.state[v] == 2:
                continue
            row[g.column[a]] = s.kept[g.twin[a]]
            if s.kept[g.twin[a]] and s.state[v] == 0:
                s.state[v] = 1
                s.stack[size] = v
                size += 1


@kernel
def pop_clusters(g, roots, job, s, result, first, last, stop):
    """Samples first .. last - 1. Vertices with roots[v] = 1 count as one root."""
    n = g.out.size - 1
    for i in range(first, last):
        key0, key1 = keys(job.seed, job.context, job.start + i)
        s.turn[:] = 0
        left, pops, root = 0, 0, 0
        for v in range(n):
            _redraw(g, v, key0, key1, s)
            s.state[v] = roots[v]
            left += roots[v] == 0
            root = v if roots[v] else root
        while left > 0 and pops <= job.most:
            if peek_volatile(stop, 0) != 0:
                return
            gained, popped = _pass(g, key0, key1, s)
            left -= gained
            pops += popped
        result.pops[i] = pops
        if left > 0:
            result.done[i] = SPENT
            continue
        if g.twin.size:
            _tell_edges(g, root, s, result.x[i])
        else:
            for a in range(g.head.size):
                result.x[i, g.column[a]] = s.kept[a]
        result.done[i] = FINISHED


# --------------------------------------------------------------------------------------- checking


@kernel
def reaching(packed, tail, head, column, root, reach, every):
    """Bit k of every[w]: in sample 64 w + k each vertex has a path to the root.

    The 64 samples of a word at once: reach[tail] |= x[arc] & reach[head] over all arcs, repeated
    until nothing changes. packed (words, columns) uint64, every (words,) uint64; reach (vertices,)
    is work space.
    """
    all_lanes = ~np.uint64(0)
    for w in range(packed.shape[0]):
        reach[:] = 0
        reach[root] = all_lanes
        changed = True
        while changed:
            changed = False
            for a in range(tail.size):
                new = packed[w, column[a]] & reach[head[a]] & ~reach[tail[a]]
                if new != 0:
                    reach[tail[a]] |= new
                    changed = True
        lanes = all_lanes
        for v in range(reach.size):
            lanes &= reach[v]
        every[w] = lanes
