"""Spanning trees directed to a root, weighted and learned: everything here is exact.

    P_theta(T) = exp(sum_(a in T) theta_a) / Z(theta)

In a tree T each vertex but the root has one arc, and following the arcs leads to the root.
Variables are the arcs that do not leave the root (an arc that leaves it is in no tree). With
per="edge" they are the edges of an undirected graph: the same trees, without their directions.

Draws: cycle popping (`examples.arcs.kernels.popping`). A tree takes `expected_pops` + n - 1
arcs on average.

log Z: the matrix-tree theorem (Kirchhoff; Tutte 1948). With W_v = sum of e^theta_a over the arcs
that leave v, and P_vu = e^theta_(v->u) / W_v the walk that ends at the root,

    log Z = sum_v log W_v + log det(I - P),        E[x_(u->v)] = P_uv (G_uu - G_vu),

    G = (I - P)^-1, G_vu = 0 at v = root,          E[draws of u] = G_uu  (Propp and Wilson 1998)

computed by elimination without subtractions (`examples.trees.kernels.matrix_tree`), so weights
from 1e-300 to 1 are fine. Means are differences of entries of G: if a draw takes 10^k arcs on
average, about k of the 16 digits of a mean are lost. Time O(n^3).

Learning maximises the mean of log P(x) - (l2 / 2) |theta|^2 over the examples by L-BFGS. The
function is concave and the gradients above are exact, so there is no sampling noise.

Gauge. Some changes of theta change no probability. A tree has one arc of each vertex, so a constant
may be added to all arcs that leave one vertex. (per="edge": to all edges of one block, since each
tree has the same number of them.) The weight of an arc that is in no tree has no effect. Of all
theta with the same law, `learn` returns the one of least norm: its mean is 0 over those arcs of
each vertex that are in some tree, and it is 0 on all others. `canonical` maps any theta to it.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from examples.arcs.arcs import read_graph
from examples.arcs.popping import refuse_unknown
from examples.arcs.task import ArcTask, penalty_of
from examples.trees.gauge import gauge_groups
from examples.trees.kernels.matrix_tree import eliminate, inverse
from nelson.errors import NelsonError
from nelson.formula import Formula
from nelson.learning.metrics import moment_gap
from nelson.learning.optimum import minimise
from nelson.log_z.result import LogPartition
from nelson_paper.tasks.base import Learned


class Solved(NamedTuple):
    """The answers of the matrix-tree theorem for one theta."""

    log_z: float
    mean: np.ndarray  # (n_vars,)
    pops: float  # expected arcs popped in one draw


class SpanningTrees(ArcTask):
    """Trees of a networkx graph, directed to `root` (None: its first vertex).

    per: "arc" or "edge", what a variable stands for. seed: of the planted theta.
    """

    name = "trees"
    heading = "Trees that connect everything"
    #: planted: drawn from the law of `planted`. shortest: shortest ways to the root in random
    #: traffic.
    KINDS: ClassVar[tuple[str, ...]] = ("planted", "shortest")

    def __init__(self, graph: Any, root: Any = None, *, per: str = "arc", seed: int = 0) -> None:
        super().__init__(read_graph(graph, root, per).without_root())
        self.legend = (
            "share among the arcs of a vertex" if per == "arc" else "probability of each edge"
        )
        # Vertices are renumbered such that the root comes last.
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
        import networkx

        return cls(networkx.grid_2d_graph(4, 4), (0, 0), seed=seed)

    def describe(self) -> str:
        what = "arcs" if self.arcs.per == "arc" else "edges"
        return (
            f"spanning trees of {self.arcs.n} vertices directed to {self.root!r}, "
            f"{self.n_vars} {what}"
        )

    def valid(self, x: Any) -> np.ndarray:
        """One arc per vertex (or n - 1 edges), and a path from each vertex to the root."""
        x = self.checked(x)
        if self.arcs.per == "edge":
            right = x.sum(axis=1) == self.arcs.n - 1
        else:
            starts = self.arcs.out[:-1][self.arcs.others]
            counts = np.add.reduceat(x[:, self.arcs.column].astype(np.int64), starts, axis=1)
            right = (counts == 1).all(axis=1)
        return right & self.arcs.reaching(x)

    # ---------------------------------------------------------------------------------- drawing

    def simulated(self, n: int, seed: int) -> np.ndarray:
        return self.add_shortest_ways(np.zeros((n, self.n_vars), bool), seed)

    def arc_law(self, theta: Any) -> np.ndarray:
        """Cumulative probabilities among the arcs of each vertex, (arcs,)."""
        p, _ = self._walk(self.checked_weights(theta))
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
        p, log_w = self._walk(self.checked_weights(theta))
        n = self.arcs.n - 1
        dense = np.zeros((n, n + 1))
        np.add.at(dense, (self._tail, self._head), p)
        pivot, g = np.empty(n), np.zeros((n + 1, n))
        log_det = float(eliminate(dense, pivot))
        if not np.isfinite(log_det):
            raise NelsonError(
                "weights too far apart: a way to the root has probability below 1e-308; "
                "make the largest differences of theta smaller"
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
        """The maximum-likelihood theta with an L2 penalty (None: 0.1 / N, see `penalty_of`).

        With l2 = 0 the weight of an arc that no example has runs towards -inf until the gradient is
        below `tolerance`. `seed` has no effect: nothing is random here.
        """
        refuse_unknown(options, ("l2", "tolerance", "iterations"))
        started = time.monotonic()
        x = self.checked_data(data)
        seen, penalty = x.mean(axis=0), penalty_of(l2, len(x))

        history: list[dict[str, Any]] = []

        def gradient(theta: np.ndarray) -> np.ndarray:
            solved = self.solve(theta)
            value = float(theta @ seen) - solved.log_z - penalty / 2 * float(theta @ theta)
            g = solved.mean - seen + penalty * theta
            largest = float(np.abs(g).max(initial=0.0))
            history.append({"iteration": len(history), "objective": value, "gradient": largest})
            return g

        end = minimise(gradient, np.zeros(self.n_vars), tolerance=tolerance, evaluations=iterations)
        last = self.solve(end.at)
        why = "the gradient is zero" if end.converged else f"stopped after {len(history)} steps"
        return Learned(
            end.at,
            history,
            time.monotonic() - started,
            end.converged,
            f"{why} (largest entry {end.slope:.1e})",
            "exact",
            {
                "l2": penalty,
                "log_likelihood": float(end.at @ seen) - last.log_z,
                "moment_gap": moment_gap(seen, last.mean),
            },
        )

    def evaluate(self, theta: Any, held_out: Any, **options: Any) -> dict[str, Any]:
        """As `Task.evaluate`, and exact_moment_gap: against the exact means of the model."""
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

    def _formula(self) -> Formula | None:
        """For up to ten vertices: an arc leaves each set of vertices, and each vertex has at most
        one arc (or there are n - 1 edges). These clauses are not extremal; popping is exact because
        it chooses one arc per vertex instead.
        """
        clauses = self.arcs.cuts()
        if clauses is None:
            return None
        if self.arcs.per == "edge":
            connected = Formula(clauses, n_vars=self.n_vars)
            return connected.exactly(range(1, self.n_vars + 1), self.arcs.n - 1)
        for v in range(self.arcs.n):
            mine = (self.arcs.column[self.arcs.out[v] : self.arcs.out[v + 1]] + 1).tolist()
            clauses += [[-a, -b] for i, a in enumerate(mine) for b in mine[:i]]
        return Formula(clauses, n_vars=self.n_vars)
