"""The CPU kernel: 64 W samples at a time, bit-sliced, one thread per tile.

A *tile* is 64 W samples. A variable is one row of W words: bit k of word w is sample 64 w + k of
the tile. A *lane* is one such bit. One AND per literal tells for all lanes whether a clause is
violated; one OR per variable spreads that mask to the variables of the clause.

A tile is drawn (`rounds.py`), moved by sweeps inside the valid space (`sweep.py`), checked, and
written to the result.

A lane behind the last sample asked for is not `wanted`: it never counts as violated and costs no
round. `valid` are the lanes in which, at the very end, all clauses *as given* hold; this check
trusts nothing that the rounds recorded.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.bernoulli import ProductLaw
from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.program import Program
from nelson.kernels.core.rng import SWEEP_ROUND
from nelson.kernels.core.vector import bare, load, peek, peek_volatile, poke, store, tag
from nelson.kernels.cpu.rounds import draw_all, rounds
from nelson.kernels.cpu.state import (
    STOPPED,
    WANTED,
    Job,
    Result,
    TileScratch,
    begin_tile,
    satisfied,
    scratch,
)
from nelson.kernels.cpu.sweep import sweep

#: Words per row that the kernel may be compiled for.
WIDTHS = (1, 2, 4, 8, 16)


class States(NamedTuple):
    """The states from which sweeps start: of a chain that goes on, or a solver's solutions.

    A lane that violates a clause here violates it at the end and is not marked valid.

    Sweep k draws the random numbers of sweep skip + k, so that j sweeps followed by k sweeps give
    the same bits as j + k sweeps at once.
    """

    words: np.ndarray  # (rows, n) uint64: row r of the result starts here; variables as in the CNF
    skip: int  # sweeps that the states have already made


def run(
    width: int,
    program: Program,
    law: ProductLaw,
    job: Job,
    result: Result,
    space: TileScratch,
    stop: np.ndarray,
    tiles: tuple[int, int],
) -> None:
    """Draw tiles `tiles[0] .. tiles[1] - 1` of the job; returns early once stop[0] is set."""
    _tiles(tag(width), program, law, job, result, space, stop, tiles[0], tiles[1])


@inline
def begin(tag, job, s, t):
    """Write the keys and the wanted lanes of tile t."""
    begin_tile(tag, s, job.seed, peek(job.context, t), peek(job.word, t), peek(job.lanes, t))


@inline
def hand_out(tag, p, job, result, s, t):
    """Check the clauses as given and write tile t to the result.

    Rows of W words become W output rows, eight columns (a cache line) at a time.
    """
    width, at = len(tag), peek(result.row, t)
    store(s.queue_rows, 0, satisfied(tag, p, s, load(tag, s.constants, WANTED)))
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
        begin(tag, job, s, t)
        draw_all(tag, p, law, row, s)
        used, resampled = rounds(tag, p, law, row, job, s, stop)
        for k in range(job.sweeps):
            if used != STOPPED and peek_volatile(stop, 0) != 0:
                used = STOPPED
            if used != STOPPED:
                sweep(tag, p, law, row, s, job, t, SWEEP_ROUND + k, result.moved)
        if used == STOPPED:
            poke(result.rounds, t, STOPPED)
            return
        hand_out(tag, p, job, result, s, t)
        poke(result.resampled, t, resampled)
        poke(result.rounds, t, used)


def resume(
    states: States,
    width: int,
    program: Program,
    law: ProductLaw,
    job: Job,
    result: Result,
    space: TileScratch,
    stop: np.ndarray,
    tiles: tuple[int, int],
) -> None:
    """As `run`, from these states."""
    _resume(tag(width), program, law, job, result, space, stop, states, tiles[0], tiles[1])


@inline
def _load(tag, p, job, result, states, s, t):
    """Load the states of tile t. Lanes behind the last word are 0 and never wanted."""
    width, at = len(tag), peek(result.row, t)
    words = min(width, (peek(job.lanes, t) + 63) // 64)
    for v in range(p.n):
        name, to = np.int64(peek(p.name, v)), np.int64(v) * width
        for w in range(words):
            poke(s.x, to + w, peek(states.words, (at + w) * p.n + name))
        for w in range(words, width):
            poke(s.x, to + w, np.uint64(0))


@kernel
def _resume(tag, program, law, job, result, space, stop, states, first, last):
    p, law, job, result, s = bare(program), bare(law), bare(job), bare(result), bare(space)
    states = bare(states)
    for t in range(first, last):
        row = peek(job.row, t) * p.n
        begin(tag, job, s, t)
        _load(tag, p, job, result, states, s, t)
        for k in range(job.sweeps):
            if peek_volatile(stop, 0) != 0:
                poke(result.rounds, t, STOPPED)
                return
            round = SWEEP_ROUND + states.skip + k
            sweep(tag, p, law, row, s, job, t, round, result.moved)
        hand_out(tag, p, job, result, s, t)
        poke(result.rounds, t, 0)


__all__ = [
    "STOPPED",
    "WIDTHS",
    "Job",
    "Result",
    "States",
    "TileScratch",
    "resume",
    "run",
    "scratch",
]
