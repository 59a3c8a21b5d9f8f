"""Chains in the valid space that can be observed between sweeps.

Random numbers are a function of (seed, context, word, variable, sweep): k sweeps followed by k more
give the same bits as 2k sweeps at once. So a diagnostic that compares several lengths pays only for
the longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nelson.chains import engine
from nelson.chains.block import Block
from nelson.chains.moves.single_flips import SMALL
from nelson.chains.problem import Problem
from nelson.chains.request import Request
from nelson.kernels.core.bits import pack, words_for
from nelson.kernels.core.reference import LOVASZ
from nelson.process.child import Cancelled, cancelled


@dataclass
class Chains:
    problem: Problem
    request: Request  # theta, contexts, seed, budget of all of them
    words: np.ndarray  # (contexts, words, n_total): the states
    valid: np.ndarray  # (contexts, words)
    swept: int = 0
    complete: bool = True  # no deadline cut it short

    @classmethod
    def resampled(cls, problem: Problem, request: Request, theta: np.ndarray) -> Chains:
        """Starts by resampling under `theta` (contexts, n); sweeps are under request.theta."""
        every = np.arange(problem.formula.n_total)
        asked = replace(request, theta=theta, sweeps=0, columns=every)
        if len(every) * (request.count or 0) * len(theta) <= SMALL // 8:
            asked = replace(asked, budget=replace(asked.budget, threads=1))
        block = next(engine.blocks(LOVASZ, problem, asked))
        if block.interrupted:
            raise KeyboardInterrupt
        return cls(problem, request, block.packed, block.filled, 0, not block.stopped)

    @classmethod
    def given(cls, problem: Problem, request: Request, states: Sequence[np.ndarray]) -> Chains:
        """Starts (m, n_total) of 0/1 for each context; lanes share them if there are too few."""
        lanes = request.count or 64
        words = np.stack([tiled(rows, 0, words_for(lanes)) for rows in states])
        return cls(problem, request, words, np.full(words.shape[:2], ~np.uint64(0)))

    def sweep_to(self, sweeps: int) -> None:
        """Continue until `sweeps` sweeps are done in total."""
        request = replace(self.request, sweeps=sweeps - self.swept)
        block = resumed(self.problem, request, self.words, self.swept, 0, self.request.count or 0)
        self.words, self.valid = block.packed, self.valid & block.filled
        self.swept, self.complete = sweeps, self.complete and not block.stopped

    def lanes(self) -> int:
        return int(np.bitwise_count(self.valid).sum())


def tiled(rows: np.ndarray, first_word: int, words: int) -> np.ndarray:
    """Starts (m, n) as packed states (words, n): sample i begins at start i mod 64 ceil(m / 64)."""
    size = 64 * words_for(len(rows))
    packed = pack(np.asarray(rows, bool)[np.arange(size) % len(rows)])
    return packed[(first_word + np.arange(words)) % len(packed)]


def resumed(
    problem: Problem,
    request: Request,
    words: np.ndarray,
    swept: int,
    first_word: int,
    count: int,
) -> Block:
    """`request.sweeps` sweeps from states (contexts, words, n_total); returns all columns.

    Raises Cancelled if another thread has found something better meanwhile (`cancelled_by`).
    """
    if cancelled():
        raise Cancelled
    return request.moves.moved(problem, request, words, swept, first_word, count)
