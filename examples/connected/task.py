"""Subgraphs in which every vertex still reaches the root, weighted and learned from examples.

    P_theta(x) = exp(sum_a theta_a x_a) / Z(theta)    over x such that the kept arcs (x_a = 1) hold
                                                      a path from each vertex to the root

Equivalently: arcs are kept independently with probability p_a = 1 / (1 + e^-theta_a), conditioned
on such paths. On an undirected graph variables are edges, and the kept edges form a connected
spanning subgraph, as in all-terminal network reliability; the law does not depend on the root.

Draws: cluster popping (`examples.arcs.kernels.popping`), exact. If both arcs of each edge exist
and have the same p (undirected graphs, too), it pops at most m n (1 - p) / p clusters on average,
with p the smallest probability, n vertices, m edges (Guo and Jerrum, SIAM J. Comput. 2019). On
other graphs the number may be exponential, so there is a budget.

log Z = log P(C) + sum log(1 + e^theta_a), where P(C) is the reliability. Vertices are merged into
the root one by one: let R be the set of merged vertices, v a vertex outside with arcs into R, C_R
the event "each vertex reaches R", K the event "an arc from v into R is kept". Then

    P(C_R) = P(K) P(C_(R + v)) / P(K | C_R)      since given K, reaching v is reaching R.

P(K) is known. P(K | C_R) >= P(K) is estimated from exact draws (it is 1 if v has no other way).
C_(all) is certain. So log P(C) is a sum of at most n - 2 independent estimates. An undirected graph
has the reliability of the graph with both arcs of each edge. Up to 18 variables Z is summed over
all states instead.

Learning: theta += H^-1 (E_data[x] - E_model[x] - l2 theta), with H = Cov(x) and E_model from exact
draws. The first steps are full; later steps have length 1/k, which averages the noise out.

Gauge. Adding arcs to a valid x keeps it valid, so a weight has no effect only if every valid x has
its arc (a bridge): `forced`. `learn` sets these weights to 0.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar, Self

import numpy as np

from examples.arcs.arcs import reached, read_graph
from examples.arcs.kernels.popping import FINISHED
from examples.arcs.popping import RandomStream, budget_of, refuse_unknown, run
from examples.arcs.task import ArcTask, penalty_of
from examples.connected.network import network
from nelson.errors import BudgetExceeded, FormulaError
from nelson.formula import Formula
from nelson.log_z.result import Z95, LogPartition
from nelson_paper.tasks.base import JUDGING, LEARNING, Learned

#: "auto" sums Z over all states up to this number of variables.
_ENUMERATED = 18
#: "enumerate" refuses more variables than this: 2^24 are 17 million states.
_MAX_ENUMERATED = 24
#: Iterations of full Newton steps, before the steps shrink.
_FULL_STEPS = 12
#: Above this number of variables only the diagonal of Cov(x) is inverted.
_MAX_DENSE = 600


class RootConnected(ArcTask):
    """Subgraphs of a networkx graph in which all vertices reach `root` (None: its first vertex).

    per: "arc" or "edge", what a variable stands for; None: edges if the graph is undirected. seed:
    of the planted theta. forced: (n_vars,) bool, variables that are true in every valid subgraph.
    """

    name = "connected"
    heading = "Networks in which everybody reaches the centre"
    #: planted: drawn from the law of `planted`. backbone: shortest ways to the root in random
    #: traffic, and each other variable with probability 1/4.
    KINDS: ClassVar[tuple[str, ...]] = ("planted", "backbone")
    legend = "probability to be kept, before conditioning"

    def __init__(
        self, graph: Any, root: Any = None, *, per: str | None = None, seed: int = 0
    ) -> None:
        if per is None:
            directed = getattr(graph, "is_directed", lambda: True)()
            per = "arc" if directed else "edge"
        super().__init__(read_graph(graph, root, per))
        self.forced = ~self.arcs.reaching(~np.eye(self.n_vars, dtype=bool))
        self.planted = self.canonical(np.random.default_rng([seed, 21]).normal(size=self.n_vars))
        clauses = self.arcs.cuts()
        self.formula = None if clauses is None else Formula(clauses, n_vars=self.n_vars)

    @classmethod
    def small(cls, seed: int = 0) -> Self:
        """Twelve stations, links both ways between neighbours; the root is the most central."""
        graph, root = network(12, seed)
        return cls(graph, root, per="arc", seed=seed)

    def describe(self) -> str:
        if self.arcs.per == "edge":
            return f"connected spanning subgraphs: {self.arcs.n} vertices, {self.n_vars} edges"
        return (
            f"subgraphs in which all {self.arcs.n} vertices reach {self.root!r}, {self.n_vars} arcs"
        )

    def valid(self, x: Any) -> np.ndarray:
        """Is there a path of kept arcs from each vertex to the root?"""
        return self.arcs.reaching(self.checked(x))

    # ------------------------------------------------------------------------------------- drawing

    def simulated(self, n: int, seed: int) -> np.ndarray:
        x = np.random.default_rng([seed, 22]).random((n, self.n_vars)) < 0.25
        return self.add_shortest_ways(x, seed)

    def arc_law(self, theta: Any) -> np.ndarray:
        """The probability p_a to keep each arc, before conditioning, (arcs,)."""
        return self.strength(theta)[self.arcs.column]

    def roots(self) -> np.ndarray:
        return (~self.arcs.others).astype(np.uint8)

    # --------------------------------------------------------------------------------------- log Z

    def log_partition(
        self,
        theta: Any = None,
        *,
        samples: int = 1 << 14,
        seed: int = 0,
        method: str = "auto",
        **options: Any,
    ) -> LogPartition:
        """log Z: a sum over all states, or an estimate with its 95% half-width.

        method: "enumerate", "telescope" or "auto". samples: draws per merged vertex. Options, for
        each merged vertex: threads, max_pops, seconds.
        """
        theta = self.checked_weights(theta)
        started = time.monotonic()
        if method == "auto":
            method = "enumerate" if self.n_vars <= _ENUMERATED else "telescope"
        soft = float(np.logaddexp(0, theta).sum())
        if method == "enumerate":
            value = self._summed(theta)
            took = time.monotonic() - started
            why = f"a sum over 2^{self.n_vars} states"
            return LogPartition(
                value, 0.0, method, why, took, True, {"log_probability": value - soft}
            )
        if method != "telescope":
            raise FormulaError(f"method {method!r}", expected="auto, enumerate or telescope")
        log_p, variance, stages = self._telescope(theta, samples, seed, options)
        info = {"log_probability": log_p, "stages": stages, "samples": stages * samples}
        return LogPartition(
            log_p + soft,
            Z95 * float(np.sqrt(variance)),
            method,
            f"vertices merged into the root one by one, {samples:,} exact draws each",
            time.monotonic() - started,
            stages == 0,
            {**info, "seed": seed, "guarantee": "exact"},
        )

    def _summed(self, theta: np.ndarray) -> float:
        if self.n_vars > _MAX_ENUMERATED:
            raise FormulaError(
                f"{self.n_vars} variables",
                expected=f'at most {_MAX_ENUMERATED} to enumerate; method="telescope"',
            )
        total = -np.inf
        block = 1 << min(self.n_vars, 16)
        for first in range(0, 2**self.n_vars, block):
            states = np.arange(first, first + block)[:, None] >> np.arange(self.n_vars) & 1
            phi = (states @ theta)[self.arcs.reaching(states.astype(bool))]
            total = np.logaddexp(total, np.logaddexp.reduce(phi) if len(phi) else -np.inf)
        return float(total)

    def _telescope(
        self, theta: np.ndarray, samples: int, seed: int, options: dict[str, Any]
    ) -> tuple[float, float, int]:
        """(log P(C), its variance, stages). The next v is the vertex with the largest P(K)."""
        _, budget = budget_of(options)
        arcs, p = self.arcs, self.arc_law(theta)
        log_lost = np.log1p(-p)
        roots, log_p, variance, stages = self.roots(), 0.0, 0.0, 0
        for _ in range(arcs.n - 1):
            into = (roots[arcs.head] == 1) & (roots[arcs.tail] == 0)
            none_kept = np.bincount(arcs.tail[into], log_lost[into], arcs.n)
            v = int(np.argmin(none_kept))
            log_p += float(np.log(-np.expm1(none_kept[v])))
            into &= arcs.tail == v
            if reached(arcs, roots, ~into)[v]:  # else C_R implies K
                stream = RandomStream(seed, JUDGING + stages)
                result, _ = run(arcs, p, roots, samples, stream, budget, tell_arcs=True)
                kept = result.x[result.done == FINISHED][:, into].any(axis=1)
                hits = int(kept.sum())
                if not hits:
                    raise BudgetExceeded(
                        f"no draw of {samples:,} keeps an arc from vertex {v} into the root's set; "
                        "take more samples or seconds"
                    )
                log_p -= float(np.log(hits / len(kept)))
                variance += max(len(kept) - hits, 1) / (hits * len(kept))
                stages += 1
            roots[v] = 1
        return log_p, variance, stages

    # ------------------------------------------------------------------------------------ learning

    def learn(
        self,
        data: Any,
        *,
        seed: int = 0,
        l2: float | None = None,
        iterations: int = 40,
        samples: int = 1 << 13,
        **options: Any,
    ) -> Learned:
        """The theta whose means are those of the data, up to an L2 penalty (None: 0.1 / N, see
        `penalty_of`). samples: exact draws per iteration.
        """
        refuse_unknown(options, ("l2", "iterations", "samples"))
        started = time.monotonic()
        x = self.checked_data(data)
        seen, free, penalty = x.mean(axis=0), ~self.forced, penalty_of(l2, len(x))
        usual = (x.sum(axis=0) + 0.5) / (len(x) + 1)
        # The right answer if nothing were conditioned.
        theta = self.canonical(np.log(usual) - np.log1p(-usual))
        history: list[dict[str, Any]] = []
        for k in range(iterations + 1):
            drawn = self.pop(theta, samples, RandomStream(seed, LEARNING, k * samples))
            if len(drawn) < 2:
                raise BudgetExceeded(drawn.info["reason"])
            mean = drawn.x.mean(axis=0)
            gradient = np.where(free, seen - mean - penalty * theta, 0.0)
            noise = np.sqrt(np.maximum(mean * (1 - mean), 1 / samples) / len(drawn))
            history.append(
                {
                    "iteration": k,
                    "gradient": float(np.abs(gradient).max(initial=0.0)),
                    "noise": float(np.sqrt(np.mean((gradient / noise)[free] ** 2))),
                    "pops_mean": drawn.info["pops_mean"],
                }
            )
            if k < iterations:
                rate = 1.0 if k < _FULL_STEPS else 1 / (k - _FULL_STEPS + 2)
                theta = theta + np.clip(rate * _newton(drawn.x, gradient, penalty), -1.0, 1.0)
        # The last draws come from the final theta and did not move it: an unbiased check.
        sigmas = history[-1]["noise"]
        return Learned(
            theta,
            history,
            time.monotonic() - started,
            sigmas < 1.5,
            f"the gradient is {sigmas:.2f} times its noise (root mean square; 1 is noise alone)",
            "exact",
            {"l2": penalty, "samples": samples},
        )

    def canonical(self, theta: Any) -> np.ndarray:
        """theta with 0 where it has no effect."""
        return np.where(self.forced, 0.0, self.checked_weights(theta))

    def strength(self, theta: Any) -> np.ndarray:
        """p = 1 / (1 + e^-theta), (n_vars,)."""
        return np.exp(-np.logaddexp(0, -self.checked_weights(theta)))


def _newton(x: np.ndarray, gradient: np.ndarray, penalty: float) -> np.ndarray:
    """(Cov(x) + penalty)^-1 gradient; the diagonal is raised a little, as Cov(x) is an estimate."""
    ridge = penalty + 1e-3
    if x.shape[1] > _MAX_DENSE:
        return 0.5 * gradient / (x.var(axis=0) + ridge)
    cov = np.cov(x, rowvar=False, dtype=np.float64).reshape(x.shape[1], x.shape[1])
    return np.linalg.solve(cov + ridge * np.eye(len(cov)), gradient)
