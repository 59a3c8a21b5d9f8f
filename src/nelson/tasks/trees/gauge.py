"""Which weights of spanning trees have no effect.

Each tree has one arc of every vertex but the root, and as many edges of a block (a part without cut
vertices) as any other tree has. So a constant added to all arcs of a vertex, or to all edges of a
block, changes nothing. An arc that is in no tree has no effect at all.
"""

from __future__ import annotations

import numpy as np

from nelson.tasks.arcs.arcs import Arcs


def gauge_groups(arcs: Arcs) -> np.ndarray:
    """(n_vars,) a number for variables whose theta may be shifted together; -1: in no tree.

    `arcs` without those that leave the root. u -> v is in some tree if v reaches the root without
    u: if u does not dominate v in the graph that runs backwards from the root.
    """
    import networkx as nx

    groups = np.full(arcs.n_vars, -1)
    ends = np.stack([arcs.tail, arcs.head], axis=1)[arcs.first].tolist()
    if arcs.per == "edge":
        for k, block in enumerate(nx.biconnected_component_edges(nx.Graph(ends))):
            inside = {frozenset(edge) for edge in block}
            groups[[frozenset(pair) in inside for pair in ends]] = k
        return groups
    above = nx.immediate_dominators(nx.DiGraph((v, u) for u, v in ends), arcs.root)
    for a, (u, v) in enumerate(ends):
        while v not in (u, arcs.root):
            v = above[v]
        groups[a] = u if v != u else -1
    return groups
