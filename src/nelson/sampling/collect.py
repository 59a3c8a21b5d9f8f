"""From the blocks of a sampler to `Samples`: drop invalid lanes, join blocks and contexts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nelson.kernels.core.bits import compact, concatenate, tail_mask, words_for
from nelson.sampling.plan import Plan
from nelson.sampling.result import prove_or_explain, result
from nelson.sampling.sampler import Block, Lanes, Request, divided
from nelson.sampling.samples import Samples
from nelson.sampling.validity import valid_blocks

#: A stream ends after this many tried samples of which none is valid.
_HOPELESS = 4096


def collect(plan: Plan, started: float) -> Samples:
    """All parts and contexts in one object; contexts are cut to the shortest."""
    packed: list[np.ndarray] = [np.zeros((0, len(plan.request.columns)), np.uint64)] * plan.contexts
    counts = np.zeros(plan.contexts, int)
    blocks: list[Block] = []
    for problem, request in plan.parts:
        pieces: list[list[tuple[np.ndarray, int]]] = [[] for _ in request.contexts]
        for block in valid_blocks(plan.sampler, problem, request, plan.check):
            blocks.append(block)
            if block.interrupted:
                raise KeyboardInterrupt
            for k in range(len(request.contexts)):
                pieces[k].append(kept(block, k))
        if request.count and not any(held for piece in pieces for _, held in piece):
            prove_or_explain(plan, problem, request, blocks[-1])
        for k, context in enumerate(request.contexts):
            packed[context], counts[context] = concatenate(pieces[k], len(request.columns))
    shortest = int(counts.min(initial=plan.n or 0))
    return result(plan, samples_of(plan, packed, shortest), blocks, started)


def samples_of(plan: Plan, packed: list[np.ndarray], count: int) -> Samples:
    """The first `count` samples of each context, with no bit behind the last."""
    words = words_for(count)
    if not packed:
        array = np.zeros((0, words, len(plan.request.columns)), np.uint64)
    else:
        array = packed[0][:words] if plan.single else np.stack([block[:words] for block in packed])
    if count % 64:
        array[..., -1, :] &= tail_mask(count % 64)
    return Samples(array, count, plan.variables, "heuristic")  # until `result` knows better


def kept(block: Block, context: int) -> tuple[np.ndarray, int]:
    """The valid samples of one context, and their number."""
    packed, valid = block.packed[context], block.valid[context]
    held = int(np.bitwise_count(valid).sum())
    words = words_for(held)
    if np.array_equal(valid[:words], tail_mask(held)):  # no gap: a budget may have cut the end
        if held % 64:
            packed[words - 1] &= valid[words - 1]
        return packed[:words], held
    return compact(packed, valid)


def in_blocks(plan: Plan, block_size: int) -> Iterator[Samples]:
    """The samples of a plan with one part, `block_size` at a time.

    A context that has more samples than the shortest one keeps them for the next block, so that
    all blocks together are the samples of `collect`. An endless stream drops them instead, as they
    might become more and more. A block may be empty; the stream goes on unless no sample at all was
    valid.
    """
    problem, request = plan.parts[0]
    request = replace(request, block=block_size)
    contexts, columns = range(len(request.contexts)), len(request.columns)
    left: list[Lanes] = [(np.zeros((0, columns), np.uint64), 0) for _ in contexts]
    total = found = 0
    started = time.monotonic()
    blocks = valid_blocks(plan.sampler, problem, request, plan.check)
    for block in until_interrupted(blocks, request):
        pieces = [concatenate([left[k], kept(block, k)], columns) for k in contexts]
        shortest = min(held for _, held in pieces)
        for k in contexts:
            packed, held = pieces[k]
            left[k] = packed[:0], 0
            if held > shortest and plan.n is not None:
                packed, _, left[k] = divided([pieces[k]], shortest, columns)
            pieces[k] = packed, shortest
        asked = block_size if plan.n is None else min(block_size, plan.n - total)
        if not total and not shortest and asked and not block.interrupted:
            prove_or_explain(plan, problem, request, block)
        samples = samples_of(plan, [packed for packed, _ in pieces], shortest)
        yield result(replace(plan, n=asked), samples, [block], started)
        started = time.monotonic()
        total, found = total + asked, found + shortest
        if block.interrupted or (not found and total >= _HOPELESS):
            return


def until_interrupted(blocks: Iterator[Block], request: Request) -> Iterator[Block]:
    """The blocks. Ctrl-C between two tiles ends them with an empty block."""
    while True:
        try:
            block = next(blocks, None)
        except KeyboardInterrupt:
            block = Block.empty(request, interrupted=True)
        if block is None:
            return
        yield block
