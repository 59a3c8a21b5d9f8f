"""A network to try things on: stations in a square, links between neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np


def network(stations: int, seed: int = 0) -> tuple[Any, int]:
    """Random points in the unit square as a networkx graph, and the most central vertex.

    Two points are joined unless a third lies in the circle whose diameter they are (Gabriel's
    graph: planar, and connected because it contains the shortest spanning tree). The attribute
    "pos" of a vertex is its point.
    """
    import networkx

    random = np.random.default_rng([seed, 23])
    points = random.random((1, 2))
    while len(points) < stations:  # the best of twenty candidates: far from all others
        tried = random.random((20, 2))
        gaps = np.linalg.norm(tried[:, None] - points, axis=2).min(axis=1)
        points = np.vstack([points, tried[gaps.argmax()]])
    graph = networkx.Graph()
    for k, point in enumerate(points.tolist()):
        graph.add_node(k, pos=tuple(point))
    square = ((points[:, None] - points) ** 2).sum(axis=2)
    for a in range(stations):
        for b in range(a):
            others = np.delete(square[a] + square[b], [a, b])
            if (others > square[a, b]).all():
                graph.add_edge(b, a)
    return graph, int(np.linalg.norm(points - 0.5, axis=1).argmin())
