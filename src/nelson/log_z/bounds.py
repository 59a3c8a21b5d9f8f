"""Bounds on log P(C) that always hold, from valid structures that solvers find.

    log P(C) >= sum over v not in F of log P(x_v),     x valid, F a set of variables free at x

F is free at x if every clause has a literal that is true in x and whose variable is not in F. Then
each of the 2^|F| settings of F is valid, and the right side is log P of all of them. A greedy
search takes into F the variables that cost most and that fewest clauses need. For the most likely
structure and F empty, this is log Z >= theta . mode.

    log P(C) <= log P(G_0)

where G_0 are some of the clauses (`nelson.log_z.telescope`).
"""

from __future__ import annotations

import time

import numpy as np

from nelson.errors import BudgetExceeded
from nelson.exact import solver
from nelson.exact.mode import most_likely
from nelson.formula import Formula
from nelson.formula.flat import owners
from nelson.log_z.parts import Part

#: Seconds for the first valid structure, for all others together, and for the most likely one.
FIRST_SECONDS = 10.0
MORE_SECONDS = 2.0
MODE_SECONDS = 1.0
#: Solutions that a solver is asked for with random preferences.
RANDOM = 16
#: Variables that have the same value in all solutions, for which the other value is asked for.
FLIPPED = 32
#: The most likely structure is not looked for if there are more variables: the MaxSAT solver then
#: does not keep to its time limit (9 s instead of 1 s for 4,000 variables).
MODE_VARIABLES = 1000
#: Variables x solutions that the greedy search visits, about 0.2 s.
VISITS = 50_000


def valid_structures(part: Part, seed: int, seconds: float) -> np.ndarray:
    """Distinct valid structures of a part, (m, n) bool; m = 0 if none was found in time.

    They are of different kinds: the most likely structure, solutions near sign(theta), near
    -sign(theta) and near random assignments, and solutions in which a variable that was constant
    so far has its other value. Raises Unsatisfiable if a solver proved it.
    """
    started = time.monotonic()
    near = np.random.default_rng(seed).random((RANDOM + 2, part.n)) < 0.5
    near[0], near[1] = part.theta > 0, part.theta <= 0
    first = min(FIRST_SECONDS, seconds)
    found = solver.solutions(part.clauses(), near, FLIPPED, first, min(MORE_SECONDS, seconds))
    left = min(MODE_SECONDS, seconds - (time.monotonic() - started))
    if len(found) and part.n <= MODE_VARIABLES and left > 0:
        f = Formula.from_arrays(part.literals, part.offsets, n_vars=part.n)
        try:
            found = np.vstack([most_likely(f, part.theta, left), found])
        except BudgetExceeded:
            pass
    return np.unique(found, axis=0) if len(found) else found


def lower_bound(part: Part, structures: np.ndarray) -> float:
    """The best bound from these valid structures (m, n) bool; -inf if there is none."""
    order = np.argsort(-(structures @ part.theta), kind="stable")
    few = max(1, VISITS // max(1, part.n))
    return max((_free_mass(part, structures[k]) for k in order[:few]), default=-np.inf)


def _free_mass(part: Part, x: np.ndarray) -> float:
    """log P of the settings of a set that is free at x; the set is taken greedily."""
    variable = np.abs(part.literals) - 1
    holds = x[variable] == (part.literals > 0)
    clause, variable = owners(part.offsets)[holds], variable[holds]  # of the true literals
    spare = np.bincount(clause, minlength=part.n_clauses)
    by_variable = np.argsort(variable, kind="stable")
    ends = np.cumsum(np.bincount(variable, minlength=part.n))
    needed = np.diff(ends, prepend=0)
    cost = -part.log_p[np.arange(part.n), x.astype(np.int64)]
    kept = 0.0
    for v in np.argsort(needed / np.maximum(cost, 1e-300), kind="stable"):
        mine = clause[by_variable[ends[v] - needed[v] : ends[v]]]
        if (spare[mine] > 1).all():
            spare[mine] -= 1
        else:
            kept += cost[v]
    return -float(kept)
