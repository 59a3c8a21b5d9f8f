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
from nelson.sampling.sampler import Block, Request, Sampler, divided

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
    source = _ValidSamples(sampler, problem, request)
    for _, count in request.pieces():
        block = source.take(count)
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


class _ValidSamples:
    """The valid assignments of each context, in order."""

    def __init__(self, sampler: Sampler, problem: Problem, request: Request) -> None:
        self.sampler, self.problem, self.request = sampler, problem, request
        self.lanes = 0  # assignments drawn of each context, a multiple of 64
        self.found = np.zeros(len(request.contexts), np.int64)  # valid ones among them
        none = np.zeros((0, len(request.columns)), np.uint64)
        self.left = [(none, 0)] * len(request.contexts)  # valid ones not returned yet
        self.hopeless = 64 * words_for(max(_HOPELESS, 16 * (request.count or 0)))

    def take(self, count: int) -> Block:
        """The next `count` samples of each context, or fewer if a budget ends."""
        request = replace(self.request, deadline=self.request.until())
        pieces = [[piece] for piece in self.left]
        held = np.array([held for _, held in self.left], np.int64)
        total = Block.empty(request)
        while held.min(initial=count) < count and not total.last:
            asked = self._next_draw(count - int(held.min()))
            start = request.start + self.lanes
            part = replace(request, count=asked, block=asked, start=start)
            for block in self.sampler.blocks(self.problem, part):
                _judged(block, keep=False)
                for c in range(len(held)):
                    pieces[c].append(compact(block.packed[c], block.valid[c]))
                    held[c] += pieces[c][-1][1]
                    self.found[c] += pieces[c][-1][1]
                total.add(block)
            self.lanes += asked
            if not self.found.min() and self.lanes >= self.hopeless:
                total.stopped = True
                total.info["ended"] = (
                    f"none of {self.lanes} assignments drawn satisfies the formula"
                )
            elif request.deadline is not None and time.monotonic() >= request.deadline:
                total.stopped |= bool(held.min() < count)
        words = words_for(min(count, int(held.max(initial=0))))
        total.packed = np.zeros((len(held), words, len(request.columns)), np.uint64)
        total.valid = np.zeros((len(held), words), np.uint64)
        for c, piece in enumerate(pieces):
            packed, lanes, self.left[c] = divided(piece, count, len(request.columns))
            total.packed[c, : len(lanes)] = packed
            total.valid[c, : len(lanes)] = lanes
        return total

    def _next_draw(self, missing: int) -> int:
        """How many assignments to draw next: whole words, so that no lane is skipped."""
        least = int(self.found.min())
        asked = missing
        if self.lanes:
            asked = min(int(1.1 * missing * self.lanes / max(least, 1)), _GROWTH * missing)
        asked = 64 * words_for(asked)
        return asked if least else min(asked, self.hopeless - self.lanes)
