"""Sweeps from given states: a chain continues where it stopped, or starts at a solver's solutions.

A lane that violates a clause when it is loaded violates it at the end and is not marked valid.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.bernoulli import Law
from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.program import Program
from nelson.kernels.core.rng import SWEEP_ROUND
from nelson.kernels.core.vector import bare, peek, peek_volatile, poke, tag
from nelson.kernels.cpu.state import STOPPED, Job, Result, Scratch
from nelson.kernels.cpu.sweep import sweep
from nelson.kernels.cpu.tiles import begin, hand_out


class States(NamedTuple):
    """The states from which the sweeps start.

    Sweep k draws the random numbers of sweep skip + k, so that j sweeps followed by k sweeps give
    the same bits as j + k sweeps at once.
    """

    words: np.ndarray  # (rows, n) uint64: row r of the result starts here; variables as in the CNF
    skip: int  # sweeps that the states have already made


def run(
    states: States,
    width: int,
    program: Program,
    law: Law,
    job: Job,
    result: Result,
    space: Scratch,
    stop: np.ndarray,
    tiles: tuple[int, int],
) -> None:
    """As `tiles.run`, from these states."""
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
