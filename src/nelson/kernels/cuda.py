"""The GPU kernel: a team of threads draws 128 samples, bit-sliced, in shared memory if they fit.

A *team* (one warp, or a whole block for large formulas) draws a pair of words of 64 samples, or
several pairs of a small formula: a variable is two 64-bit words, bit k of the first is sample k;
threads take variables or clauses side by side. All else is as on the CPU (`rounds.py`, `sweep.py`),
and so are the bits: they depend on (seed, context, word, variable, round, bit) alone.

What makes it fast:

* Random rows are what costs. A thread with one lane still undecided would keep 31 others waiting;
  so a draw takes a few rows, and what is left goes to a queue of the warp, from which 32 are taken
  at a time. Resampling goes through the same queue: however few variables a round touches, random
  rows are computed by full warps.
* The first rounds check every clause and let every variable gather the masks of its clauses. Once
  few clauses are violated a round is a list: clauses to look at, and the variables they touch.
* Literals lie in slices of 32 (`cuda_program.py`), two to a word: a warp reads its indices as whole
  lines, and each is an address already, of two words of samples.

Arithmetic on indices is cut to 32 bits (`int32(..)`), which Numba does not do by itself. Numba's
simulator runs the same code, with warps of one thread.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types

from nelson.kernels import bernoulli, rng
from nelson.kernels.cuda_setup import (
    WARP,
    ballot,
    below,
    device,
    kernel,
    load2,
    negated,
    on_device,
    peek,
    peek2,
    poke,
    poke2,
    popcount,
    sync,
    sync_warp,
)
from nelson.kernels.reference import PRS
from nelson.kernels.rng import SWEEP_ROUND

#: Entries of a warp's queue: fewer than a warp wait when two words of each thread come.
QUEUE = 3 * WARP + WARP % 2
#: Cells of a team: clauses hit and lanes of them, clauses listed now and for the next round,
#: variables touched.
CELLS = 5
_HITS, _LANES, _NOW, _NEXT, _TOUCHED = range(5)
#: 64-bit cells for each word of a team: its two keys, the lanes wanted, the lanes found bad.
WORD_CELLS = 4
_WANTED, _BAD = 2, 3
#: A round is a list once fewer than one clause in so many is violated.
LISTED = 10
#: A round redraws all variables, touched or not, while more than one clause in so many is violated.
DIRECT_SHARE = 4
#: What a launch counts: rounds of the slowest sample, constraints resampled, lanes not valid.
COUNTS = 3

#: What a pass over variables does: draw all; redraw where clauses are violated, at once or by the
#: queue; redraw where a mask says so; sweep. And over clauses: all, the listed, those as given.
INIT, DIRECT, GATHER, MASKED, SWEEP = range(5)
ALL, LIST, GIVEN = range(3)

int32 = np.int32
_0, _1, _ALL = np.uint64(0), np.uint64(1), ~np.uint64(0)
_BIT = np.uint32(1)


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
    state64: np.int64  # those of the state, in shared or global memory
    state32: np.int64
    capacity: np.int32  # entries of a list


class Team(NamedTuple):
    """What a team works on. A pair is two words of 64 samples."""

    log_copies: Any  # a tuple: its length is a constant for the compiler
    narrow: Any  # likewise: 1 if two entries share a word
    words: Any  # the entries and numbers that every round reads, in shared memory if they fit
    ints: Any
    far_words: Any  # all of them
    far_ints: Any
    thr: Any  # of this context
    x: Any  # n pairs: the state
    bad: Any  # L + 1 pairs: lanes a clause is violated in; or n: lanes a variable is resampled in;
    bad32: (
        Any  # the same, in 32-bit words; prs: then n pairs more, lanes a variable is resampled in
    )
    mask: np.int32  # where those begin
    dirty: Any  # a bit a clause: is it on the next list
    lists: Any  # clauses to check now, and next; variables touched
    queue: Any  # of this warp: lanes,
    items: Any  # and 32 * (2 * variable + half of the pair) + random rows used
    cells: Any
    word_cells: Any
    capacity: np.int32
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
    return _ALL if (law.t >> np.uint32(31 - k)) & _BIT else _0


@device
def _unfinished(tag, law, at, h):
    return _ALL if np.uint32(law.p << np.uint32(h)) != np.uint32(0) else _0


scramble = on_device(rng.scramble)
counter = on_device(rng.counter)
keys = on_device(rng.keys, scramble=scramble)
bernoulli_draw = on_device(bernoulli.draw, scramble=scramble, flips=_flips, unfinished=_unfinished)


@device
def _law(p, w, round, v, k):
    """Digits of variable v from digit k on, and where its random rows start but for the key."""
    own = int32(v >> len(w.log_copies))
    digits = np.uint32(peek(w.thr, own) << np.uint32(k))
    return digits, counter(round, peek(w.ints, int32(p.name + own)), k)


@device
def _rows(digits, start, key1, lanes, h):
    """(undecided, value) of one word after len(h) random rows."""
    law = Digits(digits, np.uint32(digits ^ (digits >> _BIT)))
    return bernoulli_draw(0, law, 0, start, key1, lanes, len(h))


@device
def _more_rows(digits, start, key1, left, value, h):
    """len(h) rows after the first len(h)."""
    digits = np.uint32(digits << np.uint32(len(h)))
    left, more = _rows(digits, start + np.uint64(len(h)) * rng.GOLDEN, key1, left, h)
    return left, value | more


# --- the queue of a warp -------------------------------------------------------------------------


@device
def _put(w, flag, at, item, lanes, k):
    if flag:
        poke(w.queue, at, lanes)
        poke(w.items, at, np.uint32(item * 32 + k))


@device
def _push(w, item, lanes, k, waiting):
    """Queue (2 v + half, lanes, rows used) where there are lanes. -> how many are waiting now."""
    mask = ballot(lanes != _0)
    _put(w, lanes != _0, int32(waiting + popcount(mask & below(w.lane))), item, lanes, k)
    sync_warp()
    return int32(waiting + popcount(mask))


@device
def _push_pair(w, v, first, second, k, waiting):
    """Queue both words of a variable."""
    mask, mask_too = ballot(first != _0), ballot(second != _0)
    before = below(w.lane)
    middle = int32(waiting + popcount(mask))
    _put(w, first != _0, int32(waiting + popcount(mask & before)), int32(2 * v), first, k)
    at = int32(middle + popcount(mask_too & before))
    _put(w, second != _0, at, int32(2 * v + 1), second, k)
    sync_warp()
    return int32(middle + popcount(mask_too))


@device
def _take(p, w, round, waiting, h, tail, mark, after):
    """A few random rows for up to a warp of the words waiting; -> how many are left. tail: none."""
    taken = int32(min(waiting, WARP))
    waiting = int32(waiting - taken)
    item, k, lanes, digits = int32(0), int32(0), _0, np.uint32(0)
    start, key1 = _0, _0
    if w.lane < taken:
        at = int32(waiting + w.lane)
        entry = int32(peek(w.items, at))
        lanes = peek(w.queue, at)
        item, k = int32(entry >> 5), int32(entry & 31)
        digits, start = _law(p, w, round, int32(item >> 1), k)
        word = int32(item & ((2 << len(w.log_copies)) - 1))
        key0, key1 = peek2(w.word_cells, int32(word * WORD_CELLS // 2))
        start += key0
    going = True
    while going:
        if lanes != _0:
            left, value = _rows(digits, start, key1, lanes, h)
            old = peek(w.x, item)
            new = (old & ~(lanes & ~left)) | value
            poke(w.x, item, new)
            if mark:
                _mark_turned(p, w, int32(item >> 1), old & ~new, new & ~old, after)
            lanes = left
        digits = np.uint32(digits << np.uint32(len(h)))
        start += np.uint64(len(h)) * rng.GOLDEN
        k = int32(k + len(h))
        going = tail and ballot(lanes != _0) != 0
    sync_warp()
    return waiting if tail else _push(w, item, lanes, k, waiting)


# --- clauses -------------------------------------------------------------------------------------


@device
def _slice(ints, start, member):
    """(first, end) of the entries of one member."""
    s = int32(start + (member >> 5))
    return int32(peek(ints, s) + (member & 31)), peek(ints, int32(s + 1))


@device
def _and_false(w, code, first, second):
    """The lanes of a pair in which the literal is false."""
    x, y = load2(w.x, code)
    flip = negated(code)
    return first & (x ^ flip), second & (y ^ flip)


@device
def _halves(word):
    return np.uint32(word & np.uint32(0xFFFF)), np.uint32(word >> np.uint32(16))


@device
def _violated(w, words, at, end, first, second):
    """Lanes (of those given) in which every literal of a clause is false."""
    while at < end:
        code = peek(words, at)
        at = int32(at + 32)
        if len(w.narrow):
            code, other = _halves(code)
            first, second = _and_false(w, other, first, second)
        first, second = _and_false(w, code, first, second)
    return first, second


@device
def _gather(p, w, v):
    """Lanes in which a clause of v is to be resampled."""
    at, end = _slice(w.ints, p.occ, v)
    first, second = _0, _0
    while at < end:
        code = peek(w.words, at)
        at = int32(at + 32)
        if len(w.narrow):
            code, other = _halves(code)
            x, y = load2(w.bad, other)
            first, second = first | x, second | y
        x, y = load2(w.bad, code)
        first, second = first | x, second | y
    return first, second


@device
def _append(w, cell, first, entry):
    at = int32(cuda.atomic.add(w.cells, cell, _BIT))
    if at < w.capacity:
        poke(w.lists, int32(first + at), np.uint32(entry))


@device
def _mark(w, j, after):
    """Put clause j on a list, once."""
    bit = np.uint32(_BIT << np.uint32(j & 31))
    if cuda.atomic.or_(w.dirty, int32(j >> 5), bit) & bit == 0:
        _append(w, _NEXT, after, j)


@device
def _mark_if(p, w, code, down, up, after):
    gone = down if code & 1 else up
    j = int32(code >> 4)
    if gone != _0 and j < p.n_clauses:
        _mark(w, j, after)


@device
def _mark_turned(p, w, v, down, up, after):
    """List the clauses in which a literal of v, which went up or down in some lanes, turned false
    in one.
    """
    if (down | up) != _0:
        at, end = _slice(w.ints, p.occ, v)
        while at < end:
            code = peek(w.words, at)
            at = int32(at + 32)
            if len(w.narrow):
                code, other = _halves(code)
                _mark_if(p, w, other, down, up, after)
            _mark_if(p, w, code, down, up, after)


@device
def _spread_word(w, at, lanes):
    """OR into a 64-bit word by halves: for 64 bits at once the card has no instruction."""
    low, high = np.uint32(lanes & np.uint64(0xFFFFFFFF)), np.uint32(lanes >> np.uint64(32))
    old = cuda.atomic.or_(w.bad32, int32(2 * at), low)
    return old | cuda.atomic.or_(w.bad32, int32(2 * at + 1), high)


@device
def _spread(w, code, first, second):
    """Add a clause's lanes to those of one of its variables, and list that.

    Two threads may both find it not listed and list it twice: then it is drawn twice, with the same
    random numbers, to the same value.
    """
    v = int32(code >> 4)
    old = _spread_word(w, int32(2 * v), first) | _spread_word(w, int32(2 * v + 1), second)
    if old == 0:
        _append(w, _TOUCHED, int32(2 * w.capacity), v)


@device
def _set_cell(w, cell, value):
    if w.me == 0:
        poke(w.cells, cell, np.uint32(value))


@device
def _cell(w, cell):
    return int32(peek(w.cells, cell))


# --- passes --------------------------------------------------------------------------------------


@device
def _check(p, w, mode, now, after):
    """Look at clauses; count hits and lanes in the cells.

    ALL     every clause: its lanes to bad[j]
    LIST    the listed: violated ones stay listed and spread their lanes to their variables
    GIVEN   the clauses as given: bad lanes to the cells of their words
    """
    hits, lanes, q = int32(0), int32(0), w.me
    count = p.n_clauses if mode == ALL else (_cell(w, _NOW) if mode == LIST else p.n_checks)
    while q < count:
        j = int32(peek(w.lists, int32(now + q))) if mode == LIST else q
        at_wanted = int32((j & ((1 << len(w.log_copies)) - 1)) * 2 * WORD_CELLS + _WANTED)
        first = peek(w.word_cells, at_wanted)
        second = peek(w.word_cells, int32(at_wanted + WORD_CELLS))
        if mode == GIVEN and p.far_checks:
            at, end = _slice(w.far_ints, p.check, j)
            first, second = _violated(w, w.far_words, at, end, first, second)
        else:
            at, end = _slice(w.ints, p.clause, j)
            first, second = _violated(w, w.words, at, end, first, second)
        if mode == ALL:
            poke2(w.bad, j, first, second)
        if (first | second) != _0:
            hits = int32(hits + 1)
            lanes = int32(lanes + popcount(first) + popcount(second))
            if mode == LIST:
                _append(w, _NEXT, after, j)
                while at < end:
                    code = peek(w.words, at)
                    at = int32(at + 32)
                    if len(w.narrow):
                        code, other = _halves(code)
                        _spread(w, other, first, second)
                    _spread(w, code, first, second)
            elif mode == GIVEN:
                at_bad = int32(at_wanted + _BAD - _WANTED)
                cuda.atomic.or_(w.word_cells, at_bad, first)
                cuda.atomic.or_(w.word_cells, int32(at_bad + WORD_CELLS), second)
        elif mode == LIST:
            cuda.atomic.and_(w.dirty, int32(j >> 5), np.uint32(~(_BIT << np.uint32(j & 31))))
        q = int32(q + w.size)
    if hits:
        cuda.atomic.add(w.cells, _HITS, np.uint32(hits))
        cuda.atomic.add(w.cells, _LANES, np.uint32(lanes))


@device
def _look_without(w, code, stuck, stuck_too, bad, bad_too):
    bad, bad_too = _and_false(w, code, bad, bad_too)
    if code & 2:
        stuck, stuck_too = stuck | bad, stuck_too | bad_too
        bad, bad_too = _ALL, _ALL
    return stuck, stuck_too, bad, bad_too


@device
def _stuck(p, w, i):
    """Lanes in which some clause of the variable at position i does not hold without it."""
    at, end = _slice(w.ints, p.sweep, i)
    stuck, stuck_too, bad, bad_too = _0, _0, _ALL, _ALL
    while at < end:
        code = peek(w.words, at)
        at = int32(at + 32)
        if len(w.narrow):
            now, code = _halves(code)
            stuck, stuck_too, bad, bad_too = _look_without(w, now, stuck, stuck_too, bad, bad_too)
        stuck, stuck_too, bad, bad_too = _look_without(w, code, stuck, stuck_too, bad, bad_too)
    return stuck, stuck_too


@device
def _lanes_of(p, w, kind, i, mask, listed, moved):
    """(variable, lanes to draw it in) at position i of a pass."""
    v, first, second = i, _ALL, _ALL
    if kind in (DIRECT, GATHER):
        first, second = _gather(p, w, v)
    elif kind == MASKED:
        if listed:
            v = int32(peek(w.lists, int32(2 * w.capacity + i)))
        first, second = peek2(w.bad, int32(mask + v))
        poke2(w.bad, int32(mask + v), _0, _0)
    elif kind == SWEEP:
        v = peek(w.ints, int32(p.order + i))
        if v < 0:  # padding
            first, second = _0, _0
        else:
            stuck, stuck_too = _stuck(p, w, i)
            first, second = ~stuck, ~stuck_too
            at = int32((v & ((1 << len(w.log_copies)) - 1)) * 2 * WORD_CELLS + _WANTED)
            free = peek(w.word_cells, at) & first
            free |= peek(w.word_cells, int32(at + WORD_CELLS)) & second
            own = int32(v >> len(w.log_copies))
            if free != _0 and peek(moved, own) == 0:  # all blocks write here: as seldom as can be
                poke(moved, own, np.uint8(1))
    return v, first, second


@device
def _pass(p, w, kind, round, begin, end, h, mask, listed, mark, after, moved):
    """Draw variables, each in its lanes. The one place where random numbers are made.

    Where most variables have lanes, rows are drawn at once for both words, and what is undecided
    waits in the queue; else all of it waits.
    """
    direct = kind in (INIT, DIRECT, SWEEP)
    waiting, first = int32(0), begin
    while first < end or waiting > 0:
        tail = first >= end
        i = int32(first + w.me)
        first = int32(first + w.size)
        v, left, left_too, used = i, _0, _0, int32(0)
        if i < end:
            v, left, left_too = _lanes_of(p, w, kind, i, mask, listed, moved)
            if direct and left | left_too != _0:
                lanes, lanes_too = left, left_too
                used = int32(len(h))
                digits, start = _law(p, w, round, v, 0)
                at = int32((v & ((1 << len(w.log_copies)) - 1)) * WORD_CELLS)
                key0, key1 = peek2(w.word_cells, at)
                key0_too, key1_too = peek2(w.word_cells, int32(at + WORD_CELLS // 2))
                key0, key0_too = key0 + start, key0_too + start
                left, value = _rows(digits, key0, key1, left, h)
                left_too, value_too = _rows(digits, key0_too, key1_too, left_too, h)
                if kind != DIRECT:
                    used = int32(2 * len(h))
                    left, value = _more_rows(digits, key0, key1, left, value, h)
                    left_too, value_too = _more_rows(
                        digits, key0_too, key1_too, left_too, value_too, h
                    )
                x, y = peek2(w.x, v)
                x = (x & ~(lanes & ~left)) | value
                poke2(w.x, v, x, (y & ~(lanes_too & ~left_too)) | value_too)
        if not tail:
            waiting = _push_pair(w, v, left, left_too, used, waiting)
        while waiting >= (1 if tail else WARP):
            waiting = _take(p, w, round, waiting, h, tail, mark, after)


# --- rounds --------------------------------------------------------------------------------------


@device
def _clear_flags(p, w):
    """No clause is listed, and the one that pads lists of clauses is never violated."""
    q = w.me
    while 32 * q < p.n_clauses:
        poke(w.dirty, q, np.uint32(0))
        q = int32(q + w.size)
    if w.me == 0:
        poke2(w.bad, p.n_clauses, _0, _0)


@device
def _look(mask, false, meets, inside, holds):
    return meets | mask, inside & mask, holds | (mask & ~false)


@device
def _grown(p, w):
    """prs: add to the resample set, all at once, each clause that meets it and does not hold
    inside it. Clauses and lanes are counted in the cells.
    """
    added, lanes, j = int32(0), int32(0), w.me
    while j < p.n_clauses:
        meets, inside, holds = _0, _ALL, _0
        meets_too, inside_too, holds_too = _0, _ALL, _0
        at, end = _slice(w.ints, p.clause, j)
        while at < end:
            pair = peek(w.words, at)
            at = int32(at + 32)
            k = 0
            while k < 1 + len(w.narrow):
                code = _halves(pair)[k] if len(w.narrow) else pair
                mask, mask_too = load2(w.bad, np.uint32(code + 16 * w.mask))
                false, false_too = load2(w.x, code)
                flip = negated(code)
                meets, inside, holds = _look(mask, false ^ flip, meets, inside, holds)
                meets_too, inside_too, holds_too = _look(
                    mask_too, false_too ^ flip, meets_too, inside_too, holds_too
                )
                k += 1
        add, add_too = meets & ~inside & ~holds, meets_too & ~inside_too & ~holds_too
        if (add | add_too) != _0:
            first, second = peek2(w.bad, j)
            poke2(w.bad, j, first | add, second | add_too)
            added = int32(added + 1)
            lanes = int32(lanes + popcount(add) + popcount(add_too))
        j = int32(j + w.size)
    if added:
        cuda.atomic.add(w.cells, _HITS, np.uint32(added))
        cuda.atomic.add(w.cells, _LANES, np.uint32(lanes))


@device
def _grow(p, w):
    """prs: the resample set to mask. -> lanes added."""
    resampled, hits = 0, int32(1)
    while hits > 0:
        v = w.me
        while v < p.n:
            first, second = _gather(p, w, v)
            poke2(w.bad, int32(w.mask + v), first, second)
            v = int32(v + w.size)
        _set_cell(w, _HITS, 0)
        _set_cell(w, _LANES, 0)
        sync(w.size, w.which)
        _grown(p, w)
        sync(w.size, w.which)
        hits = _cell(w, _HITS)
        resampled += _cell(w, _LANES)
        sync(w.size, w.which)
    return resampled


@device
def _fix(p, w):
    """Fixed variables have their value."""
    q = w.me
    while q < p.n_fixed:
        code = peek(w.far_ints, int32(p.fixed + q))
        poke2(w.x, int32(code >> 1), negated(code), negated(code))
        q = int32(q + w.size)
    sync(w.size, w.which)


@device
def _begin_list(p, w, after):
    """List the violated clauses."""
    j = w.me
    while j < p.n_clauses:
        first, second = peek2(w.bad, j)
        if (first | second) != _0:
            _mark(w, j, after)
        j = int32(j + w.size)


@device
def _clear_masks(p, w):
    """From here on `bad` belongs to variables, not to clauses."""
    v = w.me
    while v < p.n:
        poke2(w.bad, v, _0, _0)
        v = int32(v + w.size)


@device
def _next_round(w, count):
    _set_cell(w, _HITS, 0)
    _set_cell(w, _LANES, 0)
    _set_cell(w, _NOW, count)
    _set_cell(w, _NEXT, 0)
    _set_cell(w, _TOUCHED, 0)
    sync(w.size, w.which)


@device
def _run(p, w, method, max_rounds, sweeps, h, moved):
    """Draw, resample until no lane is violated, sweep. -> (rounds, lanes resampled).

    One loop around one pass, so that its code is there once and stays in the instruction cache.
    """
    kind, round, begin, end, mask = int32(INIT), int32(0), int32(0), p.n, int32(0)
    rounds, resampled, sweeping = int32(0), 0, False
    listed, short = False, False  # clauses to check are listed; the variables touched are
    now, after = int32(0), w.capacity
    c, k = int32(0), int32(0)
    while True:
        _pass(p, w, kind, round, begin, end, h, mask, short, listed, after, moved)
        sync(w.size, w.which)
        if not sweeping:
            if kind == INIT:
                _fix(p, w)
            count = int32(0)
            if listed:
                if kind != MASKED:
                    _clear_masks(p, w)
                count = _cell(w, _NEXT)
                now, after = after, now
                if count > w.capacity:  # too many for a list: look at every clause again
                    listed = False
                    _clear_flags(p, w)
                sync(w.size, w.which)
            _next_round(w, count)
            _check(p, w, LIST if listed else ALL, now, after)
            sync(w.size, w.which)
            hits = _cell(w, _HITS)
            if hits == 0 or rounds == max_rounds:
                sweeping = True
                round = int32(SWEEP_ROUND)
            else:
                rounds = int32(rounds + 1)
                round = rounds
                resampled += _cell(w, _LANES)
                if method == PRS:
                    sync(w.size, w.which)
                    resampled += _grow(p, w)
                    kind, mask = int32(MASKED), w.mask
                elif listed:
                    kind, end = int32(MASKED), _cell(w, _TOUCHED)
                    short = end <= w.capacity
                    end = end if short else p.n
                elif hits * LISTED < p.n_clauses:
                    listed, kind, end = True, int32(GATHER), p.n
                    _begin_list(p, w, after)
                else:
                    kind = int32(DIRECT if hits * DIRECT_SHARE > p.n_clauses else GATHER)
                    end = p.n
        if sweeping:
            kind, listed = int32(SWEEP), False
            if c == p.n_classes:
                c, k, round = int32(0), int32(k + 1), int32(round + 1)
            if k >= sweeps or p.n_classes == 0:
                return rounds, resampled
            begin = int32(peek(w.ints, int32(p.classes + c)) * 32)
            c = int32(c + 1)
            end = int32(peek(w.ints, int32(p.classes + c)) * 32)


# --- the whole -----------------------------------------------------------------------------------


@device
def _lanes_wanted(left):
    """The lanes of a word of which `left` samples are wanted."""
    if left <= 0:
        return _0
    return _ALL if left >= 64 else (_1 << np.uint64(left)) - _1


@device
def _hand_out(p, w, row, rows, packed, valid, counts):
    """Check the clauses as given, and write the words: `rows` of them, from row `row` on."""
    columns = int32(p.n_columns >> (1 + len(w.log_copies)))
    c, last = w.me, int32(columns * rows)
    while c < last:
        poke(packed, row * columns + c, peek(w.x, peek(w.far_ints, int32(p.columns + c))))
        c = int32(c + w.size)
    _check(p, w, GIVEN, 0, 0)
    sync(w.size, w.which)
    r = w.me
    while r < rows:
        wanted, bad = peek2(w.word_cells, int32(r * WORD_CELLS // 2 + 1))
        poke(valid, row + r, wanted & ~bad)
        if bad != _0:
            cuda.atomic.add(counts, 2, np.int64(popcount(bad)))
        r = int32(r + w.size)


@kernel
def draw_words(
    h,
    shared,
    near,
    log_copies,
    narrow,
    p,
    job,
    words,
    ints,
    thr,
    contexts,
    g64,
    g64_halves,
    g32,
    packed,
    valid,
    counts,
    moved,
):
    """One team a tile. The lengths of the first five arguments are constants for the compiler:
    random rows taken at once; whether the state, and the formula, are in shared memory; pairs of
    words a tile (log 2); whether two entries share a word.
    """
    size = job.team
    teams = int32(cuda.blockDim.x // size)
    which = int32(cuda.threadIdx.x // size)
    me = int32(cuda.threadIdx.x - which * size)
    warp, warps = int32(me // WARP), int32(size // WARP)
    copies = 2 << len(log_copies)  # words a tile
    fast64 = cuda.shared.array(0, types.uint64)
    fast32 = cuda.shared.array(0, types.uint32)[2 * teams * job.stride64 :]
    near_words, near_ints = words, ints
    if len(near):
        shared_words = fast32[teams * job.stride32 :]
        shared_ints = cuda.shared.array(0, types.int32)[2 * teams * job.stride64 :]
        shared_ints = shared_ints[teams * job.stride32 + p.near_words :]
        i = int32(cuda.threadIdx.x)
        while i < p.near_words:
            poke(shared_words, i, peek(words, i))
            i = int32(i + cuda.blockDim.x)
        i = int32(cuda.threadIdx.x)
        while i < p.near_ints:
            poke(shared_ints, i, peek(ints, i))
            i = int32(i + cuda.blockDim.x)
        cuda.syncthreads()
        near_words, near_ints = shared_words, shared_ints
    own64, own32 = fast64[which * job.stride64 :], fast32[which * job.stride32 :]
    word_cells, queues = own64, own64[copies * WORD_CELLS :]
    cells, items = own32, own32[CELLS:]
    bad_at = 2 * p.n
    if len(shared):
        s64, s32 = queues[warps * QUEUE :], items[warps * QUEUE :]
        bad32 = cuda.shared.array(0, types.uint32)
        bad32 = bad32[2 * (which * job.stride64 + copies * WORD_CELLS + warps * QUEUE) :]
    else:
        slot = np.int64(cuda.blockIdx.x) * teams + which
        s64, s32 = g64[slot * job.state64 :], g32[slot * job.state32 :]
        bad32 = g64_halves[2 * slot * job.state64 :]
    bad, bad32 = s64[bad_at:], bad32[2 * bad_at :]
    lists = s32[(p.n_clauses + 31) // 32 :]
    tiles = (job.per_context + copies - 1) // copies  # of a context
    own = p.n >> len(log_copies)
    t = np.int64(cuda.blockIdx.x) * teams + which
    while t < job.tiles:
        context = (job.first + t) // tiles
        word = (job.first + t - context * tiles) * copies
        r = me
        while r < copies:
            number = np.uint64(job.first_word + word + r)
            key0, key1 = keys(job.seed, np.uint64(peek(contexts, context)), number)
            lanes = _lanes_wanted(job.samples - 64 * (word + r))
            poke2(word_cells, int32(r * WORD_CELLS // 2), key0, key1)
            poke2(word_cells, int32(r * WORD_CELLS // 2 + 1), lanes, _0)
            r = int32(r + size)
        w = Team(
            log_copies,
            narrow,
            near_words,
            near_ints,
            words,
            ints,
            thr[context * own :],
            s64,
            bad,
            bad32,
            int32(max(p.n, p.n_clauses + 1)),
            s32,
            lists,
            queues[warp * QUEUE :],
            items[warp * QUEUE :],
            cells,
            word_cells,
            job.capacity,
            size,
            which,
            me,
            int32(me % WARP),
        )
        _clear_flags(p, w)
        _next_round(w, 0)
        rounds, resampled = _run(p, w, job.method, job.max_rounds, job.sweeps, h, moved)
        rows = int32(min(copies, job.per_context - word))
        _hand_out(p, w, context * job.per_context + word, rows, packed, valid, counts)
        sync(size, which)
        if me == 0:  # one a team: all threads at once would queue up for these two words
            cuda.atomic.max(counts, 0, np.int64(rounds))
            cuda.atomic.add(counts, 1, np.int64(resampled))
        t += np.int64(cuda.gridDim.x) * teams
