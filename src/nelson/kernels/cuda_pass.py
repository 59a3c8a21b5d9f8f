"""A pass of a team over variables: which lanes of each are drawn, and the random rows for them.

Random rows are what costs. A thread with one lane still undecided would keep 31 others waiting;
so a draw takes a few rows, and what is left goes to a queue of the warp, from which 32 are taken at
a time. Resampling goes through the same queue: however few variables a round touches, random rows
are computed by full warps.
"""

import numpy as np

from nelson.kernels.cuda_clauses import gather, literals, mask_of, stuck_lanes
from nelson.kernels.cuda_setup import (
    WARP,
    atomic_and,
    atomic_or,
    ballot,
    device,
    peek,
    peek2,
    pinned,
    poke,
    poke2,
    sync_warp,
)
from nelson.kernels.cuda_team import (
    EVERY,
    FEW,
    INIT,
    MASKED,
    SHORT,
    SWEEP,
    VIOLATED,
    WANTED,
    WORD_CELLS,
    ZERO,
    draw_more_rows,
    draw_rows,
    int32,
    law_of,
    push,
    push_pair,
    start_of,
)
from nelson.kernels.rng import GOLDEN


@device
def _take(p, w, round, waiting, h, tail):
    """A few random rows for a warp of the words waiting; -> how many are left.

    tail: there are less than a warp, and each gets what it needs.
    """
    taken = waiting if tail else int32(WARP)
    waiting = int32(waiting - taken)
    item, k, lanes, digits = int32(0), int32(0), ZERO, np.uint32(0)
    start, key1 = ZERO, ZERO
    if not tail or w.lane < taken:
        at = int32(waiting + w.lane)
        entry = int32(peek(w.items, at))
        lanes = peek(w.queue, at)
        item, k = int32(entry >> 5), int32(entry & 31)
        digits, place = law_of(w, int32(item >> 1), k, h)
        word = int32(item & ((2 << len(w.log_copies)) - 1))
        key0, key1 = peek2(w.word_cells, int32(word * WORD_CELLS // 2))
        start = start_of(round, place, key0)
    going = True
    while going:
        if not tail or lanes != ZERO:
            left, value = draw_rows(digits, start, key1, lanes, h)
            poke(w.x, item, (peek(w.x, item) & ~(lanes & ~left)) | value)
            lanes = left
        digits = np.uint32(digits << np.uint32(len(h)))
        start += np.uint64(len(h)) * GOLDEN
        k = int32(k + len(h))
        going = tail and ballot(lanes != ZERO) != 0
    sync_warp()
    return waiting if tail else push(w, w.queue, w.items, item, lanes, k, waiting)


@device
def _lanes_of(p, w, kind, violated, i, moved):
    """(variable, lanes to draw it in) at position i of a pass."""
    v, first, second = i, EVERY, EVERY
    if violated:
        first, second = gather(p, w, v)
    elif kind == MASKED:
        first, second = peek2(w.bad, int32(mask_of(p) + v))
    elif kind == SWEEP:
        v = peek(w.ints, int32(p.order + i))
        if v < 0:  # padding
            first, second = ZERO, ZERO
        else:
            stuck, stuck_too = stuck_lanes(p, w, i, v)
            first, second = ~stuck, ~stuck_too
            at = int32((v & ((1 << len(w.log_copies)) - 1)) * 2 * WORD_CELLS + WANTED)
            free = peek(w.word_cells, at) & first
            free |= peek(w.word_cells, int32(at + WORD_CELLS)) & second
            own = int32(v >> len(w.log_copies))
            if free != ZERO and peek(moved, own) == 0:  # all blocks write here: as seldom as can be
                poke(moved, own, np.uint8(1))
    return v, first, second


@device
def draw_pass(p, w, kind, round, begin, end, h, moved):
    """Draw variables, each in its lanes. The one place where random numbers are made.

    Rows are drawn for both words of a variable; what is undecided then waits in the queue, and
    where few variables have lanes all of it does.
    """
    # Numba would turn `kind in (..)` into a loop, run by every thread for every variable.
    violated = (kind == VIOLATED) | (kind == FEW)
    all_of_it = (kind == INIT) | (kind == SWEEP)
    few = len(h) > 1 and kind == FEW
    used = int32(0 if few else (2 * len(h) if all_of_it else len(h)))
    waiting, first = int32(0), begin
    while first < end:
        i = int32(first + w.me)
        first = int32(first + w.size)
        v, left, left_too = i, ZERO, ZERO
        if i < end:
            v, left, left_too = _lanes_of(p, w, kind, violated, i, moved)
            if left | left_too != ZERO and not few:
                lanes, lanes_too = left, left_too
                digits, place = law_of(w, v, 0, h)
                at = int32((v & ((1 << len(w.log_copies)) - 1)) * WORD_CELLS)
                key0, key1 = peek2(w.word_cells, at)
                key0_too, key1_too = peek2(w.word_cells, int32(at + WORD_CELLS // 2))
                key0 = start_of(round, place, key0)
                key0_too = start_of(round, place, key0_too)
                left, value = draw_rows(digits, key0, key1, left, h)
                left_too, value_too = draw_rows(digits, key0_too, key1_too, left_too, h)
                if len(h) > 1 and all_of_it:
                    left, value = draw_more_rows(digits, key0, key1, left, value, h)
                    left_too, value_too = draw_more_rows(
                        digits, key0_too, key1_too, left_too, value_too, h
                    )
                x, y = peek2(w.x, v)
                x = (x & ~(lanes & ~left)) | value
                poke2(w.x, v, x, (y & ~(lanes_too & ~left_too)) | value_too)
        if len(h) > 1:  # else every probability is 1/2, and one row decides
            waiting = push_pair(w, v, left, left_too, used, waiting)
            while waiting >= WARP:
                waiting = _take(p, w, round, waiting, h, False)
    if len(h) > 1 and waiting > 0:
        _take(p, w, round, waiting, h, True)


@device
def _write(w, item, lanes, value):
    """Set the lanes of a word to those of value; others may do the same."""
    off, k = lanes & ~value, 0
    while k < 2:
        zeros, ones = np.uint32(off >> np.uint64(32 * k)), np.uint32(value >> np.uint64(32 * k))
        if zeros != 0:
            atomic_and(w.x32, np.uint32(2 * item + k), np.uint32(~zeros))
        if ones != 0:
            atomic_or(w.x32, np.uint32(2 * item + k), ones)
        k += 1


@device
def draw_listed(p, w, round, count, h):
    """Draw the variables of `count` listed words of clauses, in the lanes violated there.

    A warp draws literal k of 32 of these. A variable of two clauses is drawn twice, but both draw
    the same bits. Only for clauses of one length, and a state in shared memory.
    """
    warp, warps, parts = int32(w.me // WARP), int32(w.size // WARP), len(w.narrow) - 1
    queue = pinned(w.queues[SHORT * warp :])
    items = pinned(w.lists[SHORT * (2 * warps + warp) :])
    waiting, unit, units = int32(0), warp, int32((count + WARP - 1) // WARP * parts)
    while unit < units or waiting > 0:
        item, k, lanes, tail = int32(0), int32(0), ZERO, False
        if waiting < WARP and unit < units:
            some = int32(np.uint32(unit) // np.uint32(parts))
            part = int32(unit - some * parts)
            q = int32(some * WARP + w.lane)
            if q < count:
                at = int32(peek(w.lists, int32(w.listed + q)))
                lanes = peek(w.bad, at)
                first, _ = literals(p, w, int32(at >> 1))
                code = peek(w.clauses, int32(first + 32 * (part >> 1)))
                code = np.uint32(code >> np.uint32(16 * (part & 1))) & np.uint32(0xFFF0)
                item = int32(int32(code >> np.uint32(3)) | (at & 1))
            unit = int32(unit + warps)
        else:
            tail = waiting < WARP
            at = int32(w.lane if tail else waiting - WARP + w.lane)
            if at < waiting:
                entry = int32(peek(items, at))
                lanes = peek(queue, at)
                item, k = int32(entry >> 5), int32(entry & 31)
            waiting = int32(0 if tail else waiting - WARP)
        digits, place = law_of(w, int32(item >> 1), k, h)
        word = int32(item & ((2 << len(w.log_copies)) - 1))
        key0, key1 = peek2(w.word_cells, int32(word * WORD_CELLS // 2))
        start = start_of(round, place, key0)
        going = True
        while going:
            left, value = draw_rows(digits, start, key1, lanes, h)
            _write(w, item, lanes & ~left, value)
            lanes = left
            digits = np.uint32(digits << np.uint32(len(h)))
            start += np.uint64(len(h)) * GOLDEN
            going = tail and ballot(lanes != ZERO) != 0
        if len(h) > 1:
            sync_warp()
            if not tail:
                waiting = push(w, queue, items, item, lanes, int32(k + len(h)), waiting)
