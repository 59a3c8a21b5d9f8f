"""A team of threads on the GPU: what it works on, its random numbers, its queue, its cells.

`bernoulli.draw` and the functions of `rng` are those of the CPU kernel and the reference, compiled
for this target.
"""

from typing import Any, NamedTuple

import numpy as np

from nelson.kernels.core import bernoulli, rng
from nelson.kernels.cuda.setup import (
    WARP,
    ballot,
    below,
    device,
    multiply_add,
    on_device,
    peek,
    poke,
    popcount,
    sign,
    sync_warp,
)

#: Entries of a warp's queue: fewer than a warp wait when two words of each thread come.
QUEUE = 3 * WARP - 1
#: Those of a shorter one, for passes in which one word of each thread comes.
SHORT = 2 * WARP - 1
#: Cells of a team, each for two turns: words of clauses listed, lanes violated; lengths of lists
#: of events and of items that changed.
CELLS = 8
HITS, LANES, EVENTS, CHANGED = 0, 2, 4, 6
#: 64-bit cells for each word of a team: its two keys, the lanes wanted, the lanes found bad.
WORD_CELLS = 4
WANTED, BAD = 2, 3
#: What a launch counts: rounds of the slowest sample, constraints resampled, lanes not valid.
COUNTS = 3

#: What a pass does: draw all variables; redraw those of violated clauses, at once, (few of them)
#: through the queue, or those listed; redraw where a mask says so; sweep. And over clauses: all, or
#: those as given.
INIT, VIOLATED, FEW, LISTED, MASKED, SWEEP = range(6)
ALL, GIVEN = range(2)

int32 = np.int32
ZERO, ONE, EVERY = np.uint64(0), np.uint64(1), ~np.uint64(0)
BIT = np.uint32(1)
HALF = np.uint32(1 << 31)


class Job(NamedTuple):
    """What one launch draws: tiles first .. first + tiles - 1; a tile is what a team draws."""

    seed: np.uint64
    method: np.int32
    max_rounds: np.int32
    sweeps: np.int32
    first: np.int64
    tiles: np.int64
    per_context: np.int64  # words a context
    first_word: np.int64  # number of the first of them
    samples: np.int64  # a context, from first_word on
    team: np.int32  # threads a team
    stride64: np.int32  # shared words of 64 and of 32 bits that a team has
    stride32: np.int32
    queues: np.int32  # where the queues begin among the former
    state64: np.int64  # those of the state, in shared or global memory
    state32: np.int64
    few: np.int32  # events with which the last rounds begin
    capacity: np.int32  # events of a list, and items that changed
    room: np.int32
    listed: np.int32  # where the list of violated words begins among the lists, and its length
    listed_room: np.int32


class Team(NamedTuple):
    """What a team works on. A pair is two words of 64 samples."""

    log_copies: Any  # a tuple: its length is a constant for the compiler
    narrow: Any  # likewise: 0, or 1 if two entries share a word, + literals of a clause if known
    clauses: Any  # the entries and numbers that every round reads, in shared memory if they fit:
    words: Any  # those of clauses, all others
    ints: Any
    far_words: Any  # all of them
    far_ints: Any
    law: Any  # of this context: 2^32 * threshold + 32 * name of each variable
    x: Any  # n pairs: the state
    x32: Any  # the same, in 32-bit words
    bad: Any  # L + 2 pairs: lanes a clause is violated in, none of them, all of them; prs: then n,
    # lanes to draw a variable in
    bad32: Any
    lists: Any  # events, now and next, and items that changed (`cuda_late.py`)
    queues: Any  # of all warps, where the lists of the last rounds lie later
    queue: Any  # of this warp: lanes,
    items: Any  # and 32 * (2 * variable + half of the pair) + random rows used
    cells: Any
    word_cells: Any
    capacity: np.int32
    room: np.int32
    listed: np.int32
    listed_room: np.int32
    size: np.int32
    which: np.int32
    me: np.int32
    lane: np.int32


class Digits(NamedTuple):
    """The law of one variable: digits of p from the first one not used, and their changes."""

    p: np.uint32
    t: np.uint32


# --- random numbers: the functions of the CPU kernel and the reference, for this target ----------


@device
def _flips(tag, law, at, k):
    return sign(np.uint32(law.t << np.uint32(k)))


@device
def _unfinished(tag, law, at, h):
    return EVERY if np.uint32(law.p << np.uint32(h)) != np.uint32(0) else ZERO


@device
def _multiply(y):
    return multiply_add(y, rng.MULTIPLIER, ZERO)


scramble = on_device(rng.scramble, multiply=_multiply)
keys = on_device(rng.keys, scramble=scramble)
bernoulli_draw = on_device(bernoulli.draw, scramble=scramble, flips=_flips, unfinished=_unfinished)


@device
def law_of(w, v, k, h):
    """Digits of variable v from digit k on, and where its random rows are: 32 * name + k."""
    law = peek(w.law, int32(v >> len(w.log_copies)))
    digits = HALF  # one row: every probability is 1/2
    if len(h) > 1:
        digits = np.uint32(np.uint32(law >> np.uint64(32)) << np.uint32(k))
    return digits, np.uint32(law) | np.uint32(k)


@device
def start_of(round, place, key0):
    """key0 + rng.counter(round, name, k)."""
    position = (np.uint64(round) << np.uint64(37)) | np.uint64(place)
    return multiply_add(position, rng.GOLDEN, key0)


@device
def draw_rows(digits, start, key1, lanes, h):
    """(undecided, value) of one word after len(h) random rows."""
    law = Digits(digits, np.uint32(digits ^ (digits >> BIT)))
    return bernoulli_draw(0, law, 0, start, key1, lanes, len(h))


@device
def draw_more_rows(digits, start, key1, left, value, h):
    """len(h) rows after the first len(h)."""
    digits = np.uint32(digits << np.uint32(len(h)))
    left, more = draw_rows(digits, start + np.uint64(len(h)) * rng.GOLDEN, key1, left, h)
    return left, value | more


# --- the queue of a warp -------------------------------------------------------------------------


@device
def push(w, queue, items, item, lanes, k, waiting):
    """Queue (2 v + half, lanes, rows used) where there are lanes. -> how many are waiting now."""
    mask = ballot(lanes != ZERO)
    if lanes != ZERO:
        at = int32(waiting + popcount(mask & below(w.lane)))
        poke(queue, at, lanes)
        poke(items, at, np.uint32(item * 32 + k))
    sync_warp()
    return int32(waiting + popcount(mask))


@device
def push_pair(w, v, first, second, k, waiting):
    """Queue both words of a variable."""
    mask, mask_too = ballot(first != ZERO), ballot(second != ZERO)
    before = below(w.lane)
    at = int32(waiting + popcount(mask & before) + popcount(mask_too & before))
    entry = np.uint32(v * 64 + k)
    if first != ZERO:
        poke(w.queue, at, first)
        poke(w.items, at, entry)
        at = int32(at + 1)
    if second != ZERO:
        poke(w.queue, at, second)
        poke(w.items, at, np.uint32(entry + np.uint32(32)))
    sync_warp()
    return int32(waiting + popcount(mask) + popcount(mask_too))


# --- cells ---------------------------------------------------------------------------------------


@device
def set_cell(w, cell, value):
    if w.me == 0:
        poke(w.cells, cell, np.uint32(value))


@device
def cell_of(w, cell):
    return int32(peek(w.cells, cell))
