"""What a tile works on: its work space, the job, the result, and the look at one clause."""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import helper, inline
from nelson.kernels.core.program import Program
from nelson.kernels.core.rng import counter
from nelson.kernels.core.vector import aligned, any_lane, load, peek

#: Variables drawn before the undecided rows among them are finished.
BLOCK = 256
#: Clauses longer than this are left early, once no lane violates what was seen of them.
LONG = 16
#: Rounds of a tile that was cut short.
STOPPED = -1


class Scratch(NamedTuple):
    """Work space of one thread. Between two tiles `mask`, `dirty` and `listed` are all zero."""

    x: np.ndarray  # n rows: the state
    mask: np.ndarray  # n rows: lanes in which a variable is resampled
    bad: np.ndarray  # L + 1 rows: lanes in which a clause is violated
    queue_rows: np.ndarray  # BLOCK + 1 rows: undecided lanes of queued variables
    queue: np.ndarray  # BLOCK + 1: their variables
    dirty: np.ndarray  # L + 1 flags: clause is in `clauses`
    listed: np.ndarray  # n + 1 flags: variable is in `touched` (2: and in `front`)
    clauses: np.ndarray  # L + 1: clauses to look at
    hit: np.ndarray  # L + 1: violated clauses
    touched: np.ndarray  # n + 1: variables with a mask
    front: np.ndarray  # n + 1: variables whose mask grew (prs)
    constants: (
        np.ndarray
    )  # rows: 0 zeros, 1 ones (what flips a value to "literal is false"), 2 key0, 3 key1, 4 wanted


class Job(NamedTuple):
    """What to draw, a tile at a time."""

    method: int
    max_rounds: int
    sweeps: int
    seed: np.uint64
    row: np.ndarray  # per tile: which row of the law
    context: np.ndarray  # per tile: which stream of random numbers
    word: np.ndarray  # per tile: number of its first word of samples
    lanes: np.ndarray  # per tile: samples wanted
    columns: np.ndarray  # variables to hand out, as the program numbers them
    n_columns: int


class Result(NamedTuple):
    packed: np.ndarray  # (rows, columns) uint64
    valid: np.ndarray  # (rows,) uint64
    row: np.ndarray  # per tile: its first row
    rounds: np.ndarray  # per tile: rounds of its slowest lane, or STOPPED
    resampled: np.ndarray  # per tile: constraints resampled in all lanes together
    moved: np.ndarray  # (n,) uint8, program numbers: was it ever free to move in a sweep


def scratch(program: Program, width: int) -> Scratch:
    n, m = program.n, program.n_clauses
    constants = aligned(5 * width, fill=0)
    constants[width : 2 * width] = ~np.uint64(0)
    return Scratch(
        x=aligned(n * width, fill=0),
        mask=aligned(n * width, fill=0),
        bad=aligned((m + 1) * width),
        queue_rows=aligned((BLOCK + 1) * width),
        queue=np.empty(BLOCK + 1, np.int32),
        dirty=np.zeros(m + 1, np.uint8),
        listed=np.zeros(n + 1, np.uint8),
        clauses=np.empty(m + 1, np.int32),
        hit=np.empty(m + 1, np.int32),
        touched=np.empty(n + 1, np.int32),
        front=np.empty(n + 1, np.int32),
        constants=constants,
    )


@inline
def violated(tag, lanes, ptr, lits, s, j):
    """Lanes (of those given) in which every literal of clause j is false."""
    at, end = peek(ptr, j), peek(ptr, j + 1)
    if end - at > LONG:
        return _violated_long(tag, lanes, lits, s.x, s.constants, at, end)
    for e in range(at, end):
        code = peek(lits, e)
        lanes = lanes & (load(tag, s.x, code >> 1) ^ load(tag, s.constants, code & 1))
    return lanes


@helper
def _violated_long(tag, lanes, lits, x, constants, at, end):
    """The same for a long clause: leave once no lane violates what was seen of it."""
    while at < end and any_lane(lanes):
        for e in range(at, min(at + 8, end)):
            code = peek(lits, e)
            lanes = lanes & (load(tag, x, code >> 1) ^ load(tag, constants, code & 1))
        at += 8
    return lanes


@inline
def stream(tag, p, s, round, v):
    """Where the random rows of (round, variable) start."""
    return load(tag, s.constants, 2) + counter(round, peek(p.name, v), 0)
