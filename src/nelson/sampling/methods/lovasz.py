"""Algorithm 1 of the paper: draw all variables, then redraw the variables of all violated clauses
until no clause is violated.
"""

from __future__ import annotations

from functools import partial

from nelson.kernels.core.reference import LOVASZ
from nelson.sampling import engine
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Sampler


def guarantee(problem: Problem, sweeps: int) -> str:
    """Theorem 1 needs Condition 1. Without it, sweeps leave P_theta(. | C) stationary, but whether
    the chains reach it is for a diagnosis to say, which "auto" makes.
    """
    return "exact" if problem.extremal else "heuristic"


SAMPLER = Sampler(
    name="lovasz",
    summary="resample the variables of all violated clauses at once",
    citation="Guo, Jerrum, Liu: Uniform sampling through the Lovasz local lemma, J. ACM 66 (2019); "
    "Jiang, Gu, Xue: Learning Markov random fields for combinatorial structures, AAAI 2023",
    weighted=True,
    rounds_weights=True,
    guarantee=guarantee,
    blocks=partial(engine.blocks, LOVASZ),
    sweeps=0,
    ready=engine.ready,
    promise="exact on extremal formulas, else heuristic",
)
