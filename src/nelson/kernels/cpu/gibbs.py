"""Single-site Gibbs sampling of a soft formula, 64 W chains at a time, bit-sliced.

    pi(x) ~ exp(theta . x - penalty * (number of violated clauses))
    P(x_v = 1 | all others) = 1 / (1 + exp(-(theta_v - penalty * d))),
    d = (clauses violated with x_v = 1) - (with x_v = 0)

d differs from lane to lane, so it is stored one-hot: row `level[zero + d]` holds the lanes with
that d. A clause of v that no other literal satisfies moves its lanes one level down (v positive) or
up (v negated). Only the levels between the lowest and the highest in use are touched, mostly
-1, 0, 1. Then one Bernoulli draw serves all levels: a lane reads random bits until the first 0 and
takes that binary digit of the p *of its level*, so the digit row is the OR over levels of
(lanes & digit).

Levels beyond the tables share the p of the last level: tables end where p or 1 - p is below 2^-32.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.bernoulli import ProductLaw
from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.program import Program
from nelson.kernels.core.reference import threshold
from nelson.kernels.core.rng import BITS, GOLDEN, scramble
from nelson.kernels.core.vector import (
    any_lane,
    bare,
    load,
    ones,
    peek,
    peek_volatile,
    poke,
    splat,
    store,
    tag,
    zeros,
)
from nelson.kernels.cpu.rounds import draw_all
from nelson.kernels.cpu.state import (
    BLOCK,
    KEY1,
    STOPPED,
    WANTED,
    Job,
    arrays_and_constants,
    satisfied,
    stream,
    violated,
)
from nelson.kernels.cpu.tiles import begin

#: Beyond this |log-odds|, a probability is within 2^-32 of 0 or 1.
_CERTAIN = 32 * np.log(2.0)


class Soft(NamedTuple):
    """The product distribution from which chains start (`ProductLaw`), and P(x_v = 1 | d) for
    d = -most .. most.
    """

    thr: np.ndarray
    table: np.ndarray
    max_rows: int
    soft: np.ndarray  # (contexts * n * (2 most + 1)) uint32, multiples of 2^-32
    most: int


class GibbsScratch(NamedTuple):
    """Work space of one thread. `x`, `queue_rows`, `queue`, `constants`: see `TileScratch`."""

    x: np.ndarray
    queue_rows: np.ndarray
    queue: np.ndarray
    constants: np.ndarray
    level: np.ndarray  # 2 * (largest degree) + 1 rows: lanes by d
    free: np.ndarray  # (n,) uint8: 1 if the variable is not fixed


class SoftResult(NamedTuple):
    """As `state.Result`, but `valid` are all wanted lanes of a finished tile; `sound` are the lanes
    that satisfy the clauses as given.
    """

    packed: np.ndarray
    valid: np.ndarray
    row: np.ndarray
    rounds: np.ndarray
    resampled: np.ndarray
    moved: np.ndarray
    sound: np.ndarray


def result(**fields: np.ndarray) -> SoftResult:
    return SoftResult(**fields, sound=np.zeros_like(fields["valid"]))


def soften(law: ProductLaw, program: Program, theta: np.ndarray, penalty: float) -> Soft:
    """Tables for theta (contexts, n), variables in the numbers of the program."""
    degree = int(np.diff(program.occ_ptr).max(initial=0))
    largest = float(np.abs(theta).max(initial=0.0))
    most = int(min(degree, np.ceil((_CERTAIN + largest) / penalty)))
    levels = np.arange(-most, most + 1)
    soft = threshold(theta[:, :, None] - penalty * levels)
    return Soft(law.thr, law.table, law.max_rows, soft.reshape(-1), most)


def scratch(program: Program, width: int) -> GibbsScratch:
    degree = int(np.diff(program.occ_ptr).max(initial=0))
    free = np.ones(program.n, np.uint8)
    free[program.fixed >> 1] = 0
    x, queue_rows, queue, level, constants = arrays_and_constants(
        width,
        (program.n * width, np.uint64),
        ((BLOCK + 1) * width, np.uint64),
        (BLOCK + 1, np.int32),
        ((2 * degree + 1) * width, np.uint64),
    )
    return GibbsScratch(x, queue_rows, queue, constants, level, free)


def run(
    width: int,
    program: Program,
    law: Soft,
    job: Job,
    result: SoftResult,
    space: GibbsScratch,
    stop: np.ndarray,
    tiles: tuple[int, int],
) -> None:
    """Sweep tiles `tiles[0] .. tiles[1] - 1` of the job; returns early once stop[0] is set."""
    zero = (len(space.level) // width - 1) // 2
    _tiles(tag(width), program, law, job, result, space, stop, tiles[0], tiles[1], zero)


@inline
def _shift(tag, s, moved, step, low, high, zero):
    """Move the lanes `moved` from level d to d + step. -> (lowest, highest) level in use"""
    none = zeros(tag)
    if step > 0:
        store(s.level, zero + high + 1, none)
        for d in range(high, low - 1, -1):
            here = load(tag, s.level, zero + d)
            store(s.level, zero + d + 1, load(tag, s.level, zero + d + 1) | (here & moved))
            store(s.level, zero + d, here & ~moved)
        return low, high + 1
    store(s.level, zero + low - 1, none)
    for d in range(low, high + 1):
        here = load(tag, s.level, zero + d)
        store(s.level, zero + d - 1, load(tag, s.level, zero + d - 1) | (here & moved))
        store(s.level, zero + d, here & ~moved)
    return low - 1, high


@inline
def _digits(tag, law, at, s, k, low, high, zero):
    """Binary digit k of p in each lane."""
    row = zeros(tag)
    for d in range(low, high + 1):
        p = peek(law.soft, at + max(-law.most, min(law.most, d)))
        bit = np.int64((p >> np.uint32(31 - k)) & np.uint32(1))
        row = row | (load(tag, s.level, zero + d) & splat(tag, -bit))
    return row


@inline
def _sweep(tag, p, law, row, s, round, zero):
    """One Gibbs update of every variable that is not fixed, in the order of the program."""
    key1, every, none = load(tag, s.constants, KEY1), ones(tag), zeros(tag)
    for v in range(p.n):
        if peek(s.free, v) == 0:
            continue
        low, high = 0, 0
        store(s.level, zero, every)
        start, middle = peek(p.occ_ptr, v), peek(p.occ_mid, v)
        store(s.x, v, none)  # make the literal false in the positive clauses of v, ..
        for e in range(start, peek(p.occ_ptr, v + 1)):
            if e == middle:
                store(s.x, v, every)  # .. then in the negative ones
            bad = violated(tag, every, p.clause_ptr, p.lits, s, peek(p.occ, e))
            if any_lane(bad):
                step = -1 if e < middle else 1
                low, high = _shift(tag, s, bad, step, low, high, zero)
        at = (row + v) * (2 * law.most + 1) + law.most
        y, undecided, value = stream(tag, p, s, round, v), every, none
        for k in range(BITS):
            random = scramble(y, key1)
            y = y + GOLDEN
            digits = _digits(tag, law, at, s, k, low, high, zero)
            value = value | (undecided & ~random & digits)
            undecided = undecided & random
            if not any_lane(undecided):
                break
        store(s.x, v, value)


@inline
def _hand_out(tag, p, job, result, s, t):
    """Write all wanted lanes of tile t to the result, and mark those that satisfy the clauses."""
    width, at = len(tag), peek(result.row, t)
    wanted = load(tag, s.constants, WANTED)
    store(s.queue_rows, 0, wanted)
    store(s.queue_rows, 1, satisfied(tag, p, s, wanted))
    words = min(width, (peek(job.lanes, t) + 63) // 64)
    for w in range(words):
        poke(result.valid, at + w, peek(s.queue_rows, w))
        poke(result.sound, at + w, peek(s.queue_rows, width + w))
        to = (at + w) * job.n_columns
        for c in range(job.n_columns):
            word = peek(s.x, np.int64(peek(job.columns, c)) * width + w)
            poke(result.packed, to + c, word & peek(s.queue_rows, w))


@kernel
def _tiles(tag, program, law, job, result, space, stop, first, last, zero):
    p, law, job, result, s = bare(program), bare(law), bare(job), bare(result), bare(space)
    for t in range(first, last):
        row = peek(job.row, t) * p.n
        begin(tag, job, s, t)
        draw_all(tag, p, law, row, s)
        for k in range(job.sweeps):
            if peek_volatile(stop, 0) != 0:
                poke(result.rounds, t, STOPPED)
                return
            _sweep(tag, p, law, row, s, k + 1, zero)
        _hand_out(tag, p, job, result, s, t)
        poke(result.rounds, t, 0)
