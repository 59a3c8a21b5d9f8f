"""Bounding chains on the GPU: for each variable and lane, whether its value is determined.

A variable is a pair of words (x, u). In the lanes of u its value is not determined; in the others
it is x. One update with the coin b looks, in each lane, only at the clauses that hold the literal
that b makes false. If one of them *surely* has no other true literal, the value is not b. If one
*maybe* has none, the value is not determined:

    x = b ^ surely        u = maybe & ~surely

A literal is false in the lanes d = x ^ sign; then it is surely false in d & ~u and may be false in
d | u. So a clause costs one load of a pair and six logical instructions for each other literal.
"""

from typing import Any, NamedTuple

import numpy as np

from nelson.kernels.core.rng import GOLDEN, SWEEP_ROUND
from nelson.kernels.cuda.clauses import flip, place_of, second_half
from nelson.kernels.cuda.setup import (
    SIMULATED,
    ballot,
    device,
    load1,
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
    set_cell,
    start_of,
)

#: Cells of a team that take turns: is a variable not determined after this sweep?
TURNS = 3


class Couple(NamedTuple):
    """The data of a team; see `team.Team`."""

    log_copies: Any
    narrow: Any  # 0; or 1 if two entries share a word, + other literals of a clause if all equal
    words: Any  # the literals around each variable (`around.py`)
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
def _literal(w, word, half, plain, maybe, surely):
    """The lanes, of those given, in which a literal may be false, and is surely false."""
    place, negation = place_of(w, word, half), flip(w, word, half)
    if len(plain):
        return maybe, surely & (load1(w.x, place) ^ negation)
    x, u = load2(w.x, place)
    false = x ^ negation
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
def _update(p, w, i, round, plain, h):
    """Update the variable at position i. -> the lanes wanted in which it is not determined"""
    v = peek(w.ints, int32(p.order + i))
    if SIMULATED and v > p.n:  # padding; on a GPU its thread must take part in the ballots
        return ZERO
    coin = _coin(w, i, v, round, h)
    slot = peek(w.ints, int32(p.occ + (i >> 5)))
    last = peek(w.ints, int32(p.occ + (i >> 5) + 1))
    maybe, surely = ZERO, ZERO
    while slot < last:
        at, number = _slot(p, w, slot, i)
        word = peek(w.words, at)
        may = coin ^ sign(np.uint32(word << np.uint32(31)))  # bit 0: does the clause hold +v
        sure, k = may, 0
        while k < number:
            if k > 0:
                word = peek(w.words, int32(at + 32 * k))
            if len(w.narrow) and second_half(w, k):
                may, sure = _literal(w, word, 1, plain, may, sure)
            may, sure = _literal(w, word, 0, plain, may, sure)
            k += 1
        maybe, surely = maybe | may, surely | sure
        slot = int32(slot + 1)
    undetermined = ZERO if len(plain) else maybe & ~surely
    poke2(w.x, v, coin ^ surely, undetermined)
    return undetermined & peek(w.word_cells, int32(cells_of(w, v) + WANTED))


@device
def _sweep(p, w, c, step, t, turn, plain, h):
    """Sweep t before time 0, from colour class c on. -> is a lane wanted not determined"""
    apart, left = ZERO, p.n_classes
    while left > 0:
        left = int32(left - 1)
        i = int32(peek(w.ints, int32(p.classes + c)) * 32 + w.me)
        end = int32(peek(w.ints, int32(p.classes + c + 1)) * 32)
        while i < end:
            apart |= _update(p, w, i, SWEEP_ROUND + t, plain, h)
            i = int32(i + w.size)
        c = int32(c + step)
        if c >= p.n_classes:
            c = int32(c - p.n_classes)
        if left == 0 and apart != ZERO:
            poke(w.cells, turn, np.uint32(1))
        sync(w.size, w.which)
    if len(plain):
        return False
    met = cell_of(w, turn) == 0
    # The cell of the sweep after the next: all threads have read it, and none has set it again.
    set_cell(w, int32(turn - 1 if turn > 0 else TURNS - 1), 0)
    return not met


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
        for turn in range(TURNS):
            poke(w.cells, turn, np.uint32(0))
    sync(w.size, w.which)


@device
def run(p, w, job, context, length, h):
    """Run from time -length to 0. -> sweeps until all lanes met, or -1"""
    first, step = class_order(job.seed, context, p.n_classes)
    c, step, turn = int32(first), int32(step), int32(0)
    _begin(p, w)
    t, apart = length, True
    while t > 0 and apart:
        t = int32(t - 1)
        apart = _sweep(p, w, c, step, t, turn, (), h)
        turn = int32(turn + 1 if turn < TURNS - 1 else 0)
    if apart:
        return int32(-1)
    met = int32(length - t)
    while t > 0:
        t = int32(t - 1)
        _sweep(p, w, c, step, t, turn, (0,), h)
    return met
