"""Valid states from a CDCL solver, for formulas on which resampling does not converge.

CMSGen if it is installed (P(decide x_i = 1) by theta_i, random restarts). If it is missing or finds
nothing, CaDiCaL and Glucose of PySAT with random phases. Their solutions have no known law: they
are starts of chains. The solvers run in a child process under the limits of `nelson.process.child`.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from nelson.sampling.foreign import SAFETY_SECONDS, TIME_UP, DrawnRows
from nelson.sampling.methods import cmsgen
from nelson.sampling.problem import Problem
from nelson.sampling.registry import missing_modules

_SCRIPT = Path(__file__).parents[1] / "methods" / "scripts" / "phases.py"
#: Most distinct starts of a draw; more samples share them in turns.
MAX_STARTS = 1024
#: Conflicts of a solver if nobody set a limit in seconds: some seconds.
CONFLICTS = 50_000
#: Without such a limit, literals times starts are at most the first number, which takes a few
#: seconds; but the second number of starts is allowed in any case.
_LITERALS, _FEW = 200_000_000, 64


def find(
    problem: Problem,
    theta: np.ndarray,
    count: int,
    seed: int,
    deadline: float | None,
    conflicts: int = CONFLICTS,
) -> tuple[np.ndarray, str, str]:
    """Up to `count` solutions (m, n_total) bool, and the name of the solver that found them, or "";
    and which limit in seconds ended the search, if the caller had set none.

    theta (n,): preferences. deadline: time.monotonic(); None: conflicts are counted, so that the
    same call has the same starts on any machine. Raises Unsatisfiable if a solver proved it.
    """
    limit = None
    if deadline is None:
        size = max(1, len(problem.formula.literals))
        count, limit = min(count, max(_FEW, _LITERALS // size)), conflicts
    how = problem, theta, count, seed
    if not missing_modules(cmsgen.SAMPLER):
        until = None if deadline is None else 0.4 * time.monotonic() + 0.6 * deadline
        drawn = cmsgen.solutions(cmsgen.SCRIPT, "CMSGen", *how, until, limit)
        if len(drawn.rows):
            return np.asarray(drawn.rows, bool), "CMSGen", _cut(drawn, deadline)
    drawn = cmsgen.solutions(_SCRIPT, "PySAT", *how, deadline, limit)
    solver = "PySAT" if len(drawn.rows) else ""
    return np.asarray(drawn.rows, bool), solver, _cut(drawn, deadline)


def _cut(drawn: DrawnRows, deadline: float | None) -> str:
    if deadline is not None or drawn.ended != TIME_UP:
        return ""
    return f"the search for starts was ended by the safety limit of {SAFETY_SECONDS:g} s"
