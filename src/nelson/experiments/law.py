"""Exact means and covariances of P_theta(x | C), and what m draws leave of an error at best.

Up to 20 variables by enumeration. For an *extremal* formula with up to 20 clauses, however many
variables, by inclusion and exclusion: two clauses that share a variable are never violated
together, so with the product law P, u_i = P(x_i = 1),

    P(C) = sum_I (-1)^|I| P(all clauses of I violated),     E[x_i x_j 1_C] = sum_I t_I M_Ii M_Ij

over sets I of clauses that share no variable, i != j; t_I = (-1)^|I| P(..) and M_Ii is the value
that violating I gives to x_i, or u_i where that leaves it open. (13 vertices of a graph with 43
edges are 13 clauses: some hundreds of sets I in place of 2^43 orientations.)
"""

from __future__ import annotations

import numpy as np

from nelson.errors import FormulaError
from nelson.exact.enumerated import law
from nelson.formula import Formula
from nelson.learning.metrics import gradient_floor

#: Variables up to which all states are listed; clauses up to which sets of them are.
STATES, CLAUSES = 20, 20
_REPLICAS = 4000


#: Laws of the latest formulas: a process that runs many cells meets each of them again.
_KEPT: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
_MOST = 64


def exact_moments(formula: Formula, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[x] (n,) and Cov(x) (n, n)."""
    theta = np.asarray(theta, np.float64)
    key = b"|".join(part.tobytes() for part in (formula.literals, formula.offsets, theta))
    if key not in _KEPT:
        if len(_KEPT) >= _MOST:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[key] = _moments(formula, theta)
    return _KEPT[key]


def _moments(formula: Formula, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if formula.n_vars <= STATES:
        return _enumerated(formula, theta)
    if formula.is_extremal and formula.n_clauses <= CLAUSES:
        return extremal_moments(formula, theta)
    raise FormulaError(
        f"{formula.n_vars} variables, {formula.n_clauses} clauses",
        expected=f"at most {STATES} variables, or extremal with at most {CLAUSES} clauses",
    )


def _enumerated(formula: Formula, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    states, weight = law(formula, theta)
    mu = weight @ states
    second = (states * weight[:, None]).T @ states.astype(np.float64)
    return mu, second - np.outer(mu, mu)


def extremal_moments(formula: Formula, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    u = 1.0 / (1.0 + np.exp(-np.asarray(theta, np.float64)))
    clauses = [np.asarray(clause) for clause in formula.clauses()]
    values = np.full((1, formula.n_vars), np.nan)  # what is forced, NaN: open
    signs = np.ones(1)
    # Sets are grown clause by clause: each set, with and without the next clause.
    for clause in clauses:
        at, wanted = np.abs(clause) - 1, clause < 0  # violated: every literal false
        free = np.isnan(values[:, at]).all(1)
        grown = values[free].copy()
        grown[:, at] = wanted
        values = np.concatenate([values, grown])
        signs = np.concatenate([signs, -signs[free]])
    open_ = np.isnan(values)
    forced = np.where(values == 1.0, u, 1.0 - u)
    terms = signs * np.where(open_, 1.0, forced).prod(axis=1)
    filled = np.where(open_, u, values)
    total = terms.sum()
    if not total > 0:
        from nelson.errors import Unsatisfiable

        raise Unsatisfiable("inclusion and exclusion leave no probability")
    mu = terms @ filled / total
    second = (filled * terms[:, None]).T @ filled / total
    np.fill_diagonal(second, mu)
    return mu, second - np.outer(mu, mu)


def floor(mu: np.ndarray, cov: np.ndarray, m: int) -> tuple[float, float]:
    """Mean and standard deviation of the L1 error that m exact, independent draws leave.

    The error is about N(0, cov / m): its mean is `metrics.gradient_floor`, its spread depends on
    the correlations and is simulated (4,000 times, always with the same random numbers).
    """
    value, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.clip(value, 0.0, None))
    errors = np.random.default_rng(13).normal(size=(_REPLICAS, len(mu))) @ root.T / np.sqrt(m)
    return gradient_floor(mu, m), float(np.abs(errors).sum(axis=1).std())
