"""Means and covariances of P_theta(x | C), which are the derivatives of log Z.

    d log Z / d theta_i           = E[x_i]
    d^2 log Z / d theta_i d theta_j = Cov(x_i, x_j)

Two sources have one interface (`Moments`). theta is (b, n) and may hold +-inf: hard evidence. All
arrays are float64 NumPy.

    exact.law.Law  exact: sums over all m structures, O(b m n), or a circuit, O(b edges)
    Sampled        k samples per row: standard errors sqrt(E[x_i] (1 - E[x_i]) / k)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nelson.budget import Budget
from nelson.exact.compiled import Compiled
from nelson.exact.enumerated import Enumerated, enumerated, finite
from nelson.exact.law import Law, law
from nelson.exact.listing import all_structures
from nelson.exact.routes import CIRCUIT, ENUMERATE
from nelson.formula import Formula
from nelson.formula.checks import evidence_of
from nelson.log_z.compute import log_z
from nelson.log_z.exact import circuit_of
from nelson.log_z.result import LogPartition
from nelson.policy import DEFAULT


class Moments(Protocol):
    """A source of means and covariances; `why` says which, and how exact it is."""

    @property
    def exact(self) -> bool: ...
    @property
    def why(self) -> str: ...
    def mean(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b, n)."""

    def pull(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Cov(x) v for each row: (b, n), (b, n) -> (b, n)."""

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b, n, n)."""


@dataclass
class Sampled:
    """Moments of `count` samples per row, from draw(theta, count, k) -> (b, count, n) bool, or of
    fewer if a limit ended the draw.

    Rows are processed in groups that fit in memory; k is the number of the group. `draw` must
    return the same samples for the same arguments: then all moments of one theta are moments of
    the same samples.
    """

    draw: Callable[[np.ndarray, int, int], np.ndarray]
    count: int
    exact: bool = False
    cells: int = 1 << 24  # samples x variables held at once

    @property
    def why(self) -> str:
        error = 0.5 / np.sqrt(self.count)
        return f"estimated from {self.count} samples: standard errors of means up to {error:.2g}"

    def _samples(self, theta: np.ndarray) -> Iterator[tuple[int, Any]]:
        """(row, its samples (count, n), bool: an array, or a tensor on a GPU)."""
        group = max(1, self.cells // max(1, self.count * theta.shape[1]))
        for k, first in enumerate(range(0, len(theta), group)):
            yield from enumerate(self.draw(theta[first : first + group], self.count, k), first)

    def _numbers(self, theta: np.ndarray) -> Iterator[tuple[int, Any]]:
        """The same as float64, eight times as large."""
        for b, x in self._samples(theta):
            yield b, x.astype(np.float64) if isinstance(x, np.ndarray) else x.double()

    def mean(self, theta: np.ndarray) -> np.ndarray:
        out = np.zeros(theta.shape)
        for b, x in self._samples(theta):
            out[b] = _host(x.sum(0)) / len(x) if len(x) else np.nan
        return out

    def pull(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        out = np.zeros(theta.shape)
        for b, x in self._numbers(theta):
            along = x @ (v[b] if isinstance(x, np.ndarray) else x.new_tensor(v[b]))
            out[b] = _host((along - along.mean()) @ x / max(1, len(x) - 1))
        return out

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        out = np.zeros((*theta.shape, theta.shape[1]))
        for b, x in self._numbers(theta):
            x -= x.mean(0)
            out[b] = _host(x.T @ x / max(1, len(x) - 1))
        return out


def _host(x: Any) -> np.ndarray:
    return x if isinstance(x, np.ndarray) else x.cpu().numpy()


def condition(formula: Formula, theta: np.ndarray) -> Formula:
    """The formula given the evidence in theta (n,): its infinite entries."""
    evidence = evidence_of(formula, None, theta)
    return formula.given(evidence) if evidence else formula


def moments_of(formula: Formula, rows: int = 1, budget: Budget | None = None) -> Law | None:
    """The exact law, for `rows` rows of theta; None if there is none within the budget."""
    exact_law = law(formula, budget=budget, rows=rows)
    return exact_law if isinstance(exact_law, Law) else None


def once_per_row(theta: np.ndarray, function: Callable[[np.ndarray], Any]) -> list[Any]:
    """function(row) for each row; equal rows share one call."""
    seen: dict[bytes, Any] = {}
    for row in theta:
        if (key := row.tobytes()) not in seen:
            seen[key] = function(row)
    return [seen[row.tobytes()] for row in theta]


def log_z_rows(
    formula: Formula, theta: np.ndarray, method: str, options: dict[str, Any]
) -> list[LogPartition]:
    """log Z of each row of theta (b, n); the sums run over the finite theta_i.

    "auto": from all structures or from a circuit, which are kept with the formula, if there are
    any; else from `nelson.log_z`. `enumerate` and `circuit` are made once for all rows. The option
    `seconds` is the time for all rows together.
    """
    started, budget = time.monotonic(), Budget.of(options.get("seconds"))
    source: Law | Enumerated | Compiled | None = None
    if method == "auto":
        share = DEFAULT.log_z.exact_share
        source = moments_of(formula, len(theta), budget.share(share))
    elif method == ENUMERATE:
        all_structures(formula)  # raises BudgetExceeded if they cannot be enumerated
        source = enumerated(formula)
    elif method == CIRCUIT:
        source = circuit_of(formula, budget)
    if source is not None:
        name = method if method != "auto" or not isinstance(source, Law) else source.method
        values = source.log_z(theta)
        each = (time.monotonic() - started) / max(1, len(values))
        return [LogPartition(float(v), 0.0, name, source.why, each, True, {}) for v in values]
    left = len({row.tobytes() for row in theta})

    def log_z_of_row(row: np.ndarray) -> LogPartition:
        nonlocal left
        more = {}
        if not budget.counted:
            more["seconds"] = max(budget.left, 1e-3) / left
            left -= 1
        given = condition(formula, row)
        return log_z(given, finite(row), method=method, **(options | more))

    return once_per_row(theta, log_z_of_row)
