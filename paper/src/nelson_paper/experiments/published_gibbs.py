"""The Gibbs sampler of the authors' code (jiangnanhugo/nelson-cd): hard factors, 50 sweeps.

    start:  every variable a fair coin
    sweep:  for v = 1..n:  x_v ~ P(x_v | others) of exp(theta . x) prod_j C_j(x)

If both values of x_v have weight 0, their program divides by 0 and then leaves x_v as it is; so
does this one. Their script for uniform sampling (`theta` None here) gives x_v = 0 the weight 1 and
x_v = 1 the weight 0. There a variable that a clause needs to be 1 has two weights of 0 and stays
where it started, so samples are often invalid: of random 5-SAT with L = n, 98%, 94%, 85%, 52% and
23% are valid at n = 10, 50, 100, 500 and 1000 (the paper prints 90.58% up to 50, 54.27% at 500 and
33.91% at 1000). With weights above 0, as in their learning, all of some thousand samples were
valid, as with our `gibbs`, which penalises violated clauses instead (docs/samplers.md).

Their program also permutes the table of a clause whose variables do not ascend, so that it draws
from another formula (`permuted`). The variables ascend in all 100 files that are published (n =
500), so the sampler here does not repeat that. The formulas of Table 1(c), n = 10 to 18, are not
published. If the variables of their clauses are in random order, the error is 0.9 to 1.8 (means of
12 formulas), where the paper prints 0.69 to 1.90 and the sampler here has 0.10 to 0.15: this is the
only reason for the difference that we know. A row of the table shows it.

This is NumPy, all samples at once, as theirs; only the order of the arithmetic differs.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.special import expit

from nelson.formula import Formula

#: Sweeps of the published program.
SWEEPS = 50


def published_gibbs(
    formula: Formula, theta: np.ndarray | None, m: int, seed: int, seconds: float
) -> np.ndarray:
    """(m, n) bool, valid or not; (0, n) if the time is over before the last sweep."""
    n, random = formula.n_total, np.random.default_rng([seed, 67])
    odds, never = np.zeros(n), theta is None  # never: x_v = 1 has weight 0
    if theta is not None:
        odds[:] = 0.5
        odds[: formula.n_vars] = expit(np.asarray(theta, np.float64))
    near = _occurrences(formula)
    x = np.zeros((n + 1, m), bool)  # one row per variable; the last row is the literal "false"
    x[:n] = random.integers(0, 2, (n, m))
    until = time.monotonic() + seconds
    for _ in range(SWEEPS):
        coins = random.random((n, m)) < odds[:, None]
        for v, (variables, negated, positive) in enumerate(near):
            if time.monotonic() > until:
                return np.zeros((0, formula.n_vars), bool)
            if not len(positive):
                x[v] = coins[v]
                continue
            alone = ~(x[variables] ^ negated).any(axis=1)  # (clauses, m): no other literal is true
            must_be_1 = alone[positive].any(axis=0)
            must_be_0 = alone[~positive].any(axis=0) | never
            drawn = must_be_1 | (coins[v] & ~must_be_0)
            x[v] = np.where(must_be_1 & must_be_0, x[v], drawn)
    return np.ascontiguousarray(x[: formula.n_vars].T)


def permuted(formula: Formula, seed: int) -> Formula:
    """The formula that their program draws from if the variables of each clause are in random
    order: the j-th listed variable gets the sign of the variable with the j-th smallest number.
    """
    random = np.random.default_rng([seed, 71])
    clauses = []
    for clause in formula.clauses():
        listed = random.permutation(np.array(clause))
        signs = np.sign(listed)[np.argsort(np.abs(listed))]
        clauses.append((np.abs(listed) * signs).tolist())
    return Formula(clauses, n_vars=formula.n_vars)


def _occurrences(formula: Formula) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each variable and the clauses that have it: the other variables (clauses, k - 1), which
    of them are negated (clauses, k - 1, 1), and whether the variable itself is positive (clauses,).

    Shorter clauses are filled up with the literal "false", which is variable n + 1.
    """
    clauses, false = formula.clauses(), formula.n_total + 1
    width = max((len(clause) for clause in clauses), default=1)
    places: list[list[tuple[list[int], bool]]] = [[] for _ in range(formula.n_total)]
    for clause in clauses:
        for literal in clause:
            others = [other for other in clause if other != literal]
            padded = others + [false] * max(width - 1 - len(others), not others)
            places[abs(literal) - 1].append((padded, literal > 0))
    return [
        (np.abs(literals) - 1, (literals < 0)[:, :, None], np.array([s for _, s in own], bool))
        for own in places
        for literals in [
            np.array([padded for padded, _ in own], int).reshape(len(own), max(width - 1, 1))
        ]
    ]
