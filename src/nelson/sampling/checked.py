"""The blocks of a sampler, with what violates the formula dropped and drawn again.

A sampler that may emit invalid assignments is asked again until a block is full: with a share p of
valid ones, about count / p are drawn. What is kept has the sampler's law given that it is valid.
The numbers of the samples drawn go on from one draw to the next, so the same seed gives the same
block. `check=False` hands everything out as drawn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nelson.kernels.core.bits import compact, concatenate, tail_mask
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Block, Request, Sampler

#: Draws of a block are given up if so many of each context held nothing valid (or 16 blocks).
_HOPELESS = 4096
#: Most lanes of one draw, as a multiple of what is missing: validity may be underestimated.
_GROWTH = 64


def blocks(sampler: Sampler, problem: Problem, request: Request, check: bool) -> Iterator[Block]:
    """As `sampler.blocks`; in every block `valid` are the lanes to hand out."""
    if not (sampler.may_be_invalid and check):
        for block in sampler.blocks(problem, request):
            yield _judged(block, keep=sampler.may_be_invalid)
        return
    done, start = 0, request.start
    while request.count is None or done < request.count:
        count = request.block if request.count is None else min(request.block, request.count - done)
        block, start = _filled(sampler, problem, request, count, start)
        yield block
        if block.stopped or block.interrupted:
            return
        done += count


def _judged(block: Block, keep: bool) -> Block:
    """Count what violates the formula, and drop it unless it is to be kept."""
    if block.sound is None:
        return block
    block.drawn = int(np.bitwise_count(block.valid).sum())
    block.invalid = int(np.bitwise_count(block.valid & ~block.sound).sum())
    if not keep:
        block.valid = block.valid & block.sound
    return block


def _filled(
    sampler: Sampler, problem: Problem, request: Request, count: int, start: int
) -> tuple[Block, int]:
    """`count` valid samples of each context if the budget allows, and where to go on."""
    contexts = len(request.contexts)
    pieces: list[list[tuple[np.ndarray, int]]] = [[] for _ in range(contexts)]
    held = np.zeros(contexts, np.int64)
    total = Block(np.zeros(0), np.zeros(0))
    deadline, lanes, asked = request.until(), 0, count
    while held.min(initial=count) < count and not (total.stopped or total.interrupted):
        part = replace(request, count=asked, block=asked, start=start, deadline=deadline)
        for block in sampler.blocks(problem, part):
            _judged(block, keep=False)
            for c in range(contexts):
                pieces[c].append(compact(block.packed[c], block.valid[c]))
                held[c] += pieces[c][-1][1]
            _add(total, block)
        start += -(-asked // 64) * 64
        lanes += asked
        least = int(held.min(initial=count))
        if not least and lanes >= max(_HOPELESS, 16 * count):
            total.stopped = True
            total.info["ended"] = f"none of {lanes} assignments drawn satisfies the formula"
        elif deadline is not None and time.monotonic() >= deadline and least < count:
            total.stopped = True
        missing = max(1, count - least)
        asked = 64 * -(-min(int(1.1 * missing * lanes / max(least, 1)), _GROWTH * missing) // 64)
    joined = [concatenate(piece, len(request.columns)) for piece in pieces]
    words = -(-min(count, max((size for _, size in joined), default=0)) // 64)
    total.packed = np.zeros((contexts, words, len(request.columns)), np.uint64)
    total.valid = np.zeros((contexts, words), np.uint64)
    for c, (packed, size) in enumerate(joined):
        mask = tail_mask(min(count, size))
        total.packed[c, : len(mask)] = packed[: len(mask)] & mask[:, None]
        total.valid[c, : len(mask)] = mask
    return total, start


def _add(total: Block, block: Block) -> None:
    total.rounds = max(total.rounds, block.rounds)
    total.resampled += block.resampled
    total.drawn += block.drawn
    total.invalid += block.invalid
    total.stopped |= block.stopped
    total.interrupted |= block.interrupted
    total.info |= block.info
