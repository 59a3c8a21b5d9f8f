"""A team of threads on the GPU: its data, its random numbers, its queues, its cells.

`bernoulli.draw` and the functions of `rng` are shared with the CPU kernel and the reference, and
compiled for the GPU here.
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

#: Entries of the queue of a warp: fewer than a warp are waiting when each thread adds two words.
QUEUE = 3 * WARP - 1
#: Entries of the queue in passes in which each thread adds one word.
SHORT = 2 * WARP - 1
#: 32-bit cells of a team.
CELLS = 8
#: The cells, each for two turns: words of clauses listed, lanes violated, events, changed items.
HITS, LANES, EVENTS, CHANGED = range(0, CELLS, 2)
#: 64-bit cells for each word of a team: its two keys, the lanes wanted, the lanes found invalid.
WORD_CELLS = 4
WANTED, BAD = range(2, WORD_CELLS)
#: Numbers that a launch returns: rounds of the slowest sample, clauses resampled, invalid lanes.
COUNTS = 3

#: Kinds of passes: draw all variables; redraw the variables of violated clauses, at once; the same
#: through the queue, if they are few; the same from the list; redraw under masks (prs); sweep.
INIT, VIOLATED, FEW, LISTED, MASKED, SWEEP = range(6)
#: Clauses to check: all clauses that are resampled, or the clauses as given.
ALL, GIVEN = range(2)

int32 = np.int32
ZERO, ONE, EVERY = np.uint64(0), np.uint64(1), ~np.uint64(0)
BIT = np.uint32(1)
HALF = np.uint32(1 << 31)


class TeamJob(NamedTuple):
    """What one launch draws: tiles first .. first + tiles - 1. A team draws a tile."""

    seed: np.uint64
    method: np.int32
    max_rounds: np.int32
    sweeps: np.int32
    first: np.int64
    tiles: np.int64
    per_context: np.int64  # words of a context
    first_word: np.int64  # number of the first of these words
    samples: np.int64  # samples of a context, from first_word on
    team: np.int32  # threads of a team
    stride64: np.int32  # 64-bit words of a team in shared memory
    stride32: np.int32  # 32-bit words of a team in shared memory
    queues: np.int32  # place of the queues among the 64-bit words
    state64: np.int64  # 64-bit words of the state, in shared or global memory
    state32: np.int64  # 32-bit words of the state
    few: np.int32  # rounds by events begin at this many events
    capacity: np.int32  # most events of a list
    room: np.int32  # most changed items of a list
    listed: np.int32  # place of the list of violated words in `lists`
    listed_room: np.int32  # most entries of that list


class Team(NamedTuple):
    """The data of a team. A pair is two words of 64 samples.

    Arrays that every round reads are in shared memory if they fit; the same arrays with `far_` are
    complete and in global memory.
    """

    log_copies: Any  # a tuple: its length is a constant for the compiler
    narrow: Any  # likewise: 0; or 1 if two entries share a word, + length of clauses if all equal
    clauses: Any  # words of the clauses
    words: Any  # words of all other slices
    ints: Any
    far_words: Any
    far_ints: Any
    law: Any  # for each variable of this context: 2^32 * threshold + 32 * name
    x: Any  # n pairs: the assignments
    x32: Any  # the same in 32-bit words
    bad: Any  # L + 2 pairs: violated lanes of each clause, then no lane, then all lanes;
    # for prs then n pairs: lanes in which each variable is redrawn
    bad32: Any  # the same in 32-bit words
    lists: Any  # events of this and of the next round, and changed items (`sparse_rounds.py`)
    queues: Any  # of all warps; the lists of the last rounds lie here too
    queue: Any  # of this warp: lanes
    items: Any  # of this warp: 32 * (2 * variable + half of the pair) + random rows used
    cells: Any
    word_cells: Any
    capacity: np.int32
    room: np.int32
    listed: np.int32
    listed_room: np.int32
    size: np.int32  # threads of the team
    which: np.int32  # number of the team in its block
    me: np.int32  # number of the thread in its team
    rank: np.int32  # number of the thread in its warp


class Digits(NamedTuple):
    """P(x_v = 1) of one variable: binary digits from the first unused one, and their changes."""

    p: np.uint32
    t: np.uint32


# --- random numbers ------------------------------------------------------------------------------


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
class_order = on_device(
    rng.class_order,
    cyclic_order=on_device(
        rng.cyclic_order, keys=keys, scramble=scramble, counter=on_device(rng.counter)
    ),
)
bernoulli_draw = on_device(bernoulli.draw, scramble=scramble, flips=_flips, unfinished=_unfinished)


@device
def law_of(w, v, k, h):
    """(digits of variable v from digit k on, place of its random rows: 32 * name + k)."""
    law = peek(w.law, int32(v >> len(w.log_copies)))
    digits = HALF  # with one random row, every probability is 1/2
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
    """The same after len(h) further random rows."""
    digits = np.uint32(digits << np.uint32(len(h)))
    left, more = draw_rows(digits, start + np.uint64(len(h)) * rng.GOLDEN, key1, left, h)
    return left, value | more


# --- the queue of a warp -------------------------------------------------------------------------


@device
def push(w, queue, items, item, lanes, k, waiting):
    """Each thread with undecided lanes queues its word: item 2 v + half, lanes, k rows used.

    -> words that are waiting
    """
    mask = ballot(lanes != ZERO)
    if lanes != ZERO:
        at = int32(waiting + popcount(mask & below(w.rank)))
        poke(queue, at, lanes)
        poke(items, at, np.uint32(item * 32 + k))
    sync_warp()
    return int32(waiting + popcount(mask))


@device
def push_pair(w, v, first, second, k, waiting):
    """As `push`, for both words of variable v."""
    mask, mask_too = ballot(first != ZERO), ballot(second != ZERO)
    before = below(w.rank)
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


@device
def lanes_wanted(left):
    """The lanes wanted of a word, if `left` samples are wanted from this word on."""
    if left <= 0:
        return ZERO
    return EVERY if left >= 64 else (ONE << np.uint64(left)) - ONE


@device
def copy_array(to, source, count, first, step):
    """Copy the entries first, first + step, .. below `count`."""
    i = first
    while i < count:
        poke(to, i, peek(source, i))
        i = int32(i + step)
