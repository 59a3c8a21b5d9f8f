"""A pass of a team over all variables, or over listed clauses: chooses the lanes and draws them.

Random rows are the main cost. A thread with one undecided lane would keep 31 others waiting. So a
draw takes a few rows, and words with undecided lanes go to a queue of the warp, from which 32 are
taken at a time. Resampling uses the same queue: full warps compute random rows, even if a round
touches few variables.
"""

import numpy as np

from nelson.kernels.core.rng import GOLDEN
from nelson.kernels.cuda.clauses import gather, literals, stuck_lanes, variable, wanted_lanes
from nelson.kernels.cuda.prs import mask_of
from nelson.kernels.cuda.setup import (
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
from nelson.kernels.cuda.team import (
    EVERY,
    FEW,
    INIT,
    MASKED,
    SHORT,
    SWEEP,
    VIOLATED,
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


@device
def _write(w, item, lanes, value):
    """Set the lanes of a word to `value`, atomically: other threads may write the same word."""
    off, k = lanes & ~value, 0
    while k < 2:
        zeros, ones = np.uint32(off >> np.uint64(32 * k)), np.uint32(value >> np.uint64(32 * k))
        if zeros != 0:
            atomic_and(w.x32, np.uint32(2 * item + k), np.uint32(~zeros))
        if ones != 0:
            atomic_or(w.x32, np.uint32(2 * item + k), ones)
        k += 1


@device
def _draw(w, round, item, k, lanes, h, whole, alone):
    """Draw a few random rows for a word, from row k on. -> lanes undecided

    whole: as many rows as the warp needs to decide all lanes. alone: no other thread writes to the
    word.
    """
    digits, place = law_of(w, int32(item >> 1), k, h)
    word = int32(item & ((2 << len(w.log_copies)) - 1))
    key0, key1 = peek2(w.word_cells, int32(word * WORD_CELLS // 2))
    start = start_of(round, place, key0)
    going = True
    while going:
        left, value = draw_rows(digits, start, key1, lanes, h)
        if not alone:
            _write(w, item, lanes & ~left, value)
        elif not whole or lanes != ZERO:
            poke(w.x, item, (peek(w.x, item) & ~(lanes & ~left)) | value)
        lanes = left
        digits = np.uint32(digits << np.uint32(len(h)))
        start += np.uint64(len(h)) * GOLDEN
        going = whole and ballot(lanes != ZERO) != 0
    return lanes


@device
def _take(w, queue, items, round, waiting, h):
    """Draw a few random rows for the last 32 words of the queue. -> words that are waiting"""
    waiting = int32(waiting - WARP)
    at = int32(waiting + w.rank)
    entry = int32(peek(items, at))
    item, k = int32(entry >> 5), int32(entry & 31)
    lanes = _draw(w, round, item, k, peek(queue, at), h, False, True)
    sync_warp()
    return push(w, queue, items, item, lanes, int32(k + len(h)), waiting)


@device
def _finish(w, queue, items, round, waiting, h, alone):
    """Draw all random rows for the last 32 words of the queue, or for fewer if it is shorter.

    -> words that are waiting
    """
    taken = int32(min(waiting, WARP))
    waiting = int32(waiting - taken)
    item, k, lanes = int32(0), int32(0), ZERO
    if w.rank < taken:
        at = int32(waiting + w.rank)
        entry = int32(peek(items, at))
        lanes = peek(queue, at)
        item, k = int32(entry >> 5), int32(entry & 31)
    _draw(w, round, item, k, lanes, h, True, alone)
    sync_warp()
    return waiting


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
            wanted, wanted_too = wanted_lanes(w, v)
            free = (wanted & first) | (wanted_too & second)
            own = int32(v >> len(w.log_copies))
            if free != ZERO and peek(moved, own) == 0:  # all blocks share it: write only once
                poke(moved, own, np.uint8(1))
    return v, first, second


@device
def draw_pass(p, w, kind, round, begin, end, h, moved):
    """Draw the variables at positions begin .. end - 1, each in its lanes.

    Rows are drawn for both words of a variable, and words with undecided lanes wait in the queue.
    If few variables have lanes to draw (FEW), all their words go through the queue.
    """
    # Numba makes a loop of `kind in (..)`, which every thread would run for every variable.
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
        if len(h) > 1:  # otherwise every probability is 1/2 and one row decides
            waiting = push_pair(w, v, left, left_too, used, waiting)
            while waiting >= WARP:
                waiting = _take(w, w.queue, w.items, round, waiting, h)
    if len(h) > 1 and waiting > 0:
        _finish(w, w.queue, w.items, round, waiting, h, True)


@device
def draw_listed(p, w, round, count, h):
    """Redraw the variables of `count` listed words of clauses, in the lanes violated there.

    A warp draws literal `part` of 32 listed words at a time. A variable of two clauses is drawn
    twice, but both draws give the same bits.
    """
    warp, warps = int32(w.me // WARP), int32(w.size // WARP)
    queue = pinned(w.queues[SHORT * warp :])
    items = pinned(w.lists[SHORT * (2 * warps + warp) :])
    waiting, first, part = int32(0), int32(0), warp
    while first < count or waiting > 0:
        while part >= p.longest:
            part, first = int32(part - p.longest), int32(first + WARP)
        if first < count:
            item, lanes = int32(0), ZERO
            q = int32(first + w.rank)
            if q < count:
                at = int32(peek(w.lists, int32(w.listed + q)))
                start, number = literals(p, w, int32(at >> 1))
                k = int32(part >> 1 if len(w.narrow) else part)
                if len(w.narrow) > 1 or k < number:
                    lanes = peek(w.bad, at)
                    word = peek(w.clauses, int32(start + 32 * k))
                    item = int32(2 * variable(w, word, part & 1) + (at & 1))
            part = int32(part + warps)
            lanes = _draw(w, round, item, int32(0), lanes, h, False, False)
            if len(h) > 1:
                sync_warp()
                waiting = push(w, queue, items, item, lanes, int32(len(h)), waiting)
        if len(h) > 1 and (waiting >= WARP or (waiting > 0 and first >= count)):
            waiting = _finish(w, queue, items, round, waiting, h, False)
