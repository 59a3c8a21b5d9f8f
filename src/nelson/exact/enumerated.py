"""The distribution of a small formula by sums over all of its structures: exact.

    P_theta(x | C) = exp(sum_i theta_i x_i) / Z,      Z = sum over valid y of exp(sum_i theta_i y_i)

`law` is for one theta. `Enumerated` is for many: log Z, means, covariances and samples, the same
interface as `nelson.exact.compiled.Compiled`. O(m n) for m structures and one theta.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.errors import FormulaError, Unsatisfiable
from nelson.exact.listing import MAX_STRUCTURES, structures
from nelson.formula import Formula
from nelson.formula.memo import Slot

_ENUMERATED: Slot[Enumerated] = Slot("sums over all structures")
#: `law` checks all 2^n assignments, so it is for at most this many variables.
MAX_LAW_VARIABLES = 20
#: Rows of theta times structures held at once.
_MAX_SCORES = 1 << 24


def law(formula: Formula, theta: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """The structures (m, n) bool, in lexicographic order, and P_theta(x | C) of each (m,), for a
    formula of at most 20 variables. theta (n,) finite; None: uniform.
    """
    n = formula.n_vars
    if n > MAX_LAW_VARIABLES:
        raise FormulaError(f"{n} variables", expected=f"at most {MAX_LAW_VARIABLES} to enumerate")
    states = (np.arange(2**n)[:, None] >> np.arange(n - 1, -1, -1) & 1).astype(bool)
    states = states[formula.satisfied(states)]
    if not len(states):
        raise Unsatisfiable("no assignment satisfies the formula")
    return states, probabilities(states, np.zeros(n) if theta is None else theta)


def probabilities(states: np.ndarray, theta: Any) -> np.ndarray:
    """P_theta(x | C), (m,), of all structures (m, n); theta (n,) finite."""
    score = states @ np.asarray(theta, np.float64)
    weight = np.exp(score - score.max())
    return weight / weight.sum()


def finite(theta: np.ndarray) -> np.ndarray:
    """theta with 0 for hard evidence: its term of the potential is the same for every x."""
    return np.where(np.isinf(theta), 0.0, theta)


@dataclass
class Enumerated:
    """theta is (b, n); +-inf is hard evidence."""

    states: np.ndarray  # (m, n) bool, all structures
    exact: bool = True

    def __post_init__(self) -> None:
        if not len(self.states):
            raise Unsatisfiable("enumeration found no valid structure")
        self._x = self.states.astype(np.float64)

    @property
    def why(self) -> str:
        return f"exact: a sum over all {len(self.states)} structures"

    def log_z(self, theta: np.ndarray) -> np.ndarray:
        """(b,): log of the sum of exp(sum_i theta_i x_i) over finite theta_i and allowed x."""
        values = np.zeros(len(theta))
        for rows, scores in self._scores(theta):
            top = scores.max(axis=1, keepdims=True)
            values[rows] = top[:, 0] + np.log(np.exp(scores - top).sum(axis=1))
        return values

    def probabilities(self, theta: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Groups of rows of theta, and P_theta(x | C) of all structures, (rows, m), for each."""
        for rows, scores in self._scores(theta):
            scores -= scores.max(axis=1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=1, keepdims=True)
            yield rows, scores

    def mean(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b, n)."""
        parts = [p @ self._x for _, p in self.probabilities(theta)]
        return np.concatenate(parts) if parts else np.zeros(theta.shape)

    def pull(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Cov(x) v for each row: (b, n), (b, n) -> (b, n)."""
        out = np.zeros(theta.shape)
        for rows, p in self.probabilities(theta):
            along = v[rows] @ self._x.T
            along -= (p * along).sum(axis=1, keepdims=True)
            out[rows] = (p * along) @ self._x
        return out

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b, n, n)."""
        mean = self.mean(theta)
        out = np.zeros((*theta.shape, theta.shape[1]))
        for b, p in self._one_by_one(theta):
            centred = self._x - mean[b]
            out[b] = centred.T @ (p[:, None] * centred)
        return out

    def draw(self, theta: np.ndarray, count: int, seed: int) -> np.ndarray:
        """(b, count, n) bool: independent, by inversion of the distribution function."""
        rng = np.random.default_rng(seed)
        out = np.empty((len(theta), count, self.states.shape[1]), bool)
        for b, p in self._one_by_one(theta):
            total = p.cumsum()
            u = rng.random(count) * total[-1]
            out[b] = self.states[np.searchsorted(total, u, side="right")]
        return out

    def _one_by_one(self, theta: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """(b, P_theta(x | C) of all structures (m,)) for each row b of theta."""
        for rows, p in self.probabilities(theta):
            yield from enumerate(p, rows.start)

    def _scores(self, theta: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Potentials of all structures, some rows at a time; -inf where evidence forbids."""
        step = max(1, _MAX_SCORES // len(self.states))
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


def enumerated(formula: Formula, limit: int = MAX_STRUCTURES) -> Enumerated | None:
    """Sums over all structures; None if there are more than `limit`, or if they cannot be
    enumerated. Kept with the formula.
    """
    states = structures(formula, limit)
    return None if states is None else formula.memo.once(_ENUMERATED, lambda: Enumerated(states))
