"""Any networkx graph with a root -> flat arrays of arcs.

    directed graph    one variable per arc
    undirected graph  per="arc":  two variables per edge, one for each direction
                      per="edge": one variable per edge; both its arcs carry that variable

Arcs are sorted by tail: arcs out[v] .. out[v + 1] - 1 leave vertex v. Variables keep the order of
`graph.edges`. Self-loops are left out: no path to the root needs one. Each of several parallel
edges has its own variable.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from examples.arcs.kernels.clusters import reaching
from nelson.errors import FormulaError, Unsatisfiable
from nelson.kernels.core.bits import pack, unpack, words_for

#: Larger graphs are not written as clauses: n vertices need 2^(n - 1) - 1 of them.
_MAX_VERTICES_AS_CLAUSES = 10


@dataclass(frozen=True, eq=False)
class Arcs:
    labels: list[Any]  # the graph's names of its vertices
    root: int
    tail: np.ndarray  # (arcs,) int64, ascending
    head: np.ndarray  # (arcs,) int64
    column: np.ndarray  # (arcs,) int64: the variable of each arc
    names: list[str]  # one per variable
    per: str  # "arc" or "edge"
    place: np.ndarray  # (vertices, 2): where to draw them; NaN if the graph does not say

    @property
    def n(self) -> int:
        return len(self.labels)

    @property
    def n_vars(self) -> int:
        return len(self.names)

    @cached_property
    def out(self) -> np.ndarray:
        """(vertices + 1,): the first arc of each vertex."""
        return np.searchsorted(self.tail, np.arange(self.n + 1)).astype(np.int64)

    @cached_property
    def twin(self) -> np.ndarray:
        """The arc in the other direction, (arcs,); only for per="edge"."""
        order = np.argsort(self.column, kind="stable").reshape(-1, 2)
        twin = np.empty(len(self.tail), np.int64)
        twin[order], twin[order[:, ::-1]] = order[:, ::-1], order
        return twin

    @cached_property
    def first(self) -> np.ndarray:
        """The first arc of each variable, (n_vars,)."""
        arc = np.empty(self.n_vars, np.int64)
        arc[self.column[::-1]] = np.arange(len(self.column))[::-1]
        return arc

    @cached_property
    def others(self) -> np.ndarray:
        """(vertices,) bool: all but the root."""
        return np.arange(self.n) != self.root

    def reaching(self, x: np.ndarray) -> np.ndarray:
        """In which rows of x (m, n_vars) each vertex has a path to the root: (m,) bool."""
        every = np.empty(words_for(len(x)), np.uint64)
        reach = np.empty(self.n, np.uint64)
        reaching(pack(x), self.tail, self.head, self.column, self.root, reach, every)
        return unpack(every[:, None], len(x))[:, 0]

    def cuts(self) -> list[list[int]] | None:
        """Clauses "an arc leaves this set", one for each set of vertices without the root. None if
        the graph is too large.
        """
        if self.n > _MAX_VERTICES_AS_CLAUSES:
            return None
        clauses = []
        for size in range(1, self.n):
            for chosen in combinations(np.flatnonzero(self.others).tolist(), size):
                leaving = np.isin(self.tail, chosen) & ~np.isin(self.head, chosen)
                clauses.append(np.unique(self.column[leaving] + 1).tolist())
        return clauses

    def without_root(self) -> Arcs:
        """Without the arcs that leave the root, and without variables that have no other arc."""
        keep = self.tail != self.root
        used, column = np.unique(self.column[keep], return_inverse=True)
        return replace(
            self,
            tail=self.tail[keep],
            head=self.head[keep],
            column=column.astype(np.int64),
            names=[self.names[i] for i in used],
        )


def read_graph(graph: Any, root: Any = None, per: str = "arc") -> Arcs:
    """The arcs of a networkx Graph, DiGraph, MultiGraph or MultiDiGraph; root None: its first
    vertex. Raises Unsatisfiable if a vertex has no path to the root.
    """
    try:
        labels, directed = list(graph.nodes), bool(graph.is_directed())
        pairs = [(edge[0], edge[1]) for edge in graph.edges]
    except AttributeError:
        raise FormulaError(f"a {type(graph).__name__}", expected="a networkx graph") from None
    if per not in ("arc", "edge"):
        raise FormulaError(f"per={per!r}", expected="'arc' or 'edge'")
    if per == "edge" and directed:
        raise FormulaError("per='edge' of a directed graph", expected="an undirected graph")
    if len(labels) < 2:
        raise FormulaError(f"{len(labels)} vertices", expected="a root and at least one more")
    number = {label: k for k, label in enumerate(labels)}
    root = labels[0] if root is None else root
    if root not in number:
        raise FormulaError(f"root {root!r}", expected="a vertex of the graph")
    pairs = [(u, v) for u, v in pairs if u != v]
    if not directed and per == "arc":
        pairs = [arc for u, v in pairs for arc in ((u, v), (v, u))]
    ends = np.array([(number[u], number[v]) for u, v in pairs], np.int64).reshape(-1, 2)
    column = np.arange(len(ends))
    if per == "edge":
        ends, column = np.concatenate([ends, ends[:, ::-1]]), np.concatenate([column, column])
    order = np.argsort(ends[:, 0], kind="stable")
    arcs = Arcs(
        labels,
        number[root],
        np.ascontiguousarray(ends[order, 0]),
        np.ascontiguousarray(ends[order, 1]),
        column[order].astype(np.int64),
        _names(pairs, "->" if per == "arc" else "--"),
        per,
        _places(graph, labels),
    )
    _check_reached(arcs)
    return arcs


def _names(pairs: list[tuple[Any, Any]], mark: str) -> list[str]:
    """`a->b`; the second of two parallel arcs is `a->b#2`."""
    seen: Counter[str] = Counter()
    names = []
    for u, v in pairs:
        name = f"{u}{mark}{v}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return names


def reached(arcs: Arcs, roots: np.ndarray, keep: np.ndarray | None = None) -> np.ndarray:
    """Which vertices have a path to one of `roots` (vertices,) along arcs of `keep` (arcs,)."""
    reach = np.asarray(roots, bool).copy()
    keep = np.ones(len(arcs.tail), bool) if keep is None else keep
    while True:
        more = arcs.tail[keep & reach[arcs.head] & ~reach[arcs.tail]]
        if not len(more):
            return reach
        reach[more] = True


def _check_reached(arcs: Arcs) -> None:
    lost = np.flatnonzero(~reached(arcs, ~arcs.others))
    if len(lost):
        label, root = arcs.labels[int(lost[0])], arcs.labels[arcs.root]
        others = f" (nor have {len(lost) - 1} others)" if len(lost) > 1 else ""
        raise Unsatisfiable(f"vertex {label!r} has no path to the root {root!r}{others}")


def _places(graph: Any, labels: list[Any]) -> np.ndarray:
    """The vertices' attribute "pos", or their labels if these are points of a grid. Else NaN: the
    first picture computes a layout.
    """
    for given in ([graph.nodes[v].get("pos") for v in labels], labels):
        try:
            place = np.array(given, float)
        except (TypeError, ValueError):
            continue
        if place.shape == (len(labels), 2) and np.isfinite(place).all():
            return place
    return np.full((len(labels), 2), np.nan)


def shortest_trees(arcs: Arcs, lengths: np.ndarray) -> np.ndarray:
    """For each row of lengths (m, arcs) >= 0, the first arc of each vertex's shortest way to the
    root: (m, vertices) int64, -1 at the root. Bellman-Ford on all rows at once.
    """
    m = len(lengths)
    far = np.full((m, arcs.n), np.inf)
    far[:, arcs.root] = 0.0
    choice = np.full((m, arcs.n), -1, np.int64)
    for _ in range(arcs.n):
        through = lengths + far[:, arcs.head]
        before = far.copy()
        for v in np.flatnonzero(arcs.others):
            best = through[:, arcs.out[v] : arcs.out[v + 1]].argmin(axis=1)
            choice[:, v] = best + arcs.out[v]
            far[:, v] = through[np.arange(m), choice[:, v]]
        if (far == before).all():
            break
    return choice


def traffic(arcs: Arcs, days: int, seed: int) -> np.ndarray:
    """Lengths (days, arcs). An arc's usual length is the same for every seed; on each day it is
    multiplied by a random factor, log-normal with sigma 0.4.
    """
    usual = np.random.default_rng([len(arcs.tail), arcs.n]).uniform(1, 2, len(arcs.tail))
    return usual * np.random.default_rng([seed, 12]).lognormal(0.0, 0.4, (days, len(usual)))
