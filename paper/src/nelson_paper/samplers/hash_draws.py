"""The parent's side of `weightgen` and `xor`, which run in a child process.

The visible variables that some remaining clause mentions are hashed. The others are not: fixed
variables have their value, and variables that no clause mentions are drawn from their own law here.
Auxiliary variables follow from the visible ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nelson.budget import Budget
from nelson.chains.problem import Problem
from nelson.sampling import foreign
from nelson.sampling.foreign import DrawnRows

_SCRIPT = Path(__file__).with_name("scripts") / "hashing.py"
#: What the child reports: tries (failed ones too); structures, if all were enumerated; hash bits,
#: parities over them, and the ratio of the weights that were not turned into bits.
_REPORTED = ("tries", "structures", "hash_bits", "parities", "tilt")


def variation(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """As `Sampler.variation`: each variable is drawn with a uniform number of 53 bits."""
    return np.full(len(theta), 4 * theta.shape[1] * 2.0**-53)


def draw(
    method: str,
    epsilon: float,
    problem: Problem,
    theta: np.ndarray,
    count: int,
    seed: int,
    budget: Budget,
) -> DrawnRows:
    formula, rest = problem.formula, problem.rest
    x = np.zeros((count, formula.n_total), bool)
    x[:, np.abs(problem.fixed) - 1] = problem.fixed > 0
    names, place = np.unique(np.abs(rest.literals), return_inverse=True)
    known = np.concatenate([names, np.abs(problem.fixed)]) - 1
    free = np.setdiff1d(np.arange(formula.n_vars), known)
    rng = np.random.default_rng([seed, 1])
    for v, p in zip(free, np.exp(-np.logaddexp(0, -theta[free])), strict=True):
        x[:, v] = rng.random(count) < p
    if not rest.n_clauses:
        return DrawnRows(x, info={"epsilon": 0.0})
    clauses = foreign.flat_clauses(problem, fixed=False)
    clauses[clauses != 0] = np.sign(rest.literals) * (place + 1)
    task = {
        "method": method,
        "n": len(names),
        "clauses": clauses,
        "theta": theta[names[names <= formula.n_vars] - 1],
        "count": count,
        "seed": seed,
    }
    rows, messages, ended = foreign.ask(_SCRIPT, f"CryptoMiniSat ({method})", task, budget)
    rows = rows.reshape(-1, len(names))
    x = x[: len(rows)]
    x[:, names - 1] = rows
    info = {key: messages[-1][key] for key in _REPORTED if messages and key in messages[-1]}
    return DrawnRows(x, ended, {"epsilon": epsilon, **info})
