"""What is asked of a sampler: `Request`, and the pieces in which it is drawn: `PieceSizes`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from nelson.budget import Budget
from nelson.chains.moves.protocol import Moves
from nelson.chains.moves.single_flips import SINGLE

#: Samples of the first piece before a deadline, and the factor by which pieces grow.
_FIRST_PIECE, _GROWTH = 64, 4
#: Samples of the widest tile. A piece with less than a tile for each thread takes nearly as long.
_TILE = 1024
#: A piece takes at most this part of the time left: a deadline may cut it off.
_PART = 1 / 8
#: The same for a single tile, near the end.
_LAST_PART = 3 / 4
#: Most bytes of samples that are allocated before they are drawn, if a deadline may cut them off.
_ROOM = 1 << 33


@dataclass
class PieceSizes:
    """Sizes of the pieces in which several contexts, or groups of variables, are drawn in turns.

    A sample counts only if all of them have drawn it. So without a deadline a piece has `most`
    samples. With one, pieces begin small and grow as far as the clock allows, and a deadline finds
    all contexts and groups equally far. The size of a piece never changes a sample.
    """

    budget: Budget
    most: int  # a multiple of 64
    number: int = -1  # of the piece drawn now
    size: int = 0  # its samples
    began: float = 0.0

    def piece(self, number: int, left: int) -> int:
        """The size of a piece; `left` samples are wanted. The first who asks for it sets it."""
        if number != self.number:
            now = time.monotonic()
            self.size = min(left, self.most if self.budget.counted else self._next(now))
            self.number, self.began = number, now
        return self.size

    def _next(self, now: float) -> int:
        if self.number < 0:
            return min(self.most, _FIRST_PIECE)
        left, spent = self.budget.left, max(now - self.began, 1e-6)
        tile = _TILE * self.budget.threads
        if self.size < tile:
            size = min(tile, _GROWTH * self.size) if _GROWTH * spent <= left else self.size
        else:
            size = min(_GROWTH * self.size, int(_PART * self.size * left / spent))
            if size < tile:
                size = tile if tile * spent <= _LAST_PART * left * self.size else 0
        return max(_FIRST_PIECE, min(self.most, size) // 64 * 64)


@dataclass(frozen=True)
class Request:
    """What is asked of a sampler. Sample i of context c is a function of (seed, c, i) alone."""

    theta: np.ndarray  # (contexts, n) finite log-odds
    contexts: np.ndarray  # (contexts,) number of each context: selects its random numbers
    count: int | None  # samples per context; None: without end
    block: int  # samples per context and block, a multiple of 64 unless it is the only block
    seed: int
    columns: np.ndarray  # variables to return, counted from 0
    sweeps: int
    max_rounds: int
    budget: Budget = field(default_factory=Budget)  # its deadline and its threads
    width: int | None = None  # words per row of a tile; None: the sampler chooses
    block_seconds: float | None = None  # the limit of a block if the budget has no deadline
    start: int = 0  # number of the first sample
    sizes: PieceSizes | None = None  # cuts blocks into pieces; all who draw in turns share it
    moves: Moves = SINGLE  # what a sweep is
    trial: float = 0.0  # resampling ends early unless this share of the first tile becomes valid

    def of_block(self) -> Budget:
        """The budget of a block that begins now."""
        if self.block_seconds is None or not self.budget.counted:
            return self.budget
        return self.budget.within(self.block_seconds)

    def pieces(self) -> Iterator[tuple[int, int]]:
        """(number of the first sample, number of samples) of each block, or of its pieces."""
        blocks: Iterator[int] = itertools.repeat(self.block)
        if self.count is not None:
            full, rest = divmod(self.count, max(1, self.block))
            blocks = itertools.chain(itertools.repeat(self.block, full), [rest] if rest else [])
        if self.sizes is None:
            return zip(itertools.count(self.start, self.block), blocks)
        return self._cut(blocks, self.sizes)

    def _cut(self, blocks: Iterator[int], sizes: PieceSizes) -> Iterator[tuple[int, int]]:
        """The pieces of blocks of these sizes."""
        done = number = 0
        for block in blocks:
            end = done + block
            while done < end:
                size = sizes.piece(number, end - done)
                yield self.start + done, size
                done, number = done + size, number + 1

    def fits(self, count: int) -> bool:
        """May the samples of one block be allocated at once, before it is known how many come?"""
        return count // 8 * len(self.contexts) * len(self.columns) <= _ROOM

    def in_turns(
        self, first: int, count: int, most: int | None = None
    ) -> Iterator[tuple[int, int]]:
        """As `pieces`, of one block: all contexts draw a piece before the next piece begins, so
        that a deadline finds them equally far. most: samples of a piece, at most.

        The block is one piece if it is one already, or if there is one context or no deadline.
        """
        budget = self.of_block()
        timed = budget.deadline is not None
        if most is None and timed and not self.fits(count):
            most = _ROOM // (8 * len(self.contexts) * len(self.columns)) * 64
        if self.sizes is not None or (most is None and (not timed or len(self.contexts) == 1)):
            return iter([(first, count)])
        sizes = PieceSizes(budget, min(count, most or count))
        return replace(self, start=first, count=count, block=count, sizes=sizes).pieces()
