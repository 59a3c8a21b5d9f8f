"""Weights on an enumerated set of structures: singles and pairs, with an exact log Z.

    P(x) ~ exp(sum of theta_i x_i + sum of phi_ij x_i x_j)      over the rows of a list

For sets whose structures fit into memory, such as the positions of connect-4: log Z is a sum over
all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Squares of weights cost this much, in nats over all examples: a normal prior of variance 1/10.
_PENALTY = 10.0
#: A pair has a weight only if at least this many structures have it: rarer ones teach nothing.
_MIN_STRUCTURES = 200
_STEPS = 60


@dataclass(frozen=True, eq=False)
class Listed:
    """A law on a list of structures; `bits`: the columns that have a theta, `pairs` (k, 2)."""

    bits: np.ndarray
    pairs: np.ndarray
    weights: np.ndarray
    log_z: float

    @classmethod
    def fit(
        cls, structures: np.ndarray, examples: np.ndarray, columns: np.ndarray, *, pairs: bool
    ) -> Listed:
        """The weights of greatest penalised likelihood. columns: bits that may have a weight."""
        from scipy.optimize import minimize

        varies = structures[:, columns].any(axis=0) & ~structures[:, columns].all(axis=0)
        bits = columns[varies]
        both = np.zeros((0, 2), int)
        if pairs:
            inside = structures[:, bits].astype(np.float32)
            often = np.triu(inside.T @ inside >= _MIN_STRUCTURES, 1)
            both = bits[np.argwhere(often)]
        features = _features(structures, bits, both)
        data = _features(examples, bits, both).mean(axis=0).astype(float)

        def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
            score = (features @ weights.astype(np.float32)).astype(float)
            top = score.max()
            share = np.exp(score - top)
            total = share.sum()
            shrink = _PENALTY / len(examples) * weights
            value = top + np.log(total) - weights @ data + 0.5 * shrink @ weights
            mean = features.T @ (share / total).astype(np.float32)
            return float(value), mean - data + shrink

        first = np.zeros(len(data))
        options = {"maxiter": _STEPS, "maxcor": 20}
        weights = minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x
        score = features @ weights
        log_z = float(score.max() + np.log(np.exp(score - score.max()).sum()))
        return cls(bits, both, weights, log_z)

    def log_prob(self, rows: np.ndarray) -> np.ndarray:
        """log P of rows that are in the list."""
        return _features(rows, self.bits, self.pairs) @ self.weights - self.log_z


def _features(rows: np.ndarray, bits: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """(rows, bits + pairs) float32."""
    found = np.empty((len(rows), len(bits) + len(pairs)), np.float32)
    found[:, : len(bits)] = rows[:, bits]
    for k, (a, b) in enumerate(pairs):
        found[:, len(bits) + k] = rows[:, a].astype(bool) & rows[:, b].astype(bool)
    return found
