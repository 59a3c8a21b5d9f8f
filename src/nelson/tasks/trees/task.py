"""Spanning trees directed to a root, weighted and learned: everything here is exact.

    P_theta(T) = exp(sum_(a in T) theta_a) / Z(theta)

T: each vertex but the root has one arc, and following arcs leads to the root. Variables are the
arcs that do not leave the root (those are in no tree), or with per="edge" the edges of an
undirected graph: the same trees, without their directions.

Draws: cycle popping (`nelson.tasks.arcs.kernels.popping`), `expected_pops` + n - 1 arcs a tree on average.

log Z: the matrix-tree theorem (Kirchhoff; Tutte 1948). With W_v = sum of e^theta_a over the arcs
that leave v, and P_vu = e^theta_(v->u) / W_v the walk that ends at the root,

    log Z = sum_v log W_v + log det(I - P),        E[x_(u->v)] = P_uv (G_uu - G_vu),

    G = (I - P)^-1, G_vu = 0 at v = root,          E[draws of u] = G_uu  (Propp and Wilson 1998)

by elimination without subtractions (`nelson.tasks.trees.kernels.matrix_tree`): weights from 1e-300 to 1 are
fine. Means are differences of entries of G: they lose about as many of 16 digits as the expected
number of draws has. O(n^3).

Learning maximises the mean log P(x) - (l2 / 2) |theta|^2 over examples, which is concave, by
L-BFGS with these gradients: no sampling noise.

Gauge. A constant added to all arcs that leave one vertex changes no tree's probability: each has
one of them. (per="edge": to all edges of one block, of which each tree has the same number.) An
arc that is in no tree has no effect at all. Of all theta with the same law, `learn` gives that
of least norm: mean 0 over the arcs of each vertex that are in some tree, 0 for the others;
`canonical` maps any theta there.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from nelson.errors import FormulaError, NelsonError
from nelson.log_z.result import LogPartition
from nelson.tasks.arcs.arcs import formula_of, read, shortest_trees, traffic
from nelson.tasks.arcs.task import ArcTask, refuse
from nelson.tasks.base import Drawn, Learned
from nelson.tasks.trees.gauge import gauge_groups


class Solved(NamedTuple):
    """What the matrix-tree theorem says for one theta."""

    log_z: float
    mean: np.ndarray  # (n_vars,)
    pops: float  # expected arcs popped in one draw


class SpanningTrees(ArcTask):
    """Of a networkx graph, to `root` (None: its first vertex); `seed` draws the planted theta."""

    name = "trees"
    #: planted: of the law of `planted`. shortest: shortest ways to the root in random traffic.
    KINDS: ClassVar[tuple[str, ...]] = ("planted", "shortest")

    def __init__(self, graph: Any, root: Any = None, *, per: str = "arc", seed: int = 0) -> None:
        self.arcs = read(graph, root, per).without_root()
        self.n_vars, self.names = self.arcs.n_vars, self.arcs.names
        self.legend = (
            "share among the arcs of a vertex" if per == "arc" else "probability of each edge"
        )
        # Numbers of the vertices without the root; the root comes last.
        number = np.arange(self.arcs.n) - (np.arange(self.arcs.n) > self.arcs.root)
        number[self.arcs.root] = self.arcs.n - 1
        self._tail, self._head = number[self.arcs.tail], number[self.arcs.head]
        self._groups = gauge_groups(self.arcs)
        random = np.random.default_rng([seed, 11])
        self.planted = self.canonical(random.normal(size=self.n_vars))
        self.formula = self._formula()

    @classmethod
    def small(cls, seed: int = 0) -> Self:
        """A grid of 4 x 4 crossings; the root is a corner."""
        import networkx as nx

        return cls(nx.grid_2d_graph(4, 4), (0, 0), seed=seed)

    def describe(self) -> str:
        what = "arcs" if self.arcs.per == "arc" else "edges"
        return (
            f"spanning trees of {self.arcs.n} vertices directed to {self.root!r}, "
            f"{self.n_vars} {what}"
        )

    def valid(self, x: Any) -> np.ndarray:
        """One arc a vertex (or n - 1 edges), and a path from each vertex to the root."""
        x = self.checked(x)
        if self.arcs.per == "edge":
            right = x.sum(axis=1) == self.arcs.n - 1
        else:
            starts = self.arcs.out[:-1][np.arange(self.arcs.n) != self.arcs.root]
            counts = np.add.reduceat(x[:, self.arcs.column].astype(np.int64), starts, axis=1)
            right = (counts == 1).all(axis=1)
        return right & self.arcs.reaching(x)

    # ---------------------------------------------------------------------------------- drawing

    def sample(self, theta: Any, n: int, *, seed: int = 0, **options: Any) -> Drawn:
        """n independent trees; tree i is a function of (seed, start + i).

        Options: start (0), threads (all cores), max_pops (10 million; of one tree), seconds (60).
        If a budget ends first, info["status"] is "budget" and fewer trees come back; their law is
        exact all the same.
        """
        from nelson.tasks.arcs import popping

        start, budget = popping.budget_of(options)
        law = self._cumulative(self.checked_weights(theta))
        return popping.pop(self.arcs, law, None, n, popping.Counter(seed, start=start), budget)

    def examples(self, n: int, *, seed: int = 0, kind: str | None = None) -> np.ndarray:
        from nelson.tasks.arcs import popping

        if self.checked_kind(kind) == "planted":
            law = self._cumulative(self.checked_weights(self.planted))
            counter = popping.Counter(seed, popping.EXAMPLES)
            return popping.all_of(popping.pop(self.arcs, law, None, n, counter))
        return self.tell(shortest_trees(self.arcs, traffic(self.arcs, n, seed)))

    def tell(self, choice: np.ndarray) -> np.ndarray:
        """The arc that each vertex takes, (m, vertices), the root's ignored -> (m, n_vars) bool."""
        x = np.zeros((len(choice), self.n_vars), bool)
        others = np.arange(self.arcs.n) != self.arcs.root
        x[np.arange(len(choice))[:, None], self.arcs.column[choice[:, others]]] = True
        return x

    def _cumulative(self, theta: np.ndarray) -> np.ndarray:
        """Cumulative probabilities among the arcs of each vertex, (arcs,)."""
        p, _ = self._walk(theta)
        for first, last in pairwise(self.arcs.out.tolist()):
            np.cumsum(p[first:last], out=p[first:last])
        return p

    def _walk(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """P of each arc, and sum_v log W_v."""
        t = theta[self.arcs.column]
        peak = np.full(self.arcs.n, -np.inf)
        np.maximum.at(peak, self.arcs.tail, t)
        weight = np.exp(t - peak[self.arcs.tail])
        total = np.bincount(self.arcs.tail, weight, self.arcs.n)
        some = total > 0
        return weight / total[self.arcs.tail], float((np.log(total[some]) + peak[some]).sum())

    # -------------------------------------------------------------------------------- exact answers

    def solve(self, theta: Any = None) -> Solved:
        """log Z, means and the expected work of a draw, all exact."""
        from nelson.tasks.trees.kernels.matrix_tree import eliminate, inverse

        p, log_w = self._walk(self.checked_weights(theta))
        n = self.arcs.n - 1
        dense = np.zeros((n, n + 1))
        np.add.at(dense, (self._tail, self._head), p)
        pivot, g = np.empty(n), np.zeros((n + 1, n))
        log_det = float(eliminate(dense, pivot))
        if not np.isfinite(log_det):
            raise NelsonError(
                "weights too far apart: a way to the root has probability below 1e-308"
            )
        inverse(dense, pivot, g[:n])
        mean = p * (g[self._tail, self._tail] - g[self._head, self._tail])
        mean = np.bincount(self.arcs.column, np.maximum(mean, 0.0), self.n_vars)
        return Solved(log_w + log_det, np.minimum(mean, 1.0), float(np.trace(g)) - n)

    def log_partition(self, theta: Any = None, **options: Any) -> LogPartition:
        """log Z by the matrix-tree theorem; theta None: log of the number of trees."""
        started = time.monotonic()
        value = self.solve(theta).log_z
        took = time.monotonic() - started
        return LogPartition(value, 0.0, "matrix-tree", "the matrix-tree theorem", took, True)

    def marginals(self, theta: Any = None) -> np.ndarray:
        """grad log Z = P_theta(arc in T), (n_vars,)."""
        return self.solve(theta).mean

    def expected_pops(self, theta: Any = None) -> float:
        """Arcs popped in one draw, on average: trace(G) - (n - 1)."""
        return self.solve(theta).pops

    def kl(self, planted: Any, theta: Any) -> float:
        """KL(P_planted || P_theta), exact."""
        a, b = self.solve(planted), self.solve(theta)
        gap = self.checked_weights(planted) - self.checked_weights(theta)
        return float(gap @ a.mean) - a.log_z + b.log_z

    # ------------------------------------------------------------------------------------ learning

    def learn(
        self,
        data: Any,
        *,
        seed: int = 0,
        l2: float | None = None,
        tolerance: float = 1e-8,
        iterations: int = 1000,
        **options: Any,
    ) -> Learned:
        """The likeliest theta. l2 None: 0.1 / N, a normal prior of variance 10; 0: none (an arc
        that no example has then runs towards -inf until the gradient is below the tolerance).

        seed: taken for the sake of the other tasks; nothing is random here.
        """
        from nelson.learning.metrics import moment_gap
        from nelson.tasks.trees.convex import minimise

        refuse(options, "l2, tolerance, iterations")
        started = time.monotonic()
        x = self.checked_data(data)
        seen = x.mean(axis=0)
        penalty = 0.1 / len(x) if l2 is None else float(l2)
        if not penalty >= 0:
            raise FormulaError(f"l2 = {l2}", expected="a number >= 0")

        def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
            solved = self.solve(theta)
            value = solved.log_z - float(theta @ seen) + penalty / 2 * float(theta @ theta)
            return value, solved.mean - seen + penalty * theta

        found = minimise(loss, np.zeros(self.n_vars), tolerance=tolerance, iterations=iterations)
        history = [
            {"iteration": k, "objective": -value, "gradient": slope}
            for k, (value, slope) in enumerate(zip(found.values, found.slopes, strict=True))
        ]
        last = self.solve(found.at)
        why = "the gradient is zero" if found.converged else f"stopped after {len(history)} steps"
        return Learned(
            found.at,
            history,
            time.monotonic() - started,
            found.converged,
            f"{why} (largest entry {found.slopes[-1]:.1e})",
            "exact",
            {
                "l2": penalty,
                "log_likelihood": float(found.at @ seen) - last.log_z,
                "moment_gap": moment_gap(seen, last.mean),
            },
        )

    def evaluate(self, theta: Any, held_out: Any, **options: Any) -> dict[str, Any]:
        """As `ArcTask.evaluate`, and exact_moment_gap: against the exact means of the model."""
        from nelson.learning.metrics import moment_gap

        report = super().evaluate(theta, held_out, **options)
        seen = self.checked(held_out).mean(axis=0)
        report["exact_moment_gap"] = moment_gap(seen, self.marginals(theta))
        return report

    # --------------------------------------------------------------------------------------- gauge

    def canonical(self, theta: Any) -> np.ndarray:
        """The theta of least norm with the same law."""
        theta = np.array(self.checked_weights(theta))
        theta[self._groups < 0] = 0.0
        for group in np.unique(self._groups[self._groups >= 0]):
            theta[self._groups == group] -= theta[self._groups == group].mean()
        return theta

    # -------------------------------------------------------------------------------- for readers

    def strength(self, theta: Any) -> np.ndarray:
        theta = self.checked_weights(theta)
        if self.arcs.per == "edge":
            return self.marginals(theta)
        return self._walk(theta)[0][self.arcs.first]

    def _formula(self) -> Any:
        """Up to ten vertices: an arc leaves each set of vertices, and one arc a vertex (or n - 1
        edges). Not extremal as clauses: that it is as choices of arcs is what popping uses.
        """
        clauses = self.arcs.cuts()
        if clauses is None:
            return None
        if self.arcs.per == "edge":
            formula = formula_of(clauses, self.n_vars)
            assert formula is not None
            return formula.exactly(range(1, self.n_vars + 1), self.arcs.n - 1)
        for v in range(self.arcs.n):
            mine = (self.arcs.column[self.arcs.out[v] : self.arcs.out[v + 1]] + 1).tolist()
            clauses += [[-a, -b] for i, a in enumerate(mine) for b in mine[:i]]
        return formula_of(clauses, self.n_vars)
