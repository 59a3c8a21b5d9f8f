"""Joint moves: all units but the held ones are redrawn at once, exactly from P(rest | held).

The program of a move (`cutset.py`) is the same for all lanes; the held values differ. A factor with
held literals applies only in the lanes in which these are all false.

    up      bag by bag in the order of elimination: F(s, a) = P(a) * clauses * messages, for all
            values s of the neighbours and a of the unit; the message is m(s) = sum of F(s, a)
    down    in the opposite order, where s has been drawn already: the unit takes the largest value
            a with U m(s) < F(s, a) + F(s, a + 1) + ... , or 0

Eight lanes are done at a time: an entry of a table is a row of LANES float64, one for each lane.
After the way up the first part of a bag's table holds m, where F(., 0) was; the draw does not need
F(., 0). If the largest entry of a message is below 2^-64 or at least 2 in a lane, the table of that
lane is multiplied by a power of two, which is exact. If it is 0, the state of the lane violates the
formula, and the lane keeps it.

No entry is lost without a word. The least entry of each message that is not 0 is known: 2^low. A
bag whose entries might fall below 2^LEAST, or that receives more than CHILDREN messages (a hub),
keeps the exponents of its entries apart while it multiplies. What then still is more than 2^LEAST
below the largest entry of its message cannot be held by a float64: the lane is *lost*. It keeps its
state, and its Z is NaN. Being lost depends on the held values alone, which a move does not change,
so that P stays stationary. If nothing is held, the caller must not call the move exact.

The sum over all free units, Z(rest | held), is what the last messages multiply to. It is given as a
mantissa and an exponent of two, to which all rescaling adds. Weights of held units and factors
whose units are all held are not part of it.

U has 53 bits, from the counter (round, 64 v + lane, 0), where v is the variable of the unit's value
1. Rounds of joint moves begin at JOINT_ROUND, so they share no counter with resampling or with
single sweeps.
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
from nelson.kernels.cpu.cutset import CHILDREN, Cutset, UnitValues
from nelson.kernels.cpu.floats import converted, larger, less, plus, times

#: Lanes of a block.
LANES = 8
_TAG = tag(LANES)
#: Bits of 2^-64, of 1, of 2 and of 2^-53 as float64.
_SMALL, _UNIT, _TWO, _ULP = (np.uint64((1023 - k) << 52) for k in (64, 0, -1, 53))
_1, _11, _52, _63 = (np.uint64(k) for k in (1, 11, 52, 63))
_TOP = np.uint64(1 << 52)
#: Bits of infinity and of NaN.
_INFINITE, _NAN = np.uint64(0x7FF << 52), np.uint64(0x7FF8 << 48)
_EVERY = np.uint64(2**64 - 1)
#: Entries of a message are held if they are above 2^LEAST: doubles of full precision.
LEAST = -1000
_FAR = np.uint64(-LEAST)
_BIAS = np.uint64(2**64 - 1023)


class Helpers(NamedTuple):
    """Variables that are functions of others: helper k is literal `left` or literal `right`."""

    variable: np.ndarray  # (k,) int32
    left: np.ndarray  # (k,) int32, codes 2 v + s
    right: np.ndarray  # (k,) int32


class JointScratch(NamedTuple):
    """Work space of one thread."""

    x: np.ndarray  # n rows: all ones in the lanes where a variable is true
    tables: np.ndarray  # rows of float64
    entries: np.ndarray  # LANES int64, then LANES + LANES float64: entries that were looked up
    places: np.ndarray  # int64: for each entry of a bag, the entry of a message
    powers: np.ndarray  # int64: for each entry and lane of a hub's bag, an exponent put aside
    lanes: np.ndarray  # one row: 32 GOLDEN times the number of the lane
    sums: np.ndarray  # LANES int64, LANES float64: Z of a block, as exponent and mantissa; the lost
    low: np.ndarray  # (bags, LANES) int64: log2 of the least entry of each message


class JointTask(NamedTuple):
    """What to move: rows of `words` are moved in place."""

    words: np.ndarray  # (rows, n) uint64; helpers are not among them
    n: int
    weights: np.ndarray  # (contexts, values of all units): float64 in the bits of a uint64
    n_weights: int
    row: np.ndarray  # (rows,) int64: row of `weights`
    context: np.ndarray  # (rows,) int64
    word: np.ndarray  # (rows,) int64: number of the word, for the random numbers
    seed: np.uint64
    exponent: np.ndarray  # (rows, 64) int64: where log2 Z(rest | held) of each lane goes
    mantissa: np.ndarray  # (rows, 64) uint64: bits of a float64 in [1, 2), of 0, or NaN if lost


def space(n: int, entries: int, largest: int) -> JointScratch:
    lanes = aligned(LANES)
    with np.errstate(over="ignore"):
        lanes[:] = np.arange(LANES, dtype=np.uint64) * np.uint64(32) * GOLDEN
    return JointScratch(
        x=aligned(n * LANES, fill=0),
        tables=aligned(entries * LANES),
        entries=aligned(3 * LANES, fill=0),
        places=np.empty(largest, np.int64),
        powers=np.empty(largest * LANES, np.int64),
        lanes=lanes,
        sums=aligned(3 * LANES, fill=0),
        low=aligned(n * LANES),
    )


def move(
    cutset: Cutset,
    units: UnitValues,
    helpers: Helpers,
    task: JointTask,
    work: JointScratch,
    stop: np.ndarray,
    number: int,
    blocks: tuple[int, int],
    draw: bool = True,
) -> None:
    """Move number `number` of blocks blocks[0] .. blocks[1] - 1, in place.

    Row r has the blocks 8 r .. 8 r + 7. draw: if not, only Z is computed. Returns early once
    stop[0] is set; some states have then not been moved.
    """
    round, n_helpers = JOINT_ROUND + number, len(helpers.variable)
    _move(_TAG, cutset, units, helpers, n_helpers, task, work, stop, round, *blocks, draw)


@inline
def _literal(tag, x, code):
    """The lanes in which a literal is true."""
    sign = np.uint64(code & 1) - _1  # 0 for a positive literal, all ones for a negative one
    return load(tag, x, code >> 1) ^ splat(tag, sign)


@inline
def _set(tag, x, code, value, dead):
    """Make a literal true in the lanes `value`, false in all others that are not dead."""
    value = value ^ splat(tag, np.uint64(code & 1) - _1)
    store(x, code >> 1, (load(tag, x, code >> 1) & dead) | (value & ~dead))


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
def _apply(tag, p, s, c, base, first, low, last, lanes):
    """Of the entries to which factor c applies, keep those lanes; digits below `low` are 0.

    Digits first .. last - 1 of `size` are those of the bag.
    """
    poke(s.places, 0, base)  # the list of entries grows digit by digit
    rows, part = 1, peek(p.part_at, c)
    for k in range(low, last):
        chosen = np.int64(-1)
        if part < peek(p.part_at, c + 1) and peek(p.digit, part) == k - first:
            chosen = peek(p.values, part)
            part += 1
        most, stride, lowest = rows, peek(p.stride, k), np.int64(-1)
        for a in range(peek(p.size, k)):
            if not (chosen >> a) & 1:
                continue
            if lowest < 0:
                lowest = np.int64(a)
                continue
            for e in range(most):
                poke(s.places, rows + e, peek(s.places, e) + a * stride)
            rows += most
        if lowest > 0:
            for e in range(most):
                poke(s.places, e, peek(s.places, e) + lowest * stride)
    for e in range(rows):
        at = peek(s.places, e)
        store(s.tables, at, load(tag, s.tables, at) & lanes)


@inline
def _apply_to_bits(tag, p, s, c, base, stride, rows, lanes):
    """As `_apply`, if all digits are bits. stride: that of the lowest digit."""
    others, at = rows - stride, base
    for part in range(peek(p.part_at, c), peek(p.part_at, c + 1)):
        bit = np.int64(1) << peek(p.digit, part)
        others &= ~bit
        if peek(p.values, part) == 2:
            at += bit
    e = others  # all subsets of the other digits
    while True:
        store(s.tables, at + e, load(tag, s.tables, at + e) & lanes)
        if e == 0:
            break
        e = (e - 1) & others


@inline
def _grow(tag, s, base, rows, stride, size):
    """Copy the entries for all values of the digit with that stride."""
    at = base
    while at < base + rows:
        row = load(tag, s.tables, at)
        for _ in range(1, size):
            at += stride
            store(s.tables, at, row)
        at += stride


@inline
def _factor(tag, p, s, c, base, first, k, last, rows):
    """Apply factor c, whose lowest digit is k: entries are 0 where its held literals are false."""
    holds = zeros(tag)
    for h in range(peek(p.held_at, c), peek(p.held_at, c + 1)):
        holds = holds | _literal(tag, s.x, peek(p.held, h))
    if any_lane(~holds):
        if rows == 1 << (last - first):
            _apply_to_bits(tag, p, s, c, base, peek(p.stride, k), rows, holds)
        else:
            _apply(tag, p, s, c, base, first, k, last, holds)


@inline
def _receive(tag, p, s, base, first, low, last, message, within):
    """Multiply the table by a message over the digits `within`; digits below `low` are 0."""
    poke(s.places, 0, message)
    rows, step, stride = 1, 1, peek(p.stride, low)
    for k in range(low, last):
        size, more = peek(p.size, k), 0
        if (within >> (k - first)) & 1:
            more, step = step, step * size
        for a in range(1, size):
            for e in range(rows):
                poke(s.places, a * rows + e, peek(s.places, e) + a * more)
        rows *= size
    for e in range(rows):
        at = base + e * stride
        value = load(tag, s.tables, peek(s.places, e))
        store(s.tables, at, times(load(tag, s.tables, at), value))


@inline
def _put_aside(tag, s, base, rows):
    """Put the exponents of a table aside: its numbers become 0 or lie in [1, 2)."""
    for k in range(len(tag) * rows):
        at = base * len(tag) + k
        bits = peek(s.tables, at)
        power = np.int64(bits >> _52)
        poke(s.powers, k, peek(s.powers, k) + power - 1023)
        poke(s.tables, at, (bits & (_TOP - _1)) | _UNIT if power else np.uint64(0))


@inline
def _put_back(tag, s, base, message, size):
    """Multiply the table by the exponents put aside, relative to the largest one of the lane.

    A lane is lost if an entry of the message would be below 2^LEAST of the largest.
    """
    rows = message * size
    for lane in range(len(tag)):
        most = np.int64(-(1 << 62))
        for k in range(lane, len(tag) * rows, len(tag)):
            if peek(s.tables, base * len(tag) + k):
                most = max(most, peek(s.powers, k))
        for e in range(message):
            highest = np.int64(-(1 << 62))
            for a in range(size):
                k = (a * message + e) * len(tag) + lane
                at, power = base * len(tag) + k, 1023 + peek(s.powers, k) - most
                bits = peek(s.tables, at) & (_TOP - _1) | (np.uint64(power) << _52)
                if peek(s.tables, at):
                    highest = max(highest, peek(s.powers, k) - most)
                poke(s.tables, at, bits if peek(s.tables, at) and power > 0 else np.uint64(0))
            if -(1 << 61) < highest < LEAST:
                poke(s.sums, 2 * len(tag) + lane, _EVERY)
        poke(s.sums, lane, peek(s.sums, lane) + np.uint64(most))


@inline
def _negative(tag, row):
    """The lanes in which an int64 is below 0."""
    return (row >> _63) * splat(tag, _EVERY)


@inline
def _least_weight(tag, t, s, weight, size):
    """log2 of the least weight of the unit, at most 0.

    All lanes are lost if a weight is no double of full precision.
    """
    low = np.int64(0)
    for a in range(size):
        power = np.int64(peek(t.weights, weight + a) >> _52)
        low = min(low, power - 1023)
        if power == 0:
            store(s.sums, 2, splat(tag, _EVERY))
    return splat(tag, np.uint64(low))


@inline
def _receive_all(tag, p, s, base, message, size, low, first, last, m, messages):
    """Multiply a table by its messages, with exponents put aside. low: log2 of its least entry."""
    rows = message * size
    for k in range(len(tag) * rows):
        poke(s.powers, k, 0)
    for c in range(m, messages):
        child = peek(p.child, c)
        after = low + load(tag, s.low, child)
        if any_lane(_negative(tag, after + splat(tag, _FAR))):
            _put_aside(tag, s, base, rows)
            after = load(tag, s.low, child)
        low = after
        _receive(tag, p, s, base, first, first, last, peek(p.table, child), peek(p.within, c))
        if (c + 1 - m) % CHILDREN == 0 or c + 1 == messages:
            _put_aside(tag, s, base, rows)
            low = zeros(tag)
    _put_back(tag, s, base, message, size)


@inline
def _fill(tag, p, t, s, b, base, weight):
    """F(s, a): the weight of a, times factors and messages.

    weight: where the weights of the unit begin. The table grows from the highest digit to the
    lowest. A factor or message is applied as soon as all its digits are there. Where exponents are
    put aside, all messages come at the end.
    """
    first, last = peek(p.scope_at, b), peek(p.scope_at, b + 1)
    k = last - 1
    stride, size = peek(p.stride, k), peek(p.size, k)
    rows = stride * size
    for a in range(size):
        store(s.tables, base + a * stride, splat(tag, peek(t.weights, weight + a)))
    c, factors = peek(p.factor_at, b), peek(p.factor_at, b + 1)
    m, messages = peek(p.child_at, b), peek(p.child_at, b + 1)
    least = _least_weight(tag, t, s, weight, size)
    low = least
    for j in range(m, messages):
        low = low + load(tag, s.low, peek(p.child, j))
    apart = messages - m > CHILDREN or any_lane(_negative(tag, low + splat(tag, _FAR)))
    while True:
        while c < factors and peek(p.digit, peek(p.part_at, c)) == k - first:
            _factor(tag, p, s, c, base, first, k, last, rows)
            c += 1
        lowest = np.int64(1) << (k - first)
        while not apart and m < messages and peek(p.within, m) & (2 * lowest - 1) == lowest:
            message = peek(p.table, peek(p.child, m))
            _receive(tag, p, s, base, first, k, last, message, peek(p.within, m))
            m += 1
        if k == first:
            break
        k -= 1
        _grow(tag, s, base, rows, peek(p.stride, k), peek(p.size, k))
    if apart:
        message, top = peek(p.message, b), rows // peek(p.message, b)
        _receive_all(tag, p, s, base, message, top, least, first, last, m, messages)


@inline
def _send(tag, s, b, base, message, size):
    """Sum the unit out of its table, and rescale. -> the largest entry of each lane"""
    most, least = zeros(tag), splat(tag, _INFINITE)
    for e in range(message):
        at = base + (size - 1) * message + e
        total = load(tag, s.tables, at)
        while at > base + e:  # in the order of the draw, so that both round alike
            at -= message
            total = plus(load(tag, s.tables, at), total)
        store(s.tables, base + e, total)
        most = larger(most, total)
        below = less(total, least) & less(zeros(tag), total)
        least = (total & below) | (least & ~below)
    low = ((least >> _52) + _BIAS) & less(least, splat(tag, _INFINITE))
    far = less(most, splat(tag, _SMALL)) | ~less(most, splat(tag, _TWO))
    if any_lane(far):
        power = (~(most >> _52) + np.uint64(2047)) * _TOP  # 2^-k for a number in [2^k, 2^(k+1))
        taken = ((most >> _52) + _BIAS) & far
        store(s.sums, 0, load(tag, s.sums, 0) + taken)
        low = low + (~taken + _1)
        scale = (power & far) | (splat(tag, _UNIT) & ~far)
        for e in range(size * message):
            store(s.tables, base + e, times(load(tag, s.tables, base + e), scale))
    store(s.low, b, low)
    store(s.sums, 2, load(tag, s.sums, 2) | _negative(tag, low + splat(tag, _FAR)))
    if message == 1:  # nobody receives it: a factor of Z
        product = times(load(tag, s.sums, 1), load(tag, s.tables, base))
        store(s.sums, 0, load(tag, s.sums, 0) + ((product >> _52) + _BIAS))
        store(s.sums, 1, (product & splat(tag, _TOP - _1)) | splat(tag, _UNIT))
    return most


@inline
def _draw(tag, p, units, s, b, dead, u):
    """Draw the unit of bag b, given its neighbours, in the lanes that are not dead."""
    entry = zeros(tag)
    for k in range(peek(p.look_at, b), peek(p.look_at, b + 1)):
        x = _literal(tag, s.x, peek(p.look, k))
        entry = entry + (x & splat(tag, peek(p.adds, k)))
    store(s.entries, 0, entry)
    base, message, unit = peek(p.table, b), peek(p.message, b), np.int64(peek(p.variable, b))
    for k in range(len(tag)):
        at = (base + np.int64(peek(s.entries, k))) * len(tag) + k
        poke(s.entries, k, at)
        poke(s.entries, len(tag) + k, peek(s.tables, at))
    bound = times(u, load(tag, s.entries, 1))
    left, total = ~dead, zeros(tag)
    first, a = peek(units.at, unit), peek(units.at, unit + 1) - peek(units.at, unit) - 1
    while a > 0:
        for k in range(len(tag)):
            at = np.int64(peek(s.entries, k)) + a * message * len(tag)
            poke(s.entries, 2 * len(tag) + k, peek(s.tables, at))
        total = plus(load(tag, s.entries, 2), total)
        drawn = less(bound, total) & left
        left = left & ~drawn
        _set(tag, s.x, peek(units.literal, first + a), drawn, dead)
        a -= 1
    if peek(units.literal, first) >= 0:
        _set(tag, s.x, peek(units.literal, first), left, dead)


@kernel
def _move(tag, cutset, units, helpers, n_helpers, task, work, stop, round, first, last, draw):
    p, q, h, t, s = bare(cutset), bare(units), bare(helpers), bare(task), bare(work)
    blocks = 64 // len(tag)
    for block in range(first, last):
        if peek_volatile(stop, 0) != 0:
            return
        r, shift = block // blocks, (block % blocks) * len(tag)
        _load(tag, h, n_helpers, t, s, r, shift)
        weights = peek(t.row, r) * t.n_weights
        dead = zeros(tag)
        store(s.sums, 0, zeros(tag))
        store(s.sums, 1, splat(tag, _UNIT))
        store(s.sums, 2, zeros(tag))
        for b in range(p.n_bags):
            base, message, unit = (
                peek(p.table, b),
                peek(p.message, b),
                np.int64(peek(p.variable, b)),
            )
            size = peek(q.at, unit + 1) - peek(q.at, unit)
            _fill(tag, p, t, s, b, base, weights + peek(q.at, unit))
            most = _send(tag, s, b, base, message, size)
            dead = dead | ~less(zeros(tag), most)
        lost = load(tag, s.sums, 2)
        store(s.sums, 1, (load(tag, s.sums, 1) & ~(dead | lost)) | (splat(tag, _NAN) & lost))
        dead = dead | lost
        for k in range(len(tag)):
            poke(t.exponent, r * 64 + shift + k, np.int64(peek(s.sums, k)))
            poke(t.mantissa, r * 64 + shift + k, peek(s.sums, len(tag) + k))
        if not draw:
            continue
        key0, key1 = keys(t.seed, peek(t.context, r), peek(t.word, r))
        start = load(tag, s.lanes, 0) + key0
        for back in range(p.n_bags):
            b = p.n_bags - 1 - back
            v = np.int64(peek(q.literal, peek(q.at, np.int64(peek(p.variable, b))) + 1)) >> 1
            random = scramble(start + counter(round, v * 64 + shift, 0), splat(tag, key1))
            u = times(converted(random >> _11), splat(tag, _ULP))
            _draw(tag, p, q, s, b, dead, u)
        _save(tag, t, s, r, shift)
