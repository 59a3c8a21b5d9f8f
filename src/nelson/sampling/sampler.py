"""What a sampler is, what it is asked (`Request`), and what it answers (`Block`).

A sampler is one file in `methods/` that defines `SAMPLER`, and one line in the registry. A sampler
that runs our kernels yields blocks itself (`engine.py`). A sampler that produces plain rows (of
another package, or of a child process) is a `draw` function behind `foreign.blocks`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.kernels.core.bits import compact, concatenate, tail_mask
from nelson.sampling.problem import Problem

if TYPE_CHECKING:
    from nelson.sampling.joint import Joint

#: Packed samples and their number.
Lanes = tuple[np.ndarray, int]


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
    moves: Joint | None = None  # what a sweep is: a joint move, or None: all single variables

    def until(self) -> float | None:
        """The deadline of a block that begins now; time.monotonic()."""
        if self.deadline is not None or self.patience is None:
            return self.deadline
        return time.monotonic() + self.patience

    def pieces(self) -> Iterator[tuple[int, int]]:
        """(number of the first sample, number of samples) of each block."""
        done = 0
        while self.count is None or done < self.count:
            size = self.block if self.count is None else min(self.block, self.count - done)
            yield self.start + done, size
            done += size


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

    @property
    def last(self) -> bool:
        """Does the sampler end after this block?"""
        return self.stopped or self.interrupted

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
