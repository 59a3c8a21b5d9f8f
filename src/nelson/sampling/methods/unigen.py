"""UniGen: almost uniform, by random parities that cut the solutions into small cells.

    1 / ((1 + epsilon) |S|) <= P(x) <= (1 + epsilon) / |S|       for every solution x in S

A count of the solutions (ApproxMC) tells how many random parities leave a cell of 11 to 63
solutions in expectation. The cell is enumerated and one of its solutions is drawn. epsilon follows
from UniGen's parameter kappa, epsilon = (1 + kappa) (7.44 + 0.392 / (1 - kappa)^2) - 1, which is 16
at the default kappa = 0.638. That is what is proved; the observed law is far closer to uniform. If
there are fewer than some dozens of solutions, all are enumerated and the draw is uniform.

Parities over some of the variables count each projected solution once (`over`).

Each sample has its own parities: samples are independent. Variables that no clause mentions are
fair coins, drawn here; UniGen samples the other visible variables.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from nelson.budget import Budget
from nelson.chains.problem import Problem
from nelson.exact import solver
from nelson.sampling import foreign
from nelson.sampling.foreign import DrawnRows
from nelson.sampling.sampler import Sampler

SCRIPT = Path(__file__).with_name("scripts") / "unigen.py"
EPSILON = 16.0


def draw(
    problem: Problem,
    theta: np.ndarray,
    count: int,
    seed: int,
    budget: Budget,
    over: np.ndarray | None = None,
) -> DrawnRows:
    """over: variables from 0; then each projected solution on them counts once, and a solver finds
    the values of the others.
    """
    formula, rest = problem.formula, problem.rest
    mentioned = np.unique(np.abs(rest.literals))
    # Auxiliary variables are functions of the visible ones: sampling over both is the same law.
    visible_only = formula.constraints and (mentioned <= formula.n_vars).any() and over is None
    width = formula.n_vars if visible_only else formula.n_total
    x = np.random.default_rng(seed).integers(0, 2, (count, width), np.uint8)
    known = problem.fixed[np.abs(problem.fixed) <= width]
    x[:, np.abs(known) - 1] = known > 0
    chosen = mentioned[mentioned <= width] if over is None else np.intersect1d(mentioned, over + 1)
    if not len(mentioned):
        return DrawnRows(x, info={"epsilon": 0.0})
    task = {
        "n": formula.n_total,
        "clauses": foreign.flat_clauses(problem, fixed=False),
        "set": chosen.tolist(),
        "count": count,
        "seed": seed % 2**32,
    }
    rows, messages, ended = foreign.ask(SCRIPT, "UniGen", task, budget)
    rows = rows.reshape(-1, len(chosen))
    x = x[: len(rows)]
    x[:, chosen - 1] = rows
    if over is not None:
        x = solver.completed(rest.clauses(), chosen - 1, x, budget)
    info = {"epsilon": EPSILON}
    if messages:
        info["log2_count"] = float(np.log2(messages[0]["cell"])) + messages[0]["hashes"]
    return DrawnRows(x, ended, info)


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


def over(variables: np.ndarray) -> Sampler:
    """UniGen over the projected solutions on these variables, from 0."""
    return replace(SAMPLER, blocks=partial(foreign.blocks, partial(draw, over=variables)))
