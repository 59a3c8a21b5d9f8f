"""The CPU kernel: 64 W samples at a time, bit-sliced, one thread a tile.

A *tile* is 64*W samples. A variable is one row of W words: bit k of word w is sample 64 w + k of
the tile; a *lane* is one such bit. One AND a literal tells for all lanes whether a clause is
violated; one OR spreads that mask to its variables.

A tile is drawn (`rounds.py`), moved about in the valid space (`sweep.py`), checked and handed out.

A lane outside `wanted` (behind the last sample asked for) never counts as violated: it costs no
round. What leaves a tile is `valid`: the lanes where, at the very end, all clauses *as given*
hold. Nothing that the rounds recorded is trusted for that.
"""

import numpy as np

from nelson.kernels.core.bernoulli import Law
from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.program import Program
from nelson.kernels.core.rng import SWEEP_ROUND, keys
from nelson.kernels.core.vector import bare, load, peek, peek_volatile, poke, store, tag
from nelson.kernels.cpu.rounds import draw_all, rounds
from nelson.kernels.cpu.state import STOPPED, Job, Result, Scratch, scratch, violated
from nelson.kernels.cpu.sweep import sweep

WIDTHS = (1, 2, 4, 8, 16)


def run(
    width: int,
    program: Program,
    law: Law,
    job: Job,
    result: Result,
    space: Scratch,
    stop: np.ndarray,
    tiles: tuple[int, int],
) -> None:
    """Draw tiles `tiles[0] .. tiles[1] - 1` of the job; returns early once stop[0] is set."""
    _tiles(tag(width), program, law, job, result, space, stop, tiles[0], tiles[1])


@inline
def _begin(tag, job, s, t):
    """Keys and wanted lanes of tile t, to the constants."""
    width = len(tag)
    for w in range(width):
        key0, key1 = keys(job.seed, peek(job.context, t), peek(job.word, t) + w)
        left = peek(job.lanes, t) - 64 * w
        poke(s.constants, 2 * width + w, key0)
        poke(s.constants, 3 * width + w, key1)
        wanted = ~np.uint64(0) if left >= 64 else np.uint64(0)
        if 0 < left < 64:
            wanted = (np.uint64(1) << np.uint64(left)) - np.uint64(1)
        poke(s.constants, 4 * width + w, wanted)


@inline
def _hand_out(tag, p, job, result, s, t):
    """Check the clauses as given; then rows of W words -> W output rows, eight columns (a cache
    line) at a time.
    """
    width, at = len(tag), peek(result.row, t)
    valid = load(tag, s.constants, 4)
    for j in range(p.n_checks):
        valid = valid & ~violated(tag, valid, p.check_ptr, p.check_lits, s, j)
    store(s.queue_rows, 0, valid)
    words = min(width, (peek(job.lanes, t) + 63) // 64)
    for w in range(words):
        poke(result.valid, at + w, peek(s.queue_rows, w))
    for first in range(0, job.n_columns, 8):
        end = min(first + 8, job.n_columns)
        for w in range(words):
            to = (at + w) * job.n_columns
            for c in range(first, end):
                word = peek(s.x, np.int64(peek(job.columns, c)) * width + w)
                poke(result.packed, to + c, word)


@kernel
def _tiles(tag, program, law, job, result, space, stop, first, last):
    p, law, job, result, s = bare(program), bare(law), bare(job), bare(result), bare(space)
    for t in range(first, last):
        row = peek(job.row, t) * p.n
        _begin(tag, job, s, t)
        draw_all(tag, p, law, row, s)
        used, resampled = rounds(tag, p, law, row, job, s, stop)
        for k in range(job.sweeps):
            if used != STOPPED and peek_volatile(stop, 0) != 0:
                used = STOPPED
            if used != STOPPED:
                sweep(tag, p, law, row, s, SWEEP_ROUND + k, result.moved)
        if used == STOPPED:
            poke(result.rounds, t, STOPPED)
            return
        _hand_out(tag, p, job, result, s, t)
        poke(result.resampled, t, resampled)
        poke(result.rounds, t, used)


__all__ = ["STOPPED", "WIDTHS", "Job", "Result", "Scratch", "run", "scratch"]
