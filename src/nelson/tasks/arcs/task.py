"""What spanning trees and root-connected subgraphs share: a rooted graph, likelihoods, pictures."""

from __future__ import annotations

import os
from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError
from nelson.log_z.result import Z95, LogPartition
from nelson.tasks.arcs.arcs import Arcs
from nelson.tasks.base import Task


def refuse(options: dict[str, Any], known: str) -> None:
    """Unknown options are errors."""
    for name in options:
        raise FormulaError(f"option {name!r}", expected=known)


class ArcTask(Task):
    """`arcs`: the graph as flat arrays. Weights are finite: to rule an arc out, leave it out."""

    arcs: Arcs
    #: What the widths in the middle of `picture` are.
    legend: str

    @property
    def root(self) -> Any:
        return self.arcs.labels[self.arcs.root]

    @abstractmethod
    def log_partition(self, theta: Any = None, **options: Any) -> LogPartition:
        """log Z(theta), exact or with its error."""

    @abstractmethod
    def strength(self, theta: Any) -> np.ndarray:
        """How strongly theta asks for each variable, from 0 to 1: what pictures show as width."""

    def checked_weights(self, theta: Any) -> np.ndarray:
        found = super().checked_weights(theta)
        if not np.isfinite(found).all():
            name = self.names[int(np.flatnonzero(~np.isfinite(found))[0])]
            raise FormulaError(
                f"theta of {name} is infinite",
                expected="finite weights; leave the arc out of the graph instead",
            )
        return found

    def log_likelihood(self, theta: Any, x: Any, log_z: LogPartition | None = None) -> Any:
        """Mean log P_theta(x) over examples (N, n_vars), a `nelson.metrics.Likelihood`."""
        from nelson.learning.metrics import Likelihood, potential

        theta, x = self.checked_weights(theta), self.checked_data(x)
        log_z = self.log_partition(theta) if log_z is None else log_z
        phi = potential(theta, x)
        spread = float(phi.std(ddof=1)) if len(phi) > 1 else float("nan")
        data_error = Z95 * spread / np.sqrt(len(phi))
        return Likelihood(
            float(phi.mean()) - log_z.value,
            float(np.hypot(data_error, log_z.half_width)),
            log_z.value,
            log_z.half_width,
            float(data_error),
            len(phi),
            log_z.method,
        )

    def evaluate(
        self,
        theta: Any,
        held_out: Any,
        *,
        train: Any = None,
        n: int = 2000,
        seed: int = 0,
        **options: Any,
    ) -> dict[str, Any]:
        """As `Task.evaluate`; also log_z, log_likelihood of the held-out examples and, given
        `train`, train_log_likelihood: nats an example with 95% half-widths.
        """
        held_out = self.checked_data(held_out)
        drawn = self.sample(theta, n, seed=seed, **options)
        if not len(drawn):
            raise BudgetExceeded(drawn.info["reason"])
        report = {**self.compare(drawn, held_out), "status": drawn.info["status"]}
        log_z = self.log_partition(theta, seed=seed)
        report["log_z"] = {
            "value": log_z.value,
            "half_width": log_z.half_width,
            "method": log_z.method,
        }
        for name, x in (("log_likelihood", held_out), ("train_log_likelihood", train)):
            if x is not None:
                found = self.log_likelihood(theta, x, log_z)
                report[name] = {"value": found.value, "half_width": found.half_width}
        return report

    def draw(
        self,
        x: Any,
        path: str | os.PathLike[str],
        *,
        theta: Any = None,
        title: str | None = None,
    ) -> Path:
        """The graph with its root; the structure heavy, what is left out pale. Given theta, widths
        say how strongly it asks for each arc.
        """
        from nelson.tasks.arcs.picture import draw_one

        x = self.checked(x)[0]
        strength = None if theta is None else self.strength(theta)
        return draw_one(self.arcs, x, strength, title or "", path)

    def picture(self, data: Any, theta: Any, generated: Any, path: str | os.PathLike[str]) -> Path:
        from nelson.tasks.arcs.picture import overview

        data, generated = self.checked(data), self.checked(generated)
        return overview(self.arcs, data, self.strength(theta), generated, self.legend, path)
