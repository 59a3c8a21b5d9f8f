"""UniGen: almost uniform, by random parities that cut the solutions into small cells.

    1 / ((1 + epsilon) |S|) <= P(x) <= (1 + epsilon) / |S|       for every solution x in S

A count of the solutions (ApproxMC) tells how many random parities leave a cell of 11 to 63 of them
in expectation; a cell is listed and one of it drawn. epsilon follows from its parameter kappa,
epsilon = (1 + kappa) (7.44 + 0.392 / (1 - kappa)^2) - 1, which at the default kappa = 0.638 is 16:
that is what is proved. What is observed is far closer to uniform. Where there are fewer solutions
than some dozens, all are listed and the draw is uniform.

One parity set a sample: samples are independent. Variables that no clause mentions are fair coins
and not UniGen's business; the sampling set are the other visible variables.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import numpy as np

from nelson.process.child import run_child
from nelson.sampling import foreign
from nelson.sampling.foreign import Drawn
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Sampler

_SCRIPT = Path(__file__).with_name("scripts") / "unigen.py"
EPSILON = 16.0


def draw(problem: Problem, theta: np.ndarray, count: int, seed: int, deadline: float) -> Drawn:
    formula, rest = problem.formula, problem.rest
    mentioned = np.unique(np.abs(rest.literals))
    # Auxiliary variables are functions of the visible ones: with them the law is the same.
    seen = formula.constraints and (mentioned <= formula.n_vars).any()
    width = formula.n_vars if seen else formula.n_total
    x = np.random.default_rng(seed).integers(0, 2, (count, width), np.uint8)
    known = problem.fixed[np.abs(problem.fixed) <= width]
    x[:, np.abs(known) - 1] = known > 0
    chosen = mentioned[mentioned <= width]
    if not len(mentioned):
        return Drawn(x, info={"epsilon": 0.0})
    task = {
        "n": formula.n_total,
        "clauses": foreign.flat_clauses(problem, fixed=False),
        "set": chosen.tolist(),
        "count": count,
        "seed": seed % 2**32,
    }
    answers, ended = run_child(_SCRIPT, [task], deadline - time.monotonic())
    parts = [answer for answer in answers if "rows" in answer]
    rows = np.frombuffer(b"".join(part["rows"] for part in parts), np.uint8)
    rows = rows.reshape(-1, len(chosen))
    x = x[: len(rows)]
    x[:, chosen - 1] = rows
    info = {"epsilon": EPSILON}
    if parts:
        info["log2_count"] = float(np.log2(parts[0]["cell"])) + parts[0]["hashes"]
    return Drawn(x, foreign.explained("UniGen", answers, ended), info)


SAMPLER = Sampler(
    name="unigen",
    summary="random parities cut the solutions into cells; one solution of a small cell is drawn",
    citation="Soos, Gocht, Meel: Tinted, detached, and lazy CNF-XOR solving and its applications "
    "to counting and sampling, CAV 2020; Chakraborty, Fremont, Meel, Seshia, Vardi: On parallel "
    "scalable uniform SAT witness generation, TACAS 2015",
    weighted=False,
    guarantee=lambda problem, sweeps: "approximate",
    blocks=partial(foreign.blocks, draw),
    needs="samplers",
    modules=("pyunigen",),
    seconds=60.0,
    promise="almost uniform: within a factor 17 of uniform",
)
