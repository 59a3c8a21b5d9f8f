"""The reference for samples: the exact law or its marginals, and the noise of m exact samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nelson import Formula
from nelson.budget import Budget
from nelson.exact.compiled import compiled, why_not
from nelson.log_z import log_z

#: The whole law is compared if there are at most this many valid structures, else the marginals.
MAX_STRUCTURES = 20_000
#: Seconds for compiling a circuit, and for each count that confirms it.
SECONDS = 60.0

#: An L1 error, and the mean error of as many exact and independent samples.
Distance = tuple[float, float]


@dataclass
class Law:
    """The exact law: marginals, and all valid structures if there are at most MAX_STRUCTURES."""

    mean: np.ndarray | None  # None: not known
    rows: np.ndarray  # all valid structures (k, n) bool; k = 0 if they were not enumerated
    states: dict[bytes, float] | None  # packed structure -> probability
    how: str  # how it was computed, in words

    def distances(self, x: np.ndarray) -> tuple[Distance | None, Distance | None]:
        """Distances of the means and of the whole law, None where not known; x (m, n) bool."""
        if self.mean is None:
            return None, None
        of_means = np.abs(x.mean(axis=0) - self.mean).sum(), noise(self.mean, len(x))
        if self.states is None:
            return of_means, None
        distinct, counts = np.unique(np.packbits(x, axis=1), axis=0, return_counts=True)
        share = {row.tobytes(): c / len(x) for row, c in zip(distinct, counts, strict=True)}
        gap = sum(abs(share.get(key, 0.0) - p) for key, p in self.states.items())
        gap += sum(v for key, v in share.items() if key not in self.states)
        p = np.array(list(self.states.values()))
        return of_means, (gap, noise(p, len(x)))


def noise(p: np.ndarray, m: int) -> float:
    """sum_i E|X_i / m - p_i| for X_i ~ Bin(m, p_i).

    Each term is De Moivre's mean absolute deviation, 2 k C(m, k) p^k (1 - p)^(m - k + 1) / m with
    k = floor(m p) + 1.
    """
    from scipy.special import gammaln

    p = p[(p > 0) & (p < 1)]
    k = np.floor(m * p) + 1
    ways = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1)
    return float((2 * k / m * np.exp(ways + k * np.log(p) + (m - k + 1) * np.log1p(-p))).sum())


def exact(formula: Formula, theta: np.ndarray) -> Law:
    """The law of a formula under theta.

    A CDCL solver enumerates the valid structures if there are few. Otherwise the marginals come
    from a circuit of D4, and ganak, a counter that shares no code with D4, must confirm those of
    the first three variables.
    """
    from pysat.solvers import Cadical153

    rows: list[list[int]] = []
    with Cadical153(bootstrap_with=formula.clauses()) as solver:
        for model in solver.enum_models():
            rows.append(model[: formula.n_vars])
            if len(rows) > MAX_STRUCTURES:
                break
    if len(rows) <= MAX_STRUCTURES:
        x = np.array(rows) > 0
        weight = np.exp(x @ theta - (x @ theta).max())
        p = weight / weight.sum()
        keys = (row.tobytes() for row in np.packbits(x, axis=1))
        states = dict(zip(keys, p.tolist(), strict=True))
        return Law(p @ x, x, states, f"{len(x):,} structures, enumerated")
    none = np.zeros((0, formula.n_vars), bool)
    circuit = compiled(formula, Budget.of(SECONDS))
    if circuit is None:
        return Law(None, none, None, f"exact values not known: {why_not(formula)}")
    mean = circuit.mean(theta[None])[0]
    total = log_z(formula, theta, method="count", seconds=SECONDS).value
    for i in range(3):
        given = formula.given([i + 1])
        with_i = log_z(given, theta, method="count", seconds=SECONDS).value
        if abs(np.exp(with_i - total) - mean[i]) > 1e-6:
            raise AssertionError(f"D4 and ganak disagree on variable {i + 1}")
    size = float(circuit.log_z(np.zeros((1, formula.n_vars)))[0]) / np.log(10)
    how = f"10^{size:.1f} structures; marginals by D4, checked by ganak"
    return Law(mean, none, None, how)
