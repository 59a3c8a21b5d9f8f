"""Valid states from a CDCL solver, for formulas on which resampling does not get there.

CMSGen where it is installed (P(decide x_i = 1) by theta_i, random restarts), else, and where that
finds nothing, CaDiCaL or Glucose of PySAT with random phases. What they draw has no known law: they
are starts of chains. Everything runs in a child process under the limits of `child.py`.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.samplers import foreign, get, missing_modules
from nelson.samplers.child import run_child
from nelson.samplers.problem import Problem

_SCRIPT = Path(__file__).parents[1] / "scripts" / "phases.py"
#: Distinct starts at most; samples beyond share them in turns.
MOST = 1024
#: Seconds where nobody set a limit.
SECONDS = 20.0


def find(
    problem: Problem, theta: np.ndarray, count: int, seed: int, deadline: float
) -> tuple[np.ndarray, str]:
    """Up to `count` solutions (m, n_total) bool, and which solver found them ("" where none did).

    theta (n,): preferences. Raises Unsatisfiable if a solver proved it.
    """
    rows = np.zeros((0, problem.formula.n_total), bool)
    if not missing_modules(get("cmsgen")):
        from nelson.samplers.cmsgen import draw

        now = time.monotonic()
        drawn = draw(problem, theta, count, seed, now + 0.6 * (deadline - now))
        rows = np.asarray(getattr(drawn, "rows", drawn), bool)
        if len(rows):
            return rows, "CMSGen"
    rows = _phases(problem, theta, count, seed, deadline)
    return rows, "PySAT" if len(rows) else ""


def _phases(
    problem: Problem, theta: np.ndarray, count: int, seed: int, deadline: float
) -> np.ndarray:
    n = problem.formula.n_total
    weight = np.concatenate([theta, np.zeros(problem.formula.n_aux)])
    task = {
        "n": n,
        "clauses": foreign.flat_clauses(problem),
        "p": np.exp(-np.logaddexp(0, -weight)).tolist(),
        "count": count,
        "seed": seed % 2**31,
    }
    answers, _ = run_child(_SCRIPT, [task], deadline - time.monotonic())
    if any("unsatisfiable" in answer for answer in answers):
        raise Unsatisfiable("a CDCL solver proved that the formula has no solution")
    data = b"".join(answer.get("rows", b"") for answer in answers)
    return np.frombuffer(data, np.uint8).reshape(-1, n).astype(bool)
