"""A circuit laid out for drawing: a record per decision, and rows for the most visited decisions.

A *record* is contiguous and, if it fits, in one cache line. Its int32 words:

    threshold (2 words) | number | counts (4 words) | row | items

The counts are the numbers of literals and of decisions of branch 0, then of branch 1.
The items are the literals and the decisions (as places of their records) of branch 0, then of
branch 1. Records have the order of the circuit, so that a decision lies close to the decisions
below it.

*Dense* decisions have a row of W words each (`descent.py`). They are chosen from the root down: the
root, and each decision below a dense one that at least a share `least` of all draws passes, at most
MAX_DENSE in all. This choice changes the time and never a sample.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.circuit.levels import climb, thresholds
from nelson.kernels.circuit.passes import (
    CERTAIN,
    downward,
    log_weights,
    threshold,
    upward,
    weigh,
)
from nelson.kernels.core.bernoulli import rows_for
from nelson.kernels.core.compile import helper, inline, kernel
from nelson.kernels.core.vector import aligned
from nelson.kernels.cpu.state import arrays_and_constants

#: Words of a record before its items.
HEAD = 8
#: Where a record has its number, its four counts, and its row (-1 if it is not dense).
NUMBER, COUNTS, ROW = 2, 3, 7
#: Most dense decisions: their rows should stay in the L2 cache.
MAX_DENSE = 8192
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_32, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


class CircuitProgram(NamedTuple):
    """One circuit under one theta, ready to be drawn from."""

    at: np.ndarray  # (decisions,) int64: place of the record in `code`
    code: np.ndarray  # int32: the records
    n_dense: np.ndarray  # (1,)
    place: np.ndarray  # (decisions,) int32: row of a dense decision, -1 of all others
    name: np.ndarray  # (dense,) int32: numbers of the dense decisions, from the root down
    thr: np.ndarray  # (dense,) uint64
    rows: np.ndarray  # (dense,) int32: random rows to draw at once
    ptr: np.ndarray  # (6 dense + 1,): literals, dense and other decisions of branch 0, of branch 1
    items: np.ndarray  # int32
    free: np.ndarray  # int32: variables that some way does not mention
    free_thr: np.ndarray  # uint64: their P(x_v = 1) * 2^64
    free_rows: np.ndarray  # int32: random rows to draw at once


def program(c, free: np.ndarray) -> CircuitProgram:
    """A program without the parts that depend on theta, which `prepare` fills."""
    m = len(c.single)
    at = np.zeros(m, np.int64)
    size = records(c, at, np.empty(0, np.int32))
    code = aligned(size + 16, np.int32, 0)
    records(c, at, code)
    dense = min(m, MAX_DENSE)
    return CircuitProgram(
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


class CircuitJob(NamedTuple):
    """What to draw: `samples` samples of each context, from word `word` on."""

    seed: np.uint64
    contexts: np.ndarray
    word: int
    samples: int
    columns: np.ndarray  # variables to return
    check_ptr: np.ndarray  # clauses as given
    check_lits: np.ndarray
    least: float  # reach of a dense decision


class CircuitScratch(NamedTuple):
    """Work space of one thread. Between two tiles `mask` is all zero and the queue is empty."""

    x: np.ndarray  # n rows: the assignments
    mask: np.ndarray  # a row per dense decision: the lanes that reach it
    row: np.ndarray  # one row: lanes of the branch being taken, to be read word by word
    where: np.ndarray  # queue: record and word
    lanes: np.ndarray  # queue: lanes of the word
    limit: int  # length of the queue - 1; the length is a power of two
    constants: np.ndarray  # as in `cpu.state`


def space(n: int, program: CircuitProgram, width: int, room: int) -> CircuitScratch:
    """room: most entries that the queue may have to hold."""
    size = 1 << int(room).bit_length()
    x, mask, row, where, lanes, constants = arrays_and_constants(
        width,
        (n * width, np.uint64),
        (len(program.name) * width, np.uint64),
        (width, np.uint64),
        (size, np.int64),
        (size, np.uint64),
    )
    return CircuitScratch(x, mask, row, where, lanes, size - 1, constants)


@kernel
def records(c, at, code):
    """Fill `at`, and `code` unless it is empty. -> words of all records"""
    size = 0
    for i in range(c.single.size):
        length = HEAD + c.lit_ptr[2 * i + 2] - c.lit_ptr[2 * i]
        length += c.kid_ptr[2 * i + 2] - c.kid_ptr[2 * i]
        if size & 15 and (size & 15) + length > 16:  # skip to the next cache line
            size = (size | 15) + 1
        at[i] = size
        if code.size:
            code[size + NUMBER] = i
            to = size + HEAD
            for side in range(2):
                b = 2 * i + side
                code[size + COUNTS + 2 * side] = c.lit_ptr[b + 1] - c.lit_ptr[b]
                code[size + COUNTS + 2 * side + 1] = c.kid_ptr[b + 1] - c.kid_ptr[b]
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
    """Most entries of a queue that is emptied from its end: a decision is replaced by all decisions
    of its branches, of which the last is taken first. need: (decisions,) int64, scratch.
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
def prepare(c, lv, f, theta, w, p, lanes, least):
    """Fill the parts of the program that depend on theta. -> log P(C)

    lanes: lanes of a tile. least > 1: no decision is dense.
    """
    log_p = climb(lv, c.single, theta, f)
    if np.isnan(log_p):
        weigh(theta, w.log_w)
        log_p = upward(c, w)
    else:
        thresholds(lv, f, w.thr)
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
        p.code[at + ROW] = p.place[i]
    draw_laws(theta, p, lanes)
    return log_p


@inline
def draw_laws(theta, p, lanes):
    """Fill the laws of the variables that some way does not mention."""
    for k in range(p.free.size):
        off, on = log_weights(theta[p.free[k]])
        thr = _ZERO if on == -np.inf else CERTAIN
        if on != -np.inf and off != -np.inf:
            thr = threshold(off, on)
        p.free_thr[k], p.free_rows[k] = thr, random_rows(thr, lanes)


@inline
def random_rows(thr, lanes):
    """Random rows to draw at once: about enough for all lanes, and at most the digits of thr."""
    most = 64
    while most > 1 and (thr >> np.uint64(64 - most)) & _ONE == _ZERO:
        most -= 1
    return rows_for(lanes, most)


@inline
def _choose(c, w, p, least):
    """Choose the dense decisions."""
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
    """Write thresholds and items of the dense decisions."""
    to = 0
    for j in range(p.n_dense[0]):
        i = p.name[j]
        p.thr[j], p.rows[j] = w.thr[i], random_rows(w.thr[i], lanes * w.reach[i])
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
