"""Means and covariances of P_theta(x | C), which are the derivatives of log Z.

    d log Z / d theta_i           = E[x_i]
    d^2 log Z / d theta_i d theta_j = Cov(x_i, x_j)

Three sources, one interface: `mean(theta)` (b, n) -> (b, n), `pull(theta, v)` = Cov(x) v, (b, n),
`covariance(theta)` (b, n, n). theta may hold +-inf: hard evidence. Everything is float64 NumPy.

    Enumerated         exact: sums over all structures, O(b m n)
    compiled.Compiled  exact: a circuit, O(b edges)
    Sampled            k samples a row: standard errors sqrt(E[x_i] (1 - E[x_i]) / k)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.exact.listing import all_structures, structures
from nelson.formula import Formula
from nelson.formula.memo import Slot

if TYPE_CHECKING:
    from nelson.exact.compiled import Compiled
    from nelson.log_z import LogPartition

_ENUMERATED: Slot[Enumerated | None] = Slot("sums over all structures")
#: Rows times structures held at once.
_CHUNK = 1 << 24


class Moments(Protocol):
    """Where means and covariances come from."""

    @property
    def exact(self) -> bool: ...
    @property
    def why(self) -> str: ...
    def mean(self, theta: np.ndarray) -> np.ndarray: ...
    def pull(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray: ...
    def covariance(self, theta: np.ndarray) -> np.ndarray: ...


def finite(theta: np.ndarray) -> np.ndarray:
    """theta with 0 for hard evidence, whose part of the potential is the same for every x."""
    return np.where(np.isinf(theta), 0.0, theta)


@dataclass
class Enumerated:
    states: np.ndarray  # (m, n) bool, all structures
    exact: bool = True

    def __post_init__(self) -> None:
        if not len(self.states):
            raise Unsatisfiable("enumeration found no valid structure")
        self._x = self.states.astype(np.float64)

    @property
    def why(self) -> str:
        return f"exact: a sum over all {len(self.states)} structures"

    def _scores(self, theta: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Potentials of all structures, some rows at a time; -inf where evidence forbids."""
        step = max(1, _CHUNK // len(self.states))
        for first in range(0, len(theta), step):
            rows = slice(first, first + step)
            scores = finite(theta[rows]) @ self._x.T
            for b in np.flatnonzero(np.isinf(theta[rows]).any(1)):
                fixed = np.flatnonzero(np.isinf(theta[first + b]))
                wrong = (self.states[:, fixed] != (theta[first + b, fixed] > 0)).any(1)
                scores[b, wrong] = -np.inf
                if wrong.all():
                    raise Unsatisfiable("no valid structure agrees with the infinite log-odds")
            yield rows, scores

    def probabilities(self, theta: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        for rows, scores in self._scores(theta):
            scores -= scores.max(axis=1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=1, keepdims=True)
            yield rows, scores

    def log_z(self, theta: np.ndarray) -> np.ndarray:
        """(b,): log of the sum of exp(sum_i theta_i x_i) over finite theta_i and allowed x."""
        values = np.zeros(len(theta))
        for rows, scores in self._scores(theta):
            top = scores.max(axis=1, keepdims=True)
            values[rows] = top[:, 0] + np.log(np.exp(scores - top).sum(axis=1))
        return values

    def mean(self, theta: np.ndarray) -> np.ndarray:
        parts = [p @ self._x for _, p in self.probabilities(theta)]
        return np.concatenate(parts) if parts else np.zeros(theta.shape)

    def pull(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        out = np.zeros(theta.shape)
        for rows, p in self.probabilities(theta):
            along = v[rows] @ self._x.T
            along -= (p * along).sum(axis=1, keepdims=True)
            out[rows] = (p * along) @ self._x
        return out

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        mean = self.mean(theta)
        out = np.zeros((*theta.shape, theta.shape[1]))
        for rows, p in self.probabilities(theta):
            for b, row in zip(range(rows.start, rows.start + len(p)), p, strict=True):
                centred = self._x - mean[b]
                out[b] = centred.T @ (row[:, None] * centred)
        return out

    def draw(self, theta: np.ndarray, count: int, seed: int) -> np.ndarray:
        """(b, count, n) bool: independent, by inversion of the distribution function."""
        rng = np.random.default_rng(seed)
        out = np.empty((len(theta), count, self.states.shape[1]), bool)
        for rows, p in self.probabilities(theta):
            total = p.cumsum(axis=1)
            for b, row in zip(range(rows.start, rows.start + len(p)), total, strict=True):
                u = rng.random(count) * row[-1]
                out[b] = self.states[np.searchsorted(row, u, side="right")]
        return out


@dataclass
class Sampled:
    """Moments of `count` samples a row, from draw(theta, count, k) -> (b, count, n) bool.

    Rows are taken in groups that fit in memory, k being the number of the group; `draw` gives the
    same samples for the same arguments, so that all moments of one theta are moments of the same
    samples.
    """

    draw: Callable[[np.ndarray, int, int], np.ndarray]
    count: int
    exact: bool = False

    @property
    def why(self) -> str:
        error = 0.5 / np.sqrt(self.count)
        return f"estimated from {self.count} samples: standard errors of means up to {error:.2g}"

    def _samples(self, theta: np.ndarray) -> Iterator[tuple[int, Any]]:
        """(row, its samples as (count, n) float64, an array or a tensor where they were drawn)."""
        group = max(1, _CHUNK // max(1, self.count * theta.shape[1]))
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
    """The formula given the infinities of theta (n,)."""
    fixed = np.flatnonzero(np.isinf(theta))
    if not len(fixed):
        return formula
    return formula.given([int(i) + 1 if theta[i] > 0 else -int(i) - 1 for i in fixed])


def enumerated(formula: Formula) -> Enumerated | None:
    """Sums over all structures, if they can be listed; kept with the formula."""
    return formula.memo.once(_ENUMERATED, lambda: _enumerate(formula))


def _enumerate(formula: Formula) -> Enumerated | None:
    states = structures(formula)
    return None if states is None else Enumerated(states)


def moments_of(formula: Formula) -> Enumerated | Compiled | None:
    """The exact moments there are: from the list of structures, from a circuit, or none."""
    from nelson.exact.compiled import compiled

    return enumerated(formula) or compiled(formula)


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
    """log Z of each row of theta (b, n); over finite theta_i where some are infinite.

    "auto": from the list of all structures or from a circuit, both kept with the formula, if there
    is one, else from `nelson.partition`.
    """
    from nelson.exact.compiled import Compiled
    from nelson.log_z import LogPartition, log_partition

    started = time.monotonic()
    kept = moments_of(formula) if method == "auto" else None
    if method == "enumerate":
        kept = enumerated(formula)
        all_structures(formula)  # says why not, where not
    if kept is not None:
        name = "circuit" if isinstance(kept, Compiled) else "enumerate"
        values = kept.log_z(theta)
        seconds = (time.monotonic() - started) / max(1, len(values))
        return [LogPartition(float(v), 0.0, name, kept.why, seconds, True, {}) for v in values]
    return once_per_row(
        theta,
        lambda row: log_partition(condition(formula, row), finite(row), method=method, **options),
    )
