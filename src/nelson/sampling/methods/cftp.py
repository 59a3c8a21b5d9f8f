"""Coupling from the past: exact on any formula on which the chains of all starts meet.

The heat bath of the sweeps, with the same coins for all starts, from further and further back,
until bounds on the states of all chains leave one state at time 0 (`kernels/cpu/cftp.py`). Where
they do, P_theta(. | C) is drawn exactly for any theta, and the chains are proved to connect all
valid states. Where clauses are many or short they do not, and the draw ends with its budget.

*Why nothing is dropped.* How many sweeps a sample takes depends on the sample. So a sample that ran
out of its budget must not be left out while others are kept: the samples of that block, and all
later ones, are not returned. A deadline only decides which tiles begin, and a tile that has begun
is finished: whether a tile begins depends on the tiles before it, not on its own samples. If it
takes as long again as the whole draw had, the block is given up as well. Ctrl-C ends the tiles in
work at once, and with them their block; a stream has returned whole blocks before it.

*What remains.* A result is returned on the condition that all lanes met within `max_rounds` sweeps
(rounded up to a power of two). What that may cost is bounded in `sampling/total_variation.py`, from
the lanes that met; so whole words of 64 lanes are drawn, also for fewer samples.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from nelson.chains import compiling, engine
from nelson.chains.block import Block
from nelson.chains.problem import Problem, prepare
from nelson.chains.request import Request
from nelson.formula import Formula
from nelson.formula.memo import Recent, Slot
from nelson.kernels.core.bits import tail_mask, words_for
from nelson.kernels.cpu import cftp
from nelson.sampling import total_variation
from nelson.sampling.sampler import Sampler

ENDED = (
    "the coupled chains of {} samples did not meet {}; without these samples the others would be "
    "biased, so none of this block is returned; raise max_rounds or seconds, or take method='auto'"
)
#: The number of this kernel on a GPU.
CFTP = 3
#: By evidence: the length of the first run of the next draw.
_LENGTH: Slot[Recent[tuple[int, ...], int]] = Slot("sweeps until coupled chains meet")
_VISITS: Slot[Recent[tuple[int, ...], cftp.Visits]] = Slot("what a coupled sweep reads")


def kernel(problem: Problem, first: int = 1) -> engine.Kernel:
    """first: length of the first run. It changes the time, never a sample."""
    known = problem.formula.memo.recent(_VISITS, 16)
    visits = known.once(problem.evidence, lambda: cftp.visits(problem.program))
    run, scratch = partial(cftp.run, visits), partial(cftp.scratch, first=first)
    return engine.Kernel(Problem.law, run, scratch, finishes=True)


def expect(problem: Problem, sweeps: int) -> None:
    """Let the first run of the next draw have this length. It changes the time, never a sample."""
    _lengths(problem).put(problem.evidence, sweeps)


def _lengths(problem: Problem) -> Recent[tuple[int, ...], int]:
    return problem.formula.memo.recent(_LENGTH, 16)


def blocks(problem: Problem, request: Request, first: int | None = None) -> Iterator[Block]:
    first = first or _lengths(problem).get(problem.evidence) or 1
    problem, pieces = problem.sweeping_all(), request.pieces()
    whole = replace(request, block=64 * words_for(request.block))  # whole words: 64 lanes that met
    if request.count is not None:
        whole = replace(whole, count=64 * words_for(request.count))
    drawn = engine.blocks(0, problem, whole, kernel(problem, first))
    for block, (_, count) in zip(drawn, pieces, strict=False):
        block.filled &= tail_mask(count)
        apart, block.resampled = block.resampled, 0
        if apart:
            block.filled = np.zeros_like(block.filled)
            late = (
                request.budget.deadline is not None and time.monotonic() >= request.budget.deadline
            )
            when = "when the time was up" if late else f"after {block.rounds} sweeps from the past"
            block.info["apart"] = apart
            block.stopped, block.info["ended"] = True, ENDED.format(apart, when)
        else:
            # Some sweeps less are often enough; if not, a longer run follows.
            expect(problem, block.rounds - block.rounds // 8)
        yield block
        if block.last:
            return


def ready(count: int, width: int | None = None) -> None:
    problem = prepare(Formula([], n_vars=1))
    compiling.compile_kernel(width or engine.width_for(count), kernel(problem))


SAMPLER = Sampler(
    name="cftp",
    summary="heat-bath chains from all starts at once, from ever further back, until they meet",
    citation="Propp, Wilson: Exact sampling with coupled Markov chains, Random Structures and "
    "Algorithms 9 (1996); Huber: Perfect sampling using bounding chains, Annals of Applied "
    "Probability 14 (2004); He, Sun, Wu: Perfect sampling for (atomic) Lovasz local lemma, 2021",
    weighted=True,
    rounds_weights=True,
    variation=total_variation.of_bits,
    guarantee=lambda problem, sweeps: "exact",
    keyed=True,
    gpu_method=CFTP,
    blocks=blocks,
    tried_on_theta=True,
    ready=ready,
    promise="exact, where the chains meet",
)
