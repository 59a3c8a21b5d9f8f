"""CMSGen: a CDCL solver that decides and restarts at random, tuned against a tester of samplers.

    P(decide x_i = 1) = 1 / (1 + e^-theta_i)

Each sample is one more call of one solver (pycmsgen's only way to draw many), so that clauses it
learned serve all later samples. Weights bias decisions, not the law: what propagation sets keeps no
weight, and the law of the output is not P_theta(. | C). Its authors' tester accepts it as close to
uniform on most of their formulas; nothing is proved. Hence "heuristic".
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.process.child import run_child
from nelson.sampling import foreign
from nelson.sampling.foreign import Drawn
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Sampler

_SCRIPT = Path(__file__).with_name("scripts") / "cmsgen.py"


def draw(problem: Problem, theta: np.ndarray, count: int, seed: int, deadline: float) -> Drawn:
    return solutions(_SCRIPT, "CMSGen", problem, theta, count, seed, deadline)


def solutions(
    script: Path,
    solver: str,
    problem: Problem,
    theta: np.ndarray,
    count: int,
    seed: int,
    deadline: float,
) -> Drawn:
    """What a CDCL solver finds that decides x_i = 1 with probability 1 / (1 + e^-theta_i)."""
    n = problem.formula.n_total
    if not n:
        return Drawn(np.zeros((count, 0), bool))
    weight = np.concatenate([theta, np.zeros(problem.formula.n_aux)])
    task = {
        "n": n,
        "clauses": foreign.flat_clauses(problem),
        "p": np.exp(-np.logaddexp(0, -weight)).tolist(),
        "count": count,
        "seed": seed % 2**31,
    }
    answers, ended = run_child(script, [task], deadline - time.monotonic())
    if any("unsatisfiable" in answer for answer in answers):
        raise Unsatisfiable(f"a CDCL solver proved that the formula has no solution ({solver})")
    data = b"".join(answer.get("rows", b"") for answer in answers)
    rows = np.frombuffer(data, np.uint8).reshape(-1, n)
    return Drawn(rows, foreign.explained(solver, answers, ended))


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
