"""Valid states from a CDCL solver, for formulas on which resampling does not converge.

CMSGen if it is installed (P(decide x_i = 1) by theta_i, random restarts). If it is missing or finds
nothing, CaDiCaL and Glucose of PySAT with random phases. Their solutions have no known law: they
are starts of chains. The solvers run in a child process under the limits of `nelson.process.child`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nelson.budget import Budget
from nelson.chains.problem import Problem
from nelson.policy import DEFAULT
from nelson.sampling.foreign import TIME_UP, DrawnRows
from nelson.sampling.methods import cmsgen
from nelson.sampling.registry import missing_modules

_SCRIPT = Path(__file__).parents[1] / "methods" / "scripts" / "phases.py"
#: Most distinct starts of a draw; more samples share them in turns.
MAX_STARTS = 1024


def find(
    problem: Problem,
    theta: np.ndarray,
    count: int,
    seed: int,
    budget: Budget,
    conflicts: int = DEFAULT.chains.conflicts,
    literals: int = 200_000_000,
    few: int = 64,
) -> tuple[np.ndarray, str, str]:
    """Up to `count` solutions (m, n_total) bool, and the name of the solver that found them, or "";
    and which limit in seconds ended the search, if the caller had set none.

    theta (n,): preferences. budget: without a deadline conflicts are counted, so that the
    same call has the same starts on any machine, and literals times starts are at most `literals`,
    some seconds; but `few` starts are allowed in any case. Raises Unsatisfiable if a solver proved
    it.
    """
    limit, rules = None, DEFAULT.chains
    safety = rules.solver_seconds + rules.seconds_per_literal * len(problem.formula.literals)
    if budget.counted:
        size = max(1, len(problem.formula.literals))
        count, limit = min(count, max(few, literals // size)), conflicts
    how = problem, theta, count, seed
    if not missing_modules(cmsgen.SAMPLER):
        drawn = cmsgen.solutions(cmsgen.SCRIPT, "CMSGen", *how, budget.share(0.6), limit, safety)
        if len(drawn.rows):
            return np.asarray(drawn.rows, bool), "CMSGen", _cut(drawn, budget, safety)
    drawn = cmsgen.solutions(_SCRIPT, "PySAT", *how, budget, limit, safety)
    solver = "PySAT" if len(drawn.rows) else ""
    return np.asarray(drawn.rows, bool), solver, _cut(drawn, budget, safety)


def _cut(drawn: DrawnRows, budget: Budget, safety: float) -> str:
    if not budget.counted or drawn.ended != TIME_UP:
        return ""
    return f"the search for starts was ended by the safety limit of {safety:.3g} s"
