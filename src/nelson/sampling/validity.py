"""The blocks of a sampler without the samples that violate the formula.

A sampler that may return invalid assignments is asked again until a block is full: if a share p is
valid, about count / p samples are drawn. The samples that are kept follow the sampler's law given
validity. The numbers of samples continue from one draw to the next, so the same seed gives the same
block. With `check=False` everything is returned as drawn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nelson.kernels.core.bits import compact, concatenate, tail_mask, words_for
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Block, Request, Sampler

#: A block is given up after this many samples of each context (or 16 blocks) without a valid one.
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
    start = request.start
    for _, count in request.pieces():
        block, start = _filled(sampler, problem, request, count, start)
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


def _filled(
    sampler: Sampler, problem: Problem, request: Request, count: int, start: int
) -> tuple[Block, int]:
    """`count` valid samples of each context if the budget allows, and where to continue."""
    contexts = len(request.contexts)
    pieces: list[list[tuple[np.ndarray, int]]] = [[] for _ in range(contexts)]
    held = np.zeros(contexts, np.int64)
    total = Block.empty(request)
    deadline, lanes, asked = request.until(), 0, count
    while held.min(initial=count) < count and not total.last:
        part = replace(request, count=asked, block=asked, start=start, deadline=deadline)
        for block in sampler.blocks(problem, part):
            _judged(block, keep=False)
            for c in range(contexts):
                pieces[c].append(compact(block.packed[c], block.valid[c]))
                held[c] += pieces[c][-1][1]
            total.add(block)
        start += 64 * words_for(asked)
        lanes += asked
        least = int(held.min(initial=count))
        if not least and lanes >= max(_HOPELESS, 16 * count):
            total.stopped = True
            total.info["ended"] = f"none of {lanes} assignments drawn satisfies the formula"
        elif deadline is not None and time.monotonic() >= deadline and least < count:
            total.stopped = True
        missing = max(1, count - least)
        asked = min(int(1.1 * missing * lanes / max(least, 1)), _GROWTH * missing)
        asked = 64 * words_for(asked)
    joined = [concatenate(piece, len(request.columns)) for piece in pieces]
    words = words_for(min(count, max((size for _, size in joined), default=0)))
    total.packed = np.zeros((contexts, words, len(request.columns)), np.uint64)
    total.valid = np.zeros((contexts, words), np.uint64)
    for c, (packed, size) in enumerate(joined):
        mask = tail_mask(min(count, size))
        total.packed[c, : len(mask)] = packed[: len(mask)] & mask[:, None]
        total.valid[c, : len(mask)] = mask
    return total, start
