"""The paper's dense formulation of Algorithm 1, in plain NumPy.

For a formula with n variables, L clauses and at most K literals per clause:

    W (L, K, n) in {-1, 0, 1}   +1 / -1 where literal k of clause j is X_i / not X_i
    b (L, K)    in {0, 1}       1 where literal k of clause j is negated
    V (L, n)    in {0, 1}       1 where clause j mentions variable i

and for an assignment x (n,) or a batch (m, n)

    Z = W x + b                 value of each literal      (..., L, K)
    S = 1 - max_k Z             1 where a clause is violated (..., L)
    A = 1[S V >= 1]             1 where a variable is resampled (..., n)

A clause with fewer than K literals is padded with zero rows: literals that are never true. A round
takes O(L K n) memory and time, so this code is only for readers, tests and comparisons. The paper
states the shape of b as (L, n), but it is (L, K).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from nelson.formula import Formula


class Dense(NamedTuple):
    """A formula as three arrays."""

    W: np.ndarray
    b: np.ndarray
    V: np.ndarray


def build(f: Formula) -> Dense:
    """W, b, V of a formula; auxiliary variables count as variables."""
    lengths = np.diff(f.offsets)
    clause = np.repeat(np.arange(f.n_clauses), lengths)
    position = np.arange(f.literals.size) - np.repeat(f.offsets[:-1], lengths)
    variable = np.abs(f.literals) - 1
    width = int(lengths.max()) if lengths.size else 0
    W = np.zeros((f.n_clauses, width, f.n_total), dtype=np.int8)
    b = np.zeros((f.n_clauses, width), dtype=np.int8)
    V = np.zeros((f.n_clauses, f.n_total), dtype=np.int8)
    W[clause, position, variable] = np.sign(f.literals)
    b[clause, position] = f.literals < 0
    V[clause, variable] = 1
    return Dense(W, b, V)


def probability_of_zero(theta: np.ndarray) -> np.ndarray:
    """P_i = P(X_i = 0) = 1 / (1 + exp(theta_i)), without overflow."""
    return np.exp(-np.logaddexp(0.0, theta))


def literal_values(d: Dense, x: np.ndarray) -> np.ndarray:
    """Z = W x + b, (..., n) -> (..., L, K)."""
    return np.einsum("jki,...i->...jk", d.W, x.astype(np.int8)) + d.b


def violated(Z: np.ndarray) -> np.ndarray:
    """S_j = 1 - max_k Z_jk, (..., L, K) -> (..., L)."""
    return 1 - Z.max(axis=-1, initial=0)


def resample_set(d: Dense, S: np.ndarray) -> np.ndarray:
    """A_i = 1[sum_j S_j V_ji >= 1], (..., L) -> (..., n)."""
    return (S.astype(np.int64) @ d.V >= 1).astype(np.int8)


def resample(x: np.ndarray, A: np.ndarray, P: np.ndarray, u: np.ndarray) -> np.ndarray:
    """x_i where A_i = 0, else 1[u_i > P_i], with u uniform on [0, 1]."""
    return np.where(A == 1, u > P, x).astype(np.int8)


def one_round(d: Dense, x: np.ndarray, P: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, ...]:
    """Lines 2-4 of Algorithm 1 once: (Z, S, A, next x)."""
    Z = literal_values(d, x)
    S = violated(Z)
    A = resample_set(d, S)
    return Z, S, A, resample(x, A, P, u)
