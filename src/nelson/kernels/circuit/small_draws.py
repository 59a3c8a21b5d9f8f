"""Few samples of a large circuit: word by word, straight from the terms of the upward pass.

With few samples, nearly all of the time is the upward pass for a new theta (`levels.py`), and most
decisions are never visited. So nothing is laid out: a descent of 64 lanes computes the threshold of
a decision when it gets there. The samples are those of `descent.py`, bit for bit.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.circuit.descent import FINISHED, WRONG, draw_free, hand_out, split_word
from nelson.kernels.circuit.levels import climb, term_threshold
from nelson.kernels.circuit.passes import CERTAIN
from nelson.kernels.circuit.records import CircuitScratch, draw_laws
from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.rng import counter
from nelson.kernels.core.vector import (
    any_lane,
    bare,
    load,
    peek,
    peek_volatile,
    poke,
    zeros,
)
from nelson.kernels.cpu.state import KEY0, KEY1, WANTED, arrays_and_constants, begin_tile, violated

_ZERO = np.uint64(0)


class Free(NamedTuple):
    """Variables that some way does not mention; as in `records.CircuitProgram`."""

    free: np.ndarray
    free_thr: np.ndarray
    free_rows: np.ndarray


def free(variables: np.ndarray) -> Free:
    n = len(variables)
    return Free(variables, np.zeros(n, np.uint64), np.zeros(n, np.int32))


def space(n: int, room: int) -> CircuitScratch:
    """room: most decisions that wait at once."""
    rows, length = np.uint64, room + 1
    x, mask, row, where, lanes, constants = arrays_and_constants(
        1, (n, rows), (1, rows), (1, rows), (length, np.int64), (length, rows)
    )
    return CircuitScratch(x, mask, row, where, lanes, room, constants)


@inline
def _take(lv, s, n2, at, size, length, lanes, height):
    """Set the literals of a branch in some lanes, and let its decisions wait. -> how many wait"""
    for q in range(size):
        code = np.int64(peek(lv.factors, at + q * length))
        if code < n2:
            x, sign = peek(s.x, code >> 1), _ZERO - np.uint64(code & 1)
            poke(s.x, code >> 1, (x & ~lanes) | (lanes & sign))
        else:
            poke(s.where, height, code - n2)
            poke(s.lanes, height, lanes)
            height += 1
    return height


@inline
def _descend(lv, f, s, n2):
    """Send all wanted lanes of a word from the root down; the last decision that waits is next."""
    key0, key1 = peek(s.constants, KEY0), peek(s.constants, KEY1)
    poke(s.where, 0, np.int64(lv.root))
    poke(s.lanes, 0, peek(s.constants, WANTED))
    height = 1
    while height:
        height -= 1
        r, lanes, one = peek(s.where, height), peek(s.lanes, height), _ZERO
        thr = term_threshold(peek(f.zero, r), peek(f.one, r))
        if thr == CERTAIN:
            one = lanes
        elif thr != _ZERO:
            start = key0 + counter(1, np.uint32(peek(lv.order, r)), 0)
            one = split_word(lanes, thr, start, key1)
        g = np.int64(peek(lv.run, r))
        first, size = peek(lv.begin, g), peek(lv.sizes, 2 * g)
        length, at = peek(lv.begin, g + 1) - first, peek(lv.at, g) + r - first
        if lanes & ~one != _ZERO:
            height = _take(lv, s, n2, at, size, length, lanes & ~one, height)
        if one != _ZERO:
            at += size * length
            height = _take(lv, s, n2, at, peek(lv.sizes, 2 * g + 1), length, one, height)


@kernel
def draw(tag, lv, single, theta, f, p, space, job, packed, done, log_p, stop, rows, tiles, fresh):
    """As `descent.draw` with one word in a tile. log_p is nan where `climb` gave up."""
    terms, free, levels = bare(f), bare(p), bare(lv)
    s, bare_job = bare(space), bare(job)
    words, n2 = (job.samples + 63) // 64, np.int64(2 * theta.shape[1])
    for r in range(rows[0], rows[1]):
        if fresh:
            log_p[r] = climb(lv, single, theta[r], f)
            draw_laws(theta[r], p, 64.0)
        if not log_p[r] > -np.inf:
            continue
        for t in range(tiles[0], tiles[1]):
            if peek_volatile(stop, 0) != 0:
                return
            begin_tile(tag, s, job.seed, job.contexts[r], job.word + t, job.samples - 64 * t)
            draw_free(tag, free, s, p.free.size)
            _descend(levels, terms, s, n2)
            wrong, wanted = zeros(tag), load(tag, s.constants, WANTED)
            for j in range(job.check_ptr.size - 1):
                wrong = wrong | violated(tag, wanted, bare_job.check_ptr, bare_job.check_lits, s, j)
            hand_out(tag, bare_job.columns, job.columns.size, packed, r * words + t, 1, s)
            done[r * words + t] = WRONG if any_lane(wrong) else FINISHED
