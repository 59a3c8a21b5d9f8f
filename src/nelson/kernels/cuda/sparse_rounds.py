"""The last rounds on the GPU: one clause and one lane at a time.

After a few rounds one clause in twenty is violated, mostly in one lane of 128, and whole words
would be drawn and checked for a single bit. From then on a round is a list of *events*, 128 clause
+ lane. Threads redraw the variables of these clauses in that lane and list the *items*, 128
variable + lane, that changed. Then they check, in that lane only, the clauses of the items and the
clauses of the events: no other clause can be violated.

A variable may be redrawn twice, for two clauses: both draw the same bit, and one of them sees it
change. An event is listed once, because its bit in `bad` tells whether it is listed. If a list is
too short, the team starts again and does without these rounds: the bits are the same either way.
"""

import numpy as np

from nelson.kernels.core.rng import GOLDEN
from nelson.kernels.cuda.clauses import entries, flip, literals, padding, second_half, variable
from nelson.kernels.cuda.setup import (
    atomic_add,
    atomic_and,
    atomic_or,
    device,
    peek,
    peek2,
    poke,
    popcount,
    rolled,
    sync,
)
from nelson.kernels.cuda.team import (
    BIT,
    CHANGED,
    EVENTS,
    ONE,
    WORD_CELLS,
    ZERO,
    cell_of,
    draw_rows,
    int32,
    law_of,
    set_cell,
    start_of,
)

#: Threads that check the clauses of one item: mostly, each has one clause.
LOG_PARTS = 3
PARTS = 1 << LOG_PARTS


@device
def _event_at(w, side, e):
    """Place of event e of list `side` (0 or 1) in `lists`."""
    return int32(side * w.capacity + e)


@device
def _item_at(w, k):
    """Place of changed item k in `lists`."""
    return int32(2 * w.capacity + k)


@device
def _append(w, j, lane, side):
    """Add the event (clause j, lane) to a list."""
    e = int32(atomic_add(w.cells, np.uint32(EVENTS + side), BIT))
    if e < w.capacity:
        poke(w.lists, _event_at(w, side, e), np.uint32(j * 128 + lane))


@device
def list_events(p, w, listed, count):
    """List the events in `bad`. listed: only in the words that `count` entries of the list name."""
    q, last = w.me, count if listed else int32(2 * p.n_clauses)
    while q < last:
        at = q
        if listed:
            at = int32(peek(w.lists, int32(w.listed + q)))
        lanes = peek(w.bad, at)
        while lanes != ZERO:
            low = lanes & (~lanes + ONE)
            lanes ^= low
            _append(w, int32(at >> 1), int32(64 * (at & 1) + popcount(low - ONE)), 0)
        q = int32(q + w.size)


@device
def _redraw(w, v, lane, round, side, h):
    """Redraw a variable in one lane, and list it if it changed."""
    digits, place = law_of(w, v, 0, h)
    word = int32(2 * (v & ((1 << len(w.log_copies)) - 1)) + (lane >> 6))
    key0, key1 = peek2(w.word_cells, int32(word * (WORD_CELLS // 2)))
    start = start_of(round, place, key0)
    lanes, value = ONE << np.uint64(lane & 63), ZERO
    while lanes != ZERO:
        lanes, more = draw_rows(digits, start, key1, lanes, h)
        value |= more
        digits = np.uint32(digits << np.uint32(len(h)))
        start += np.uint64(len(h)) * GOLDEN
    at, bit = np.uint32(4 * v + (lane >> 5)), np.uint32(BIT << np.uint32(lane & 31))
    if value != ZERO:
        changed = atomic_or(w.x32, at, bit) & bit == 0
    else:
        changed = atomic_and(w.x32, at, np.uint32(~bit)) & bit != 0
    if changed:
        place = int32(atomic_add(w.cells, np.uint32(CHANGED + side), BIT))
        if place < w.room:
            poke(w.lists, _item_at(w, place), np.uint32(v * 128 + lane))


@device
def _redraw_list(p, w, count, round, side, h):
    """Redraw the variables of `count` events; a thread has one variable of an event, or every
    `parts`-th.
    """
    parts = len(w.narrow) - 1 if len(w.narrow) > 1 else p.parts
    q = w.me
    while q < count * parts:
        e = int32(np.uint32(q) // np.uint32(parts))
        k = int32(q - e * parts)
        event = peek(w.lists, _event_at(w, side, e))
        lane = int32(event & np.uint32(127))
        at, number = literals(p, w, int32(event >> np.uint32(7)))
        slots = int32(2 * number if len(w.narrow) else number)
        while k < slots:
            word = peek(w.clauses, int32(at + 32 * (k >> 1 if len(w.narrow) else k)))
            _redraw(w, variable(w, word, k & 1), lane, round, side, h)
            k = slots if len(w.narrow) > 1 else int32(k + parts)
        q = int32(q + w.size)


@device
def _forget(w, count, side):
    """Clear the bits of `count` events in `bad`."""
    q = w.me
    while q < count:
        event = peek(w.lists, _event_at(w, side, q))
        at = int32(4 * int32(event >> np.uint32(7)) + int32((event & np.uint32(127)) >> 5))
        poke(w.bad32, at, np.uint32(0))
        q = int32(q + w.size)


@device
def _false_in(w, word, half, part):
    """The lanes in which a literal is false, of one quarter (32 bits) of a pair."""
    x = peek(w.x32, int32(4 * variable(w, word, half) + part))
    return np.uint32(x ^ np.uint32(flip(w, word, half)))


@device
def _look_at(p, w, j, lane, side):
    """List the event (clause j, lane) if the clause is violated there and not listed yet."""
    if j >= p.n_clauses:  # padding
        return
    part, bit = int32(lane >> 5), np.uint32(BIT << np.uint32(lane & 31))
    at, number = literals(p, w, j)
    k = 0
    while k < number:
        word = peek(w.clauses, at + 32 * k)
        if len(w.narrow) and second_half(w, k):
            bit &= _false_in(w, word, 1, part)
        bit &= _false_in(w, word, 0, part)
        k += 1
    if bit != 0 and atomic_or(w.bad32, np.uint32(4 * j + part), bit) & bit == 0:
        _append(w, j, lane, side)


@device
def _look_around(p, w, events, changed, side):
    """Check the clauses of `events` events and of `changed` items."""
    log_halves = 1 if len(w.narrow) else 0
    step = int32(32 * (PARTS >> log_halves))
    q = w.me
    while q < events + changed * PARTS:
        at, end, half = int32(0), int32(0), int32(0)
        if q < events:
            event = peek(w.lists, _event_at(w, side, q))
            lane = int32(event & np.uint32(127))
            word = np.uint32((event >> np.uint32(7)) << np.uint32(4))
        else:
            k = int32(q - events)
            item = peek(w.lists, _item_at(w, k >> LOG_PARTS))
            lane = int32(item & np.uint32(127))
            half = int32(k & log_halves)
            at, end = entries(w.ints, p.occ, int32(item >> np.uint32(7)))
            at = int32(at + 32 * ((k & (PARTS - 1)) >> log_halves))
            word = padding(p, w)
            if at < end:
                word = peek(w.words, at)
        going = True
        while going:
            rolled()
            code = np.uint32(word >> np.uint32(16 * half))
            if len(w.narrow):
                code &= np.uint32(0xFFFF)
            _look_at(p, w, int32(code >> np.uint32(4)), lane, int32(1 - side))
            at = int32(at + step)
            going = bool(at < end)
            if going:
                word = peek(w.words, at)
        q = int32(q + w.size)


@device
def run_events(p, w, rounds, max_rounds, h):
    """Rounds by events until no clause is violated. -> (rounds, lanes resampled, full)

    full: a list was too short, and the rounds ended early.
    """
    side, resampled, full = int32(0), int32(0), False
    while True:
        events = cell_of(w, int32(EVENTS + side))
        if events > w.capacity:
            full = True
        if events == 0 or rounds == max_rounds or full:
            return rounds, resampled, full
        rounds = int32(rounds + 1)
        resampled = int32(resampled + events)
        _redraw_list(p, w, events, rounds, side, h)
        _forget(w, events, side)
        set_cell(w, int32(EVENTS + 1 - side), 0)
        set_cell(w, int32(CHANGED + 1 - side), 0)
        sync(w.size, w.which)
        changed = cell_of(w, int32(CHANGED + side))
        if changed > w.room:
            full = True
        else:
            _look_around(p, w, events, changed, side)
        sync(w.size, w.which)
        side = int32(1 - side)
