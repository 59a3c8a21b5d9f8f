"""CMSGen: a CDCL solver that decides and restarts at random, tuned against a tester of samplers.

    P(decide x_i = 1) = 1 / (1 + e^-theta_i)

Each sample is one more call of one solver (pycmsgen's only way to draw many samples), so clauses
that the solver learned serve all later samples. Weights bias decisions, not the law: a variable
that propagation sets ignores its weight, and the law of the output is not P_theta(. | C). Its
authors' tester accepts it as close to uniform on most of their formulas, but nothing is proved.
Hence "heuristic".
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from nelson.budget import Budget
from nelson.chains.problem import Problem
from nelson.sampling import foreign
from nelson.sampling.foreign import DrawnRows
from nelson.sampling.sampler import Sampler

SCRIPT = Path(__file__).with_name("scripts") / "cmsgen.py"


def draw(problem: Problem, theta: np.ndarray, count: int, seed: int, budget: Budget) -> DrawnRows:
    return solutions(SCRIPT, "CMSGen", problem, theta, count, seed, budget)


def solutions(
    script: Path,
    solver: str,
    problem: Problem,
    theta: np.ndarray,
    count: int,
    seed: int,
    budget: Budget,
    conflicts: int | None = None,
    safety: float = foreign.SAFETY_SECONDS,
) -> DrawnRows:
    """Solutions of a CDCL solver that decides x_i = 1 with probability 1 / (1 + e^-theta_i).

    conflicts: of all solutions together, at most, about; then the solver ends. safety: CPU seconds
    that end it without a deadline.
    """
    n = problem.formula.n_total
    if not n:
        return DrawnRows(np.zeros((count, 0), bool))
    weight = np.concatenate([theta, np.zeros(problem.formula.n_aux)])
    task = {
        "n": n,
        "clauses": foreign.flat_clauses(problem),
        "p": np.exp(-np.logaddexp(0, -weight)).tolist(),
        "count": count,
        "seed": seed % 2**31,
        "conflicts": conflicts,
    }
    rows, _, ended = foreign.ask(script, solver, task, budget, safety)
    return DrawnRows(rows.reshape(-1, n), ended)


SAMPLER = Sampler(
    name="cmsgen",
    summary="random decisions and restarts in a CDCL solver, P(decide x_i = 1) by theta_i",
    citation="Golia, Soos, Chakraborty, Meel: Designing samplers is easy: the boon of testers, "
    "FMCAD 2021",
    weighted=True,
    guarantee=lambda problem, sweeps: "heuristic",
    blocks=partial(foreign.blocks, draw),
    needs="samplers",
    modules=("pycmsgen",),
    seconds=60.0,
    promise="heuristic",
)
