"""Bounds on log P(C) that always hold, from valid structures that solvers find.

    log P(C) >= sum over v not in F of log P(x_v),     x valid, F a set of variables free at x

F is free at x if every clause has a literal that is true in x and whose variable is not in F. Then
each of the 2^|F| settings of F is valid, and the right side is log P of all of them. A greedy
search takes into F the variables that cost most and that fewest clauses need. For the most likely
structure and F empty, this is log Z >= theta . mode.

    log P(C) <= log P(G_0)

G_0 is a maximal set of clauses that share no variable, so that its probability is a product. Both
bounds together are an answer for formulas that no other method can take.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded
from nelson.exact import solver
from nelson.exact.mode import most_likely
from nelson.formula.flat import owners
from nelson.io.progress import phase
from nelson.kernels.core.deadline import check_time
from nelson.log_z.method import LogProbability, LogZTask, MethodOutcome, independent_seed
from nelson.log_z.parts import WeightedClauses, merge
from nelson.policy import DEFAULT, LogZPolicy


def valid_structures(
    part: WeightedClauses,
    seed: int,
    budget: Budget,
    limits: LogZPolicy = DEFAULT.log_z,
    *,
    n_random: int = 16,
    n_flipped: int = 32,
) -> np.ndarray:
    """Distinct valid structures of a part, (m, n) bool; m = 0 if none was found in time.

    They are of different kinds: the most likely structure, solutions near sign(theta), near
    -sign(theta) and near `n_random` random assignments, and solutions in which a variable that was
    constant so far (up to `n_flipped` of them) has its other value. Raises Unsatisfiable if a
    solver proved it.
    """
    near = np.random.default_rng(seed).random((n_random + 2, part.n)) < 0.5
    near[0], near[1] = part.theta > 0, part.theta <= 0
    first, more = budget.within(limits.solver_seconds), budget.within(limits.solver_seconds / 5)
    states = solver.solutions(part.formula.clauses(), near, n_flipped, first.left, more.left)
    left = budget.within(limits.solver_seconds / 10).left
    if len(states) and part.n <= limits.mode_variables and left > 0:
        try:
            states = np.vstack([most_likely(part.formula, part.theta, left), states])
        except BudgetExceeded:
            pass
    return np.unique(states, axis=0) if len(states) else states


def lower_bound(part: WeightedClauses, structures: np.ndarray, most_visits: int = 50_000) -> float:
    """The best bound from these valid structures (m, n) bool; -inf if there is none.

    most_visits: variables x structures that the greedy search visits, about 0.2 s. Literals
    count, too, where a variable has very many.
    """
    order = np.argsort(-(structures @ part.theta), kind="stable")
    few = max(1, most_visits // max(1, part.n, len(part.literals) // 64))
    return max((_free_mass(part, structures[k]) for k in order[:few]), default=-np.inf)


def _free_mass(part: WeightedClauses, x: np.ndarray) -> float:
    """log P of the settings of a set that is free at x; the set is taken greedily."""
    literals, n = part.literals, part.n
    variable = np.abs(literals) - 1
    holds = x[variable] == (literals > 0)
    clause, variable = owners(part.offsets)[holds], variable[holds]  # of the true literals
    spare = np.bincount(clause, minlength=part.n_clauses)
    check_time()
    by_variable = np.argsort(variable, kind="stable")
    check_time()
    ends = np.cumsum(np.bincount(variable, minlength=n))
    needed = np.diff(ends, prepend=0)
    cost = -part.log_p[np.arange(n), x.astype(np.int64)]
    fixed_cost = 0.0
    for v in np.argsort(needed / np.maximum(cost, 1e-300), kind="stable"):
        mine = clause[by_variable[ends[v] - needed[v] : ends[v]]]
        if (spare[mine] > 1).all():
            spare[mine] -= 1
        else:
            fixed_cost += cost[v]
    return -float(fixed_cost)


def upper_bound(part: WeightedClauses) -> float:
    """log P(G_0), where G_0 is taken greedily in the order of the clauses."""
    literals, offsets = part.literals, part.offsets
    if not len(literals):
        return 0.0
    variable, first = np.abs(literals) - 1, offsets[:-1]
    log_false = part.log_p[variable, (literals < 0).astype(np.int64)]
    log_true = part.log_p[variable, (literals > 0).astype(np.int64)]
    # P(clause) = sum over its literals of P(this one is true, those before it are false): in
    # logarithms, since 1 - P(all false) is 0 in floats if all are nearly certain to be false.
    before = np.cumsum(log_false) - log_false
    before -= np.repeat(before[first], np.diff(offsets))
    log_holds = np.logaddexp.reduceat(before + log_true, first)
    taken, inside = np.zeros(part.n, bool), np.zeros(part.n_clauses, bool)
    for j in range(part.n_clauses):
        mine = variable[offsets[j] : offsets[j + 1]]
        if not taken[mine].any():
            taken[mine] = inside[j] = True
    return min(0.0, float(log_holds[inside].sum()))


def bounded(
    part: WeightedClauses, seed: int, budget: Budget, limits: LogZPolicy = DEFAULT.log_z
) -> LogProbability:
    """The middle between both bounds, with a half width that covers them.

    Raises BudgetExceeded if no solver finds a valid structure in time.
    """
    structures = valid_structures(part, seed, budget, limits)
    low, high = lower_bound(part, structures), upper_bound(part)
    if low == -math.inf:
        raise BudgetExceeded("no solver found a valid structure in time: there is no lower bound")
    info: dict[str, Any] = {
        "samples": 0,
        "noise": 0.0,
        "bias": 0.0,
        "rounding": 0.0,
        "guarantee": "heuristic",
        "reason": "no other method gave an answer",
        "bounds": (low, high),
        "estimate": (low + high) / 2,
    }
    source = f"bounds from {len(structures)} valid structures and from disjoint clauses"
    return LogProbability((low + high) / 2, (high - low) / 2, info, source)


def by_bounds(parts: list[WeightedClauses], task: LogZTask) -> MethodOutcome:
    """All parts together: the last resort of "auto"."""
    seed = independent_seed(task.seed, 2)
    with phase("log Z: bounds from valid structures"):
        try:
            estimate = bounded(merge(parts), seed, task.estimate_budget(), task.policy.log_z)
        except BudgetExceeded as error:
            return MethodOutcome([], parts, str(error))
    result = replace(estimate, parts=len(parts))
    return MethodOutcome([result], [], estimate.info["reason"])
