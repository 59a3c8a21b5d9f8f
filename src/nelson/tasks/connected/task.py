"""Subgraphs in which every vertex still reaches the root, weighted and learned from examples.

    P_theta(x) = exp(sum_a theta_a x_a) / Z(theta)    over x such that the kept arcs (x_a = 1) hold
                                                      a path from each vertex to the root

the law of arcs kept independently with probability p_a = 1 / (1 + e^-theta_a), given that. With
an undirected graph variables are edges and what is kept is a connected spanning subgraph, the law
behind all-terminal network reliability; the root has no influence then.

Draws: cluster popping (`nelson.tasks.arcs.kernels.popping`), exact. On graphs that have both arcs of each edge
with the same p, and so on undirected ones, it pops at most m n (1 - p) / p clusters on average, p
the smallest, n vertices, m edges (Guo and Jerrum, SIAM J. Comput. 2019); on others it may take
exponentially many: there is a budget.

log Z = log P(C) + sum log(1 + e^theta_a), P(C) the reliability. Merge vertices into the root one by
one: with R the root's set, v a vertex outside with arcs into it, C_R "each vertex reaches R", K
"an arc from v into R is kept",

    P(C_R) = P(K) P(C_(R + v)) / P(K | C_R)      since given K, reaching v is reaching R.

P(K) is known, P(K | C_R) >= P(K) is a mean of exact draws (or 1, where v has no other way); C_(all)
is certain. So log P(C) is a sum of at most n - 2 independent estimates. Undirected graphs have the
reliability of their two-way graph. Up to 18 variables Z is summed over all states instead.

Learning: theta += H^-1 (E_data[x] - E_model[x] - l2 theta), both H = Cov(x) and E_model from exact
draws; full steps first, then steps 1/k, which average the noise out.

Gauge. Every subset of arcs that contains a valid one is valid, so the only theta without effect are
those of arcs that no valid x can be without (bridges): `forced`. `learn` gives them 0.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar, Self

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError
from nelson.log_z.result import Z95, LogPartition
from nelson.tasks.arcs.arcs import formula_of, reached, read, shortest_trees, traffic
from nelson.tasks.arcs.task import ArcTask, refuse
from nelson.tasks.base import Drawn, Learned

#: Variables up to which log Z is a sum over all states.
LISTED = 18
#: Iterations of full steps; variables up to which Cov(x) is inverted in full.
_WARM, _DENSE = 12, 600


class RootConnected(ArcTask):
    """Of a networkx graph. root: None is its first vertex. per: "arc" or "edge"; None: edges if the
    graph is undirected. `seed` draws the planted theta.
    """

    name = "connected"
    #: planted: of the law of `planted`. backbone: shortest ways to the root in random traffic, and
    #: of the other arcs or edges one in four.
    KINDS: ClassVar[tuple[str, ...]] = ("planted", "backbone")
    legend = "probability to be kept, before conditioning"

    def __init__(
        self, graph: Any, root: Any = None, *, per: str | None = None, seed: int = 0
    ) -> None:
        if per is None:
            directed = getattr(graph, "is_directed", lambda: True)()
            per = "arc" if directed else "edge"
        self.arcs = read(graph, root, per)
        self.n_vars, self.names = self.arcs.n_vars, self.arcs.names
        self.forced = ~self.arcs.reaching(~np.eye(self.n_vars, dtype=bool))
        self.planted = self.canonical(np.random.default_rng([seed, 21]).normal(size=self.n_vars))
        self.formula = formula_of(self.arcs.cuts(), self.n_vars)

    @classmethod
    def small(cls, seed: int = 0) -> Self:
        """Twelve stations, links both ways between neighbours; the root is the most central."""
        from nelson.tasks.connected.network import network

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

    def sample(self, theta: Any, n: int, *, seed: int = 0, **options: Any) -> Drawn:
        """n independent subgraphs; number i is a function of (seed, start + i).

        Options: start (0), threads (all cores), max_pops (10 million clusters of one sample),
        seconds (60). If a budget ends first, info["status"] is "budget" and fewer come back; their
        law is exact all the same.
        """
        from nelson.tasks.arcs import popping

        start, budget = popping.budget_of(options)
        return self._pop(theta, n, popping.Counter(seed, start=start), budget)

    def examples(self, n: int, *, seed: int = 0, kind: str | None = None) -> np.ndarray:
        from nelson.tasks.arcs import popping

        if self.checked_kind(kind) == "planted":
            counter = popping.Counter(seed, popping.EXAMPLES)
            return popping.all_of(self._pop(self.planted, n, counter, popping.Budget()))
        x = np.random.default_rng([seed, 22]).random((n, self.n_vars)) < 0.25
        choice = shortest_trees(self.arcs, traffic(self.arcs, n, seed))
        others = np.arange(self.arcs.n) != self.arcs.root
        x[np.arange(n)[:, None], self.arcs.column[choice[:, others]]] = True
        return x

    def _pop(self, theta: Any, n: int, counter: Any, budget: Any) -> Drawn:
        from nelson.tasks.arcs import popping

        return popping.pop(self.arcs, self._kept(theta), self._roots(), n, counter, budget)

    def _kept(self, theta: Any) -> np.ndarray:
        """p of each arc."""
        return _sigmoid(self.checked_weights(theta))[self.arcs.column]

    def _roots(self) -> np.ndarray:
        roots = np.zeros(self.arcs.n, np.uint8)
        roots[self.arcs.root] = 1
        return roots

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

        method: "enumerate", "telescope" or "auto". samples: draws a stage. Options: threads,
        max_pops, seconds (of a stage).
        """
        theta = self.checked_weights(theta)
        started = time.monotonic()
        if method == "auto":
            method = "enumerate" if self.n_vars <= LISTED else "telescope"
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
        if self.n_vars > LISTED + 6:
            raise FormulaError(f"{self.n_vars} variables", expected=f"at most {LISTED + 6} to list")
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
        """(log P(C), variance, stages). v is the vertex likeliest to hold an arc into R."""
        from nelson.tasks.arcs import popping

        _, budget = popping.budget_of(options)
        arcs, p = self.arcs, self._kept(theta)
        log_lost = np.log1p(-p)
        roots, log_p, variance, stages = self._roots(), 0.0, 0.0, 0
        for _ in range(arcs.n - 1):
            into = (roots[arcs.head] == 1) & (roots[arcs.tail] == 0)
            none_kept = np.bincount(arcs.tail[into], log_lost[into], arcs.n)
            v = int(np.argmin(none_kept))
            log_p += float(np.log(-np.expm1(none_kept[v])))
            into &= arcs.tail == v
            if reached(arcs, roots, ~into)[v]:  # else C_R implies K
                counter = popping.Counter(seed, popping.STAGES + stages)
                result, _ = popping.run(arcs, p, roots, samples, counter, budget, tell_arcs=True)
                drawn = result.x[result.done == 1][:, into].any(axis=1)
                hits = int(drawn.sum())
                if not hits:
                    raise BudgetExceeded(f"no draw of {samples:,} keeps an arc of vertex {v}")
                log_p -= float(np.log(hits / len(drawn)))
                variance += max(len(drawn) - hits, 1) / (hits * len(drawn))
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
        """The likeliest theta, by moments. l2 None: 0.1 / N, a normal prior of variance 10.
        samples: exact draws an iteration.
        """
        from nelson.tasks.arcs import popping

        refuse(options, "l2, iterations, samples")
        started = time.monotonic()
        x = self.checked_data(data)
        seen, free = x.mean(axis=0), ~self.forced
        penalty = 0.1 / len(x) if l2 is None else float(l2)
        if not penalty >= 0:
            raise FormulaError(f"l2 = {l2}", expected="a number >= 0")
        usual = (x.sum(axis=0) + 0.5) / (len(x) + 1)
        theta = self.canonical(
            np.log(usual) - np.log1p(-usual)
        )  # right if nothing were conditioned
        history: list[dict[str, Any]] = []
        for k in range(iterations + 1):
            counter = popping.Counter(seed, popping.LEARNING, k * samples)
            drawn = self._pop(theta, samples, counter, popping.Budget())
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
                rate = 1.0 if k < _WARM else 1 / (k - _WARM + 2)
                theta = theta + np.clip(rate * _newton(drawn.x, gradient, penalty), -1.0, 1.0)
        # The last draws were made with the final theta and did not move it.
        sigmas = history[-1]["noise"]
        return Learned(
            theta,
            history,
            time.monotonic() - started,
            sigmas < 1.5,
            f"the gradient is {sigmas:.2f} times its noise (root mean square; 1 is what is left)",
            "exact",
            {"l2": penalty, "samples": samples},
        )

    def canonical(self, theta: Any) -> np.ndarray:
        """theta with 0 where it has no effect."""
        return np.where(self.forced, 0.0, self.checked_weights(theta))

    def strength(self, theta: Any) -> np.ndarray:
        return _sigmoid(self.checked_weights(theta))


def _sigmoid(theta: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -theta))


def _newton(x: np.ndarray, gradient: np.ndarray, penalty: float) -> np.ndarray:
    """(Cov(x) + penalty)^-1 gradient; a little more on the diagonal, as Cov(x) is an estimate."""
    ridge = penalty + 1e-3
    if x.shape[1] > _DENSE:
        return 0.5 * gradient / (x.var(axis=0) + ridge)
    cov = np.cov(x, rowvar=False, dtype=np.float64).reshape(x.shape[1], x.shape[1])
    return np.linalg.solve(cov + ridge * np.eye(len(cov)), gradient)
