"""The last rounds on the GPU: a clause and a lane at a time.

A few rounds leave one clause in twenty violated, mostly in one lane of 128; words would be drawn
and looked at for a single bit. From then on a round is a list of *events*, 128 clause + lane, and
of *items*, 128 variable + lane, the variables of those clauses. Threads draw the items, then look,
in that lane alone, at the clauses of those that changed, and at the clauses of the events again:
nothing else can be violated.

An item may stand on the list twice, for two clauses: both draw the same bit. An event stands there
once: its bit in `bad` says whether it does.
"""

import numpy as np

from nelson.kernels.cuda_clauses import entries, halves, literals
from nelson.kernels.cuda_setup import (
    atomic_add,
    atomic_and,
    atomic_or,
    device,
    peek,
    peek2,
    poke,
    popcount,
    sync,
)
from nelson.kernels.cuda_team import (
    BIT,
    CHANGED,
    EVENTS,
    ITEMS,
    ONE,
    WORD_CELLS,
    ZERO,
    cell_of,
    draw_rows,
    int32,
    law_of,
    set_cell,
)
from nelson.kernels.rng import GOLDEN

#: Threads that look at the clauses of one item: the last rounds have few items and many threads.
PARTS = 4


@device
def _first_item(w, side):
    """Where the items of a side lie, behind the events of both; side 2: those that changed."""
    return int32(2 * w.capacity + side * w.room)


@device
def _append(p, w, j, lane, side):
    """List clause j in a lane, and its variables."""
    e = int32(atomic_add(w.cells, int32(EVENTS + side), BIT))
    if e < w.capacity:
        poke(w.lists, int32(side * w.capacity + e), np.uint32(j * 128 + lane))
    at, number = literals(p, w, j)
    both = 2 if len(w.narrow) else 1
    count = int32(number * both)  # padding too: its items are there twice
    place = int32(atomic_add(w.cells, int32(ITEMS + side), np.uint32(count)))
    if int32(place + count) <= w.room:
        place = int32(place + _first_item(w, side))
        k = 0
        while k < number:
            code = peek(w.words, at + 32 * k)
            k += 1
            if len(w.narrow):
                code, other = halves(code)
                poke(w.lists, place, np.uint32((other >> np.uint32(4)) * 128 + lane))
                place = int32(place + 1)
            poke(w.lists, place, np.uint32((code >> np.uint32(4)) * 128 + lane))
            place = int32(place + 1)


@device
def begin(p, w):
    """List what `bad` holds."""
    j = w.me
    while j < p.n_clauses:
        first, second = peek2(w.bad, j)
        lane = int32(0)
        while (first | second) != ZERO:
            if first == ZERO:
                first, second, lane = second, ZERO, int32(64)
            low = first & (~first + ONE)
            _append(p, w, j, int32(lane + popcount(low - ONE)), 0)
            first ^= low
        j = int32(j + w.size)


@device
def _redraw(p, w, item, round, side, h):
    """Draw a variable in one lane, and list it if it changed."""
    v, lane = int32(item >> 7), int32(item & 127)
    digits, start = law_of(p, w, round, v, 0, h)
    word = int32(2 * (v & ((1 << len(w.log_copies)) - 1)) + (lane >> 6))
    key0, key1 = peek2(w.word_cells, int32(word * (WORD_CELLS // 2)))
    start += key0
    lanes, value = ONE << np.uint64(lane & 63), ZERO
    while lanes != ZERO:
        lanes, more = draw_rows(digits, start, key1, lanes, h)
        value |= more
        digits = np.uint32(digits << np.uint32(len(h)))
        start += np.uint64(len(h)) * GOLDEN
    at, bit = int32(4 * v + (lane >> 5)), np.uint32(BIT << np.uint32(lane & 31))
    if value != ZERO:
        changed = atomic_or(w.x32, at, bit) & bit == 0
    else:
        changed = atomic_and(w.x32, at, np.uint32(~bit)) & bit != 0
    if changed:
        place = int32(atomic_add(w.cells, int32(CHANGED + side), BIT))
        poke(w.lists, int32(_first_item(w, 2) + place), item)


@device
def _false_in(w, code, part):
    """The lanes of a quarter of a pair in which a literal is false."""
    flip = np.uint32(0) - np.uint32(code & np.uint32(1))
    return np.uint32(peek(w.x32, int32(((int32(code) >> 4) << 2) + part)) ^ flip)


@device
def _look_at(p, w, j, lane, side):
    """List clause j if it is violated in a lane and not listed yet."""
    if j >= p.n_clauses:  # padding
        return
    part, bit = int32(lane >> 5), np.uint32(BIT << np.uint32(lane & 31))
    at, number = literals(p, w, j)
    k = 0
    while k < number:
        code = peek(w.words, at + 32 * k)
        k += 1
        if len(w.narrow):
            code, other = halves(code)
            bit &= _false_in(w, other, part)
        bit &= _false_in(w, code, part)
    if bit != 0 and atomic_or(w.bad32, int32(4 * j + part), bit) & bit == 0:
        _append(p, w, j, lane, side)


@device
def _look_around(p, w, item, part, side):
    """Look at the clauses of an item's variable in its lane: at part `part` of PARTS."""
    v, lane = int32(item >> 7), int32(item & 127)
    at, end = entries(w.ints, p.occ, v)
    at = int32(at + 32 * part)
    while at < end:
        code = peek(w.words, at)
        at = int32(at + 32 * PARTS)
        if len(w.narrow):
            code, other = halves(code)
            _look_at(p, w, int32(other >> np.uint32(4)), lane, side)
        _look_at(p, w, int32(code >> np.uint32(4)), lane, side)


@device
def late(p, w, rounds, max_rounds, h):
    """Rounds from the lists until nothing is violated. -> (rounds, lanes resampled, done).

    Not done: the lists are full. What is violated then has to be found by a look at all clauses.
    """
    side, resampled = int32(0), 0
    while True:
        events, items = cell_of(w, int32(EVENTS + side)), cell_of(w, int32(ITEMS + side))
        if events == 0 or rounds == max_rounds:
            return rounds, resampled, True
        if events > w.capacity or items > w.room:
            return rounds, resampled, False
        rounds = int32(rounds + 1)
        resampled += events
        q = w.me
        while q < items:
            item = peek(w.lists, int32(_first_item(w, side) + q))
            _redraw(p, w, item, rounds, side, h)
            q = int32(q + w.size)
        q = w.me
        while q < events:
            event = peek(w.lists, int32(side * w.capacity + q))
            at = int32(4 * int32(event >> np.uint32(7)) + int32((event & np.uint32(127)) >> 5))
            poke(w.bad32, at, np.uint32(0))
            q = int32(q + w.size)
        set_cell(w, int32(EVENTS + 1 - side), 0)
        set_cell(w, int32(ITEMS + 1 - side), 0)
        set_cell(w, int32(CHANGED + 1 - side), 0)
        sync(w.size, w.which)
        q = w.me
        while q < events:
            event = peek(w.lists, int32(side * w.capacity + q))
            j, lane = int32(event >> np.uint32(7)), int32(event & np.uint32(127))
            _look_at(p, w, j, lane, int32(1 - side))
            q = int32(q + w.size)
        changed = int32(cell_of(w, int32(CHANGED + side)) * PARTS)
        q = w.me
        while q < changed:
            item = peek(w.lists, int32(_first_item(w, 2) + q // PARTS))
            _look_around(p, w, item, int32(q % PARTS), int32(1 - side))
            q = int32(q + w.size)
        sync(w.size, w.which)
        side = int32(1 - side)
