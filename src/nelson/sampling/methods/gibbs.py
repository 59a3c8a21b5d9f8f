"""Single-site Gibbs sampling of a soft formula: the baseline of the paper.

    pi(x) ~ exp(theta . x - penalty * (number of violated clauses)),      penalty = 10

Each sample is a chain of its own: drawn from the product law of theta, then `sweeps` (100 unless
said otherwise) systematic sweeps of P(x_v | all others). With a penalty this high pi puts almost
all its mass on valid assignments, 1 - O(L e^-10), and given validity it is P_theta(. | C); but the
same penalty keeps a chain that sits in a local minimum of violations there. So what comes out may
be invalid, which is its point as a baseline: `check=False` hands that out as drawn, the default
drops it, and either way the law after finitely many sweeps is not P_theta(. | C).

Unit clauses and evidence are not soft: unit propagation fixes those variables first. Cost: one look
at every clause of every variable a sweep, for 64 chains at a time a word.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nelson.kernels.cpu import gibbs
from nelson.sampling import engine
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Block, Request, Sampler

#: Log-odds that a violated clause costs.
PENALTY = 10.0
SWEEPS = 100


def laws(problem: Problem, theta: np.ndarray) -> gibbs.Soft:
    full = np.zeros((len(theta), problem.formula.n_total))
    full[:, : problem.n] = theta
    program = problem.program
    return gibbs.soften(engine.laws(problem, theta), program, full[:, program.name], PENALTY)


KERNEL = engine.Kernel(laws, gibbs.run, gibbs.scratch, gibbs.result, sweeps_all=True)


def blocks(problem: Problem, request: Request) -> Iterator[Block]:
    for block in engine.blocks(0, problem, request, KERNEL):
        block.frozen = None
        block.info |= {"sweeps": request.sweeps, "penalty": PENALTY}
        yield block


def ready(count: int, width: int | None = None) -> None:
    engine.compile_kernel(width or engine.width_for(count), KERNEL)


SAMPLER = Sampler(
    name="gibbs",
    summary="one chain a sample: x_v ~ P(x_v | others) of exp(theta.x - 10 violated clauses)",
    citation="Geman, Geman: Stochastic relaxation, Gibbs distributions, and the Bayesian "
    "restoration of images, IEEE PAMI 6 (1984)",
    weighted=True,
    guarantee=lambda problem, sweeps: "heuristic",
    blocks=blocks,
    may_be_invalid=True,
    sweeps=SWEEPS,
    seconds=60.0,
    ready=ready,
    promise="heuristic",
)
