"""A CDCL solver (PySAT) decides whether a formula has a solution, or one that was not seen yet."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from nelson.formula import Formula
from nelson.io.progress import phase

#: The time limit if the caller sets none.
SECONDS = 60.0


def satisfiable(
    formula: Formula,
    evidence: Sequence[int] = (),
    blocked: Iterable[Sequence[int]] = (),
    seconds: float | None = None,
) -> bool | None:
    """True, False (proved), or None if the solver did not decide in time or is not installed.

    evidence: literals that must hold. blocked: further clauses.
    """
    try:
        from pysat.solvers import Solver
    except ImportError:
        return None
    clauses = [*formula.clauses(), *blocked]
    looking = phase("a solver looks for a solution")
    with looking, Solver(name="glucose4", bootstrap_with=clauses) as solver:
        return solve_within(solver, SECONDS if seconds is None else seconds, evidence)


def solve_within(solver: Any, seconds: float, evidence: Sequence[int] = ()) -> bool | None:
    """Ask a PySAT solver: True, False (proved), or None if the time ran out first."""
    timer = threading.Timer(max(seconds, 0.0), solver.interrupt)
    timer.start()
    try:
        answer: bool | None = solver.solve_limited(
            assumptions=list(evidence), expect_interrupt=True
        )
    finally:
        timer.cancel()
        timer.join()
    return answer
