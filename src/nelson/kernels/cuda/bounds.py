"""Bounding chains on the GPU: for each variable and lane, whether its value is determined.

The rules are those of `cpu/cftp.py`, in another form. A variable is a pair of words (x, u). In the
lanes of u it may have both values; in the others its value is x. One update with the coin b looks
at every clause of the variable. In some lanes b makes the variable's literal false: the clause is
*against* b. A clause forces the variable if its other literals are all false, *maybe* or *surely*.

    x = b, but not b where a clause against b surely forces
    u = a clause against b maybe forces, none surely forces, and the value may differ from b now

A literal is false in the lanes d = x ^ sign; then it is surely false in d & ~u and may be false in
d | u. So a literal costs one load of a pair and six logical instructions.
"""

from typing import Any, NamedTuple

import numpy as np

from nelson.kernels.core.rng import GOLDEN, SWEEP_ROUND
from nelson.kernels.cuda.clauses import flip, place_of, second_half
from nelson.kernels.cuda.setup import (
    SIMULATED,
    ballot,
    device,
    load2,
    peek,
    peek2,
    poke,
    poke2,
    sign,
    sync,
)
from nelson.kernels.cuda.team import (
    EVERY,
    HALF,
    WANTED,
    WORD_CELLS,
    ZERO,
    cell_of,
    class_order,
    draw_more_rows,
    draw_rows,
    int32,
    start_of,
)

#: The cell that counts the sweeps of a run after which a lane wanted was not determined.
APART = 0


class Couple(NamedTuple):
    """The data of a team; see `team.Team`."""

    log_copies: Any
    narrow: Any  # 0; or 1 if two entries share a word, + other literals of a clause if all equal
    words: Any  # the literals around each variable (`neighbour_lists.py`)
    ints: Any
    far_words: Any
    far_ints: Any
    law: Any  # for each position of a sweep: 2^32 * threshold + 32 * name
    x: Any  # n + 2 pairs (x, u); the last two: a variable that is 1, and one that nobody reads
    cells: Any
    word_cells: Any  # for each copy: two keys, lanes wanted, invalid lanes
    size: np.int32
    which: np.int32
    me: np.int32


@device
def cells_of(w, v):
    """Place of the cells of the word to which variable v belongs."""
    return int32((v & ((1 << len(w.log_copies)) - 1)) * WORD_CELLS)


@device
def _coin(w, i, v, round, h):
    """A coin for each lane of variable v, at position i of the sweep."""
    law = peek(w.law, i)
    key0, key1 = peek2(w.word_cells, int32(cells_of(w, v) >> 1))
    start = start_of(round, np.uint32(law), key0)
    digits = HALF  # with one random row, every probability is 1/2
    if len(h) > 1:
        digits = np.uint32(law >> np.uint64(32))
    left, coin = draw_rows(digits, start, key1, EVERY, h)
    if len(h) > 1:
        left, coin = draw_more_rows(digits, start, key1, left, coin, h)
        digits = np.uint32(digits << np.uint32(2 * len(h)))
        start += np.uint64(2 * len(h)) * GOLDEN
        while ballot(left != ZERO) != 0:
            left, more = draw_rows(digits, start, key1, left, (0, 0))
            coin |= more
            digits = np.uint32(digits << np.uint32(2))
            start += np.uint64(2) * GOLDEN
    return coin


@device
def _literal(w, word, half, maybe, surely):
    """The lanes, of those given, in which a literal may be false, and is surely false."""
    x, u = load2(w.x, place_of(w, word, half))
    false = x ^ flip(w, word, half)
    return maybe & (false | u), surely & false & ~u


@device
def _slot(p, w, slot, i):
    """(first, number) of the words of one clause of the variable at position i."""
    if len(w.narrow) > 1:
        number = len(w.narrow) >> 1  # a constant for the compiler, which unrolls loops over it
        return int32(slot * (32 * number) + (i & 31)), number
    at = peek(w.ints, int32(p.sweep + slot))
    return int32(at + (i & 31)), (peek(w.ints, int32(p.sweep + slot + 1)) - at) >> 5


@device
def _update(p, w, i, round, h):
    """Update the variable at position i. -> the lanes wanted in which it is not determined"""
    v = peek(w.ints, int32(p.order + i))
    if SIMULATED and v > p.n:  # padding; on a GPU its thread must take part in the ballots
        return ZERO
    coin = _coin(w, i, v, round, h)
    slot = peek(w.ints, int32(p.occ + (i >> 5)))
    last = peek(w.ints, int32(p.occ + (i >> 5) + 1))
    maybe, surely, turned = ZERO, ZERO, ZERO
    while slot < last:
        at, number = _slot(p, w, slot, i)
        word = peek(w.words, at)
        against = coin ^ sign(np.uint32(word << np.uint32(31)))  # bit 0: does the clause hold +v
        may, sure, k = against, EVERY, 0
        while k < number:
            if k > 0:
                word = peek(w.words, int32(at + 32 * k))
            if len(w.narrow) and second_half(w, k):
                may, sure = _literal(w, word, 1, may, sure)
            may, sure = _literal(w, word, 0, may, sure)
            k += 1
        maybe, surely, turned = maybe | may, surely | sure, turned | (sure & against)
        slot = int32(slot + 1)
    x, u = peek2(w.x, v)
    u = maybe & ~surely & ((x ^ coin) | u)
    poke2(w.x, v, coin ^ turned, u)
    return u & peek(w.word_cells, int32(cells_of(w, v) + WANTED))


@device
def _sweep(p, w, c, step, t, h):
    """Sweep t before time 0, from colour class c on. -> the lanes wanted that are not determined,
    of the variables that this thread updates
    """
    apart, left = ZERO, p.n_classes
    while left > 0:
        left = int32(left - 1)
        i = int32(peek(w.ints, int32(p.classes + c)) * 32 + w.me)
        end = int32(peek(w.ints, int32(p.classes + c + 1)) * 32)
        while i < end:
            apart |= _update(p, w, i, SWEEP_ROUND + t, h)
            i = int32(i + w.size)
        c = int32(c + step)
        if c >= p.n_classes:
            c = int32(c - p.n_classes)
        sync(w.size, w.which)
    return apart


@device
def _begin(p, w):
    """Every state is possible; fixed variables have one value."""
    v = w.me
    while v < p.n:
        poke2(w.x, v, ZERO, EVERY)
        v = int32(v + w.size)
    sync(w.size, w.which)
    q = w.me
    while q < p.n_fixed:
        code = peek(w.far_ints, int32(p.fixed + q))
        poke2(w.x, int32(code >> 1), sign(np.uint32(code << 31)), ZERO)
        q = int32(q + w.size)
    if w.me == 0:
        poke2(w.x, p.n, EVERY, ZERO)
        poke2(w.x, int32(p.n + 1), ZERO, ZERO)
        poke(w.cells, APART, np.uint32(0))
    sync(w.size, w.which)


@device
def run(p, w, job, context, length, h):
    """Run from time -length to 0. -> the last sweep, 1 .. length, after which a lane wanted was not
    determined, or 0. If it is `length`, a lane is not determined at time 0.
    """
    first, step = class_order(job.seed, context, p.n_classes)
    _begin(p, w)
    done = int32(0)
    while done < length:
        apart = _sweep(p, w, int32(first), int32(step), int32(length - 1 - done), h)
        done = int32(done + 1)
        if apart != ZERO:
            poke(w.cells, APART, np.uint32(done))
    sync(w.size, w.which)
    return cell_of(w, APART)
