"""Rooted graphs so small that all their trees and connected subgraphs can be enumerated.

ALPHA is the false-alarm rate of each statistical test of trees and of subgraphs. There are about 40
tests, so the rate of all together is 4e-5. Seeds are fixed.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from examples.connected.task import RootConnected
from examples.trees.task import SpanningTrees
from nelson.kernels.core import rng
from tests.problems import all_states, house_graph, one_way_graph

nx = pytest.importorskip("networkx", reason="pip install nelson-mrf[plots]")

ALPHA = 1e-6
SIGMAS = 6.0  # of one mean; two-sided 2e-9, times 46 arcs 1e-7
DRAWS = 40_000

TREES = {
    "K4": lambda: SpanningTrees(nx.complete_graph(4)),
    "K4 edges": lambda: SpanningTrees(nx.complete_graph(4), 2, per="edge"),
    "grid": lambda: SpanningTrees(nx.grid_2d_graph(2, 3), (0, 1)),
    "one-way": lambda: SpanningTrees(one_way_graph(), "r"),
    "house edges": lambda: SpanningTrees(house_graph(), 4, per="edge"),
}
SUBGRAPHS = {
    "one-way": lambda: RootConnected(one_way_graph(), "r"),
    "path, both ways": lambda: RootConnected(nx.path_graph(4), 1, per="arc"),
    "square, both ways": lambda: RootConnected(nx.cycle_graph(4), per="arc"),
    "K4": lambda: RootConnected(nx.complete_graph(4), 2),
    "house": lambda: RootConnected(house_graph()),
    "double edge": lambda: RootConnected(nx.MultiGraph([(0, 1), (0, 1), (1, 2), (2, 0), (2, 3)])),
}
CASES = {
    f"{cls}: {name}": case
    for cls, cases in (("trees", TREES), ("connected", SUBGRAPHS))
    for name, case in cases.items()
}


def all_trees(task):
    """(trees, n_vars) bool: every choice of one arc per vertex that leads all to the root."""
    arcs, n = task.arcs, task.arcs.n
    others = [v for v in range(n) if v != arcs.root]
    found = []
    for choice in product(*(range(arcs.out[v], arcs.out[v + 1]) for v in others)):
        to = dict(zip(others, arcs.head[list(choice)].tolist(), strict=True))
        ends = set(others)
        for _ in range(n):
            ends = {to.get(v, v) for v in ends}
        if ends == {arcs.root}:
            row = np.zeros(task.n_vars, bool)
            row[arcs.column[list(choice)]] = True
            found.append(row)
    return np.unique(found, axis=0)


def reaches_root(task, row):
    """Whether all vertices reach the root, by networkx from the names of the kept variables."""
    one_way = task.arcs.per == "arc"
    graph = nx.DiGraph() if one_way else nx.Graph()
    graph.add_nodes_from(str(label) for label in task.arcs.labels)
    for name, kept in zip(task.names, row, strict=True):
        if kept:
            graph.add_edge(*name.split("#")[0].split("->" if one_way else "--"))
    if one_way:
        return len(nx.ancestors(graph, str(task.root))) == len(graph) - 1
    return nx.is_connected(graph)


def structures(task):
    """All valid structures, (m, n_vars) bool."""
    if isinstance(task, SpanningTrees):
        return all_trees(task)
    states = all_states(task.n_vars)
    return states[[reaches_root(task, row) for row in states]]


def law_of(task, theta):
    x = structures(task)
    weight = np.exp(x @ theta)
    return x, weight / weight.sum()


def uniform(seed, sample, turn, number):
    """The kernels' uniform draw for a vertex or arc at its vertex's turn, by plain NumPy."""
    with np.errstate(over="ignore"):
        key0, key1 = rng.keys(rng.spread_seed(seed), 0, sample)
        word = rng.scramble(key0 + rng.counter(turn, number, 0), key1)
    return float(word >> np.uint64(11)) * 2.0**-53
