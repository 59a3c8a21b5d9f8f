"""Questions to a CDCL solver: is there a solution at all; is there one not seen yet."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from nelson.formula import Formula

#: Seconds a question may take if the caller set no limit.
SECONDS = 60.0


def satisfiable(
    formula: Formula,
    evidence: Sequence[int] = (),
    blocked: Iterable[Sequence[int]] = (),
    seconds: float | None = None,
) -> bool | None:
    """True, False (proved), or None if the solver did not decide in time.

    blocked: further clauses. Needs PySAT; None if it is not installed.
    """
    try:
        from pysat.solvers import Solver
    except ImportError:
        return None
    with Solver(name="glucose4", bootstrap_with=[*formula.clauses(), *blocked]) as solver:
        timer = threading.Timer(SECONDS if seconds is None else max(seconds, 0.0), solver.interrupt)
        timer.start()
        try:
            answer = solver.solve_limited(assumptions=list(evidence), expect_interrupt=True)
        finally:
            timer.cancel()
            timer.join()
    return answer
