"""QuickSampler: solutions near each other tell which bits flip together; flip several such sets.

An epoch starts from a random assignment and the solution sigma that is closest to it (MaxSAT). For
each variable, the solution closest to sigma in which that variable is flipped differs from it in a
set of bits: a *mutation* delta. Samples are

    sigma xor (delta_1 or delta_2 or .. or delta_k),        k = 0, .., 6

for all choices of k mutations: a few MaxSAT calls make many samples. For k <= 1 they are solutions.
For larger k they are guesses: mutations that share no clause can be combined, others may not. The
paper measures that most samples are valid on circuits; nothing is proved about validity or law.
Samples that violate the formula are dropped unless `check=False`.

Where it departs from the paper:

* An epoch returns at most 1024 samples, drawn at random among its combinations. The paper's
  program writes all combinations (up to millions, all near one sigma) and looks for the next
  mutation in between, so that the first samples flip the first variables only.
* A variable that can be flipped alone is found by looking at its clauses. The MaxSAT solver, which
  would give the same answer, is asked about the other variables only. It is RC2, not Z3.

An epoch makes at most n + 1 MaxSAT calls. After four fifths of the time the solver is interrupted,
and the mutations found so far are used.
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

SCRIPT = Path(__file__).with_name("scripts") / "quicksampler.py"


def draw(problem: Problem, theta: np.ndarray, count: int, seed: int, budget: Budget) -> DrawnRows:
    formula = problem.formula
    # Constraints define the auxiliary variables by the visible ones. Without constraints, auxiliary
    # variables are mutated like the others.
    width = formula.n_vars if formula.constraints else formula.n_total
    if not width:
        return DrawnRows(np.zeros((count, 0), bool))
    task = {
        "n": formula.n_total,
        "clauses": foreign.flat_clauses(problem),
        "set": width,
        "known": problem.fixed.tolist(),
        "count": count,
        "seed": seed,
        "seconds": budget.left,
    }
    packed, messages, ended = foreign.ask(SCRIPT, "QuickSampler (RC2)", task, budget)
    rows = np.unpackbits(packed.reshape(-1, -(-width // 8)), axis=1, count=width, bitorder="little")
    info = {key: messages[-1][key] for key in ("epochs", "mutations") if messages}
    return DrawnRows(rows, ended, info)


SAMPLER = Sampler(
    name="quicksampler",
    summary="flip up to six sets of bits, each known to be flippable alone, in one solution",
    citation="Dutra, Laeufer, Bachrach, Sen: Efficient sampling of SAT solutions for testing, "
    "ICSE 2018",
    weighted=False,
    guarantee=lambda problem, sweeps: "heuristic",
    blocks=partial(foreign.blocks, draw),
    may_be_invalid=True,
    seconds=60.0,
    promise="heuristic",
)
