"""The data of a tile: work space, job, result; and the steps that all CPU kernels share."""

from typing import Any, NamedTuple

import numpy as np

from nelson.kernels.core.compile import helper, inline
from nelson.kernels.core.program import Program
from nelson.kernels.core.rng import counter, keys
from nelson.kernels.core.vector import (
    aligned_arrays,
    any_lane,
    load,
    peek,
    poke,
    prefetch,
    splat,
    store,
)

#: Variables that are drawn before the rows left undecided among them are finished.
BLOCK = 256
#: In clauses longer than this, a check stops once every lane satisfies a literal seen so far.
LONG = 16
#: Prefetching is this many literals or occurrences ahead. With a million variables a sample takes
#: 0.82 ns a variable with 24, 0.67 with 48, 0.58 with 96, 0.60 with 160 to 640.
AHEAD = 96
#: A state of more bytes than this does not fit the L2 cache and is prefetched.
PREFETCH_BYTES = 1_000_000
#: Stands for the number of rounds of a tile that was interrupted.
STOPPED = -1
#: Rows of `constants` behind the rows of zeros and of ones: the two keys of each word, and the
#: lanes that the caller wants.
KEY0, KEY1, WANTED = range(2, 5)


class TileScratch(NamedTuple):
    """Work space of one thread. Between two tiles `mask`, `dirty` and `listed` are all zero."""

    x: np.ndarray  # n rows: the assignments
    mask: np.ndarray  # n rows: lanes in which a variable is resampled
    bad: np.ndarray  # L + 1 rows: lanes in which a clause is violated
    queue_rows: np.ndarray  # BLOCK + 1 rows: undecided lanes of queued variables
    queue: np.ndarray  # BLOCK + 1: the queued variables
    dirty: np.ndarray  # L + 1 flags: clause is in `clauses`
    listed: np.ndarray  # n + 1 flags: variable is in `touched` (2: and in `front`)
    clauses: np.ndarray  # L + 1: clauses to check
    hit: np.ndarray  # L + 1: violated clauses
    touched: np.ndarray  # n + 1: variables with a mask
    front: np.ndarray  # n + 1: variables whose mask grew (prs)
    constants: np.ndarray  # 5 rows, see `arrays_and_constants`


class Job(NamedTuple):
    """What to draw. Arrays have one entry per tile, except `columns`."""

    method: int
    max_rounds: int
    sweeps: int
    seed: np.uint64
    row: np.ndarray  # row of the law
    context: np.ndarray  # key of the random numbers
    word: np.ndarray  # number of the first word of samples
    lanes: np.ndarray  # samples wanted
    columns: np.ndarray  # variables to return, in the numbers of the program
    n_columns: int


class Result(NamedTuple):
    """What was drawn; `row`, `rounds` and `resampled` have one entry per tile."""

    packed: np.ndarray  # (rows, columns) uint64
    valid: np.ndarray  # (rows,) uint64
    row: np.ndarray  # first row of the tile
    rounds: np.ndarray  # rounds of the slowest lane, or STOPPED
    resampled: np.ndarray  # clauses resampled in all lanes together
    moved: np.ndarray  # (n,) uint8, numbers of the program: was it ever free to move in a sweep


def arrays_and_constants(width: int, *sizes: tuple[int, Any]) -> list[np.ndarray]:
    """Arrays of zeros of (elements, type), and the five rows `constants` behind them, in one block.

    Row 0 is zeros, row 1 ones: row s turns a value into "a literal of sign s is false".
    `begin_tile` fills the rows KEY0, KEY1 and WANTED.
    """
    arrays = aligned_arrays(*sizes, (5 * width, np.uint64))
    arrays[-1][width : 2 * width] = ~np.uint64(0)
    return arrays


def scratch(program: Program, width: int) -> TileScratch:
    n, m = program.n, program.n_clauses
    rows, numbers, flags = np.uint64, np.int32, np.uint8
    return TileScratch(
        *arrays_and_constants(
            width,
            (n * width, rows),
            (n * width, rows),
            ((m + 1) * width, rows),
            ((BLOCK + 1) * width, rows),
            (BLOCK + 1, numbers),
            (m + 1, flags),
            (n + 1, flags),
            (m + 1, numbers),
            (m + 1, numbers),
            (n + 1, numbers),
            (n + 1, numbers),
        )
    )


@inline
def begin_tile(tag, s, seed, context, word, lanes):
    """Write the keys of the words from `word` on, and the first `lanes` lanes as wanted."""
    width = len(tag)
    for w in range(width):
        key0, key1 = keys(seed, context, word + w)
        left = lanes - 64 * w
        poke(s.constants, KEY0 * width + w, key0)
        poke(s.constants, KEY1 * width + w, key1)
        wanted = ~np.uint64(0) if left >= 64 else np.uint64(0)
        if 0 < left < 64:
            wanted = (np.uint64(1) << np.uint64(left)) - np.uint64(1)
        poke(s.constants, WANTED * width + w, wanted)


@inline
def enqueue(s, v, undecided, queued):
    """Queue variable v if it has undecided lanes. -> length of the queue"""
    store(s.queue_rows, queued, undecided)
    poke(s.queue, queued, v)
    return queued + int(any_lane(undecided))


@inline
def prefetches(tag, variables, clauses):
    """Are there too many rows for the L2 cache?"""
    return 16 * len(tag) * max(variables, clauses) > PREFETCH_BYTES


@inline
def violated(tag, lanes, ptr, lits, s, j):
    """The lanes, of those given, in which every literal of clause j is false.

    The sign comes as a copy of one number to all words: a second row in memory takes 3% longer.
    """
    at, end = peek(ptr, j), peek(ptr, j + 1)
    if end - at > LONG:
        return _violated_long(tag, lanes, lits, s.x, s.constants, at, end)
    for e in range(at, end):
        code = peek(lits, e)
        lanes = lanes & (load(tag, s.x, code >> 1) ^ splat(tag, -np.int64(code & 1)))
    return lanes


@helper
def _violated_long(tag, lanes, lits, x, constants, at, end):
    """The same for a long clause: stop once no lane violates the literals seen so far."""
    while at < end and any_lane(lanes):
        for e in range(at, min(at + 8, end)):
            code = peek(lits, e)
            lanes = lanes & (load(tag, x, code >> 1) ^ load(tag, constants, code & 1))
        at += 8
    return lanes


@inline
def satisfied(tag, p, s, lanes):
    """The lanes, of those given, in which all clauses as given hold."""
    ahead = prefetches(tag, p.n, p.n_checks)
    for j in range(p.n_checks):
        if ahead:
            for e in range(peek(p.check_ptr, j), peek(p.check_ptr, j + 1)):
                prefetch(tag, s.x, peek(p.check_lits, e + AHEAD) >> 1)
        lanes = lanes & ~violated(tag, lanes, p.check_ptr, p.check_lits, s, j)
    return lanes


@inline
def stream(tag, p, s, round, v):
    """Counter of the first random row of (round, variable)."""
    return load(tag, s.constants, KEY0) + counter(round, peek(p.name, v), 0)
