"""Exact means and covariances of P_theta(x | C), and the error that m exact draws leave.

Formulas with up to 20 variables are enumerated. *Extremal* formulas with up to 20 clauses and any
number of variables are solved by inclusion and exclusion: two clauses that share a variable are
never violated together, so with the product law P and u_i = P(x_i = 1),

    P(C) = sum_I (-1)^|I| P(all clauses of I violated),     E[x_i x_j 1_C] = sum_I t_I M_Ii M_Ij

over sets I of clauses that share no variable, for i != j. Here t_I = (-1)^|I| P(..), and M_Ii is
the value that violating all clauses of I forces on x_i, or u_i if it forces none. (A graph with 13
vertices and 43 edges has 13 clauses: some hundreds of sets I instead of 2^43 orientations.)
"""

from __future__ import annotations

import numpy as np

from nelson.errors import FormulaError, Unsatisfiable
from nelson.exact.enumerated import law
from nelson.formula import Formula
from nelson.formula.memo import Recent
from nelson_paper.gradient_error import gradient_floor

#: Formulas with at most this many variables are enumerated: a million states.
MAX_VARIABLES = 20
#: Extremal formulas with at most this many clauses are solved by inclusion and exclusion.
MAX_CLAUSES = 20
#: Simulated errors from which the spread of the floor is computed: its own error is then 1%.
_REPLICAS = 4000

#: Moments of the latest formulas, because the cells of all samplers use the same formulas.
_MOMENTS: Recent[bytes, tuple[np.ndarray, np.ndarray]] = Recent(64)


def exact_moments(formula: Formula, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[x] (n,) and Cov(x) (n, n). Raises FormulaError if the formula is too large."""
    theta = np.asarray(theta, np.float64)
    key = b"|".join(part.tobytes() for part in (formula.literals, formula.offsets, theta))
    return _MOMENTS.once(key, lambda: _moments(formula, theta))


def _moments(formula: Formula, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if formula.n_vars <= MAX_VARIABLES:
        return _enumerated(formula, theta)
    if formula.is_extremal and formula.n_clauses <= MAX_CLAUSES:
        return extremal_moments(formula, theta)
    raise FormulaError(
        f"{formula.n_vars} variables, {formula.n_clauses} clauses",
        expected=f"at most {MAX_VARIABLES} variables, "
        f"or an extremal formula with at most {MAX_CLAUSES} clauses",
    )


def _enumerated(formula: Formula, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    states, weight = law(formula, theta)
    mu = weight @ states
    second = (states * weight[:, None]).T @ states.astype(np.float64)
    return mu, second - np.outer(mu, mu)


def extremal_moments(formula: Formula, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    u = 1.0 / (1.0 + np.exp(-np.asarray(theta, np.float64)))
    clauses = [np.asarray(clause) for clause in formula.clauses()]
    values = np.full((1, formula.n_vars), np.nan)  # forced values; NaN: not forced
    signs = np.ones(1)
    # Each set of clauses is continued with and without the next clause.
    for clause in clauses:
        at, wanted = np.abs(clause) - 1, clause < 0  # violated: every literal false
        free = np.isnan(values[:, at]).all(1)
        grown = values[free].copy()
        grown[:, at] = wanted
        values = np.concatenate([values, grown])
        signs = np.concatenate([signs, -signs[free]])
    unforced = np.isnan(values)
    forced = np.where(values == 1.0, u, 1.0 - u)
    terms = signs * np.where(unforced, 1.0, forced).prod(axis=1)
    filled = np.where(unforced, u, values)
    total = terms.sum()
    if not total > 0:
        raise Unsatisfiable("by inclusion and exclusion, a solution has probability 0")
    mu = terms @ filled / total
    second = (filled * terms[:, None]).T @ filled / total
    np.fill_diagonal(second, mu)
    return mu, second - np.outer(mu, mu)


def floor(mu: np.ndarray, cov: np.ndarray, m: int) -> tuple[float, float]:
    """Mean and standard deviation of the L1 error of m exact, independent draws.

    The error vector is nearly N(0, cov / m). The mean of its L1 norm is `gradient_floor`.
    The standard deviation depends on the correlations and is simulated with fixed random numbers.
    """
    value, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.clip(value, 0.0, None))
    errors = np.random.default_rng(13).normal(size=(_REPLICAS, len(mu))) @ root.T / np.sqrt(m)
    return gradient_floor(mu, m), float(np.abs(errors).sum(axis=1).std())
