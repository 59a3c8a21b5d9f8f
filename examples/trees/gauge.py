"""Which weights of spanning trees have no effect.

Each tree has one arc of every vertex but the root, and all trees have the same number of edges in a
block (a subgraph without cut vertices). So a constant added to all arcs of a vertex, or to all
edges of a block, changes no probability. The weight of an arc that is in no tree has no effect.
"""

from __future__ import annotations

import numpy as np

from examples.arcs.arcs import Arcs


def gauge_groups(arcs: Arcs) -> np.ndarray:
    """(n_vars,) a number for each variable: equal numbers may be shifted together; -1: in no tree.

    `arcs` has no arc that leaves the root. u -> v is in some tree if v reaches the root without
    passing u, that is, if u does not dominate v in the reversed graph seen from the root.
    """
    import networkx

    groups = np.full(arcs.n_vars, -1)
    ends = np.stack([arcs.tail, arcs.head], axis=1)[arcs.first].tolist()
    if arcs.per == "edge":
        for k, block in enumerate(networkx.biconnected_component_edges(networkx.Graph(ends))):
            inside = {frozenset(edge) for edge in block}
            groups[[frozenset(pair) in inside for pair in ends]] = k
        return groups
    above = networkx.immediate_dominators(networkx.DiGraph((v, u) for u, v in ends), arcs.root)
    for a, (u, v) in enumerate(ends):
        while v not in (u, arcs.root):
            v = above[v]
        groups[a] = u if v != u else -1
    return groups
