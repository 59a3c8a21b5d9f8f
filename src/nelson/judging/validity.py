"""Is every sample a structure of the formula?

    C(x) = 1 for every x, and every literal of the evidence holds

One sample that is not is enough to reject: P_theta(x | C) gives it probability 0. Samples of some
of the variables only are valid if a CDCL solver can complete them; distinct ones are asked once.
"""

from __future__ import annotations

import time

import numpy as np

from nelson.formula import Formula
from nelson.judging.source import Drawn

_BITS = 1 << 27  # checked at a time


def first_invalid(
    formula: Formula, evidence: np.ndarray, drawn: Drawn, deadline: float
) -> tuple[int, int, str] | None:
    """(row, how many are invalid, what the row breaks), or None. evidence: literals."""
    own = evidence[np.isin(np.abs(evidence) - 1, drawn.columns)]
    place = np.searchsorted(drawn.columns, np.abs(own) - 1)
    wrong = (drawn.x[:, place] != (own > 0)).any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        broken = own[drawn.x[row, place] != (own > 0)][0]
        return row, int(wrong.sum()), f"the evidence {broken}"
    explained = not formula.n_aux or bool(formula.constraints)
    if len(drawn.columns) == formula.n_vars and explained:
        return _by_clauses(formula, drawn.x)
    return _by_solver(formula, evidence, drawn, deadline)


def _by_clauses(formula: Formula, x: np.ndarray) -> tuple[int, int, str] | None:
    from nelson.formula.evaluate import violated

    step = max(1, _BITS // max(1, formula.n_vars))
    valid = [formula.satisfied(x[k : k + step]) for k in range(0, len(x), step)]
    bad = np.flatnonzero(~np.concatenate(valid)) if valid else np.zeros(0, np.int64)
    if not len(bad):
        return None
    return int(bad[0]), len(bad), violated(formula, x[bad[0]])


def _by_solver(
    formula: Formula, evidence: np.ndarray, drawn: Drawn, deadline: float
) -> tuple[int, int, str] | None:
    """Rows that no assignment of the other variables completes, among those that time allows."""
    from pysat.solvers import Solver

    rows, first, times = np.unique(drawn.x, axis=0, return_index=True, return_counts=True)
    given = evidence.tolist()
    with Solver(name="glucose4", bootstrap_with=formula.clauses()) as solver:
        for row, where, count in zip(rows, first, times, strict=True):
            if time.monotonic() > deadline:
                return None
            literals = (drawn.columns + 1) * np.where(row, 1, -1)
            solver.conf_budget(100_000)
            if solver.solve_limited(assumptions=[*given, *literals.tolist()]) is False:
                core = [str(v) for v in (solver.get_core() or []) if v not in given][:12]
                what = f"the formula: its literals {' '.join(core)} have no completion"
                return int(where), int(count), what
    return None
