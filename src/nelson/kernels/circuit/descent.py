"""Samples of a circuit, 64 W at a time: a bit-sliced descent that splits lanes at each decision.

The *specification* is plain. At decision i, lane k of word w takes branch 1 with probability thr(i)
/ 2^64, by the Bernoulli draw of `bernoulli.py` with 64 digits and the random words of (seed,
context, w, variable i, round 1). It sets the literals of its branch and continues with all
decisions of that branch. A variable that no branch on the way mentions keeps its product
distribution, drawn in round 0. The result depends neither on the order of the decisions, nor on W,
nor on other lanes.

Two ways of doing this give the same bits and work together:

dense    decisions near the root, which many lanes pass. Each has a row of W words that holds the
         lanes that reach it, and the row is split at once: the cost is per tile, not per sample.
sparse   decisions further down, where rows would be nearly empty: a queue of (record, word, mask of
         64 lanes), first in, first out. A record is prefetched when it is queued, so that it is in
         the cache when its turn comes. Lanes that reach a dense decision which is not yet processed
         join its row. Once the queue is long, entries are taken from its end, which bounds its
         length (`records.room`).

Variables that every way through the circuit mentions need no draw (`passes.always`); all others are
drawn first, and the branches overwrite them. At the end every clause *as given* is checked in every
lane.
"""

import numpy as np

from nelson.kernels.circuit.passes import CERTAIN
from nelson.kernels.circuit.records import COUNTS, HEAD, NUMBER, ROW, prepare
from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.rng import GOLDEN, counter, scramble
from nelson.kernels.core.vector import (
    any_lane,
    bare,
    load,
    peek,
    peek_volatile,
    poke,
    prefetch,
    splat,
    store,
    zeros,
)
from nelson.kernels.cpu.state import KEY0, KEY1, WANTED, begin_tile, violated

#: A queue with more entries than this is emptied from its end.
LONG = 256
#: A queue with more entries than this is emptied before the next dense decision.
EAGER = 64
#: Random words that a sparse draw takes at once: they decide 15 of 16 single lanes.
AT_ONCE = 4
#: How a tile ended: all lanes satisfy the clauses, the tile was not drawn, some lane is wrong.
FINISHED, MISSING, WRONG = range(3)
_ZERO, _ONE, _32 = np.uint64(0), np.uint64(1), np.uint64(32)
_LOW = np.int64(0xFFFFFFFF)
#: An entry of the queue is 16 * (place of the record) + (word of the tile).
_WORD_BITS, _WORD_MASK = np.int64(4), np.int64(15)


@inline
def _digit(digits):
    """The highest binary digit as a mask: all ones or zero."""
    return np.int64(digits) >> np.int64(63)


@inline
def _split(tag, lanes, thr, start, key1, rows):
    """The lanes of a row that take branch 1.

    The first `rows` steps do not test whether lanes are left; this changes only the time.
    """
    gray = thr ^ (thr >> _ONE)
    undecided, y, value = lanes, start, lanes & splat(tag, _digit(gray))
    for _ in range(rows):
        gray = gray << _ONE
        undecided = undecided & scramble(y, key1)
        value = value ^ (undecided & splat(tag, _digit(gray)))
        y = y + GOLDEN
    left = thr << np.uint64(rows) if rows < 64 else _ZERO
    while left != _ZERO and any_lane(undecided):
        gray = gray << _ONE
        undecided = undecided & scramble(y, key1)
        value = value ^ (undecided & splat(tag, _digit(gray)))
        y = y + GOLDEN
        left = left << _ONE
    return value & ~undecided


@inline
def split_word(lanes, thr, start, key1):
    """As `_split`, for the lanes of one word."""
    gray = thr ^ (thr >> _ONE)
    undecided, y, value, left = lanes, start, lanes & np.uint64(_digit(gray)), thr
    while True:
        for _ in range(AT_ONCE):
            gray = gray << _ONE
            undecided = undecided & scramble(y, key1)
            value = value ^ (undecided & np.uint64(_digit(gray)))
            y = y + GOLDEN
        left = left << np.uint64(AT_ONCE)
        if undecided == _ZERO or left == _ZERO:
            return value & ~undecided


@inline
def _push(s, tail, at, word, lanes):
    k = tail & s.limit
    poke(s.where, k, (np.int64(at) << _WORD_BITS) | np.int64(word))
    poke(s.lanes, k, lanes)


@inline
def _branch_word(width, p, s, at, n_lits, n_kids, word, lanes, tail):
    """Set the literals of a branch in some lanes of a word, and queue its decisions. -> tail"""
    for k in range(at, at + n_lits):
        lit = peek(p.code, k)
        to = np.int64(lit >> 1) * width + word
        sign = _ZERO - np.uint64(lit & 1)
        poke(s.x, to, (peek(s.x, to) & ~lanes) | (lanes & sign))
    for k in range(at + n_lits, at + n_lits + n_kids):
        kid = peek(p.code, k)
        prefetch((0,), p.code, kid)
        _push(s, tail, kid, word, lanes)
        tail += 1
    return tail


@inline
def _drain(width, p, s, turn, tail):
    """Empty the queue. The dense decisions up to row `turn` have been processed."""
    head = 0
    while head < tail:
        if tail - head <= LONG:
            k = head & s.limit
            head += 1
        else:
            tail -= 1
            k = tail & s.limit
        where, lanes = peek(s.where, k), peek(s.lanes, k)
        at, word = where >> _WORD_BITS, where & _WORD_MASK
        row = peek(p.code, at + ROW)
        if row > turn:
            to = np.int64(row) * width + word
            poke(s.mask, to, peek(s.mask, to) | lanes)
            continue
        low, high = peek(p.code, at) & _LOW, peek(p.code, at + 1) & _LOW
        thr = np.uint64(low) | (np.uint64(high) << _32)
        one = _ZERO
        if thr == CERTAIN:
            one = lanes
        elif thr != _ZERO:
            start = counter(1, np.uint32(peek(p.code, at + NUMBER)), 0)
            start += peek(s.constants, KEY0 * width + word)
            one = split_word(lanes, thr, start, peek(s.constants, KEY1 * width + word))
        zero = lanes & ~one
        n_lits, n_kids = peek(p.code, at + COUNTS), peek(p.code, at + COUNTS + 1)
        if zero != _ZERO:
            tail = _branch_word(width, p, s, at + HEAD, n_lits, n_kids, word, zero, tail)
        if one != _ZERO:
            begin = at + HEAD + n_lits + n_kids
            n_lits, n_kids = peek(p.code, at + COUNTS + 2), peek(p.code, at + COUNTS + 3)
            tail = _branch_word(width, p, s, begin, n_lits, n_kids, word, one, tail)


@inline
def _branch_row(tag, p, s, at, lanes, tail):
    """Set the literals of a branch in a row of lanes, and pass the lanes on to its decisions.

    -> tail
    """
    for k in range(peek(p.ptr, at), peek(p.ptr, at + 1)):
        lit = peek(p.items, k)
        x = load(tag, s.x, lit >> 1)
        store(s.x, lit >> 1, (x & ~lanes) | (lanes & load(tag, s.constants, lit & 1)))
    for k in range(peek(p.ptr, at + 1), peek(p.ptr, at + 2)):
        kid = peek(p.items, k)
        store(s.mask, kid, load(tag, s.mask, kid) | lanes)
    first, last = peek(p.ptr, at + 2), peek(p.ptr, at + 3)
    if first < last:
        store(s.row, 0, lanes)
        for k in range(first, last):
            kid = peek(p.items, k)
            prefetch((0,), p.code, kid)
            for w in range(len(tag)):
                some = peek(s.row, w)
                _push(s, tail, kid, w, some)
                tail += np.int64(some != _ZERO)
    return tail


@inline
def _descend(tag, p, s, root, n_dense):
    """Send all wanted lanes from the root down."""
    width, tail = len(tag), np.int64(0)
    wanted, key1 = load(tag, s.constants, WANTED), load(tag, s.constants, KEY1)
    if n_dense:
        store(s.mask, 0, wanted)
    else:
        for w in range(width):
            some = peek(s.constants, WANTED * width + w)
            _push(s, tail, root, w, some)
            tail += np.int64(some != _ZERO)
    for j in range(max(n_dense, 1)):
        if n_dense:
            lanes = load(tag, s.mask, j)
            store(s.mask, j, zeros(tag))
            thr, one = peek(p.thr, j), zeros(tag)
            if thr == CERTAIN:
                one = lanes
            elif thr != _ZERO:
                start = load(tag, s.constants, KEY0) + counter(1, np.uint32(peek(p.name, j)), 0)
                one = _split(tag, lanes, thr, start, key1, peek(p.rows, j))
            tail = _branch_row(tag, p, s, 6 * j, lanes & ~one, tail)
            tail = _branch_row(tag, p, s, 6 * j + 3, one, tail)
        if tail > EAGER or j + 1 >= n_dense:
            _drain(width, p, s, j, tail)
            tail = np.int64(0)


@inline
def draw_free(tag, p, s, n_free):
    """Draw the variables that some way does not mention from their product distribution."""
    key0, key1 = load(tag, s.constants, KEY0), load(tag, s.constants, KEY1)
    wanted = load(tag, s.constants, WANTED)
    for k in range(n_free):
        v, thr = peek(p.free, k), peek(p.free_thr, k)
        value = wanted
        if thr != CERTAIN:
            start = key0 + counter(0, np.uint32(v), 0)
            value = _split(tag, wanted, thr, start, key1, peek(p.free_rows, k))
        store(s.x, v, value)


@inline
def hand_out(tag, columns, n_columns, packed, row, words, s):
    """Write rows of W words to W output rows, eight columns (a cache line) at a time."""
    width = len(tag)
    for first in range(0, n_columns, 8):
        for w in range(words):
            wanted, to = peek(s.constants, WANTED * width + w), (row + w) * n_columns
            for k in range(first, min(first + 8, n_columns)):
                word = peek(s.x, np.int64(peek(columns, k)) * width + w)
                poke(packed, to + k, word & wanted)


@kernel
def draw(
    tag, c, lv, theta, f, work, program, space, job, packed, done, log_p, stop, rows, tiles, fresh
):
    """Draw tiles tiles[0] .. tiles[1] - 1 for rows rows[0] .. rows[1] - 1 of theta.

    fresh: first prepare the program for each row of theta. packed (rows * words * columns,), done
    (rows * tiles,): out. Returns early once stop[0] is set.
    """
    p, s, bare_job = bare(program), bare(space), bare(job)
    width, words = len(tag), (job.samples + 63) // 64
    per_row = (words + width - 1) // width
    for r in range(rows[0], rows[1]):
        if fresh:
            log_p[r] = prepare(c, lv, f, theta[r], work, program, 64.0 * width, job.least)
        if log_p[r] == -np.inf:
            continue
        for t in range(tiles[0], tiles[1]):
            if peek_volatile(stop, 0) != 0:
                return
            first = t * width
            lanes = job.samples - 64 * first
            begin_tile(tag, s, job.seed, job.contexts[r], job.word + first, lanes)
            draw_free(tag, p, s, program.free.size)
            _descend(tag, p, s, program.at[c.single.size - 1], program.n_dense[0])
            wrong, wanted = zeros(tag), load(tag, s.constants, WANTED)
            for j in range(job.check_ptr.size - 1):
                wrong = wrong | violated(tag, wanted, bare_job.check_ptr, bare_job.check_lits, s, j)
            count = min(width, words - first)
            hand_out(tag, bare_job.columns, job.columns.size, packed, r * words + first, count, s)
            done[r * per_row + t] = WRONG if any_lane(wrong) else FINISHED
