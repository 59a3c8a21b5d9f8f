"""Sink-free orientations: a direction for each edge such that an edge leaves every vertex.

    variable e: edge {u, v}, true for u -> v, false for v -> u        (u before v in the graph)
    clause w:   at least one edge leaves w                            (docs/errata.md, 9)
    P_theta(x) = exp(sum_e theta_e x_e) C(x) / Z

theta_e is the log-odds of u -> v against v -> u, before the clauses (errata 10: one Boolean per
edge). The formula is extremal (Condition 1): the clauses of two vertices share a variable only if
an edge joins them, and they hold it with opposite signs, so both cannot fail at once. So resampling
draws from P_theta exactly, for any theta.

The graph is any undirected networkx graph. Each of several parallel edges has its own variable. A
self-loop has no direction, so it is no variable; it leaves its vertex, which is never a sink. A
component that is a tree (or an isolated vertex) has fewer edges than vertices, so no sink-free
orientation: `Unsatisfiable` (errata 11).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from nelson.errors import FormulaError, NelsonError, Unsatisfiable
from nelson.formula import Formula
from nelson_paper.tasks.base import FormulaTask, data_seed
from nelson_paper.tasks.drawing import AnyPath
from nelson_paper.tasks.orientations.picture import draw_orientation, draw_overview

#: Random graphs tried; if all have a tree component, p is too small.
_MAX_TRIES = 1000

Edge = tuple[Any, ...]  # (u, v), or (u, v, key) in a multigraph


class Orientations(FormulaTask):
    """Orientations of one graph; `Orientations.random(10)` draws an Erdos-Renyi graph.

    graph    the networkx graph
    edges    variable e is edges[e]: (u, v), or (u, v, key) in a multigraph; true is u -> v.
             Loops are left out.
    looped   vertices with a loop
    planted  hidden preferences theta* ~ N(0, scale^2), (n_vars,): `examples` are drawn from them
    """

    name = "orientations"
    heading = "One-way streets without a dead end"
    KINDS = ("planted",)

    def __init__(self, graph: Any, *, seed: int = 0, scale: float = 1.0) -> None:
        self.graph = checked_graph(graph)
        rank = {node: i for i, node in enumerate(self.graph)}
        keyed = {"keys": True} if self.graph.is_multigraph() else {}
        self.edges: list[Edge] = [
            edge if rank[edge[0]] < rank[edge[1]] else (edge[1], edge[0], *edge[2:])
            for edge in self.graph.edges(**keyed)
            if edge[0] != edge[1]
        ]
        if not self.edges:
            raise FormulaError("a graph without edges", expected="an edge that is no loop")
        out: dict[Any, list[int]] = {node: [] for node in self.graph}
        for e, (u, v, *_) in enumerate(self.edges, start=1):
            out[u].append(e)
            out[v].append(-e)
        self.looped = [node for node in self.graph if self.graph.has_edge(node, node)]
        clauses = [out[node] for node in self.graph if node not in set(self.looped)]
        planted = scale * np.random.default_rng([abs(seed), 64]).standard_normal(len(self.edges))
        formula = Formula(clauses, n_vars=len(self.edges))
        super().__init__(formula, [_called(edge) for edge in self.edges], planted)
        self._variable = {edge: e for e, edge in enumerate(self.edges)}

    @classmethod
    def random(cls, n: int, p: float = 0.55, *, seed: int = 0, scale: float = 1.0) -> Self:
        """An Erdos-Renyi graph: each of n (n - 1) / 2 edges exists with probability p.

        Graphs are drawn until one has no tree component.
        """
        networkx = _networkx()
        if n < 3 or not 0 < p <= 1:
            raise FormulaError(f"n = {n}, p = {p}", expected="3 vertices or more and 0 < p <= 1")
        random = np.random.default_rng([abs(seed), 65])
        u, v = np.triu_indices(n, 1)
        for _ in range(_MAX_TRIES):
            there = random.random(len(u)) < p
            graph = networkx.Graph()
            graph.add_nodes_from(range(n))
            graph.add_edges_from(zip(u[there].tolist(), v[there].tolist(), strict=True))
            if tree_component(graph) is None:
                return cls(graph, seed=seed, scale=scale)
        raise Unsatisfiable(
            f"{_MAX_TRIES} random graphs with n = {n}, p = {p}: each has a tree component; "
            "take a larger p"
        )

    @classmethod
    def small(cls, seed: int = 0) -> Self:
        return cls.random(10, seed=seed)

    def describe(self) -> str:
        return (
            f"{self.graph.number_of_nodes()} vertices, {self.n_vars} edges: a direction for each, "
            "and no vertex a sink"
        )

    def examples(self, n: int = 200, *, seed: int = 0, kind: str | None = None) -> np.ndarray:
        """Orientations drawn from the hidden preferences, exactly: (n, n_vars) bool."""
        self.checked_kind(kind)
        return self.sample(self.planted, n, seed=data_seed(seed)).x

    # -------------------------------------------------------------------------- graphs and weights

    def directed(self, x: Any) -> Any:
        """One structure (n_vars,) as a networkx DiGraph, or MultiDiGraph for a multigraph."""
        [row] = self.checked(x)
        networkx = _networkx()
        multi = self.graph.is_multigraph()
        digraph = networkx.MultiDiGraph() if multi else networkx.DiGraph()
        digraph.add_nodes_from(self.graph.nodes(data=True))
        digraph.add_edges_from(edge for edge in self.graph.edges if edge[0] == edge[1])
        for (u, v, *key), forth in zip(self.edges, row.tolist(), strict=True):
            digraph.add_edge(*((u, v) if forth else (v, u)), *key)
        return digraph

    def assignment(self, digraph: Any) -> np.ndarray:
        """The inverse of `directed`: a directed graph with every edge of `graph` -> (n_vars,) bool.

        It need not be sink-free (`valid` tells). Loops are ignored.
        """
        if not digraph.is_directed():
            raise FormulaError("an undirected graph", expected="an orientation: a directed graph")
        x = np.zeros(self.n_vars, bool)
        seen = np.zeros(self.n_vars, int)
        keyed = {"keys": True} if digraph.is_multigraph() else {}
        for edge in digraph.edges(**keyed):
            if not self.graph.is_multigraph():
                edge = edge[:2]
            if edge[0] == edge[1]:
                continue
            e, forth = self.variable(edge)
            x[e] = forth
            seen[e] += 1
        if (seen != 1).any():
            e = int(np.flatnonzero(seen != 1)[0])
            raise FormulaError(
                f"edge {self.names[e]} occurs {seen[e]} times", expected="each edge once"
            )
        return x

    def variable(self, edge: Iterable[Hashable]) -> tuple[int, bool]:
        """(column, whether the edge as given runs u -> v) of an edge given in either direction."""
        u, v, *key = edge
        for e, forth in (((u, v, *key), True), ((v, u, *key), False)):
            if e in self._variable:
                return self._variable[e], forth
        raise FormulaError(f"no edge {tuple(edge)!r}", expected="an edge of the graph")

    def preferences(self, theta: Any) -> dict[Edge, float]:
        """theta as {edge in its preferred direction: log-odds >= 0}, strongest first."""
        told = {}
        for (u, v, *key), weight in zip(self.edges, self.checked_weights(theta), strict=True):
            told[(u, v, *key) if weight >= 0 else (v, u, *key)] = abs(float(weight))
        return dict(sorted(told.items(), key=lambda item: -item[1]))

    def theta(self, preferences: Mapping[Edge, float]) -> np.ndarray:
        """{edge: log-odds of that direction} -> (n_vars,).

        If both directions of an edge are given, their log-odds are subtracted. An edge that is not
        given has no preference.
        """
        weights = np.zeros(self.n_vars)
        for edge, weight in preferences.items():
            e, forth = self.variable(edge)
            weights[e] += weight if forth else -weight
        return weights

    # ------------------------------------------------------------------------------------ pictures

    def draw(self, x: Any, path: AnyPath, *, theta: Any = None, title: str | None = None) -> Path:
        """The oriented graph. With theta, edges with a stronger preference are wider, and edges in
        the preferred direction are blue.
        """
        [row] = self.checked(x)
        weights = None if theta is None else self.checked_weights(theta)
        return draw_orientation(self, row, weights, path, title)

    def picture(self, data: Any, theta: Any, generated: Any, path: AnyPath) -> Path:
        """An example, the learned preferences, a new orientation; weights and frequencies."""
        return draw_overview(
            self, self.checked(data), self.checked_weights(theta), self.checked(generated), path
        )


def checked_graph(graph: Any) -> Any:
    """The graph, if it is an undirected networkx graph without tree components; else an error."""
    if not hasattr(graph, "is_directed") or not hasattr(graph, "edges"):
        raise FormulaError(f"a {type(graph).__name__}", expected="a networkx graph")
    if graph.is_directed():
        raise FormulaError("a directed graph", expected="an undirected one: graph.to_undirected()")
    tree = tree_component(graph)
    if tree is not None:
        raise Unsatisfiable(
            f"no sink-free orientation: {tree} is a tree, with fewer edges than vertices"
        )
    return graph


def tree_component(graph: Any) -> str | None:
    """A component with fewer edges than vertices, in words; None if there is none."""
    networkx = _networkx()
    for nodes in networkx.connected_components(graph):
        if graph.subgraph(nodes).number_of_edges() < len(nodes):
            inside = [str(node) for node in graph if node in nodes]  # in the graph's order
            shown = ", ".join(inside[:6]) + (", ..." if len(inside) > 6 else "")
            if len(inside) == 1:
                return f"the isolated vertex {shown}"
            return f"the component of {len(inside)} vertices {{{shown}}}"
    return None


def _called(edge: Edge) -> str:
    u, v, *key = edge
    return f"{u}->{v}" + (f" #{key[0]}" if key else "")


def _networkx() -> Any:
    try:
        import networkx
    except ImportError as error:
        raise NelsonError('graphs need networkx: pip install "nelson-mrf[plots]"') from error
    return networkx
