"""The blocks of a sampler without the samples that violate the formula.

A sampler that may return invalid assignments is asked again until a block is full: if a share p is
valid, about count / p samples are drawn. The samples that are kept follow the sampler's law given
validity. Sample i is the i-th valid assignment of the sampler's sequence 0, 1, 2, ..: valid
assignments that a block does not need go to the next block. So a stream returns the samples of one
call, in blocks of any size, if assignment j is a function of (seed, j) as for `gibbs`. With
`check=False` everything is returned as drawn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nelson.kernels.core.bits import compact, words_for
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Block, Lanes, Request, Sampler, divided

#: The search is given up after this many assignments of each context without a valid one, or after
#: 16 for each sample asked for, if that is more.
_HOPELESS = 4096
#: Most samples of one draw, as a multiple of the missing ones: the estimated validity may be low.
_GROWTH = 64


def valid_blocks(
    sampler: Sampler, problem: Problem, request: Request, check: bool
) -> Iterator[Block]:
    """As `sampler.blocks`; in every block `valid` are the lanes to return."""
    if not (sampler.may_be_invalid and check):
        for block in sampler.blocks(problem, request):
            yield _judged(block, keep=sampler.may_be_invalid)
        return
    contexts = range(len(request.contexts))
    sources = [ValidSamples(sampler, problem, request, c) for c in contexts]
    for first, count in request.pieces():
        block, deadline = Block.empty(request, words_for(count)), request.until()
        for at, size in request.in_turns(first, count):
            for c in contexts:
                packed, lanes = sources[c].take(size, deadline, block)
                block.put(c, (at - first) // 64, packed, lanes)
            if block.last:
                break
        yield block
        if block.last:
            return


def _judged(block: Block, keep: bool) -> Block:
    """Count the lanes that violate the formula; drop them unless keep."""
    if block.sound is None:
        return block
    block.drawn = int(np.bitwise_count(block.valid).sum())
    block.invalid = int(np.bitwise_count(block.valid & ~block.sound).sum())
    if not keep:
        block.valid = block.valid & block.sound
    return block


class ValidSamples:
    """The valid assignments of one context, in order."""

    def __init__(self, sampler: Sampler, problem: Problem, request: Request, context: int) -> None:
        row = slice(context, context + 1)
        self.sampler, self.problem = sampler, problem
        self.request = replace(request, theta=request.theta[row], contexts=request.contexts[row])
        self.lanes = self.found = 0  # assignments drawn (whole words), and valid ones among them
        self.left: Lanes = np.zeros((0, len(request.columns)), np.uint64), 0  # valid, not returned
        self.hopeless = 64 * words_for(max(_HOPELESS, 16 * (request.count or 0)))

    def take(self, count: int, deadline: float | None, total: Block) -> tuple[np.ndarray, ...]:
        """The next `count` as (packed, lanes), or fewer; counts and flags go to `total`."""
        pieces, held = [self.left], self.left[1]
        while held < count and not total.last:
            asked = self._next_draw(count - held)
            part = replace(self.request, count=asked, block=asked, deadline=deadline)
            part = replace(part, start=part.start + self.lanes)
            for block in self.sampler.blocks(self.problem, part):
                _judged(block, keep=False)
                pieces.append(compact(block.packed[0], block.valid[0]))
                held += pieces[-1][1]
                self.found += pieces[-1][1]
                total.add(block)
            self.lanes += asked
            if not self.found and self.lanes >= self.hopeless:
                total.stopped = True
                total.info["ended"] = (
                    f"none of {self.lanes} assignments drawn satisfies the formula"
                )
            elif deadline is not None and time.monotonic() >= deadline:
                total.stopped |= held < count
        packed, lanes, self.left = divided(pieces, count, len(self.request.columns))
        return packed, lanes

    def _next_draw(self, missing: int) -> int:
        """How many assignments to draw next: whole words, so that no lane is skipped."""
        asked = missing
        if self.lanes:
            asked = min(int(1.1 * missing * self.lanes / max(self.found, 1)), _GROWTH * missing)
        asked = 64 * words_for(asked)
        return asked if self.found else min(asked, self.hopeless - self.lanes)
