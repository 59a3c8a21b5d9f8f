"""Elimination of variables in the order of least degree, on cliques instead of edges: its steps.

Eliminating v joins all cliques that hold v (at first: the clauses) into one clique without v; its
size is the degree of v. The joined cliques disappear, so that no array grows: the list of cliques
of a variable never exceeds its first length, and all live cliques together never exceed the number
of literals. Buckets find the variable of lowest degree: the bucket of a variable is a lower bound
of its degree, which is counted only when the variable comes up.

Amestoy, Davis, Duff: An approximate minimum degree ordering algorithm (1996).
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import inline


class CliqueGraph(NamedTuple):
    """n variables, m clauses with z literals in all."""

    start: np.ndarray  # (m + n,): where a clique begins in `members`
    length: np.ndarray  # (m + n,), 0: the clique is gone
    members: np.ndarray  # (2 z + 1,) int32, or longer
    first: np.ndarray  # (n + 1,): where the list of a variable begins in `cliques`
    n_cliques: np.ndarray  # (n,): number of cliques in that list
    cliques: np.ndarray  # (z,) int32
    mark: np.ndarray  # (n,) int64
    below: np.ndarray  # (n,) int32: lower bound of the degree; -1: eliminated, -2: held
    head: np.ndarray  # (n + 1,) int32: first variable of a bucket
    after: np.ndarray  # (n,) int32: next variable in the bucket
    before: np.ndarray  # (n,) int32: previous variable in the bucket


@inline
def insert(g, v, degree):
    """Put v into the bucket of that degree."""
    g.below[v] = degree
    g.before[v], g.after[v] = -1, g.head[degree]
    if g.head[degree] >= 0:
        g.before[g.head[degree]] = v
    g.head[degree] = v


@inline
def remove(g, v):
    """Take v out of its bucket."""
    if g.before[v] >= 0:
        g.after[g.before[v]] = g.after[v]
    else:
        g.head[g.below[v]] = g.after[v]
    if g.after[v] >= 0:
        g.before[g.after[v]] = g.before[v]


@inline
def squeeze(g, cliques):
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


@inline
def neighbours(g, v, cliques, end, stamp):
    """Write the neighbours of v, each once, behind the live cliques, which end at `end`.

    stamp: a number that no mark has. -> where they begin, where they end, steps
    """
    room = 0
    for k in range(g.first[v], g.first[v] + g.n_cliques[v]):
        room += g.length[g.cliques[k]]
    steps = room + 8
    if end + room > g.members.size:
        steps += end
        end = squeeze(g, cliques)
    g.mark[v] = stamp
    to = end
    for k in range(g.first[v], g.first[v] + g.n_cliques[v]):
        c = g.cliques[k]
        for z in range(g.start[c], g.start[c] + g.length[c]):
            u = g.members[z]
            if g.mark[u] != stamp:
                g.mark[u] = stamp
                g.members[to] = u
                to += 1
    return end, to, steps


@inline
def join(g, clique, begin, end):
    """Make members[begin:end] a clique, in the lists of its members from now on. -> steps

    The cliques that it replaces have length 0 by now. The caller puts the members into the buckets
    of their new degrees.
    """
    steps = 0
    g.start[clique], g.length[clique] = begin, end - begin
    for z in range(begin, end):
        u = g.members[z]
        n_kept = 0
        for k in range(g.first[u], g.first[u] + g.n_cliques[u]):
            if g.length[g.cliques[k]]:
                g.cliques[g.first[u] + n_kept] = g.cliques[k]
                n_kept += 1
        steps += g.n_cliques[u]
        g.cliques[g.first[u] + n_kept] = clique
        g.n_cliques[u] = n_kept + 1
    return steps
