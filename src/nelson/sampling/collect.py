"""From the blocks of a sampler to `Samples`: drop invalid lanes, join blocks and contexts.

A sampler that may return invalid assignments is asked again until a block is full: if a share p is
valid, about count / p samples are drawn. The samples that are kept follow the sampler's law given
validity. Sample i is the i-th valid assignment of the sampler's sequence 0, 1, 2, ..: valid
assignments that a block does not need go to the next block. So a stream returns the samples of one
call, in blocks of any size: assignment j is a function of (seed, j) as for `gibbs`, or assignments
are drawn in pieces that do not depend on the blocks (`foreign.py`). With
`check=False` everything is returned as drawn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nelson.budget import Budget, TimeUp
from nelson.chains.block import Block, Lanes, divided
from nelson.chains.problem import Problem
from nelson.chains.request import Request
from nelson.kernels.core.bits import compact, concatenate, lanes_set, last_mask, words_for
from nelson.sampling.drawing import Drawing, prove_or_explain, result
from nelson.sampling.foreign import FIRST_PIECE
from nelson.sampling.sampler import Sampler
from nelson.sampling.samples import Samples

#: A search, or a stream, ends after this many assignments of each context without a valid one; a
#: search after 16 for each sample asked for, if that is more.
_HOPELESS = 4096


def collect(drawing: Drawing, started: float) -> Samples:
    """All parts and contexts in one object; contexts are cut to the shortest."""
    packed: list[np.ndarray] = [np.zeros((0, 0), np.uint64)] * drawing.contexts
    counts = np.zeros(drawing.contexts, int)
    blocks: list[Block] = []
    for problem, request in drawing.parts:
        pieces: list[list[tuple[np.ndarray, int]]] = [[] for _ in request.contexts]
        every = valid_blocks(drawing.sampler, problem, request, drawing.check)
        for block in until_late(every, request.budget):
            if not pieces[0] and (other := drawing.after_trial(problem, request, block)):
                return collect(other, started)
            blocks.append(block)
            if block.interrupted:
                raise KeyboardInterrupt
            for k in range(len(request.contexts)):
                pieces[k].append(valid_lanes(block, k))
        if request.count and not any(held for piece in pieces for _, held in piece):
            prove_or_explain(drawing, problem, request, blocks[-1])
        for k, context in enumerate(request.contexts):
            packed[context], counts[context] = concatenate(pieces[k], len(request.columns))
    shortest = int(counts.min(initial=drawing.n or 0))
    return result(drawing, samples_of(drawing, packed, shortest), blocks, started)


def until_late(blocks: Iterator[Block], budget: Budget) -> Iterator[Block]:
    """The blocks that came before the deadline. Raises TimeUp if there was none.

    Only drawing is under the deadline: the samples that there are must still be put together.
    """
    first = True
    while True:
        try:
            with budget.enforced():
                block = next(blocks, None)
        except TimeUp:
            if first:
                raise
            return
        if block is None:
            return
        yield block
        first = False


def samples_of(drawing: Drawing, packed: list[np.ndarray], count: int) -> Samples:
    """The first `count` samples of each context, with no bit behind the last."""
    words = words_for(count)
    if not packed:
        array = np.zeros((0, words, len(drawing.request.columns)), np.uint64)
    else:
        array = (
            packed[0][:words] if drawing.single else np.stack([block[:words] for block in packed])
        )
    if count % 64:
        array[..., -1, :] &= last_mask(count)
    return Samples(array, count, drawing.variables, "heuristic")  # until `result` knows better


def valid_lanes(block: Block, context: int) -> tuple[np.ndarray, int]:
    """The valid samples of one context, and their number."""
    packed, valid = block.packed[context], block.filled[context]
    held, first = lanes_set(valid)
    words = words_for(held)
    if first:  # no gap: a budget may have cut the end
        if held % 64:
            packed[words - 1] &= valid[words - 1]
        return packed[:words], held
    return compact(packed, valid)


def in_blocks(drawing: Drawing, block_size: int) -> Iterator[Samples]:
    """The samples of a drawing with one part, `block_size` at a time.

    A context that has more samples than the shortest one keeps them for the next block, so that
    all blocks together are the samples of `collect`. An endless stream drops them instead, as they
    might become more and more. A block may be empty; the stream goes on unless no sample at all was
    valid.
    """
    problem, request = drawing.parts[0]
    request = replace(request, block=block_size)
    contexts, columns = range(len(request.contexts)), len(request.columns)
    left: list[Lanes] = [(np.zeros((0, columns), np.uint64), 0) for _ in contexts]
    total = n_valid = 0
    started = time.monotonic()
    blocks = valid_blocks(drawing.sampler, problem, request, drawing.check)
    for block in until_interrupted(blocks, request):
        if not total and (other := drawing.after_trial(problem, request, block)):
            yield from in_blocks(other, block_size)
            return
        pieces = [concatenate([left[k], valid_lanes(block, k)], columns) for k in contexts]
        shortest = min(held for _, held in pieces)
        for k in contexts:
            packed, held = pieces[k]
            left[k] = packed[:0], 0
            if held > shortest and drawing.n is not None:
                packed, _, left[k] = divided([pieces[k]], shortest, columns)
            pieces[k] = packed, shortest
        asked = block_size if drawing.n is None else min(block_size, drawing.n - total)
        if not total and not shortest and asked and not block.interrupted:
            prove_or_explain(drawing, problem, request, block)
        samples = samples_of(drawing, [packed for packed, _ in pieces], shortest)
        yield result(replace(drawing, n=asked), samples, [block], started)
        started = time.monotonic()
        total, n_valid = total + asked, n_valid + shortest
        if block.interrupted or (not n_valid and total >= _HOPELESS):
            return


def recut(blocks: Iterator[Samples], size: int, total: int | None) -> Iterator[Samples]:
    """The samples of blocks of whole words, `size` at a time. total: how many were asked for."""
    held: list[Lanes] = []
    done, last = 0, None
    for block in blocks:
        last, parts = block, block.packed if block.packed.ndim == 3 else block.packed[None]
        columns = parts.shape[2]
        held = held or [(parts[k][:0], 0) for k in range(len(parts))]
        held = [
            concatenate([lanes, (part, len(block))], columns)
            for lanes, part in zip(held, parts, strict=True)
        ]
        while held and held[0][1] >= size:
            cuts = [divided([lanes], size, columns) for lanes in held]
            held = [rest for _, _, rest in cuts]
            yield _part_of(block, [packed for packed, _, _ in cuts], size, size)
            done += size
    asked = size if total is None else min(size, total - done)
    if last is not None and ((asked and held and held[0][1]) or last.status != "ok" or not done):
        count = held[0][1] if held else 0
        yield _part_of(last, [packed for packed, _ in held], count, asked)


def _part_of(block: Samples, packed: list[np.ndarray], count: int, asked: int) -> Samples:
    """Some samples of a block, all of the same contexts."""
    array = np.stack(packed) if block.packed.ndim == 3 else packed[0]
    status = "ok" if count >= asked else block.status
    info = block.info | {"requested": asked}
    return replace(
        block, packed=array[..., : words_for(count), :], count=count, status=status, info=info
    )


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


# --- only valid samples ---------------------------------------------------------------------------


def valid_blocks(
    sampler: Sampler, problem: Problem, request: Request, check: bool
) -> Iterator[Block]:
    """As `sampler.blocks`; in every block `filled` are the lanes to return."""
    if not (sampler.may_be_invalid and check):
        for block in sampler.blocks(problem, request):
            yield _judged(block, keep=sampler.may_be_invalid)
        return
    contexts = range(len(request.contexts))
    sources = [ValidSamples(sampler, problem, request, c) for c in contexts]
    for first, count in request.pieces():
        block, budget = Block.empty(request, words_for(count)), request.of_block()
        for at, size in request.in_turns(first, count):
            for c in contexts:
                packed, lanes = sources[c].take(size, budget, block)
                block.put(c, (at - first) // 64, packed, lanes)
            if block.last:
                break
        yield block
        if block.last:
            return


def _judged(block: Block, keep: bool) -> Block:
    """Count the lanes that violate the formula; drop them unless keep."""
    if block.valid is None:
        return block
    block.drawn = int(np.bitwise_count(block.filled).sum())
    block.invalid = int(np.bitwise_count(block.filled & ~block.valid).sum())
    if not keep:
        block.filled = block.filled & block.valid
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
        self.piece = FIRST_PIECE  # whatever is asked for: what a child draws may depend on it

    def take(self, count: int, budget: Budget, total: Block) -> tuple[np.ndarray, ...]:
        """The next `count` as (packed, lanes), or fewer; counts and flags go to `total`."""
        pieces, held = [self.left], self.left[1]
        while held < count and not total.last:
            asked = self._next_draw(count - held)
            part = replace(self.request, count=asked, block=asked, budget=budget)
            part = replace(part, start=part.start + self.lanes)
            for block in self.sampler.blocks(self.problem, part):
                _judged(block, keep=False)
                pieces.append(compact(block.packed[0], block.filled[0]))
                held += pieces[-1][1]
                self.found += pieces[-1][1]
                total.add(block)
            self.lanes += asked
            if not self.found and self.lanes >= self.hopeless:
                total.stopped = True
                total.info["ended"] = (
                    f"none of {self.lanes} assignments drawn satisfies the formula"
                )
            elif budget.spent:
                total.stopped |= held < count
        packed, lanes, self.left = divided(pieces, count, len(self.request.columns))
        return packed, lanes

    def _next_draw(self, missing: int) -> int:
        """How many assignments to draw next: whole words, so that no lane is skipped."""
        asked = missing
        if not self.sampler.keyed:  # the same draws, whatever the size of a block
            asked, self.piece = self.piece, 2 * self.piece
        elif self.lanes:
            # The estimated share of valid ones may be too low: at most 64 times as many.
            asked = min(int(1.1 * missing * self.lanes / max(self.found, 1)), 64 * missing)
        asked = 64 * words_for(asked)
        return asked if self.found else min(asked, self.hopeless - self.lanes)
