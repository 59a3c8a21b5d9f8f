"""Sweeps over units: a few variables are redrawn together, given all others.

A *unit* is a list of literals l_1 .. l_K of which at most one is true in every valid state. It has
K + 1 *patterns*: pattern k makes l_k true and the others false, pattern 0 makes all of them false.
A lone variable is a unit of one literal. A move draws a pattern with the probabilities

    P(pattern k) ~ exp(E_k) [no clause is violated],     E_0 = 0,  E_k = +-h_v  for l_k = +-x_v
    h_v = theta_v + sum_{S with v in S} c_S prod_{u in S, u != v} x_u

which are those of P given all other variables, so P is stationary. c_S are the coefficients of
terms over several variables; no term has two variables of one unit.

Clauses, for 64 lanes at once: the unit is set to pattern k, then every clause that holds -l_k is
evaluated; the lanes in which it is violated are bad for pattern k. (Two negative literals of a unit
cannot both be false.) Clauses that hold no negative literal of the unit are evaluated at pattern 0;
they are bad for pattern 0 and for every l_k that they do not hold. Of a clause with only one
literal outside of the unit, that literal is all that is looked at.

Three kinds of units, as cheap as each allows:

    PLAIN   a lone variable without terms: the bits of a threshold, all lanes of a tile at once
    FIELD   several literals without terms: the weights exp(E_k) are constants of the context
    TERMS   h_v is summed up for each lane when v moves, or looked up in a table (`fields.py`)

Weights of patterns are integers, the largest about 2^31 / (K + 1). So probabilities are multiples
of about 2^-31, and of 2^-32 for lone variables.

Units of several literals draw 32 bits for each lane: lane k has half k mod 2 of the random word
with the counter (round, FIRST_UNIT + 64 unit + k // 2, 0). PLAIN draws from (round, variable, bit).
Lone variables with terms: see `fields.py`. Rounds begin at UNIT_ROUND, so that no other method has
them. The units are visited in a cyclic order with a random start and direction, drawn for each seed
and context.

A *tile* holds eight words of one context: row v has x_v of 512 samples, so that clauses are
evaluated for all of them at once. A context whose number of words is no multiple of eight has a
last tile with words that are not alive: they never move and are not stored.

A lane in which the present pattern is bad, or two literals of a unit are true, keeps its values
there: a state that violates a clause keeps violating it.
"""

import numpy as np

from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.rng import (
    BITS,
    GOLDEN,
    UNIT_ROUND,
    counter,
    cyclic_order,
    keys,
    scramble,
)
from nelson.kernels.core.vector import (
    any_lane,
    bare,
    load,
    ones,
    peek,
    peek_volatile,
    poke,
    splat,
    store,
    tag,
    zeros,
)
from nelson.kernels.cpu.fields import draw_alone, fill_tables
from nelson.kernels.cpu.native import WIDTH
from nelson.kernels.cpu.patterns import draw_pattern
from nelson.kernels.cpu.unit_program import PLAIN, UnitProgram, UnitScratch, UnitTask, UnitWeights

_TAG = tag(WIDTH)
_NONE, _ALL, _1 = np.uint64(0), ~np.uint64(0), np.uint64(1)
#: After each _LOOK literals of a long clause, the rest is skipped if no lane can violate it.
_LOOK = 8


def sweep(
    program: UnitProgram,
    weights: UnitWeights,
    task: UnitTask,
    work: UnitScratch,
    stop: np.ndarray,
    some: tuple[int, int],
) -> None:
    """Make the sweeps of tiles some[0] .. some[1] - 1, in place.

    Returns early once stop[0] is set; some states have then not made all sweeps.
    """
    _sweep(_TAG, program, weights, task, work, stop, *some)


# ----------------------------------------------------------------------------------------------
# clauses


@inline
def _false(tag, x, code):
    """The lanes in which a literal is false."""
    return load(tag, x, code >> 1) ^ (_NONE - np.uint64(code & 1))


@inline
def _sign(code):
    """The word of a variable where its literal is false in all lanes."""
    return np.uint64(code & 1) - _1


@inline
def _bad(tag, p, s, pattern):
    """The lanes in which a pattern violates a clause that has no effect on other patterns."""
    bad = zeros(tag)
    for e in range(peek(p.near_at, pattern), peek(p.near_at, pattern + 1)):
        bad = bad | _false(tag, s.x, peek(p.near, e))
    for e in range(peek(p.visit_at, pattern), peek(p.visit_at, pattern + 1)):
        lanes, clause = ones(tag), peek(p.visit, e)
        first = peek(p.clause_at, clause)
        for q in range(first, peek(p.clause_at, clause + 1)):
            lanes = lanes & _false(tag, s.x, peek(p.clause, q))
            if q - first >= _LOOK and not any_lane(lanes):
                break
        bad = bad | lanes
        for q in range(peek(p.also_at, e), peek(p.also_at, e + 1)):
            other = peek(p.also, q)
            store(s.bad, other, load(tag, s.bad, other) | lanes)
    return bad


@inline
def _find_bad(tag, p, s, unit, first, n_variables):
    """Fill s.bad and s.old. The unit is left at pattern 0."""
    for k in range(n_variables):
        code = peek(p.literal, first + k)
        store(s.old, k, load(tag, s.x, code >> 1))
        store(s.x, code >> 1, splat(tag, _sign(code)))
        store(s.bad, k + 1, zeros(tag))
    store(s.bad, 0, zeros(tag))
    for k in range(n_variables + 1):
        code = peek(p.literal, first + max(0, k - 1))
        if k > 0:
            store(s.x, code >> 1, splat(tag, ~_sign(code)))
        bad = _bad(tag, p, s, first + unit + k)
        store(s.bad, k, load(tag, s.bad, k) | bad)
        if k > 0:
            store(s.x, code >> 1, splat(tag, _sign(code)))


@inline
def _free(tag, p, s, first, n_variables):
    """The lanes that have two patterns to choose from, and a present one that is not bad."""
    once, twice, stuck, seen = ~load(tag, s.bad, 0), zeros(tag), zeros(tag), zeros(tag)
    for k in range(n_variables):
        bad = load(tag, s.bad, k + 1)
        is_true = load(tag, s.old, k) ^ _sign(peek(p.literal, first + k))
        twice = twice | (once & ~bad)
        once = once | ~bad
        stuck = stuck | (is_true & (bad | seen))
        seen = seen | is_true
    stuck = stuck | (load(tag, s.bad, 0) & ~seen)
    return twice & ~stuck


# ----------------------------------------------------------------------------------------------
# moves


@inline
def _bernoulli(threshold, start, key1, wanted):
    """The lanes that drew 1, among those that are wanted."""
    value, undecided = wanted & _NONE, wanted
    for k in range(BITS):
        if not any_lane(undecided):
            break
        random = scramble(start + np.uint64(k) * GOLDEN, key1)
        if (threshold >> np.uint32(31 - k)) & np.uint32(1):
            value = value | (undecided & ~random)
        undecided = undecided & random
    return value


@inline
def _move_one(tag, p, w, s, alive, row, unit, first, kind, round):
    """A lone variable."""
    v = np.int64(peek(p.literal, first) >> 1)
    old, free = load(tag, s.x, v), alive
    for k in range(2):
        store(s.x, v, splat(tag, _NONE - np.uint64(k)))
        free = free & ~_bad(tag, p, s, first + unit + k)
    if kind == PLAIN:
        start = load(tag, s.keys, 0) + counter(round, v, 0)
        drawn = _bernoulli(peek(w.threshold, row * p.n + v), start, load(tag, s.keys, 1), free)
        store(s.x, v, (old & ~free) | drawn)
    else:
        store(s.free, 0, free)
        store(s.x, v, old & ~free)
        draw_alone(tag, p, s, w, row, unit, v, round)


@inline
def _move_many(tag, p, w, s, alive, row, unit, first, n_variables, kind, round):
    """A unit of several literals."""
    _find_bad(tag, p, s, unit, first, n_variables)
    free = alive & _free(tag, p, s, first, n_variables)
    store(s.free, 0, free)
    if any_lane(free):
        draw_pattern(tag, p, s, w, row, unit, first, n_variables, kind, round)
    for k in range(n_variables):
        code = peek(p.literal, first + k)
        old, new = load(tag, s.old, k), load(tag, s.drawn, k + 1) ^ _sign(code)
        store(s.x, code >> 1, (old & ~free) | (new & free))


@inline
def _open(tag, p, t, s, context, first, count):
    """Copy `count` words into the tile. -> the lanes that are alive"""
    for v in range(p.n):
        store(s.x, v, zeros(tag))
    store(s.free, 0, zeros(tag))
    for k in range(count):
        at = (context * t.n_words + first + k) * p.n
        for v in range(p.n):
            poke(s.x, v * WIDTH + k, peek(t.words, at + v))
        key0, key1 = keys(t.seed, peek(t.context, context), t.first_word + first + k)
        poke(s.keys, k, key0)
        poke(s.keys, WIDTH + k, key1)
        poke(s.free, k, _ALL)
    return load(tag, s.free, 0)


@inline
def _close(p, t, s, context, first, count):
    for k in range(count):
        at = (context * t.n_words + first + k) * p.n
        for v in range(p.n):
            poke(t.words, at + v, peek(s.x, v * WIDTH + k))


@kernel
def _sweep(tag, program, weights, task, work, stop, first_tile, last_tile):
    p, w, t, s = bare(program), bare(weights), bare(task), bare(work)
    tiles = (t.n_words + WIDTH - 1) // WIDTH
    for tile in range(first_tile, last_tile):
        row = tile // tiles
        first_word = (tile - row * tiles) * WIDTH
        count = min(WIDTH, t.n_words - first_word)
        if peek(s.table_of, 0) != row:
            fill_tables(tag, p, s, w, row)
        alive = _open(tag, p, t, s, row, first_word, count)
        begin, step = cyclic_order(t.seed, peek(t.context, row), max(1, p.n_units), UNIT_ROUND)
        for k in range(t.sweeps):
            if peek_volatile(stop, 0) != 0:
                return
            unit, round = begin, UNIT_ROUND + t.done + k
            for _ in range(p.n_units):
                first, kind = peek(p.unit_at, unit), peek(p.kind, unit)
                n_variables = peek(p.unit_at, unit + 1) - first
                if n_variables == 1:
                    _move_one(tag, p, w, s, alive, row, unit, first, kind, round)
                else:
                    _move_many(tag, p, w, s, alive, row, unit, first, n_variables, kind, round)
                unit += step
                if unit >= p.n_units:
                    unit -= p.n_units
        _close(p, t, s, row, first_word, count)
