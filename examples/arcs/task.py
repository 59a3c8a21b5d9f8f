"""What spanning trees and root-connected subgraphs share: popping, likelihoods, pictures."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from examples.arcs.arcs import Arcs, shortest_trees, traffic
from examples.arcs.picture import draw_one, draw_overview
from examples.arcs.popping import (
    DEFAULT_BUDGET,
    Budget,
    RandomStream,
    all_of,
    budget_of,
    finished,
    run,
)
from nelson.errors import FormulaError
from nelson.learning.metrics import Likelihood, mean_likelihood, potential
from nelson.log_z.result import LogPartition
from nelson_paper.tasks.base import EXAMPLES, Generated, Task
from nelson_paper.tasks.drawing import AnyPath


class ArcTask(Task):
    """`arcs`: the graph as flat arrays. Weights are finite: to rule an arc out, leave it out."""

    arcs: Arcs
    planted: np.ndarray
    #: The meaning of the widths in the middle panel of `picture`.
    legend: str

    def __init__(self, arcs: Arcs) -> None:
        self.arcs, self.n_vars, self.names = arcs, arcs.n_vars, arcs.names

    @property
    def root(self) -> Any:
        return self.arcs.labels[self.arcs.root]

    @abstractmethod
    def arc_law(self, theta: Any) -> np.ndarray:
        """The argument `law` of `popping.run`, (arcs,)."""

    @abstractmethod
    def simulated(self, n: int, seed: int) -> np.ndarray:
        """Examples of the kind that is not "planted", (n, n_vars) bool."""

    @abstractmethod
    def log_partition(self, theta: Any = None, **options: Any) -> LogPartition:
        """log Z(theta), exact or with its error."""

    @abstractmethod
    def strength(self, theta: Any) -> np.ndarray:
        """How strongly theta asks for each variable, from 0 to 1; pictures show it as width."""

    def roots(self) -> np.ndarray | None:
        """The argument `roots` of `popping.run`."""
        return None

    # ------------------------------------------------------------------------------------- drawing

    def pop(
        self, theta: Any, n: int, stream: RandomStream, budget: Budget = DEFAULT_BUDGET
    ) -> Generated:
        result, info = run(self.arcs, self.arc_law(theta), self.roots(), n, stream, budget)
        return finished(result, info, budget)

    def sample(self, theta: Any, n: int, *, seed: int = 0, **options: Any) -> Generated:
        """n independent structures; structure i is a function of (seed, start + i).

        Options: start (0), threads (all cores), max_pops (10 million per structure), seconds (60).
        If a budget runs out, info["status"] is "budget" and fewer structures come back; their law
        is still exact.
        """
        start, budget = budget_of(options)
        return self.pop(theta, n, RandomStream(seed, start=start), budget)

    def examples(self, n: int, *, seed: int = 0, kind: str | None = None) -> np.ndarray:
        if self.checked_kind(kind) == "planted":
            return all_of(self.pop(self.planted, n, RandomStream(seed, EXAMPLES)))
        return self.simulated(n, seed)

    def add_shortest_ways(self, x: np.ndarray, seed: int) -> np.ndarray:
        """Set in row k of x (m, n_vars) the shortest ways to the root in the traffic of day k."""
        choice = shortest_trees(self.arcs, traffic(self.arcs, len(x), seed))
        x[np.arange(len(x))[:, None], self.arcs.column[choice[:, self.arcs.others]]] = True
        return x

    # -------------------------------------------------------------------------------------- judging

    def log_likelihood(self, theta: Any, x: Any, log_z: LogPartition | None = None) -> Likelihood:
        """Mean log P_theta(x) over examples (N, n_vars), a `nelson.metrics.Likelihood`."""
        theta, x = self.checked_weights(theta), self.checked_data(x)
        log_z = self.log_partition(theta) if log_z is None else log_z
        return mean_likelihood(potential(theta, x), log_z.value, log_z.half_width, log_z.method)

    def further_report(
        self, theta: Any, generated: Generated, held_out: np.ndarray, train: Any, seed: int
    ) -> dict[str, Any]:
        """status, log_z, and the log-likelihoods with their 95% half-widths."""
        log_z = self.log_partition(theta, seed=seed)
        report: dict[str, Any] = {
            "status": generated.info["status"],
            "log_z": {
                "value": log_z.value,
                "half_width": log_z.half_width,
                "method": log_z.method,
            },
        }
        for name, x in (("log_likelihood", held_out), ("train_log_likelihood", train)):
            if x is not None:
                mean = self.log_likelihood(theta, x, log_z)
                report[name] = {"value": mean.value, "half_width": mean.half_width}
        return report

    # ------------------------------------------------------------------------------------- pictures

    def draw(self, x: Any, path: AnyPath, *, theta: Any = None, title: str | None = None) -> Path:
        """The graph with its root: kept arcs heavy, all others pale. Given theta, widths say how
        strongly it asks for each arc.
        """
        strength = None if theta is None else self.strength(theta)
        return draw_one(self.arcs, self.checked(x)[0], strength, title or "", path)

    def picture(self, data: Any, theta: Any, generated: Any, path: AnyPath) -> Path:
        data, generated = self.checked(data), self.checked(generated)
        return draw_overview(self.arcs, data, self.strength(theta), generated, self.legend, path)


def penalty_of(l2: float | None, examples: int) -> float:
    """The L2 penalty of `learn`; None: 0.1 / examples, a normal prior of variance 10."""
    penalty = 0.1 / examples if l2 is None else float(l2)
    if not penalty >= 0:
        raise FormulaError(f"l2 = {l2}", expected="a number >= 0")
    return penalty
