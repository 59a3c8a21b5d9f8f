"""Valid states from a CDCL solver, for formulas on which resampling does not converge.

CMSGen if it is installed (P(decide x_i = 1) by theta_i, random restarts). If it is missing or finds
nothing, CaDiCaL and Glucose of PySAT with random phases. Their solutions have no known law: they
are starts of chains. The solvers run in a child process under the limits of `nelson.process.child`.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from nelson.sampling.methods import cmsgen
from nelson.sampling.problem import Problem
from nelson.sampling.registry import missing_modules

_SCRIPT = Path(__file__).parents[1] / "methods" / "scripts" / "phases.py"
#: Most distinct starts of a draw; more samples share them in turns.
MAX_STARTS = 1024
#: Seconds if nobody set a limit.
SECONDS = 20.0


def find(
    problem: Problem, theta: np.ndarray, count: int, seed: int, deadline: float
) -> tuple[np.ndarray, str]:
    """Up to `count` solutions (m, n_total) bool, and the name of the solver that found them, or "".

    theta (n,): preferences. Raises Unsatisfiable if a solver proved it.
    """
    if not missing_modules(cmsgen.SAMPLER):
        now = time.monotonic()
        drawn = cmsgen.draw(problem, theta, count, seed, now + 0.6 * (deadline - now))
        if len(drawn.rows):
            return np.asarray(drawn.rows, bool), "CMSGen"
    drawn = cmsgen.solutions(_SCRIPT, "PySAT", problem, theta, count, seed, deadline)
    return np.asarray(drawn.rows, bool), "PySAT" if len(drawn.rows) else ""
