"""Means and covariances of P_theta(x | C), which are the derivatives of log Z.

    d log Z / d theta_i           = E[x_i]
    d^2 log Z / d theta_i d theta_j = Cov(x_i, x_j)

Three sources have one interface (`Moments`). theta is (b, n) and may hold +-inf: hard evidence.
All arrays are float64 NumPy.

    exact.enumerated.Enumerated  exact: sums over all m structures, O(b m n)
    exact.compiled.Compiled      exact: a circuit, O(b edges)
    Sampled                      k samples per row: standard errors sqrt(E[x_i] (1 - E[x_i]) / k)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nelson.errors import BudgetExceeded, NelsonError
from nelson.exact.circuit.effort import SECONDS_PER_EFFORT
from nelson.exact.compiled import Compiled, compiled, why_not
from nelson.exact.enumerated import Enumerated, enumerated, finite
from nelson.exact.listing import MAX_STRUCTURES, all_structures
from nelson.formula import Formula
from nelson.formula.checks import evidence_of
from nelson.log_z import exact
from nelson.log_z.compute import log_partition
from nelson.log_z.plain import SECONDS
from nelson.log_z.result import LogPartition
from nelson.sampling.sample_stream import sample

#: A formula is enumerated before a compiler is started if structures x variables is at most this.
#: A search that ends at this limit takes about 20 ms, a compiler 200 ms.
FEW = 1 << 20
#: Sums over few structures are used at once if rows x structures x variables is at most this: they
#: then take less time than a compiler.
QUICK = 1 << 26
#: Samples for `means`.
_ESTIMATED_FROM = 1 << 16
#: Samples times variables held at once.
_MAX_DRAWN = 1 << 24


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
    """Moments of `count` samples per row, from draw(theta, count, k) -> (b, count, n) bool.

    Rows are processed in groups that fit in memory; k is the number of the group. `draw` must
    return the same samples for the same arguments: then all moments of one theta are moments of
    the same samples.
    """

    draw: Callable[[np.ndarray, int, int], np.ndarray]
    count: int
    exact: bool = False

    @property
    def why(self) -> str:
        error = 0.5 / np.sqrt(self.count)
        return f"estimated from {self.count} samples: standard errors of means up to {error:.2g}"

    def _samples(self, theta: np.ndarray) -> Iterator[tuple[int, Any]]:
        """(row, its samples (count, n) as float64: an array, or a tensor on a GPU)."""
        group = max(1, _MAX_DRAWN // max(1, self.count * theta.shape[1]))
        for k, first in enumerate(range(0, len(theta), group)):
            for b, x in enumerate(self.draw(theta[first : first + group], self.count, k), first):
                yield b, x.astype(np.float64) if isinstance(x, np.ndarray) else x.double()

    def mean(self, theta: np.ndarray) -> np.ndarray:
        out = np.zeros(theta.shape)
        for b, x in self._samples(theta):
            out[b] = _host(x.mean(0))
        return out

    def pull(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        out = np.zeros(theta.shape)
        for b, x in self._samples(theta):
            along = x @ (v[b] if isinstance(x, np.ndarray) else x.new_tensor(v[b]))
            out[b] = _host((along - along.mean()) @ x / (self.count - 1))
        return out

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        out = np.zeros((*theta.shape, theta.shape[1]))
        for b, x in self._samples(theta):
            x -= x.mean(0)
            out[b] = _host(x.T @ x / (self.count - 1))
        return out


def _host(x: Any) -> np.ndarray:
    return x if isinstance(x, np.ndarray) else x.cpu().numpy()


def condition(formula: Formula, theta: np.ndarray) -> Formula:
    """The formula given the evidence in theta (n,): its infinite entries."""
    evidence = evidence_of(formula, None, theta)
    return formula.given(evidence) if evidence else formula


def moments_of(formula: Formula, rows: int = 1) -> Enumerated | Compiled | None:
    """Exact moments for `rows` rows of theta, from the cheaper source; None if there is none.

    For one row, sums over m structures cost m n operations and a circuit costs one per edge. To
    enumerate few structures is cheaper than to start a compiler; the compiler is cheaper than to
    enumerate many. So that is the order. If the formula does not compile, all structures are
    enumerated, up to the limit of `nelson.exact.listing`.
    """
    few = enumerated(formula, min(MAX_STRUCTURES, FEW // max(1, formula.n_total)))
    if few is not None and few.states.size * rows <= QUICK:
        return few
    circuit = compiled(formula)
    if circuit is None:
        return few or enumerated(formula)
    return few if few is not None and few.states.size <= circuit.edges else circuit


def means(
    formula: Formula, theta: np.ndarray, seed: int | None = 0
) -> tuple[np.ndarray, str, float]:
    """(E[x_i] of all variables, guarantee, largest standard error) of one theta (n,).

    Exact where `moments_of` has a source; else from samples, with their guarantee.
    """
    source = moments_of(formula)
    if source is not None:
        return source.mean(theta[None, :])[0], "exact", 0.0
    drawn = sample(formula, theta, _ESTIMATED_FROM, project="all", seed=seed)
    return drawn.mean(), drawn.guarantee, 0.5 / float(np.sqrt(max(1, len(drawn))))


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
    any; else from `log_partition`. "enumerate" and "circuit" are made once for all rows. The option
    `seconds` is the time for all rows together.
    """
    started, seconds = time.monotonic(), options.get("seconds")
    kept: Enumerated | Compiled | None = None
    if method == "auto":
        kept = moments_of(formula, len(theta))
    elif method == "enumerate":
        all_structures(formula)  # raises BudgetExceeded if they cannot be enumerated
        kept = enumerated(formula)
    elif method == "circuit":
        kept = _circuit(formula, seconds)
    if kept is not None:
        name = "circuit" if isinstance(kept, Compiled) else "enumerate"
        values = kept.log_z(theta)
        each = (time.monotonic() - started) / max(1, len(values))
        return [LogPartition(float(v), 0.0, name, kept.why, each, True, {}) for v in values]
    left = len({row.tobytes() for row in theta})

    def one(row: np.ndarray) -> LogPartition:
        nonlocal left
        more = {}
        if seconds is not None:
            more["seconds"] = max(seconds - (time.monotonic() - started), 1e-3) / left
            left -= 1
        given = condition(formula, row)
        return log_partition(given, finite(row), method=method, **(options | more))

    return once_per_row(theta, one)


def _circuit(formula: Formula, seconds: float | None) -> Compiled:
    """Raises if D4 is not installed, or did not compile the formula within its limits."""
    found = compiled(formula, seconds, effort=SECONDS / SECONDS_PER_EFFORT)
    if found is None:
        if lacking := exact.missing("circuit"):
            raise NelsonError(lacking)
        raise BudgetExceeded(f"{formula!r} was not compiled to a circuit: {why_not(formula)}")
    return found
