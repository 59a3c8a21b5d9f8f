"""Plain rejection: propose x from the product law of theta, keep it if every clause holds.

    sample i = the i-th valid one of the proposals 0, 1, 2, .., each ~ prod_i p_i^x_i q_i^(1 - x_i)

Proposals continue where the last block ended, so that a stream is the same samples in blocks. Exact
on any formula, by definition: the reference that other samplers are judged by. A sample takes 1 /
P(C) proposals on average. Three budgets end a call: `max_rounds` proposals for each sample asked
for, `seconds`, or no valid one among the first 64 max_rounds proposals (if P(C) >= 1 / max_rounds,
that happens once in e^64 calls). The samples before the end are still exact: they are the first
valid proposals.

A proposal is what the resampling kernel draws before its first round, bit-sliced and on all
threads: 64 proposals cost one AND per literal and the bits of one Bernoulli word per variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nelson.kernels.core.bits import compact, concatenate, tail_mask, words_for
from nelson.kernels.core.reference import LOVASZ
from nelson.sampling import engine
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Block, Request, Sampler

#: Fewest proposals of a draw.
_FIRST = 1024
#: Most bytes of a draw's packed proposals.
_BYTES = 64 << 20

KERNEL = replace(engine.RESAMPLE, first_tells=False)


class Proposals:
    """The valid proposals of one context, in order."""

    def __init__(self, problem: Problem, request: Request, context: int) -> None:
        row = slice(context, context + 1)
        self.problem, self.columns = problem, len(request.columns)
        self.table = engine.laws(problem, request.theta[row])
        self.context = request.contexts[row]
        self.word = request.start // 64  # the next word of proposals
        self.left = np.zeros((0, self.columns), np.uint64), 0  # valid ones not returned yet

    def take(self, request: Request, count: int, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """The next `count` as (packed, lanes), or fewer; counts and flags go to `block`."""
        pieces, held, tried, hits = [self.left], self.left[1], 0, 0
        budget = count * max(1, request.max_rounds)
        largest = max(_FIRST, _BYTES // (8 * max(1, self.columns)) * 64)
        size = max(_FIRST, count - held)
        asking = replace(request, max_rounds=0, sweeps=0)
        while held < count and tried < budget and not block.last:
            size = min(64 * words_for(size), largest)
            drawn = engine.draw(
                KERNEL, LOVASZ, self.problem, asking, self.table, self.context, self.word, size
            )
            pieces.append(compact(drawn.packed[0], drawn.valid[0]))
            tried, hits, held = tried + size, hits + pieces[-1][1], held + pieces[-1][1]
            self.word += size // 64
            block.stopped |= drawn.stopped
            block.interrupted |= drawn.interrupted
            if not hits and tried >= max(_FIRST, 64 * request.max_rounds):
                break
            needed = 1.1 * (count - held + 8) * tried / max(hits, 0.5)
            size = max(_FIRST, int(min(needed, 8 * size, budget - tried)))
        block.rounds = max(block.rounds, -(-tried // max(hits, 1)))
        block.resampled += tried - hits
        packed, held = concatenate(pieces, self.columns)
        lanes, more = tail_mask(min(count, held)), tail_mask(held)
        more[: len(lanes)] &= ~lanes
        self.left = compact(packed[: len(more)], more)
        return packed[: len(lanes)] & lanes[:, None], lanes


def blocks(problem: Problem, request: Request) -> Iterator[Block]:
    streams = [Proposals(problem, request, c) for c in range(len(request.contexts))]
    for _, count in request.pieces():
        timed = replace(request, deadline=request.until())
        block = Block.empty(request, words_for(count))
        for c, stream in enumerate(streams):
            packed, lanes = stream.take(timed, count, block)
            block.packed[c, : len(lanes)] = packed
            block.valid[c, : len(lanes)] = lanes
        block.stopped |= int(np.bitwise_count(block.valid).sum()) < len(streams) * count
        yield block
        if block.last:
            return


SAMPLER = Sampler(
    name="rejection",
    summary="propose from the product law of theta until every clause holds",
    citation="von Neumann: Various techniques used in connection with random digits, 1951",
    weighted=True,
    guarantee=lambda problem, sweeps: "exact",
    blocks=blocks,
    ready=engine.ready,
    promise="exact, where it finds any",
)
