"""Draw one of the patterns of a unit of several literals, in proportion to integer weights.

The weights of a lane are constants of the context, or come from its local fields. Patterns that are
bad in the lane have weight 0. 16 lanes are drawn at a time.
"""

import numpy as np

from nelson.kernels.core.compile import inline
from nelson.kernels.core.vector import load, peek, poke, store, zeros
from nelson.kernels.cpu.fields import random_row, write_fields
from nelson.kernels.cpu.native import (
    ENTRIES,
    LANES,
    WIDTH,
    below,
    most,
    numbers,
    plus,
    share_of,
    weight,
    where,
)
from nelson.kernels.cpu.unit_program import TERMS

_NONE, _PART = np.uint64(0), np.uint64(0xFFFF)
#: Below all energies.
_LEAST = np.int32(-(2**31) + 1)


@inline
def _good(s, k, word, shift):
    """16 lanes of a word in which pattern k is not bad."""
    return (~peek(s.bad, k * WIDTH + word) >> np.uint64(shift)) & _PART


@inline
def _fill_constant(tag, s, w, pattern, n_variables, word, shift):
    """s.weights: the weights of all patterns in 16 lanes. -> their sum"""
    total, none = zeros(tag), zeros(tag)
    for k in range(n_variables + 1):
        mass = numbers(tag, peek(w.pattern, pattern + k))
        mass = where(_good(s, k, word, shift), mass, none)
        store(s.weights, k, mass)
        total = plus(total, mass)
    return total


@inline
def _fill_terms(tag, s, step, n_variables, word, shift):
    """The same with local fields: 2^31 / (K + 1) exp(E_k - the largest E of the lane)."""
    least, none = numbers(tag, _LEAST), zeros(tag)
    top, part = least, word * (ENTRIES // LANES) + shift // LANES
    for k in range(n_variables + 1):
        energy = none
        if k > 0:
            energy = load(tag, s.energy, (k - 1) * (ENTRIES // 2) + part)
        energy = where(_good(s, k, word, shift), energy, least)
        store(s.weights, k, energy)
        top = most(top, energy)
    total, unit = zeros(tag), np.float32(2.0**31) / np.float32(n_variables + 1)
    for k in range(n_variables + 1):
        good, mass = _good(s, k, word, shift), none
        if good != _NONE:
            mass = where(good, weight(load(tag, s.weights, k), top, step, unit), none)
        store(s.weights, k, mass)
        total = plus(total, mass)
    return total


@inline
def draw_pattern(tag, p, s, w, row, unit, first, n_variables, kind, round):
    """Fill s.drawn for the lanes that are free."""
    for k in range(n_variables + 1):
        store(s.drawn, k, zeros(tag))
    if kind == TERMS:
        for k in range(n_variables):
            write_fields(tag, p, s, w, row, peek(p.literal, first + k), k * (ENTRIES // 2))
    step, pattern = peek(w.step, row), row * p.n_patterns + first + unit
    for word in range(WIDTH):
        free = peek(s.free, word)
        for shift in range(0, 64, LANES):
            if (free >> np.uint64(shift)) & _PART == _NONE:
                continue
            if kind == TERMS:
                total = _fill_terms(tag, s, step, n_variables, word, shift)
            else:
                total = _fill_constant(tag, s, w, pattern, n_variables, word, shift)
            chosen = share_of(random_row(tag, s, round, unit, word, shift // 2), total)
            reached, before = zeros(tag), _NONE  # pattern k: the first sum up to k above `chosen`
            for k in range(n_variables + 1):
                reached = plus(reached, load(tag, s.weights, k))
                above = below(chosen, reached)
                at = k * WIDTH + word
                poke(s.drawn, at, peek(s.drawn, at) | ((above & ~before) << np.uint64(shift)))
                before |= above
