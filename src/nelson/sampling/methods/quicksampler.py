"""QuickSampler: solutions near each other tell which bits flip together; flip several such sets.

An epoch starts from a random assignment and the solution sigma that is closest to it (MaxSAT). For
each variable, the solution closest to sigma in which that variable is flipped differs from it in a
set of bits: a *mutation* delta. Samples are

    sigma xor (delta_1 or delta_2 or .. or delta_k),        k = 0, .., 6

for all choices of k mutations: a few MaxSAT calls make many samples. For k <= 1 they are solutions.
Beyond that they are guesses: mutations that touch no common clause can be combined, others may not.
The paper measures that most are valid on circuits; nothing is proved of validity or law. What
violates the formula is dropped unless `check=False`.

Where it departs from the paper:

* An epoch hands out at most 1024 samples, drawn at random among its combinations. The paper's
  program writes out all of them (up to millions, all near one sigma) and looks for the next
  mutation in between, so that the first samples flip the first variables only.
* A variable that can be flipped alone is found by looking at its clauses; the MaxSAT solver, which
  would say the same, is asked for the others only. It is RC2, not Z3.

n + 1 MaxSAT calls an epoch at most. A solver that takes longer than four fifths of the budget is
interrupted, and the mutations found so far are used.
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

_SCRIPT = Path(__file__).with_name("scripts") / "quicksampler.py"


def draw(problem: Problem, theta: np.ndarray, count: int, seed: int, deadline: float) -> Drawn:
    formula = problem.formula
    # Auxiliary variables follow from the visible ones, if it is known how; else they are mutated
    # with them.
    width = formula.n_vars if formula.constraints else formula.n_total
    if not width:
        return Drawn(np.zeros((count, 0), bool))
    left = deadline - time.monotonic()
    task = {
        "n": formula.n_total,
        "clauses": foreign.flat_clauses(problem),
        "set": width,
        "known": problem.fixed.tolist(),
        "count": count,
        "seed": seed,
        "seconds": left,
    }
    answers, ended = run_child(_SCRIPT, [task], left)
    if any("unsatisfiable" in answer for answer in answers):
        raise Unsatisfiable("a MaxSAT solver (RC2) proved that there is no solution")
    parts = [answer for answer in answers if "rows" in answer]
    packed = np.frombuffer(b"".join(part["rows"] for part in parts), np.uint8)
    rows = np.unpackbits(packed.reshape(-1, -(-width // 8)), axis=1, count=width, bitorder="little")
    info = {key: parts[-1][key] for key in ("epochs", "mutations") if parts}
    return Drawn(rows, foreign.explained("QuickSampler", answers, ended), info)


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
