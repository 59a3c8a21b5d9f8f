"""Is every sample a structure of the formula?

    C(x) = 1 for every x, and every literal of the evidence holds

One invalid sample is enough to reject, since P_theta(x | C) gives it probability 0. A sample of
some of the variables is valid if it can be completed: a CDCL solver decides that, once for each
distinct sample.
"""

from __future__ import annotations

import numpy as np

from nelson.budget import Budget
from nelson.formula import Formula
from nelson.formula.evaluate import violated
from nelson.judging.source import JudgedSamples

#: Row of the first invalid sample, number of invalid samples, what that row breaks.
Invalid = tuple[int, int, str]


def first_invalid(
    formula: Formula, evidence: np.ndarray, drawn: JudgedSamples, budget: Budget
) -> Invalid | None:
    """None if no invalid sample was found. evidence: literals."""
    literals = evidence[np.isin(np.abs(evidence) - 1, drawn.columns)]
    place = np.searchsorted(drawn.columns, np.abs(literals) - 1)
    wrong = (drawn.x[:, place] != (literals > 0)).any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        broken = literals[drawn.x[row, place] != (literals > 0)][0]
        return row, int(wrong.sum()), f"the evidence {broken}"
    explained = not formula.n_aux or bool(formula.constraints)
    if len(drawn.columns) == formula.n_vars and explained:
        return _by_clauses(formula, drawn.x)
    return _by_solver(formula, evidence, drawn, budget)


def _by_clauses(formula: Formula, x: np.ndarray) -> Invalid | None:
    step = max(1, (1 << 24) // max(1, formula.n_vars))  # 16 MiB, a byte for each value
    valid = [formula.satisfied(x[k : k + step]) for k in range(0, len(x), step)]
    bad = np.flatnonzero(~np.concatenate(valid)) if valid else np.zeros(0, np.int64)
    if not len(bad):
        return None
    return int(bad[0]), len(bad), violated(formula, x[bad[0]])


def _by_solver(
    formula: Formula,
    evidence: np.ndarray,
    drawn: JudgedSamples,
    budget: Budget,
    conflicts: int = 100_000,
) -> Invalid | None:
    """A row that no assignment of the other variables completes; checks rows within the budget.

    A sample counts as valid if the solver gives up on it, at its limit of conflicts.
    """
    from pysat.solvers import Solver

    rows, first, times = np.unique(drawn.x, axis=0, return_index=True, return_counts=True)
    given = evidence.tolist()
    with Solver(name="glucose4", bootstrap_with=formula.clauses()) as solver:
        for row, where, count in zip(rows, first, times, strict=True):
            if budget.spent:
                return None
            literals = (drawn.columns + 1) * np.where(row, 1, -1)
            solver.conf_budget(conflicts)
            if solver.solve_limited(assumptions=[*given, *literals.tolist()]) is False:
                core = [str(v) for v in (solver.get_core() or []) if v not in given][:12]
                what = f"the formula: its literals {' '.join(core)} have no completion"
                return int(where), int(count), what
    return None
