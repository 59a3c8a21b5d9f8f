"""The distribution of a small formula by sums over all of its structures: exact.

    P_theta(x | C) = exp(sum_i theta_i x_i) / Z,      Z = sum over valid y of exp(sum_i theta_i y_i)

`law` is for one theta. `Enumerated` is for many: log Z, means, covariances and samples, the same
interface as `nelson.exact.compiled.Compiled`. O(m n) for m structures and one theta.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.errors import FormulaError, Unsatisfiable
from nelson.exact.listing import MAX_STRUCTURES, structures
from nelson.exact.mode import best_row
from nelson.formula import Formula
from nelson.formula.memo import Slot

_ENUMERATED: Slot[Enumerated] = Slot("sums over all structures")
#: `law` checks all 2^n assignments, so it is for at most this many variables.
MAX_LAW_VARIABLES = 20


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


def evidence_in(theta: np.ndarray) -> list[int]:
    """The literals that infinite log-odds (n,) fix."""
    fixed = np.flatnonzero(np.isinf(theta)) + 1
    return np.where(theta[fixed - 1] > 0, fixed, -fixed).tolist()


@dataclass
class Enumerated:
    """theta is (b, n); +-inf is hard evidence."""

    states: np.ndarray  # (m, n) bool, all structures
    exact: bool = True

    def __post_init__(self) -> None:
        # Structures x variables that are held as numbers: 128 MiB. More are converted when needed.
        max_numbers = 1 << 24
        if not len(self.states):
            raise Unsatisfiable("enumeration found no valid structure")
        step = max(1, max_numbers // max(1, self.states.shape[1]))
        self._cuts = [slice(a, a + step) for a in range(0, len(self.states), step)]
        self._only = self.states.astype(np.float64) if len(self._cuts) == 1 else None

    def _blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Some structures at a time, as numbers (rows, n): all at once unless there are many."""
        for cut in self._cuts:
            yield cut, self.states[cut].astype(np.float64) if self._only is None else self._only

    def _along(self, v: np.ndarray) -> np.ndarray:
        """v . x of all structures: (b, n) -> (b, m)."""
        return np.concatenate([v @ x.T for _, x in self._blocks()], axis=1)

    def _summed(self, weight: np.ndarray) -> np.ndarray:
        """The sum of weight x over all structures: (b, m) -> (b, n)."""
        return np.add.reduce([weight[:, cut] @ x for cut, x in self._blocks()])

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
        parts = [self._summed(p) for _, p in self.probabilities(theta)]
        return np.concatenate(parts) if parts else np.zeros(theta.shape)

    def pull(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Cov(x) v for each row: (b, n), (b, n) -> (b, n)."""
        out = np.zeros(theta.shape)
        for rows, p in self.probabilities(theta):
            along = self._along(v[rows])
            along -= (p * along).sum(axis=1, keepdims=True)
            out[rows] = self._summed(p * along)
        return out

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b, n, n)."""
        mean = self.mean(theta)
        out = np.zeros((*theta.shape, theta.shape[1]))
        for b, p in self._one_by_one(theta):
            for cut, x in self._blocks():
                centred = x - mean[b]
                out[b] += centred.T @ (p[cut, None] * centred)
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

    def count(self, evidence: Sequence[int] = ()) -> int:
        """The number of structures in which all literals of the evidence hold."""
        return int(self._allowed(evidence).sum())

    def rows(self, evidence: Sequence[int], columns: np.ndarray) -> np.ndarray:
        """These structures, (m, columns) bool."""
        return self.states[np.ix_(self._allowed(evidence), columns)]

    def _allowed(self, evidence: Sequence[int]) -> np.ndarray:
        literals = np.array(evidence, np.int64)
        return (self.states[:, np.abs(literals) - 1] == (literals > 0)).all(axis=1)

    def mode(self, theta: np.ndarray) -> np.ndarray:
        """(n,), may be infinite -> (n,) bool: a structure of greatest weight."""
        allowed = self.states[self._allowed(evidence_in(theta))]
        if not len(allowed):
            raise Unsatisfiable("no valid structure agrees with the infinite log-odds")
        return best_row(allowed, finite(theta))

    def _one_by_one(self, theta: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """(b, P_theta(x | C) of all structures (m,)) for each row b of theta."""
        for rows, p in self.probabilities(theta):
            yield from enumerate(p, rows.start)

    def _scores(self, theta: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Potentials of all structures, some rows at a time; -inf where evidence forbids."""
        # Rows of theta times structures held at once.
        max_scores = 1 << 24
        step = max(1, max_scores // len(self.states))
        for first in range(0, len(theta), step):
            rows = slice(first, first + step)
            scores = self._along(finite(theta[rows]))
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
