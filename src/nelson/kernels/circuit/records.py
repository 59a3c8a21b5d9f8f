"""A circuit laid out for drawing: one record a decision, and rows for those that many lanes pass.

A *record* lies in one piece and, where it fits, in one cache line:

    threshold (2 words) | number | literals, decisions of branch 0 | of branch 1 | row | items

items being the literals and the decisions (as places of their records) of branch 0, then of branch
1. The order is that of the circuit: a decision lies close to what is below it.

*Dense* decisions are taken with a row of W words each (`descent.py`): those that at least `least`
of all draws pass, below the root and below one another, top-down and at most DENSE of them. Which
ones they are changes the time and never a sample.
"""

import math
from typing import NamedTuple

import numpy as np

from nelson.kernels.circuit.passes import CERTAIN, downward, threshold, upward, weigh
from nelson.kernels.core.compile import helper, inline, kernel
from nelson.kernels.core.vector import aligned

#: Words of a record before its items.
HEAD = 8
_NUMBER, _COUNTS, _ROW = 2, 3, 7
#: Dense decisions at most: their rows should stay in the L2 cache.
DENSE = 8192
#: Random rows beyond log2(lanes), as in `bernoulli.py`.
SLACK = 1.3
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_32, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


class Program(NamedTuple):
    """One circuit under one theta, ready to be drawn from."""

    at: np.ndarray  # (decisions,) int64: where its record is
    code: np.ndarray  # int32: the records
    n_dense: np.ndarray  # (1,)
    place: np.ndarray  # (decisions,) int32: row of a dense one, -1 of the others
    name: np.ndarray  # (dense,) int32: their numbers, top-down
    thr: np.ndarray  # (dense,) uint64
    rows: np.ndarray  # (dense,) int32: random rows to take at once
    ptr: np.ndarray  # (6 dense + 1,): literals, dense and other decisions of branch 0, of branch 1
    items: np.ndarray  # int32
    free: np.ndarray  # int32: variables that some way does not mention
    free_thr: np.ndarray  # uint64: their own law
    free_rows: np.ndarray  # int32


def program(c, free: np.ndarray) -> Program:
    """Everything but what depends on theta (`prepare`)."""
    m = len(c.single)
    at = np.zeros(m, np.int64)
    size = records(c, at, np.empty(0, np.int32))
    code = aligned(size + 16, np.int32, 0)
    records(c, at, code)
    dense = min(m, DENSE)
    return Program(
        at,
        code,
        np.zeros(1, np.int64),
        np.empty(m, np.int32),
        np.zeros(dense, np.int32),
        np.zeros(dense, np.uint64),
        np.zeros(dense, np.int32),
        np.zeros(6 * dense + 1, np.int64),
        np.zeros(len(c.lits) + len(c.kids) + 1, np.int32),
        free,
        np.zeros(len(free), np.uint64),
        np.zeros(len(free), np.int32),
    )


class Job(NamedTuple):
    """What to draw: so many samples of each context, from word `word` on."""

    seed: np.uint64
    contexts: np.ndarray
    word: int
    samples: int
    columns: np.ndarray  # variables to hand out
    check_ptr: np.ndarray  # clauses as given
    check_lits: np.ndarray
    least: float  # reach of a dense decision


class Space(NamedTuple):
    """Work space of one thread. Between two tiles `mask` is all zero and the queue empty."""

    x: np.ndarray  # n rows: the state
    mask: np.ndarray  # a row a dense decision: lanes that come by
    row: np.ndarray  # a row: lanes of the branch at hand, word by word
    where: np.ndarray  # queue: record and word
    lanes: np.ndarray  # queue: lanes of the word
    limit: int  # its length less one: a power of two less one
    constants: np.ndarray  # rows: 0 zeros, 1 ones, 2 key0, 3 key1, 4 wanted


def space(n: int, program: Program, width: int, room: int) -> Space:
    """room: entries that the queue may have to hold."""
    size = 1 << int(room).bit_length()
    constants = aligned(5 * width, fill=0)
    constants[width : 2 * width] = ~_ZERO
    return Space(
        aligned(n * width, fill=0),
        aligned(len(program.name) * width, fill=0),
        aligned(width),
        np.empty(size, np.int64),
        np.empty(size, np.uint64),
        size - 1,
        constants,
    )


@kernel
def records(c, at, code):
    """Fill at, and code unless it is empty. -> words."""
    size = 0
    for i in range(c.single.size):
        length = HEAD + c.lit_ptr[2 * i + 2] - c.lit_ptr[2 * i]
        length += c.kid_ptr[2 * i + 2] - c.kid_ptr[2 * i]
        if size & 15 and (size & 15) + length > 16:  # on to the next cache line
            size = (size | 15) + 1
        at[i] = size
        if code.size:
            code[size + _NUMBER] = i
            to = size + HEAD
            for side in range(2):
                b = 2 * i + side
                code[size + _COUNTS + 2 * side] = c.lit_ptr[b + 1] - c.lit_ptr[b]
                code[size + _COUNTS + 2 * side + 1] = c.kid_ptr[b + 1] - c.kid_ptr[b]
                for k in range(c.lit_ptr[b], c.lit_ptr[b + 1]):
                    code[to] = c.lits[k]
                    to += 1
                for k in range(c.kid_ptr[b], c.kid_ptr[b + 1]):
                    code[to] = at[c.kids[k]]
                    to += 1
        size += length
    return size


@kernel
def room(c, need):
    """Entries that a queue worked off from its end can hold: a decision gives way to all of its
    branches' decisions, of which the last is worked off first. need: (decisions,) int64.
    """
    most = 1
    for i in range(c.single.size):
        first, last = c.kid_ptr[2 * i], c.kid_ptr[2 * i + 2]
        need[i] = max(1, last - first)
        for k in range(first, last):
            need[i] = max(need[i], k - first + need[c.kids[k]])
        most = max(most, need[i])
    return most


@helper
def prepare(c, theta, w, p, lanes, least):
    """Weigh, and lay out what depends on theta; lanes: of a tile; least > 1: nothing is dense.
    -> log P(C).
    """
    weigh(theta, w.log_w)
    log_p = upward(c, w)
    if log_p == -np.inf:
        return log_p
    p.place[:] = -1
    p.n_dense[0] = 0
    if least <= 1.0:
        downward(c, w)
        _choose(c, w, p, least)
        _lay_out(c, w, p, lanes)
    for i in range(c.single.size):
        at = p.at[i]
        p.code[at] = np.int32(np.uint32(w.thr[i] & _LOW))
        p.code[at + 1] = np.int32(np.uint32(w.thr[i] >> _32))
        p.code[at + _ROW] = p.place[i]
    for k in range(p.free.size):
        off, on = w.log_w[2 * p.free[k]], w.log_w[2 * p.free[k] + 1]
        thr = _ZERO if on == -np.inf else CERTAIN
        if on != -np.inf and off != -np.inf:
            thr = threshold(off, on)
        p.free_thr[k], p.free_rows[k] = thr, _rows(thr, lanes)
    return log_p


@inline
def _rows(thr, lanes):
    """Random rows to take at once: about enough for all lanes, and no more than thr has digits."""
    most = 64
    while most > 1 and (thr >> np.uint64(64 - most)) & _ONE == _ZERO:
        most -= 1
    return min(most, max(1, math.ceil(math.log2(max(1.0, lanes)) + SLACK)))


@inline
def _choose(c, w, p, least):
    last, count = c.single.size - 1, 0
    p.place[last] = 0
    for i in range(last, -1, -1):
        if p.place[i] < 0:
            continue
        if count == p.name.size:
            p.place[i] = -1
            continue
        p.place[i], p.name[count] = count, i
        count += 1
        for k in range(c.kid_ptr[2 * i], c.kid_ptr[2 * i + 2]):
            if w.reach[c.kids[k]] >= least:
                p.place[c.kids[k]] = 0
    p.n_dense[0] = count


@inline
def _lay_out(c, w, p, lanes):
    to = 0
    for j in range(p.n_dense[0]):
        i = p.name[j]
        p.thr[j], p.rows[j] = w.thr[i], _rows(w.thr[i], lanes * w.reach[i])
        for side in range(2):
            b, at = 2 * i + side, 6 * j + 3 * side
            for k in range(c.lit_ptr[b], c.lit_ptr[b + 1]):
                p.items[to] = c.lits[k]
                to += 1
            p.ptr[at + 1] = to
            for k in range(c.kid_ptr[b], c.kid_ptr[b + 1]):
                if p.place[c.kids[k]] >= 0:
                    p.items[to] = p.place[c.kids[k]]
                    to += 1
            p.ptr[at + 2] = to
            for k in range(c.kid_ptr[b], c.kid_ptr[b + 1]):
                if p.place[c.kids[k]] < 0:
                    p.items[to] = p.at[c.kids[k]]
                    to += 1
            p.ptr[at + 3] = to
