"""Joint moves: all variables but the held ones are redrawn at once, exactly from P(rest | held).

The program of a move (`cutset.py`) is the same for all lanes; the held values differ. A clause with
held literals is a factor only in the lanes in which these are all false.

    up      bag by bag in the order of elimination: F(s, x_v) = P(x_v) * clauses * messages, for all
            values s of the neighbours; the message is m(s) = F(s, 0) + F(s, 1)
    down    in the opposite order, x_v = [U m(s) < F(s, 1)], where s has been drawn already

Eight lanes are done at a time: an entry of a table is a row of LANES float64, one for each lane.
The lower half of a bag's table holds m, the upper half F(., 1). Messages are at most 1. If the
largest entry of a message is below 2^-64 in a lane, the table of that lane is multiplied by a power
of two, which is exact: nothing underflows, and no result depends on it. If it is 0, the state of
the lane violates the formula, and the lane keeps it. A hub may receive thousands of messages, and
their product may pass through ratios beyond the range of a float64: a bag with more than CHILDREN
messages keeps the exponents of its entries apart while it multiplies.

U has 53 bits, from the counter (round, 64 v + lane, 0). Rounds of joint moves begin at JOINT_ROUND,
so they share no counter with resampling or with single sweeps.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.rng import GOLDEN, JOINT_ROUND, counter, keys, scramble
from nelson.kernels.core.vector import (
    aligned,
    any_lane,
    bare,
    load,
    peek,
    peek_volatile,
    poke,
    splat,
    store,
    tag,
    zeros,
)
from nelson.kernels.cpu.cutset import Cutset
from nelson.kernels.cpu.floats import converted, larger, less, plus, times

#: Lanes of a block.
LANES = 8
_TAG = tag(LANES)
#: Messages that are multiplied before exponents are put aside.
CHILDREN = 16
#: Bits of 2^-64, of 1 and of 2^-53 as float64.
_SMALL, _UNIT, _ULP = (np.uint64((1023 - k) << 52) for k in (64, 0, 53))
_1, _11, _52 = (np.uint64(k) for k in (1, 11, 52))
_TOP = np.uint64(1 << 52)


class Helpers(NamedTuple):
    """Variables that are functions of others: helper k is literal `left` or literal `right`."""

    variable: np.ndarray  # (k,) int32
    left: np.ndarray  # (k,) int32, codes 2 v + s
    right: np.ndarray  # (k,) int32


class Space(NamedTuple):
    """Work space of one thread."""

    x: np.ndarray  # n rows: all ones in the lanes where a variable is true
    tables: np.ndarray  # rows of float64
    found: np.ndarray  # LANES int64, then LANES + LANES float64: entries that were looked up
    places: np.ndarray  # int64: for each entry of a bag, the entry of a message
    powers: np.ndarray  # int64: for each entry and lane of a hub's bag, an exponent put aside
    lanes: np.ndarray  # one row: 32 GOLDEN times the number of the lane


class Task(NamedTuple):
    """What to move: rows of `words` are moved in place."""

    words: np.ndarray  # (rows, n) uint64; helpers are not among them
    n: int
    one: np.ndarray  # (contexts, n with helpers): P(x_v = 1), a float64 in the bits of a uint64
    zero: np.ndarray  # the same of P(x_v = 0)
    n_weights: int  # n with helpers
    row: np.ndarray  # (rows,) int64: row of `one` and `zero`
    context: np.ndarray  # (rows,) int64
    word: np.ndarray  # (rows,) int64: number of the word, for the random numbers
    seed: np.uint64


def space(n: int, entries: int, largest: int) -> Space:
    lanes = aligned(LANES)
    with np.errstate(over="ignore"):
        lanes[:] = np.arange(LANES, dtype=np.uint64) * np.uint64(32) * GOLDEN
    return Space(
        x=aligned(n * LANES, fill=0),
        tables=aligned(entries * LANES),
        found=aligned(3 * LANES, fill=0),
        places=np.empty(largest, np.int64),
        powers=np.empty(largest * LANES, np.int64),
        lanes=lanes,
    )


def move(
    cutset: Cutset,
    helpers: Helpers,
    task: Task,
    work: Space,
    stop: np.ndarray,
    number: int,
    blocks: tuple[int, int],
) -> None:
    """Move number `number` of blocks blocks[0] .. blocks[1] - 1, in place.

    Row r has the blocks 8 r .. 8 r + 7. Returns early once stop[0] is set; some states have then
    not been moved.
    """
    round = JOINT_ROUND + number
    _move(_TAG, cutset, helpers, len(helpers.variable), task, work, stop, round, *blocks)


@inline
def _literal(tag, x, code):
    """The lanes in which a literal is true."""
    sign = np.uint64(code & 1) - _1  # 0 for a positive literal, all ones for a negative one
    return load(tag, x, code >> 1) ^ splat(tag, sign)


@inline
def _load(tag, helpers, n_helpers, task, s, r, shift):
    for v in range(task.n):
        word = peek(task.words, r * task.n + v) >> np.uint64(shift)
        for k in range(len(tag)):
            poke(s.x, v * len(tag) + k, np.uint64(0) - ((word >> np.uint64(k)) & _1))
    for k in range(n_helpers):
        value = _literal(tag, s.x, peek(helpers.left, k))
        value = value | _literal(tag, s.x, peek(helpers.right, k))
        store(s.x, peek(helpers.variable, k), value)


@inline
def _save(tag, task, s, r, shift):
    for v in range(task.n):
        bits = np.uint64(0)
        for k in range(len(tag)):
            bits |= (peek(s.x, v * len(tag) + k) & _1) << np.uint64(k)
        mask = np.uint64((1 << len(tag)) - 1) << np.uint64(shift)
        at = r * task.n + v
        poke(task.words, at, (peek(task.words, at) & ~mask) | (bits << np.uint64(shift)))


@inline
def _fill(tag, p, s, b, d, base, zero, one):
    """F(s, x_v) before messages: the weight of x_v, and 0 where a clause is violated."""
    half, low, high = 1 << d, splat(tag, zero), splat(tag, one)
    for e in range(half):
        store(s.tables, base + e, low)
        store(s.tables, base + half + e, high)
    for c in range(peek(p.clause_at, b), peek(p.clause_at, b + 1)):
        holds = zeros(tag)
        for k in range(peek(p.held_at, c), peek(p.held_at, c + 1)):
            holds = holds | _literal(tag, s.x, peek(p.held, k))
        others = (2 * half - 1) & ~peek(p.mask, c)
        e = others  # all subsets of the other variables
        at = base + peek(p.false, c)
        while True:
            store(s.tables, at + e, load(tag, s.tables, at + e) & holds)
            if e == 0:
                break
            e = (e - 1) & others


@inline
def _receive(tag, s, base, d, message, within):
    """Multiply the table of a bag by a message over the variables `within`."""
    poke(s.places, 0, 0)
    size, step = 1, 1
    for j in range(d + 1):
        more = 0
        if (within >> j) & 1:
            more, step = step, 2 * step
        for e in range(size):
            poke(s.places, size + e, peek(s.places, e) + more)
        size *= 2
    for e in range(size):
        factor = load(tag, s.tables, message + peek(s.places, e))
        store(s.tables, base + e, times(load(tag, s.tables, base + e), factor))


@inline
def _put_aside(tag, s, base, d):
    """Put the exponents of a table aside: its numbers become 0 or lie in [1, 2)."""
    for k in range(len(tag) << (d + 1)):
        at = base * len(tag) + k
        bits = peek(s.tables, at)
        power = np.int64(bits >> _52)
        poke(s.powers, k, peek(s.powers, k) + power - 1023)
        poke(s.tables, at, (bits & (_TOP - _1)) | _UNIT if power else np.uint64(0))


@inline
def _put_back(tag, s, base, d):
    """Multiply the table by the exponents put aside, relative to the largest one of the lane."""
    for lane in range(len(tag)):
        most = np.int64(-(1 << 62))
        for k in range(lane, len(tag) << (d + 1), len(tag)):
            if peek(s.tables, base * len(tag) + k):
                most = max(most, peek(s.powers, k))
        for k in range(lane, len(tag) << (d + 1), len(tag)):
            at, power = base * len(tag) + k, 1023 + peek(s.powers, k) - most
            bits = peek(s.tables, at) & (_TOP - _1) | (np.uint64(power) << _52)
            poke(s.tables, at, bits if peek(s.tables, at) and power > 0 else np.uint64(0))


@inline
def _receive_all(tag, p, s, b, d, base):
    """Multiply the table of bag b by all messages that it receives."""
    first, last = peek(p.child_at, b), peek(p.child_at, b + 1)
    hub = last - first > CHILDREN
    if hub:
        for k in range(len(tag) << (d + 1)):
            poke(s.powers, k, 0)
    for c in range(first, last):
        _receive(tag, s, base, d, peek(p.table, peek(p.child, c)), peek(p.within, c))
        if hub and (c + 1 - first) % CHILDREN == 0:
            _put_aside(tag, s, base, d)
    if hub:
        _put_aside(tag, s, base, d)
        _put_back(tag, s, base, d)


@inline
def _send(tag, s, base, d):
    """Sum v out of its table, and rescale. -> the largest entry of each lane"""
    half = 1 << d
    most = zeros(tag)
    for e in range(half):
        total = plus(load(tag, s.tables, base + e), load(tag, s.tables, base + half + e))
        store(s.tables, base + e, total)
        most = larger(most, total)
    small = less(most, splat(tag, _SMALL))
    if any_lane(small):
        power = (~(most >> _52) + np.uint64(2047)) * _TOP  # 2^-k for a number in [2^k, 2^(k+1))
        scale = (power & small) | (splat(tag, _UNIT) & ~small)
        for e in range(2 * half):
            store(s.tables, base + e, times(load(tag, s.tables, base + e), scale))
    return most


@kernel
def _move(tag, cutset, helpers, n_helpers, task, work, stop, round, first, last):
    p, h, t, s = bare(cutset), bare(helpers), bare(task), bare(work)
    blocks = 64 // len(tag)
    for block in range(first, last):
        if peek_volatile(stop, 0) != 0:
            return
        r, shift = block // blocks, (block % blocks) * len(tag)
        _load(tag, h, n_helpers, t, s, r, shift)
        weight = peek(t.row, r) * t.n_weights
        dead = zeros(tag)
        for b in range(p.n_bags):
            d, base = np.int64(peek(p.width, b)), peek(p.table, b)
            at = weight + peek(p.variable, b)
            _fill(tag, p, s, b, d, base, peek(t.zero, at), peek(t.one, at))
            _receive_all(tag, p, s, b, d, base)
            most = _send(tag, s, base, d)
            dead = dead | ~less(zeros(tag), most)
        key0, key1 = keys(t.seed, peek(t.context, r), peek(t.word, r))
        start = load(tag, s.lanes, 0) + key0
        for back in range(p.n_bags):
            b = p.n_bags - 1 - back
            d, base, v = np.int64(peek(p.width, b)), peek(p.table, b), peek(p.variable, b)
            entry = zeros(tag)
            scope = peek(p.scope_at, b)
            for j in range(d):
                x = load(tag, s.x, peek(p.scope, scope + j))
                entry = entry | (x & splat(tag, np.int64(1) << j))
            store(s.found, 0, entry)
            for k in range(len(tag)):
                at = (base + np.int64(peek(s.found, k))) * len(tag) + k
                poke(s.found, len(tag) + k, peek(s.tables, at))
                poke(s.found, 2 * len(tag) + k, peek(s.tables, at + (len(tag) << d)))
            random = scramble(start + counter(round, np.int64(v) * 64 + shift, 0), splat(tag, key1))
            u = times(converted(random >> _11), splat(tag, _ULP))
            drawn = less(times(u, load(tag, s.found, 1)), load(tag, s.found, 2))
            store(s.x, v, (load(tag, s.x, v) & dead) | (drawn & ~dead))
        _save(tag, t, s, r, shift)
