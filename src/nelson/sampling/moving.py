"""What all kinds of moves share: words spread over threads, and moved states as a block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nelson.kernels.core.bits import tail_mask
from nelson.kernels.core.threads import spread
from nelson.sampling import foreign
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Block


def move_words(
    work: Callable[[int, int, int], None],
    words: int,
    threads: int,
    stop: np.ndarray,
    deadline: float | None,
    *,
    small: bool,
) -> bool:
    """Call work(thread, first word, last word) until all words are done; -> did the deadline set
    `stop`? Small work without a deadline is done by the caller's own thread, in which Ctrl-C waits.
    Raises KeyboardInterrupt after Ctrl-C.
    """
    if small and deadline is None:
        work(0, 0, words)
    elif spread(work, words, threads, stop, deadline):
        raise KeyboardInterrupt
    return bool(stop[0])


def moved_block(problem: Problem, states: np.ndarray, count: int, stopped: bool) -> Block:
    """Moved states (contexts, words, n_total); no sample is valid if the moves were stopped."""
    valid = np.zeros(states.shape[:2], np.uint64)
    if not stopped:
        for c, own in enumerate(states):
            valid[c] = foreign.satisfying(problem, own, tail_mask(count))
    return Block(states, valid, stopped=stopped)
