"""Local fields: h_v = theta_v + sum_{S with v in S} c_S prod_{u in S, u != v} x_u, lane by lane.

Each term with v is an *input* of v: the lanes in which all other variables of the term are true.
h_v is an integer multiple of a step (`UnitWeights.step`), so the sum is exact in any order.

A lone variable becomes 1 with probability T / 2^32, where T depends on h_v only
(`lanes.threshold`). It compares T with 32 random bits, eight at a time, and stops when all lanes of
a word are decided: for 64 lanes one byte is enough in three of four cases. Byte j of lane k is byte
k mod 8 of the random word with the counter (round, FIRST_UNIT + 64 unit + 8 j + k // 8, 0), the
highest byte first.

With d inputs, T takes 2^d values at most. If d is small, T comes from a table: the first six inputs
give a number below 64 in each lane, further inputs say which block of 64 entries the lane takes. A
block costs as much to fill as the fields of one word, so a table pays if the variable moves often
enough. Otherwise T is computed in each lane, and written to the first block. Both ways give the
same bits.
"""

import numpy as np

from nelson.kernels.core.compile import inline
from nelson.kernels.core.rng import FIRST_UNIT, counter, scramble
from nelson.kernels.core.vector import load, peek, poke, splat, store, zeros
from nelson.kernels.cpu.native import (
    ENTRIES,
    LANES,
    WIDTH,
    compare_bytes,
    lookup,
    numbers,
    plus,
    plus_bytes,
    store_bytes,
    threshold,
    where,
    where_bytes,
)
from nelson.kernels.cpu.unit_program import INDEX

_NONE, _ALL = np.uint64(0), ~np.uint64(0)
#: The entries of a block in which input j is set, as the lanes of a word.
_SET = tuple(np.uint64(sum(1 << k for k in range(ENTRIES) if k >> j & 1)) for j in range(INDEX))


@inline
def random_row(tag, s, round, unit, word, number):
    """Eight random words: numbers number .. number + 7 of a unit, for one word of the tile."""
    number = np.uint64(FIRST_UNIT) + np.uint64(64 * unit + number)
    start = load(tag, s.places, 0) + (peek(s.keys, word) + counter(round, number, 0))
    return scramble(start, splat(tag, peek(s.keys, WIDTH + word)))


@inline
def _inputs(tag, p, s, first, n_inputs):
    """Fill s.inputs for the tile."""
    for j in range(n_inputs):
        at, end = peek(p.rest_at, first + j), peek(p.rest_at, first + j + 1)
        lanes = load(tag, s.x, peek(p.rest, at))
        for q in range(at + 1, end):
            lanes = lanes & load(tag, s.x, peek(p.rest, q))
        store(s.inputs, j, lanes)
    for j in range(n_inputs, INDEX):
        store(s.inputs, j, zeros(tag))


@inline
def _sums(tag, p, s, w, row, v, word, sign):
    """sign * h_v in the 64 lanes of a word, as four rows of 16 int32."""
    first = peek(p.input_at, v)
    n_inputs, at = peek(p.input_at, v + 1) - first, row * p.n_inputs + first
    a = numbers(tag, sign * peek(w.theta, row * p.n + v))
    b, c, d, none = a, a, a, zeros(tag)
    for j in range(n_inputs):
        term = numbers(tag, sign * peek(w.coefficient, at + j))
        lanes = peek(s.inputs, j * WIDTH + word)
        a = plus(a, where(lanes, term, none))
        b = plus(b, where(lanes >> np.uint64(LANES), term, none))
        c = plus(c, where(lanes >> np.uint64(2 * LANES), term, none))
        d = plus(d, where(lanes >> np.uint64(3 * LANES), term, none))
    return a, b, c, d


@inline
def write_fields(tag, p, s, w, row, code, place):
    """s.energy: the energy of a literal, in rows place .. place + 31: four for each word."""
    v, sign = code >> 1, np.int32(2 * (code & 1) - 1)
    first = peek(p.input_at, v)
    _inputs(tag, p, s, first, peek(p.input_at, v + 1) - first)
    for word in range(WIDTH):
        if peek(s.free, word) != _NONE:
            a, b, c, d = _sums(tag, p, s, w, row, v, word, sign)
            at = place + word * (ENTRIES // LANES)
            store(s.energy, at, a)
            store(s.energy, at + 1, b)
            store(s.energy, at + 2, c)
            store(s.energy, at + 3, d)


@inline
def _write_block(tag, p, s, w, row, v, word, place, size):
    """T in the 64 lanes of a word: digit j, the highest first, at place + size * j."""
    a, b, c, d = _sums(tag, p, s, w, row, v, word, np.int32(1))
    step = peek(w.step, row)
    a, b, c, d = threshold(a, step), threshold(b, step), threshold(c, step), threshold(d, step)
    for j in range(4):
        at, shift = place + size * j, 24 - 8 * j
        store_bytes(s.tables, at, a, shift)
        store_bytes(s.tables, at + LANES, b, shift)
        store_bytes(s.tables, at + 2 * LANES, c, shift)
        store_bytes(s.tables, at + 3 * LANES, d, shift)


@inline
def fill_tables(tag, p, s, w, row):
    """All tables, for one context."""
    for v in range(p.n):
        place = peek(s.table_at, v)
        if place > 0:
            n_inputs = peek(p.input_at, v + 1) - peek(p.input_at, v)
            blocks = 1 << max(0, n_inputs - INDEX)
            for block in range(blocks):
                for j in range(n_inputs):  # entry k of the block stands in lane k of word 0
                    lanes = _SET[j] if j < INDEX else _NONE
                    if j >= INDEX and (block >> (j - INDEX)) & 1:
                        lanes = _ALL
                    poke(s.inputs, j * WIDTH, lanes)
                size = blocks * ENTRIES
                _write_block(tag, p, s, w, row, v, 0, place + block * ENTRIES, size)
    poke(s.table_of, 0, row)


@inline
def _index(tag, s, n_inputs, word):
    """The entry of a block that each lane takes; s.blocks: the lanes of each block. -> the index"""
    index = zeros(tag)
    for j in range(INDEX):
        index = plus_bytes(index, peek(s.inputs, j * WIDTH + word), 1 << j)
    poke(s.blocks, 0, _ALL)
    for j in range(INDEX, n_inputs):
        lanes, half = peek(s.inputs, j * WIDTH + word), 1 << (j - INDEX)
        for block in range(half):
            before = peek(s.blocks, block)
            poke(s.blocks, half + block, before & lanes)
            poke(s.blocks, block, before & ~lanes)
    return index


@inline
def draw_alone(tag, p, s, w, row, unit, v, round):
    """A lone variable with terms: set its bit in the lanes that drew 1, among those in s.free."""
    first = peek(p.input_at, v)
    n_inputs = peek(p.input_at, v + 1) - first
    _inputs(tag, p, s, first, n_inputs)
    place = peek(s.table_at, v)
    blocks = 1 << max(0, n_inputs - INDEX)
    for word in range(WIDTH):
        value, undecided = _NONE, peek(s.free, word)
        if undecided != _NONE:
            index = zeros(tag)
            if place > 0:
                index = _index(tag, s, n_inputs, word)
            else:
                _write_block(tag, p, s, w, row, v, word, 0, ENTRIES)
            for j in range(4):
                if place > 0:
                    at = place + ENTRIES * blocks * j
                    digit = lookup(s.tables, at, index)
                    for block in range(1, blocks):
                        other = lookup(s.tables, at + ENTRIES * block, index)
                        digit = where_bytes(peek(s.blocks, block), other, digit)
                else:
                    digit = load(tag, s.digits, j)
                random = random_row(tag, s, round, unit, word, 8 * j)
                less, equal = compare_bytes(random, digit)
                value |= undecided & less
                undecided &= equal
                if undecided == _NONE:
                    break
            at = v * WIDTH + word
            poke(s.x, at, peek(s.x, at) | value)
