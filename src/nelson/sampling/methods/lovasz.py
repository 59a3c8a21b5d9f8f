"""Algorithm 1 of the paper: draw all variables, then redraw the variables of all violated clauses
until no clause is violated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nelson.chains import compiling, engine
from nelson.chains.block import Block
from nelson.chains.chain import resumed
from nelson.chains.problem import Problem
from nelson.chains.request import Request
from nelson.kernels.core.reference import LOVASZ
from nelson.sampling import total_variation
from nelson.sampling.sampler import Sampler


def guarantee(problem: Problem, sweeps: int) -> str:
    """Theorem 1 needs Condition 1. Without it, sweeps leave P_theta(. | C) stationary, but whether
    the chains reach it is for a diagnosis to say, which "auto" makes.
    """
    return "exact" if problem.extremal else "heuristic"


def blocks(problem: Problem, request: Request) -> Iterator[Block]:
    """The samples of a request, `request.block` per context at a time."""
    if request.moves.in_tiles or not request.sweeps:
        return engine.blocks(LOVASZ, problem, request)
    return _moved(problem, request)


def _moved(problem: Problem, request: Request) -> Iterator[Block]:
    """Resampled, then swept by moves that are not made in tiles."""
    started = replace(request, sweeps=0, columns=np.arange(problem.formula.n_total))
    pieces = request.pieces()
    for block, (first, count) in zip(engine.blocks(LOVASZ, problem, started), pieces, strict=False):
        if not block.last:
            moved = resumed(problem, request, block.packed, 0, first // 64, count)
            block.packed, block.stopped = moved.packed, moved.stopped
            block.filled &= moved.filled
        block.packed = np.ascontiguousarray(block.packed[:, :, request.columns])
        block.info = block.info | request.moves.info
        yield block
        if block.last:
            return


SAMPLER = Sampler(
    name="lovasz",
    summary="resample the variables of all violated clauses at once",
    citation="Guo, Jerrum, Liu: Uniform sampling through the Lovasz local lemma, J. ACM 66 (2019); "
    "Jiang, Gu, Xue: Learning Markov random fields for combinatorial structures, AAAI 2023",
    weighted=True,
    rounds_weights=True,
    variation=total_variation.of_bits,
    guarantee=guarantee,
    keyed=True,
    gpu_method=LOVASZ,
    needs_sweeps=True,
    other_moves=True,
    blocks=blocks,
    sweeps=0,
    ready=compiling.ready,
    promise="exact on extremal formulas, else heuristic",
)
