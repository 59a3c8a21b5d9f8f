"""Width of a minimum-degree elimination order, on cliques instead of edges.

Eliminating v joins all cliques that hold v (at first: the clauses) into one clique without v; its
size is the degree of v. The joined cliques disappear, so that no array grows: the list of cliques
of a variable never exceeds its first length, and all live cliques together never exceed the number
of literals. Buckets find the variable of lowest degree: the bucket of a variable is a lower bound
of its degree, which is counted only when the variable comes up.

O(work), where the caller sets `work`. Amestoy, Davis, Duff: An approximate minimum degree ordering
algorithm (1996).
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import inline, kernel

#: How `eliminate` ended: all variables eliminated, every degree above the bound, out of steps.
DONE, WIDE, TIRED = 0, 1, 2


class Graph(NamedTuple):
    """n variables, m clauses with z literals in all."""

    start: np.ndarray  # (m + n,): where a clique begins in `members`
    length: np.ndarray  # (m + n,), 0: the clique is gone
    members: np.ndarray  # (2 z + 1,) int32
    first: np.ndarray  # (n + 1,): where the list of a variable begins in `cliques`
    held: np.ndarray  # (n,): number of cliques in that list
    cliques: np.ndarray  # (z,) int32
    mark: np.ndarray  # (n,) int64
    below: np.ndarray  # (n,) int32: lower bound of the degree, -1: eliminated
    head: np.ndarray  # (n + 1,) int32: first variable of a bucket
    after: np.ndarray  # (n,) int32: next variable in the bucket
    before: np.ndarray  # (n,) int32: previous variable in the bucket


@inline
def _insert(g, v, degree):
    g.below[v] = degree
    g.before[v], g.after[v] = -1, g.head[degree]
    if g.head[degree] >= 0:
        g.before[g.head[degree]] = v
    g.head[degree] = v


@inline
def _remove(g, v):
    if g.before[v] >= 0:
        g.after[g.before[v]] = g.after[v]
    else:
        g.head[g.below[v]] = g.after[v]
    if g.after[v] >= 0:
        g.before[g.after[v]] = g.before[v]


@inline
def _squeeze(g, cliques):
    """Move live cliques to the front of `members`, in the order of their numbers. -> their end"""
    to = 0
    for c in range(cliques):
        if g.length[c]:
            begin = g.start[c]
            for k in range(g.length[c]):
                g.members[to + k] = g.members[begin + k]
            g.start[c] = to
            to += g.length[c]
    return to


@kernel
def eliminate(g, m, bound, work, out):
    """Eliminate variables until every degree is above `bound`, or for `work` steps.

    m: number of cliques at first. out: width so far, variables eliminated, steps.
    -> DONE | WIDE | TIRED
    """
    n = g.below.size
    stamp, least, steps, cliques = 0, 0, 0, m
    end = g.start[m - 1] + g.length[m - 1] if m else 0
    done, width = 0, 0
    while done < n:
        while g.head[least] < 0:
            least += 1
        v = g.head[least]
        _remove(g, v)
        # Write the neighbours of v, each once, to the end of `members`.
        room = 0
        for k in range(g.held[v]):
            room += g.length[g.cliques[g.first[v] + k]]
        steps += room + 8
        if end + room > g.members.size:
            steps += end
            end = _squeeze(g, cliques)
        stamp += 1
        g.mark[v] = stamp
        to = end
        for k in range(g.held[v]):
            c = g.cliques[g.first[v] + k]
            for z in range(g.start[c], g.start[c] + g.length[c]):
                u = g.members[z]
                if g.mark[u] != stamp:
                    g.mark[u] = stamp
                    g.members[to] = u
                    to += 1
        degree = to - end
        if degree > least:
            _insert(g, v, degree)
            if steps > work:
                break
            continue
        if degree > bound:
            _insert(g, v, degree)
            out[0], out[1], out[2] = max(width, degree), done, steps
            return WIDE
        if steps > work:
            _insert(g, v, degree)
            break
        width = max(width, degree)
        done += 1
        g.below[v] = -1
        for k in range(g.held[v]):
            g.length[g.cliques[g.first[v] + k]] = 0
        if degree:
            g.start[cliques], g.length[cliques] = end, degree
            for z in range(end, to):
                u = g.members[z]
                kept = 0
                for k in range(g.first[u], g.first[u] + g.held[u]):
                    if g.length[g.cliques[k]]:
                        g.cliques[g.first[u] + kept] = g.cliques[k]
                        kept += 1
                steps += g.held[u]
                g.cliques[g.first[u] + kept] = cliques
                g.held[u] = kept + 1
                _remove(g, u)
                _insert(g, u, max(degree - 1, g.below[u] - 1))
            least = max(0, min(least, degree) - 1)
            cliques += 1
            end = to
        else:
            least = 0
    out[0], out[1], out[2] = width, done, steps
    return DONE if done == n else TIRED
