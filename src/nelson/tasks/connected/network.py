"""A network to try things on: stations in a square, links between neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np


def network(stations: int, seed: int = 0) -> tuple[Any, int]:
    """Points in a square as a networkx graph, and the most central of them. Two are joined unless a
    third lies in the circle between them (Gabriel's graph: planar, and connected because it
    holds the shortest spanning tree). Positions are in the attribute "pos".
    """
    import networkx as nx

    random = np.random.default_rng([seed, 23])
    points = random.random((1, 2))
    while len(points) < stations:  # of twenty candidates the one farthest from all others
        tried = random.random((20, 2))
        gaps = np.linalg.norm(tried[:, None] - points, axis=2).min(axis=1)
        points = np.vstack([points, tried[gaps.argmax()]])
    graph = nx.Graph()
    for k, point in enumerate(points.tolist()):
        graph.add_node(k, pos=tuple(point))
    square = ((points[:, None] - points) ** 2).sum(axis=2)
    for a in range(stations):
        for b in range(a):
            others = np.delete(square[a] + square[b], [a, b])
            if (others > square[a, b]).all():
                graph.add_edge(b, a)
    return graph, int(np.linalg.norm(points - 0.5, axis=1).argmin())
