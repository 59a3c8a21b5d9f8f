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

    PLAIN   a lone variable without terms: the bits of a threshold, 64 lanes at once
    FIELD   several literals without terms: the weights exp(E_k) are constants of the context
    TERMS   h_v is kept for each lane, and updated when a variable changes

h_v is an integer multiple of a step (`Weights.step`), so sums are exact: h never drifts, and no
result depends on the order of updates, on the number of sweeps of a call, or on what else is in the
batch. Weights of patterns are integers too, the largest about 2^31 / (K + 1); a lone variable with
terms compares in float32 (`lanes.py`). So probabilities are multiples of about 2^-31.

Units draw 32 bits for each lane: lane k has half k mod 2 of the random word with the counter
(round, FIRST_UNIT + 64 unit + k // 2, 0). PLAIN draws from (round, variable, bit). Rounds begin at
UNIT_ROUND, so that no other method has them. The units are visited in a cyclic order with a random
start and direction, drawn for each seed and context.

A lane in which the present pattern is bad, or two literals of a unit are true, keeps its values
there: a state that violates a clause keeps violating it.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.rng import (
    BITS,
    FIRST_UNIT,
    GOLDEN,
    UNIT_ROUND,
    counter,
    cyclic_order,
    keys,
    scramble,
)
from nelson.kernels.core.vector import (
    aligned,
    bare,
    load,
    peek,
    peek_volatile,
    poke,
    splat,
    store,
    tag,
    zeros,
)
from nelson.kernels.cpu.native import (
    LANES,
    WIDTH,
    add_where,
    below,
    heat_bath,
    load_signed,
    most,
    numbers,
    plus,
    share_of,
    weight,
    where,
)

#: Kinds of units.
PLAIN, FIELD, TERMS = 0, 1, 2
_TAG = tag(WIDTH)
_NONE, _ALL, _1 = np.uint64(0), ~np.uint64(0), np.uint64(1)
_PART, _HALF = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)
#: Below all energies.
_LEAST = np.int32(-(2**31) + 1)


class Program(NamedTuple):
    """Units, clauses and terms as flat arrays. Literals are codes 2 v + s, s = 1 if positive."""

    n: int
    n_units: int
    most: int  # literals of the largest unit
    n_rows: int  # variables that have a row of h
    n_terms: int
    n_patterns: int
    unit_at: np.ndarray  # (units + 1,) int64 -> `literal`; unit u has patterns unit_at[u] + u + k
    literal: np.ndarray  # int32
    kind: np.ndarray  # (units,) int8
    clause_at: np.ndarray  # (clauses + 1,) int64 -> `clause`
    clause: np.ndarray  # int32: literals of the clauses
    near_at: np.ndarray  # (patterns + 1,) int64 -> `near`
    near: np.ndarray  # int32: literals of which each must be true at a pattern
    visit_at: np.ndarray  # (patterns + 1,) int64 -> `visit`
    visit: np.ndarray  # int32: clauses to evaluate at a pattern
    also_at: np.ndarray  # (visits + 1,) int64 -> `also`
    also: np.ndarray  # int32: patterns that are bad as well if the clause is violated
    row: np.ndarray  # (n,) int32: row of h, -1 if the variable has none
    effect_at: np.ndarray  # (n + 1,) int64 -> the next three: effects of a variable on others
    effect_mid: np.ndarray  # (n,) int64: up to here, of terms of two variables
    effect: np.ndarray  # int32: row of h of the other variable
    term: np.ndarray  # int32: number of the term
    rest_at: np.ndarray  # (effects + 1,) int64 -> `rest`
    rest: np.ndarray  # int32: further variables of the term


class Weights(NamedTuple):
    """The weights of each context."""

    threshold: np.ndarray  # (contexts, n) uint32: 2^32 P(x_v = 1), for PLAIN
    pattern: np.ndarray  # (contexts, patterns) int32: weights of the patterns, for FIELD
    theta: np.ndarray  # (contexts, rows of h) int32: theta / step
    coefficient: np.ndarray  # (contexts, terms) int32: c / step
    step: np.ndarray  # (contexts,) float32


class Space(NamedTuple):
    """Work space of one thread."""

    old: np.ndarray  # the variables of a unit before the move
    bad: np.ndarray  # for each pattern of a unit
    drawn: np.ndarray  # for each pattern of a unit
    tables: np.ndarray  # for each pattern of a unit a row of 16 int32
    h: np.ndarray  # 64 int32 for each row
    places: np.ndarray  # one row: 32 GOLDEN times 0 .. 7


class Task(NamedTuple):
    """What to sweep: rows of `words` are swept in place."""

    words: np.ndarray  # (rows, n) uint64
    context_row: np.ndarray  # (rows,) int64: row of the weights
    context: np.ndarray  # (rows,) int64
    word: np.ndarray  # (rows,) int64: number of the word, for the random numbers
    seed: np.uint64
    done: int  # sweeps that the states have made already
    sweeps: int


def space(program: Program) -> Space:
    places = aligned(WIDTH)
    with np.errstate(over="ignore"):
        places[:] = np.arange(WIDTH, dtype=np.uint64) * np.uint64(32) * GOLDEN
    patterns = program.most + 1
    return Space(
        old=aligned(patterns),
        bad=aligned(patterns),
        drawn=aligned(patterns),
        tables=aligned(patterns * WIDTH),
        h=aligned(max(1, 64 * program.n_rows), np.int32),
        places=places,
    )


def sweep(
    program: Program,
    weights: Weights,
    task: Task,
    work: Space,
    stop: np.ndarray,
    rows: tuple[int, int],
) -> None:
    """Make the sweeps of rows rows[0] .. rows[1] - 1, in place.

    Returns early once stop[0] is set; some states have then not made all sweeps.
    """
    _sweep(_TAG, program, weights, task, work, stop, *rows)


@inline
def _violated(p, words, at, clause):
    """The lanes in which a clause is violated."""
    lanes = _ALL
    for q in range(peek(p.clause_at, clause), peek(p.clause_at, clause + 1)):
        code = peek(p.clause, q)
        lanes &= peek(words, at + (code >> 1)) ^ (_NONE - np.uint64(code & 1))
        if lanes == _NONE:
            break
    return lanes


@inline
def _sign(code):
    """What turns the word of a variable into the lanes in which its literal is true."""
    return np.uint64(code & 1) - _1


@inline
def _spoiled(p, words, at, pattern):
    """The lanes in which a literal is false that must be true at this pattern."""
    bad = _NONE
    for e in range(peek(p.near_at, pattern), peek(p.near_at, pattern + 1)):
        code = peek(p.near, e)
        bad |= peek(words, at + (code >> 1)) ^ (_NONE - np.uint64(code & 1))
        if bad == _ALL:
            break
    return bad


@inline
def _find_bad(p, s, words, at, unit, first, many):
    """Fill s.bad and s.old. The unit is left at pattern 0."""
    for k in range(many):
        code = peek(p.literal, first + k)
        poke(s.old, k, peek(words, at + (code >> 1)))
        poke(words, at + (code >> 1), _sign(code))
        poke(s.bad, k + 1, _NONE)
    poke(s.bad, 0, _NONE)
    for k in range(many + 1):
        pattern, code = first + unit + k, peek(p.literal, first + max(0, k - 1))
        if k > 0:
            poke(words, at + (code >> 1), ~_sign(code))
        bad = peek(s.bad, k) | _spoiled(p, words, at, pattern)
        for e in range(peek(p.visit_at, pattern), peek(p.visit_at, pattern + 1)):
            lanes = _violated(p, words, at, peek(p.visit, e))
            bad |= lanes
            for q in range(peek(p.also_at, e), peek(p.also_at, e + 1)):
                other = peek(p.also, q)
                poke(s.bad, other, peek(s.bad, other) | lanes)
        poke(s.bad, k, bad)
        if k > 0:
            poke(words, at + (code >> 1), _sign(code))


@inline
def _free(p, s, first, many):
    """The lanes that have two patterns to choose from, and a present one that is not bad."""
    once, twice, stuck, seen = ~peek(s.bad, 0), _NONE, _NONE, _NONE
    for k in range(many):
        bad = peek(s.bad, k + 1)
        is_true = peek(s.old, k) ^ _sign(peek(p.literal, first + k))
        twice |= once & ~bad
        once |= ~bad
        stuck |= is_true & (bad | seen)
        seen |= is_true
    stuck |= peek(s.bad, 0) & ~seen
    return twice & ~stuck


@inline
def _bernoulli(threshold, start, key1, wanted):
    """The lanes that drew 1, among those that are wanted."""
    value, undecided = _NONE, wanted
    for k in range(BITS):
        if undecided == _NONE:
            break
        random = scramble(start + np.uint64(k) * GOLDEN, key1)
        if (threshold >> np.uint32(31 - k)) & np.uint32(1):
            value |= undecided & ~random
        undecided &= random
    return value


@inline
def _fill_constant(tag, s, w, pattern, many, shift):
    """s.tables: the weights of all patterns in 16 lanes. -> their sum"""
    total, none = zeros(tag), zeros(tag)
    for k in range(many + 1):
        good = ~peek(s.bad, k) >> np.uint64(shift)
        own = where(good, numbers(tag, peek(w.pattern, pattern + k)), none)
        store(s.tables, k, own)
        total = plus(total, own)
    return total


@inline
def _fill_terms(tag, p, s, step, first, many, shift):
    """The same with local fields: 2^31 / (K + 1) exp(E_k - the largest E of the lane)."""
    least, none = numbers(tag, _LEAST), zeros(tag)
    top = least
    for k in range(many + 1):
        good = ~peek(s.bad, k) >> np.uint64(shift)
        energy = none
        if k > 0:
            code = peek(p.literal, first + k - 1)
            at = np.int64(peek(p.row, code >> 1)) * 64 + shift
            energy = load_signed(tag, s.h, at, code & 1)
        energy = where(good, energy, least)
        store(s.tables, k, energy)
        top = most(top, energy)
    total, unit = zeros(tag), np.float32(2.0**31) / np.float32(many + 1)
    for k in range(many + 1):
        good = (~peek(s.bad, k) >> np.uint64(shift)) & _PART
        own = none
        if good != _NONE:
            own = where(good, weight(load(tag, s.tables, k), top, step, unit), none)
        store(s.tables, k, own)
        total = plus(total, own)
    return total


@inline
def _choose(tag, s, many, chosen, shift):
    """Pattern k where the first sum of weights up to k lies above `chosen`."""
    reached, before = zeros(tag), _NONE
    for k in range(many + 1):
        reached = plus(reached, load(tag, s.tables, k))
        above = below(chosen, reached)
        poke(s.drawn, k, peek(s.drawn, k) | ((above & ~before) << np.uint64(shift)))
        before |= above


@inline
def _affect(p, s, w, words, at, terms, v, on, off, first_time):
    """Add the change of x_v to the rows of h of other variables: x_v is new in `on`, gone in `off`.

    first_time: sum up h from nothing; a term of three variables or more counts once.
    """
    first, middle, last = peek(p.effect_at, v), peek(p.effect_mid, v), peek(p.effect_at, v + 1)
    for part in range(0, 64, 32):  # terms of two variables
        more, fewer = on >> np.uint64(part), off >> np.uint64(part)
        if (more | fewer) & _HALF != _NONE:
            for e in range(first, middle):
                number = peek(w.coefficient, terms + peek(p.term, e))
                add_where(s.h, np.int64(peek(p.effect, e)) * 64 + part, number, more, fewer)
    for e in range(middle, last):
        more, fewer, counts = on, off, True
        for q in range(peek(p.rest_at, e), peek(p.rest_at, e + 1)):
            other = peek(p.rest, q)
            more &= peek(words, at + other)
            fewer &= peek(words, at + other)
            counts &= v < other
        if (more | fewer) != _NONE and (counts or not first_time):
            number = peek(w.coefficient, terms + peek(p.term, e))
            place = np.int64(peek(p.effect, e)) * 64
            for part in range(0, 64, 32):
                some, others = more >> np.uint64(part), fewer >> np.uint64(part)
                add_where(s.h, place + part, number, some, others)


@inline
def _start(p, s, w, row, words, at, n, terms):
    """All rows of h, from the state."""
    for v in range(n):
        place = np.int64(peek(p.row, v))
        if place >= 0:
            theta = peek(w.theta, row * p.n_rows + place)
            for lane in range(64):
                poke(s.h, place * 64 + lane, theta)
    for v in range(n):
        _affect(p, s, w, words, at, terms, v, peek(words, at + v), _NONE, True)


@inline
def _random(tag, s, key0, key1, round, unit, shift):
    """32 random bits for lanes shift .. shift + 15 of a unit."""
    number = np.uint64(FIRST_UNIT) + np.uint64(64 * unit + shift // 2)
    start = load(tag, s.places, 0) + (key0 + counter(round, number, 0))
    return scramble(start, splat(tag, key1))


@inline
def _draw_one(tag, p, s, w, row, unit, v, free, key0, key1, round):
    """A lone variable with terms: the lanes that drew 1."""
    drawn = _NONE
    step, at = peek(w.step, row), np.int64(peek(p.row, v)) * 64
    for shift in range(0, 64, LANES):
        if (free >> np.uint64(shift)) & _PART != _NONE:
            random = _random(tag, s, key0, key1, round, unit, shift)
            drawn |= heat_bath(s.h, at + shift, step, random) << np.uint64(shift)
    return drawn


@inline
def _draw_many(tag, p, s, w, row, unit, first, many, kind, free, key0, key1, round):
    """Fill s.drawn for the lanes that are free."""
    for k in range(many + 1):
        poke(s.drawn, k, _NONE)
    step, pattern = peek(w.step, row), row * p.n_patterns + first + unit
    for shift in range(0, 64, LANES):
        if (free >> np.uint64(shift)) & _PART == _NONE:
            continue
        if kind == TERMS:
            total = _fill_terms(tag, p, s, step, first, many, shift)
        else:
            total = _fill_constant(tag, s, w, pattern, many, shift)
        random = _random(tag, s, key0, key1, round, unit, shift)
        _choose(tag, s, many, share_of(random, total), shift)


@inline
def _bad(p, words, at, pattern):
    """The lanes in which a pattern of a lone variable violates a clause."""
    bad = _spoiled(p, words, at, pattern)
    for e in range(peek(p.visit_at, pattern), peek(p.visit_at, pattern + 1)):
        bad |= _violated(p, words, at, peek(p.visit, e))
    return bad


@inline
def _move_one(tag, p, w, s, words, at, row, unit, first, kind, round, key0, key1):
    """A lone variable."""
    v = np.int64(peek(p.literal, first) >> 1)
    old = peek(words, at + v)
    poke(words, at + v, _NONE)
    bad = _bad(p, words, at, first + unit)
    poke(words, at + v, _ALL)
    free = ~(bad | _bad(p, words, at, first + unit + 1))
    new = old
    if free != _NONE:
        if kind == PLAIN:
            threshold, start = peek(w.threshold, row * p.n + v), key0 + counter(round, v, 0)
            drawn = _bernoulli(threshold, start, key1, free)
        else:
            drawn = _draw_one(tag, p, s, w, row, unit, v, free, key0, key1, round)
        new = (old & ~free) | (drawn & free)
    poke(words, at + v, new)
    if kind == TERMS and new != old:
        _affect(p, s, w, words, at, row * p.n_terms, v, new & ~old, old & ~new, False)


@inline
def _move_many(tag, p, w, s, words, at, row, unit, first, many, kind, round, key0, key1):
    """A unit of several literals."""
    _find_bad(p, s, words, at, unit, first, many)
    free = _free(p, s, first, many)
    if free != _NONE:
        _draw_many(tag, p, s, w, row, unit, first, many, kind, free, key0, key1, round)
    for k in range(many):
        code = peek(p.literal, first + k)
        old, new = peek(s.old, k), peek(s.drawn, k + 1) ^ _sign(code)
        poke(words, at + (code >> 1), (old & ~free) | (new & free))
    if kind == TERMS and free != _NONE:
        for k in range(many):
            v = np.int64(peek(p.literal, first + k) >> 1)
            old, new = peek(s.old, k), peek(words, at + v)
            if old != new:
                _affect(p, s, w, words, at, row * p.n_terms, v, new & ~old, old & ~new, False)


@kernel
def _sweep(tag, program, weights, task, work, stop, first_row, last_row):
    p, w, t, s = bare(program), bare(weights), bare(task), bare(work)
    x = t.words
    for r in range(first_row, last_row):
        at, row = np.int64(r) * p.n, peek(t.context_row, r)
        key0, key1 = keys(t.seed, peek(t.context, r), peek(t.word, r))
        begin, step = cyclic_order(t.seed, peek(t.context, r), max(1, p.n_units), UNIT_ROUND)
        if p.n_rows > 0:
            _start(p, s, w, row, x, at, p.n, row * p.n_terms)
        for k in range(t.sweeps):
            if peek_volatile(stop, 0) != 0:
                return
            unit, round = begin, UNIT_ROUND + t.done + k
            for _ in range(p.n_units):
                first, kind = peek(p.unit_at, unit), peek(p.kind, unit)
                many = peek(p.unit_at, unit + 1) - first
                if many == 1:
                    _move_one(tag, p, w, s, x, at, row, unit, first, kind, round, key0, key1)
                else:
                    _move_many(tag, p, w, s, x, at, row, unit, first, many, kind, round, key0, key1)
                unit += step
                if unit >= p.n_units:
                    unit -= p.n_units
