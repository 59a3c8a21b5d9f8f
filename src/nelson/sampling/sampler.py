"""What a sampler is, what it is asked (`Request`), and what it answers (`Block`).

A sampler is one file in `methods/` that defines `SAMPLER`, and one line in the registry. A sampler
that runs our kernels yields blocks itself (`engine.py`). A sampler that produces plain rows (of
another package, or of a child process) is a `draw` function behind `foreign.blocks`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from nelson.kernels.core.bits import compact, concatenate, tail_mask
from nelson.sampling.problem import Problem

#: Packed samples and their number.
Lanes = tuple[np.ndarray, int]
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
class Pace:
    """Sizes of the pieces in which several contexts, or groups of variables, are drawn in turns.

    A sample counts only if all of them have drawn it. So without a deadline a piece has `most`
    samples. With one, pieces begin small and grow as far as the clock allows, and a deadline finds
    all contexts and groups equally far. The size of a piece never changes a sample.
    """

    deadline: float | None  # time.monotonic()
    most: int  # a multiple of 64
    threads: int = 1
    number: int = -1  # of the piece drawn now
    size: int = 0  # its samples
    began: float = 0.0

    def piece(self, number: int, left: int) -> int:
        """The size of a piece; `left` samples are wanted. The first who asks for it sets it."""
        if number != self.number:
            now = time.monotonic()
            self.size = min(left, self.most if self.deadline is None else self._next(now))
            self.number, self.began = number, now
        return self.size

    def _next(self, now: float) -> int:
        if self.number < 0:
            return min(self.most, _FIRST_PIECE)
        assert self.deadline is not None
        left, spent, tile = self.deadline - now, max(now - self.began, 1e-6), _TILE * self.threads
        if self.size < tile:
            size = min(tile, _GROWTH * self.size) if _GROWTH * spent <= left else self.size
        else:
            size = min(_GROWTH * self.size, int(_PART * self.size * left / spent))
            if size < tile:
                size = tile if tile * spent <= _LAST_PART * left * self.size else 0
        return max(_FIRST_PIECE, min(self.most, size) // 64 * 64)


class Moves(Protocol):
    """What one sweep of a chain does, if it is not every variable once, given all others.

    P is stationary under each of its moves. j moves followed by k moves give the same bits as
    j + k moves at once.
    """

    @property
    def work(self) -> int:
        """What a move costs for each lane."""

    @property
    def held(self) -> float:
        """The share of variables that a move holds; 0 if a move draws exactly from P, 1 if it draws
        one variable or group at a time.
        """

    @property
    def info(self) -> dict[str, object]:
        """For `Samples.info`: the name under "moves", and sizes."""

    def moved(
        self,
        problem: Problem,
        request: Request,
        words: np.ndarray,
        done: int,
        first_word: int,
        count: int,
    ) -> Block:
        """`request.sweeps` moves from states (contexts, words, n_total), which have made `done`
        moves already; returns all columns.
        """


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
    threads: int
    deadline: float | None = None  # time.monotonic()
    width: int | None = None  # words per row of a tile; None: the sampler chooses
    patience: float | None = None  # seconds per block where there is no deadline
    start: int = 0  # number of the first sample
    pace: Pace | None = None  # cuts blocks into pieces; all who draw in turns share it
    moves: Moves | None = None  # what a sweep is; None: every variable once, given all others

    def until(self) -> float | None:
        """The deadline of a block that begins now; time.monotonic()."""
        if self.deadline is not None or self.patience is None:
            return self.deadline
        return time.monotonic() + self.patience

    def pieces(self) -> Iterator[tuple[int, int]]:
        """(number of the first sample, number of samples) of each block, or of its pieces."""
        done = number = 0
        while self.count is None or done < self.count:
            end = done + (self.block if self.count is None else min(self.block, self.count - done))
            while done < end:
                size = end - done if self.pace is None else self.pace.piece(number, end - done)
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
        until = self.until()
        if most is None and until is not None and not self.fits(count):
            most = _ROOM // (8 * len(self.contexts) * len(self.columns)) * 64
        if self.pace is not None or (most is None and (until is None or len(self.contexts) == 1)):
            yield first, count
            return
        pace = Pace(until, min(count, most or count), self.threads)
        yield from replace(self, start=first, count=count, block=count, pace=pace).pieces()


@dataclass
class Block:
    """Samples of each context, and what happened while they were drawn.

    packed   (contexts, words, columns) uint64
    valid    (contexts, words): the lanes that hold a sample. The caller drops the other lanes.
    sound    (contexts, words): the lanes that satisfy the formula; None: all valid lanes do
    drawn, invalid   lanes drawn, and those of them that violate the formula (`validity.py`)
    """

    packed: np.ndarray
    valid: np.ndarray
    rounds: int = 0
    resampled: int = 0
    stopped: bool = False  # a budget ended it early; info["ended"] may say which
    interrupted: bool = False  # Ctrl-C ended it
    info: dict[str, Any] = field(default_factory=dict)
    sound: np.ndarray | None = None
    drawn: int = 0
    invalid: int = 0

    @classmethod
    def empty(cls, request: Request, words: int = 0, **more: Any) -> Block:
        """A block of `words` words in which no lane is valid."""
        shape = len(request.contexts), words
        packed = np.zeros((*shape, len(request.columns)), np.uint64)
        return cls(packed, np.zeros(shape, np.uint64), **more)

    @classmethod
    def undrawn(cls, request: Request, words: int) -> Block:
        """A block to be filled: no lane is valid or sound. Memory is used as words are written."""
        shape = len(request.contexts), words
        packed = np.empty((*shape, len(request.columns)), np.uint64)
        return cls(packed, np.zeros(shape, np.uint64), sound=np.zeros(shape, np.uint64))

    @property
    def last(self) -> bool:
        """Does the sampler end after this block?"""
        return self.stopped or self.interrupted

    def put(self, context: int, word: int, packed: np.ndarray, lanes: np.ndarray) -> None:
        """Write samples of one context, from a word on."""
        self.packed[context, word : word + len(lanes)] = packed
        self.valid[context, word : word + len(lanes)] = lanes

    def add(self, other: Block) -> None:
        """Add the counts, flags and info of another block, not its samples."""
        self.rounds = max(self.rounds, other.rounds)
        self.resampled += other.resampled
        self.drawn += other.drawn
        self.invalid += other.invalid
        self.stopped |= other.stopped
        self.interrupted |= other.interrupted
        self.info |= other.info


def joined(parts: Sequence[Block], axis: int = 1) -> Block:
    """Blocks as one: axis=1 appends their words (all but the last are full), axis=0 contexts."""
    if len(parts) == 1:
        return parts[0]
    sound = None
    if any(part.sound is not None for part in parts):
        sounds = [part.valid if part.sound is None else part.sound for part in parts]
        sound = np.concatenate(sounds, axis=axis)
    total = Block(
        np.concatenate([part.packed for part in parts], axis=axis),
        np.concatenate([part.valid for part in parts], axis=axis),
        sound=sound,
    )
    for part in parts:
        total.add(part)
    return total


def divided(pieces: list[Lanes], count: int, columns: int) -> tuple[np.ndarray, np.ndarray, Lanes]:
    """The first `count` samples of the pieces as (packed, mask of lanes), and those behind them."""
    packed, held = concatenate(pieces, columns)
    first, rest = tail_mask(min(count, held)), tail_mask(held)
    rest[: len(first)] &= ~first
    return packed[: len(first)] & first[:, None], first, compact(packed[: len(rest)], rest)


@dataclass(frozen=True)
class Sampler:
    name: str
    #: Math in one line.
    summary: str
    citation: str
    #: May theta differ from 0?
    weighted: bool
    #: One of `nelson.sampling.guarantee.GUARANTEES`, for a problem and a number of sweeps.
    guarantee: Callable[[Problem, int], str]
    blocks: Callable[[Problem, Request], Iterator[Block]]
    #: The extra that installs its packages: `pip install "nelson-mrf[needs]"`.
    needs: str | None = None
    #: May it return assignments that violate the formula? It then marks them in `Block.sound`.
    may_be_invalid: bool = False
    #: Sweeps if the caller gives no number. None: the method makes no sweeps.
    sweeps: int | None = None
    #: Seconds of the budget if the caller gives none (per block, in a stream). None: the number of
    #: rounds is budget enough.
    seconds: float | None = None
    #: Called with the number of samples and the width before the clock starts: compiles kernels.
    ready: Callable[[int, int | None], None] | None = None
    #: Does it round probabilities to multiples of 2^-32?
    rounds_weights: bool = False
    #: Modules that it imports when it draws.
    modules: tuple[str, ...] = ()
    #: The guarantee in words, for tables.
    promise: str = ""
