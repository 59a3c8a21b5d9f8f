"""What a sampler answers: `Block`, packed samples of each context and what happened meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.kernels.core.bits import compact, concatenate, tail_mask

if TYPE_CHECKING:
    from nelson.chains.request import Request

_NOTHING = np.zeros(0, np.uint64)
#: Packed samples and their number.
Lanes = tuple[np.ndarray, int]


@dataclass
class Block:
    """Samples of each context, and what happened while they were drawn.

    packed   (contexts, words, columns) uint64
    filled   (contexts, words): the lanes that hold a sample. The caller drops the other lanes.
    valid    (contexts, words): the lanes that satisfy the formula; None: all filled lanes do
    drawn, invalid   lanes drawn, and those of them that violate the formula (`sampling/collect.py`)
    """

    packed: np.ndarray
    filled: np.ndarray
    rounds: int = 0
    resampled: int = 0
    stopped: bool = False  # a budget ended it early; info["ended"] may say which
    interrupted: bool = False  # Ctrl-C ended it
    info: dict[str, Any] = field(default_factory=dict)
    valid: np.ndarray | None = None
    drawn: int = 0
    invalid: int = 0

    @classmethod
    def empty(cls, request: Request, words: int = 0, **more: Any) -> Block:
        """A block of `words` words in which no lane is filled."""
        shape = len(request.contexts), words
        packed = np.zeros((*shape, len(request.columns)), np.uint64)
        return cls(packed, np.zeros(shape, np.uint64), **more)

    @classmethod
    def undrawn(cls, request: Request, words: int) -> Block:
        """A block to be filled: no lane is filled or valid. Memory is used as words are written."""
        shape = len(request.contexts), words
        packed = np.empty((*shape, len(request.columns)), np.uint64)
        return cls(packed, np.zeros(shape, np.uint64), valid=np.zeros(shape, np.uint64))

    @property
    def last(self) -> bool:
        """Does the sampler end after this block?"""
        return self.stopped or self.interrupted

    def put(self, context: int, word: int, packed: np.ndarray, lanes: np.ndarray) -> None:
        """Write samples of one context, from a word on."""
        self.packed[context, word : word + len(lanes)] = packed
        self.filled[context, word : word + len(lanes)] = lanes

    @classmethod
    def sum(cls, blocks: Sequence[Block]) -> Block:
        """The counts, flags and info of all blocks, without their samples."""
        total = cls(_NOTHING, _NOTHING)
        for block in blocks:
            total.add(block)
        return total

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
    valid = None
    if any(part.valid is not None for part in parts):
        masks = [part.filled if part.valid is None else part.valid for part in parts]
        valid = np.concatenate(masks, axis=axis)
    total = Block(
        np.concatenate([part.packed for part in parts], axis=axis),
        np.concatenate([part.filled for part in parts], axis=axis),
        valid=valid,
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
