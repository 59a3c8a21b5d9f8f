"""Single-site Gibbs sampling of a soft formula: the baseline of the paper.

    pi(x) ~ exp(theta . x - penalty * (number of violated clauses)),      penalty = 10

Each sample is one chain: it starts from the product law of theta, then makes `sweeps` (100 by
default) systematic sweeps of P(x_v | all others). With a penalty this high pi puts almost all its
mass on valid assignments, 1 - O(L e^-10), and given validity pi is P_theta(. | C). But the same
penalty keeps a chain in a local minimum of violations. So samples may be invalid, which is its
point as a baseline: `check=False` returns them as drawn, the default drops them. Either way the law
after finitely many sweeps is not P_theta(. | C).

Unit clauses and evidence are not soft: unit propagation fixes those variables first. Cost of a
sweep: one look at every clause of every variable, for the 64 chains of a word at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nelson.chains import compiling, engine
from nelson.chains.block import Block
from nelson.chains.problem import Problem
from nelson.chains.request import Request
from nelson.kernels.cpu import gibbs
from nelson.sampling.sampler import Sampler

#: Log-odds of a violated clause.
PENALTY = 10.0


def laws(problem: Problem, theta: np.ndarray) -> gibbs.Soft:
    full = np.zeros((len(theta), problem.formula.n_total))
    full[:, : problem.n] = theta
    program = problem.program
    return gibbs.soften(problem.law(theta), program, full[:, program.name], PENALTY)


KERNEL = engine.Kernel(laws, gibbs.run, gibbs.scratch, gibbs.result, sweeps_all=True)


def blocks(problem: Problem, request: Request) -> Iterator[Block]:
    for block in engine.blocks(0, problem, request, KERNEL):
        block.info |= {"sweeps": request.sweeps, "penalty": PENALTY}
        yield block


def ready(count: int, width: int | None = None) -> None:
    compiling.compile_kernel(width or engine.width_for(count), KERNEL)


SAMPLER = Sampler(
    name="gibbs",
    summary="one chain per sample: x_v ~ P(x_v | others) of exp(theta.x - 10 violated clauses)",
    citation="Geman, Geman: Stochastic relaxation, Gibbs distributions, and the Bayesian "
    "restoration of images, IEEE PAMI 6 (1984)",
    weighted=True,
    rounds_weights=True,
    guarantee=lambda problem, sweeps: "heuristic",
    keyed=True,
    blocks=blocks,
    may_be_invalid=True,
    sweeps=100,
    seconds=60.0,
    ready=ready,
    promise="heuristic",
)
