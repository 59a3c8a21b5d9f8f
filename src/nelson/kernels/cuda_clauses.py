"""Clauses on the GPU: which lanes violate them, which variables and clauses that concerns."""

import numpy as np

from nelson.kernels.cuda_setup import (
    atomic_add,
    atomic_and,
    atomic_or,
    device,
    load2,
    negated,
    peek,
    peek2,
    poke,
    poke2,
    popcount,
    sync,
)
from nelson.kernels.cuda_team import (
    ALL,
    BAD,
    BIT,
    EVERY,
    GIVEN,
    HITS,
    LANES,
    LIST,
    NEXT,
    NOW,
    TOUCHED,
    WANTED,
    WORD_CELLS,
    ZERO,
    cell_of,
    int32,
    set_cell,
)

# --- clauses -------------------------------------------------------------------------------------


@device
def entries(ints, start, member):
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
def halves(word):
    return np.uint32(word & np.uint32(0xFFFF)), np.uint32(word >> np.uint32(16))


@device
def violated(w, words, at, end, first, second):
    """Lanes (of those given) in which every literal of a clause is false."""
    while at < end:
        code = peek(words, at)
        at = int32(at + 32)
        if len(w.narrow):
            code, other = halves(code)
            first, second = _and_false(w, other, first, second)
        first, second = _and_false(w, code, first, second)
    return first, second


@device
def gather(p, w, v):
    """Lanes in which a clause of v is to be resampled."""
    at, end = entries(w.ints, p.occ, v)
    first, second = ZERO, ZERO
    while at < end:
        code = peek(w.words, at)
        at = int32(at + 32)
        if len(w.narrow):
            code, other = halves(code)
            x, y = load2(w.bad, other)
            first, second = first | x, second | y
        x, y = load2(w.bad, code)
        first, second = first | x, second | y
    return first, second


@device
def _append(w, cell, first, entry):
    at = int32(atomic_add(w.cells, cell, BIT))
    if at < w.capacity:
        poke(w.lists, int32(first + at), np.uint32(entry))


@device
def put_on_list(w, j, after):
    """Put clause j on a list, once."""
    bit = np.uint32(BIT << np.uint32(j & 31))
    if atomic_or(w.dirty, int32(j >> 5), bit) & bit == 0:
        _append(w, NEXT, after, j)


@device
def _mark_if(p, w, code, down, up, after):
    gone = down if code & 1 else up
    j = int32(code >> 4)
    if gone != ZERO and j < p.n_clauses:
        put_on_list(w, j, after)


@device
def mark_turned(p, w, v, down, up, after):
    """List the clauses in which a literal of v, which went up or down in some lanes, turned false
    in one.
    """
    if (down | up) != ZERO:
        at, end = entries(w.ints, p.occ, v)
        while at < end:
            code = peek(w.words, at)
            at = int32(at + 32)
            if len(w.narrow):
                code, other = halves(code)
                _mark_if(p, w, other, down, up, after)
            _mark_if(p, w, code, down, up, after)


@device
def _spread_word(w, at, lanes):
    """OR into a 64-bit word by halves: for 64 bits at once the card has no instruction."""
    low, high = np.uint32(lanes & np.uint64(0xFFFFFFFF)), np.uint32(lanes >> np.uint64(32))
    if low != 0:
        atomic_or(w.bad32, int32(2 * at), low)
    if high != 0:
        atomic_or(w.bad32, int32(2 * at + 1), high)


@device
def _spread(p, w, code, first, second):
    """Add a clause's lanes to those of one of its variables, and list that, once.

    A flag says whether it is listed. What the words held before cannot: they change by halves, and
    of two threads each may see a half that the other has set.
    """
    v = int32(code >> 4)
    _spread_word(w, int32(2 * v), first)
    _spread_word(w, int32(2 * v + 1), second)
    bit = np.uint32(BIT << np.uint32(v & 31))
    if atomic_or(w.dirty, int32(_flags_of_variables(p) + (v >> 5)), bit) & bit == 0:
        _append(w, TOUCHED, int32(2 * w.capacity), v)


@device
def _flags_of_variables(p):
    """Where they begin, behind those of the clauses."""
    return (p.n_clauses + 31) >> 5


@device
def check(p, w, mode, now, after):
    """Look at clauses; count hits and lanes in the cells.

    ALL     every clause: its lanes to bad[j]
    LIST    the listed: violated ones stay listed and spread their lanes to their variables
    GIVEN   the clauses as given: bad lanes to the cells of their words
    """
    hits, lanes, q = int32(0), int32(0), w.me
    count = p.n_clauses if mode == ALL else (cell_of(w, NOW) if mode == LIST else p.n_checks)
    while q < count:
        j = int32(peek(w.lists, int32(now + q))) if mode == LIST else q
        at_wanted = int32((j & ((1 << len(w.log_copies)) - 1)) * 2 * WORD_CELLS + WANTED)
        first = peek(w.word_cells, at_wanted)
        second = peek(w.word_cells, int32(at_wanted + WORD_CELLS))
        if mode == GIVEN and p.far_checks:
            at, end = entries(w.far_ints, p.check, j)
            first, second = violated(w, w.far_words, at, end, first, second)
        else:
            at, end = entries(w.ints, p.clause, j)
            first, second = violated(w, w.words, at, end, first, second)
        if mode == ALL:
            poke2(w.bad, j, first, second)
        if (first | second) != ZERO:
            hits = int32(hits + 1)
            lanes = int32(lanes + popcount(first) + popcount(second))
            if mode == LIST:
                _append(w, NEXT, after, j)
                while at < end:
                    code = peek(w.words, at)
                    at = int32(at + 32)
                    if len(w.narrow):
                        code, other = halves(code)
                        _spread(p, w, other, first, second)
                    _spread(p, w, code, first, second)
            elif mode == GIVEN:
                at_bad = int32(at_wanted + BAD - WANTED)
                atomic_or(w.word_cells, at_bad, first)
                atomic_or(w.word_cells, int32(at_bad + WORD_CELLS), second)
        elif mode == LIST:
            atomic_and(w.dirty, int32(j >> 5), np.uint32(~(BIT << np.uint32(j & 31))))
        q = int32(q + w.size)
    if hits:
        atomic_add(w.cells, HITS, np.uint32(hits))
        atomic_add(w.cells, LANES, np.uint32(lanes))


@device
def _look_without(w, code, stuck, stuck_too, bad, bad_too):
    bad, bad_too = _and_false(w, code, bad, bad_too)
    if code & 2:
        stuck, stuck_too = stuck | bad, stuck_too | bad_too
        bad, bad_too = EVERY, EVERY
    return stuck, stuck_too, bad, bad_too


@device
def stuck_lanes(p, w, i):
    """Lanes in which some clause of the variable at position i does not hold without it."""
    at, end = entries(w.ints, p.sweep, i)
    stuck, stuck_too, bad, bad_too = ZERO, ZERO, EVERY, EVERY
    while at < end:
        code = peek(w.words, at)
        at = int32(at + 32)
        if len(w.narrow):
            now, code = halves(code)
            stuck, stuck_too, bad, bad_too = _look_without(w, now, stuck, stuck_too, bad, bad_too)
        stuck, stuck_too, bad, bad_too = _look_without(w, code, stuck, stuck_too, bad, bad_too)
    return stuck, stuck_too


@device
def clear_touched(p, w):
    """No variable is listed."""
    q = w.me
    while 32 * q < p.n:
        poke(w.dirty, int32(_flags_of_variables(p) + q), np.uint32(0))
        q = int32(q + w.size)


@device
def clear_flags(p, w):
    """Nothing is listed, and the clause that pads lists of clauses is never violated."""
    q = w.me
    while q < _flags_of_variables(p):
        poke(w.dirty, q, np.uint32(0))
        q = int32(q + w.size)
    clear_touched(p, w)
    if w.me == 0:
        poke2(w.bad, p.n_clauses, ZERO, ZERO)


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
        meets, inside, holds = ZERO, EVERY, ZERO
        meets_too, inside_too, holds_too = ZERO, EVERY, ZERO
        at, end = entries(w.ints, p.clause, j)
        while at < end:
            pair = peek(w.words, at)
            at = int32(at + 32)
            k = 0
            while k < 1 + len(w.narrow):
                code = halves(pair)[k] if len(w.narrow) else pair
                mask, mask_too = load2(w.bad, np.uint32(code + 16 * w.mask))
                false, false_too = load2(w.x, code)
                flip = negated(code)
                meets, inside, holds = _look(mask, false ^ flip, meets, inside, holds)
                meets_too, inside_too, holds_too = _look(
                    mask_too, false_too ^ flip, meets_too, inside_too, holds_too
                )
                k += 1
        add, add_too = meets & ~inside & ~holds, meets_too & ~inside_too & ~holds_too
        if (add | add_too) != ZERO:
            first, second = peek2(w.bad, j)
            poke2(w.bad, j, first | add, second | add_too)
            added = int32(added + 1)
            lanes = int32(lanes + popcount(add) + popcount(add_too))
        j = int32(j + w.size)
    if added:
        atomic_add(w.cells, HITS, np.uint32(added))
        atomic_add(w.cells, LANES, np.uint32(lanes))


@device
def grow(p, w):
    """prs: the resample set to mask. -> lanes added."""
    resampled, hits = 0, int32(1)
    while hits > 0:
        v = w.me
        while v < p.n:
            first, second = gather(p, w, v)
            poke2(w.bad, int32(w.mask + v), first, second)
            v = int32(v + w.size)
        set_cell(w, HITS, 0)
        set_cell(w, LANES, 0)
        sync(w.size, w.which)
        _grown(p, w)
        sync(w.size, w.which)
        hits = cell_of(w, HITS)
        resampled += cell_of(w, LANES)
        sync(w.size, w.which)
    return resampled
