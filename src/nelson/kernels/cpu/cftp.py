"""Coupling from the past with bounding chains: exact samples, if the chains of all starts meet.

Sweep t ends at time -t, and draws the same random numbers in every run: those of round
SWEEP_ROUND + t. A *run* of length T makes the sweeps T - 1, .., 1, 0. Let the chains of all valid
states run together. If they are in one state at time 0, a chain from the infinite past is in that
state as well, so it is distributed as P_theta(. | C) (Propp, Wilson 1996). If not, T grows.

The set of states is bounded by two bits for each variable and lane: may it be 0, may it be 1
(Huber 2004; He, Sun, Wu 2021). Row `code` of `bounds` holds the lanes in which the literal `code`
may be false, so row `code ^ 1` holds those in which it may be true. A run starts with all ones. A
clause of v forces v if its other literals are all false: *maybe*, if each of them may be false, and
*surely*, if none of them may be true. All chains are in valid states, so a variable that is forced
has the value that it is forced to, and keeps it. With a coin b of P(b = 1) = p_v, `up` for the
clauses that hold +v and `down` for those that hold -v,

    may be 1:  no down clause surely forces v, and b = 1, or an up clause maybe forces v, which may
               be 1 now
    may be 0:  no up clause surely forces v, and b = 0, or a down clause maybe forces v, which may
               be 0 now

So a variable that surely has the value of its coin keeps it. Without this use of validity runs are
ten times as long (random 5-SAT, L = 0.8 n), and chains meet up to L = 0.8 n instead of 1.05 n.

A smaller set of states stays inside a larger one under the same coins. So a lane that has met in a
run of length T has the same result in every longer run, and the length of the first run of a tile
is free: it is learnt from the tiles before, so that about one word in sixteen does not meet. Such
words are put together and drawn by one longer run (*late* words): each has its own keys. The time
that a lane takes depends on its result, so no lane may be dropped: a tile with a lane that did not
meet within `max_rounds` sweeps yields nothing and ends the job.

A larger set of states does no harm either, as long as it shrinks in the end. So the first sweeps of
a long run do less work. Their coins use few random rows, and a lane that is still undecided may get
both values; sweep k of T takes 4 + 16 k / T rows, whose noise stays far below the share of
variables that may have both values anyway. And in the first two fifths nothing is *surely* forced.

A *trial* asks only how many sweeps chains need to meet. That number has the same law forwards in
time, so a trial is one run from time 0 on that ends when all lanes have met, and no shorter run
comes before it. Its states are not samples.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.bernoulli import TABLE, ProductLaw, draw, finish, rows_for
from nelson.kernels.core.compile import helper, inline, kernel
from nelson.kernels.core.program import PAD, Program
from nelson.kernels.core.rng import SWEEP_ROUND, class_order, keys
from nelson.kernels.core.threads import END_AT_ONCE
from nelson.kernels.core.vector import (
    any_lane,
    bare,
    load,
    ones,
    peek,
    peek_volatile,
    poke,
    popcount,
    prefetch,
    store,
    tag,
    total,
    zeros,
)
from nelson.kernels.cpu.state import (
    AHEAD,
    KEY0,
    KEY1,
    LONG,
    STOPPED,
    WANTED,
    Job,
    Result,
    arrays_and_constants,
    prefetches,
    satisfied,
    stream,
)

#: Prefetching of what a visit reads of its variable is this many visits ahead.
FAR = 8
#: Runs of at least so many sweeps save work in their first sweeps. Shorter ones have no time to
#: forget what that adds to their bounds.
SAVING = 32
#: A tile of fewer words is not likely to find others whose late words it can share a run with.
FEW_WORDS = 8


class Visits(NamedTuple):
    """What a sweep reads, in the order of its visits: it reads memory from front to back.

    Visit q is that of variable order[q]. Its occurrences in clauses are begin[q] .. begin[q + 1],
    the positive ones first, the negated ones from middle[q] on. Occurrence e has others[e] other
    literals in its clause, and their codes follow one another, from codes[first[q]] on. A clause of
    more than LONG literals has others[e] = 0 and stands in codes with its number alone.
    """

    begin: np.ndarray
    middle: np.ndarray
    first: np.ndarray
    others: np.ndarray
    codes: np.ndarray


class BoundsScratch(NamedTuple):
    """Work space of one thread."""

    bounds: np.ndarray  # 2 n rows: lanes in which a literal may be false
    first: np.ndarray  # (1,) int64: length of the first run of the next tile
    trial: np.ndarray  # (1,) int64: sweeps that a trial has made before; -1 if this is no trial
    x: np.ndarray  # n rows: the assignments
    queue_rows: np.ndarray  # 1 row: lanes that are valid, or that did not meet
    slots: np.ndarray  # (2, width) int64: tile of each word that is drawn, and its place there
    late: np.ndarray  # (2, width) int64: the same for words that wait for a longer run
    constants: np.ndarray  # 5 rows, see `state.constants`


def visits(program: Program) -> Visits:
    """O(LONG * total literals)."""
    p, size = program, np.diff(program.clause_ptr)
    degree = p.occ_ptr[p.order + 1] - p.occ_ptr[p.order]
    entries = int(np.where(size > LONG, size, size * (size - 1)).sum())  # at most, of all clauses
    v = Visits(
        begin=np.concatenate([[0], np.cumsum(degree)]).astype(np.int64),
        middle=np.empty(len(p.order), np.int64),
        first=np.empty(len(p.order), np.int64),
        others=np.empty(int(degree.sum()), np.uint8),
        codes=np.zeros(entries + PAD, np.int32),
    )
    _list_visits(p.order, p.occ_ptr, p.occ_mid, p.occ, p.clause_ptr, p.lits, *v)
    return v


@kernel
def _list_visits(
    order, occ_ptr, occ_mid, occ, clause_ptr, lits, begin, middle, first, others, codes
):
    at = 0
    for q in range(order.size):
        v, e = order[q], begin[q]
        middle[q], first[q] = e + occ_mid[v] - occ_ptr[v], at
        for k in range(occ_ptr[v], occ_ptr[v + 1]):
            j = occ[k]
            size = clause_ptr[j + 1] - clause_ptr[j]
            others[e] = size - 1 if size <= LONG else 0
            e += 1
            if size > LONG:
                codes[at] = j
                at += 1
                continue
            for z in range(clause_ptr[j], clause_ptr[j + 1]):
                codes[at] = lits[z]
                at += int(lits[z] >> 1 != v)


def longest(max_rounds: int) -> int:
    """The length of the last run that is made: max_rounds, rounded up to a power of two."""
    return 1 << max(0, max_rounds - 1).bit_length()


def scratch(program: Program, width: int, first: int = 1) -> BoundsScratch:
    """first: length of the first run of the first tile."""
    s = BoundsScratch(
        *arrays_and_constants(
            width,
            (2 * program.n * width, np.uint64),
            (1, np.int64),
            (1, np.int64),
            (program.n * width, np.uint64),
            (width, np.uint64),
            (2 * width, np.int64),
            (2 * width, np.int64),
        )
    )
    s.first[0], s.trial[0] = first, -1
    return s


def run(
    visits: Visits,
    width: int,
    program: Program,
    law: ProductLaw,
    job: Job,
    result: Result,
    space: BoundsScratch,
    stop: np.ndarray,
    tiles: tuple[int, int],
) -> None:
    """Draw tiles `tiles[0] .. tiles[1] - 1`. The program sweeps every variable that is not fixed.

    result.rounds gets the length of the last run, or the sweeps of a trial until all lanes met;
    result.resampled the lanes that did not meet.
    A tile that has begun is finished even if stop[0] is set, as its time depends on its result.
    Only END_AT_ONCE ends it; then all of its lanes count as lanes that did not meet.
    """
    _tiles(tag(width), program, visits, law, job, result, space, stop, tiles[0], tiles[1])


@inline
def _forced(tag, p, o, s, v, e, at, surely, ahead):
    """-> (lanes in which the other literals of occurrence e of v may all be false; lanes in which
    one of them may be true, if `surely`; where the codes of the next occurrence begin)
    """
    size, false, true = int(peek(o.others, e)), ones(tag), zeros(tag)
    if size == 0:
        j = peek(o.codes, at)
        false, true = _long(
            tag, p.lits, s.bounds, peek(p.clause_ptr, j), peek(p.clause_ptr, j + 1), v
        )
        return false, true, at + 1
    for q in range(at, at + size):
        if ahead:
            prefetch(tag + tag, s.bounds, peek(o.codes, q + AHEAD) >> 1)
        code = peek(o.codes, q)
        false = false & load(tag, s.bounds, code)
        if surely:
            true = true | load(tag, s.bounds, code ^ 1)
    return false, true, at + size


@helper
def _long(tag, lits, bounds, at, end, v):
    """The lanes in which all literals but that of v may be false, and those in which one may be
    true. Stops once every lane has a literal that is surely true.
    """
    false, true = ones(tag), zeros(tag)
    while at < end and any_lane(false):
        for q in range(at, min(at + 8, end)):
            code = peek(lits, q)
            if code >> 1 != v:
                false = false & load(tag, bounds, code)
                true = true | load(tag, bounds, code ^ 1)
        at += 8
    return false, true


@inline
def _visit(tag, p, o, s, q, v, heads, tails, surely, ahead):
    """Update the bounds of v = order[q]. heads, tails: the lanes in which its coin may be 1, 0.

    -> lanes in which v may have both values
    """
    up, up_surely, down, down_surely = zeros(tag), zeros(tag), zeros(tag), zeros(tag)
    first, middle, last = peek(o.begin, q), peek(o.middle, q), peek(o.begin, q + 1)
    at = peek(o.first, q)
    for e in range(first, middle):
        false, true, at = _forced(tag, p, o, s, v, e, at, surely, ahead)
        up, up_surely = up | false, up_surely | ~true
    for e in range(middle, last):
        false, true, at = _forced(tag, p, o, s, v, e, at, surely, ahead)
        down, down_surely = down | false, down_surely | ~true
    one = heads | (up & load(tag, s.bounds, 2 * v))
    zero = tails | (down & load(tag, s.bounds, 2 * v + 1))
    if surely:
        one, zero = one & ~down_surely, zero & ~up_surely
    store(s.bounds, 2 * v, one)
    store(s.bounds, 2 * v + 1, zero)
    return one & zero


@inline
def _bounding_sweep(tag, p, o, law, row, s, job, t, round, rows, exact, surely, ahead):
    """Update the bounds of every variable once. -> the lanes in which one may have both values

    rows: random rows of a coin. exact: are lanes decided that are undecided after them? surely: is
    it used that a variable is surely forced?
    """
    key1, every = load(tag, s.constants, KEY1), ones(tag)
    c, step = class_order(job.seed, peek(job.context, t), p.n_classes)
    apart = zeros(tag)
    for _ in range(p.n_classes):
        first, last = peek(p.class_ptr, c), peek(p.class_ptr, c + 1)
        for q in range(first, last):
            if ahead:
                later = peek(p.order, min(q + FAR, last - 1))
                prefetch(tag + tag, s.bounds, later)
                prefetch((0,), law.table, (row + later) * TABLE)
                prefetch((0,), p.name, later)
            v = peek(p.order, q)
            y = stream(tag, p, s, round, v)
            undecided, coin = draw(tag, law, row + v, y, key1, every, rows)
            if exact:
                coin = coin | finish(tag, law, row + v, y, key1, undecided, rows)
                undecided = zeros(tag)
            heads, tails = coin | undecided, ~coin
            if surely:
                apart = apart | _visit(tag, p, o, s, q, v, heads, tails, True, ahead)
            else:
                apart = apart | _visit(tag, p, o, s, q, v, heads, tails, False, ahead)
        c += step
        if c >= p.n_classes:
            c -= p.n_classes
    return apart & load(tag, s.constants, WANTED)


@inline
def _start(tag, p, s):
    """Every state is possible, but fixed variables have one value."""
    for code in range(2 * p.n):
        store(s.bounds, code, ones(tag))
    for q in range(p.n_fixed):
        store(s.bounds, peek(p.fixed, q), zeros(tag))


@inline
def _run(tag, p, o, law, row, s, job, t, length, stop):
    """A run of that length; a trial goes on from the sweeps that it has made, and ends when all
    lanes have met. -> (sweeps until then, or `length`, or STOPPED; lanes that did not meet)
    """
    made = peek(s.trial, 0)
    if made <= 0:
        _start(tag, p, s)
    met, apart, k = length, zeros(tag), max(made, 0)
    most, ahead = rows_for(64.0 * len(tag), law.max_rows), prefetches(tag, p.n, 0)
    while k < length:
        if peek_volatile(stop, 0) >= END_AT_ONCE:
            return STOPPED, apart
        time = k if made >= 0 else length - 1 - k
        rows, surely = most, True
        if made < 0 and length >= SAVING:
            rows, surely = min(most, 4 + 16 * k // length), 5 * k >= 2 * length
        apart = _bounding_sweep(
            tag, p, o, law, row, s, job, t, SWEEP_ROUND + time, rows, rows == most, surely, ahead
        )
        k += 1
        if met == length and not any_lane(apart):
            met = k
            if made >= 0:
                return met, apart
    return met, apart


@inline
def _longest(max_rounds):
    length = 1
    while length < max_rounds:
        length *= 2
    return length


@inline
def _begin(tag, job, s, t, late):
    """Fill the slots with the words of tile t, or with the first `late` late words; write the keys
    and the wanted lanes of each.
    """
    width = len(tag)
    for w in range(width):
        tile, word = np.int64(t), np.int64(w)
        if late > 0:
            tile, word = peek(s.late, w), peek(s.late, width + w)
        poke(s.slots, w, tile)
        poke(s.slots, width + w, word)
        left = peek(job.lanes, tile) - 64 * word if late == 0 or w < late else np.int64(0)
        key0, key1 = keys(job.seed, peek(job.context, tile), peek(job.word, tile) + word)
        poke(s.constants, KEY0 * width + w, key0)
        poke(s.constants, KEY1 * width + w, key1)
        wanted = ~np.uint64(0) if left >= 64 else np.uint64(0)
        if 0 < left < 64:
            wanted = (np.uint64(1) << np.uint64(left)) - np.uint64(1)
        poke(s.constants, WANTED * width + w, wanted)


@inline
def _count_apart(tag, s, apart):
    """-> the words with a lane that did not meet. Their lanes are in `queue_rows`."""
    store(s.queue_rows, 0, apart)
    words = 0
    for w in range(len(tag)):
        words += int(peek(s.queue_rows, w) != np.uint64(0))
    return words


@inline
def _put_off(tag, s, late):
    """Let the words with lanes in `queue_rows` wait for a longer run. -> words that wait"""
    width = len(tag)
    for w in range(width):
        if peek(s.queue_rows, w) != np.uint64(0):
            poke(s.late, late, peek(s.slots, w))
            poke(s.late, width + late, np.int64(w))
            poke(s.constants, WANTED * width + w, np.uint64(0))
            late += 1
    return late


@inline
def _give_up(tag, job, result, s, late):
    """No tile with a word that waits is complete."""
    for w in range(late):
        tile = peek(s.late, w)
        poke(result.resampled, tile, peek(job.lanes, tile))


@inline
def _hand_out(tag, p, job, result, s):
    """As `tiles.hand_out`, for the words of the slots that are wanted."""
    width = len(tag)
    store(s.queue_rows, 0, satisfied(tag, p, s, load(tag, s.constants, WANTED)))
    for w in range(width):
        if peek(s.constants, WANTED * width + w) != np.uint64(0):
            at = peek(result.row, peek(s.slots, w)) + peek(s.slots, width + w)
            poke(result.valid, at, peek(s.queue_rows, w))
    for first in range(0, job.n_columns, 8):
        end = min(first + 8, job.n_columns)
        for w in range(width):
            if peek(s.constants, WANTED * width + w) != np.uint64(0):
                at = peek(result.row, peek(s.slots, w)) + peek(s.slots, width + w)
                to = at * job.n_columns
                for c in range(first, end):
                    word = peek(s.x, np.int64(peek(job.columns, c)) * width + w)
                    poke(result.packed, to + c, word)


@inline
def _next_length(first, met, length, bad, words):
    """The length of the first run of the next tile.

    Lanes meet as late there as in this one, give or take a quarter. Of a tile of many words, one
    may be late: the length moves towards the sweeps that were needed, and up where two were late.
    """
    if words < FEW_WORDS or first * 2 < length:
        return max(met + met // 4 + 1, length - length // 4)
    if bad == 0 and first == length:
        return (3 * length + met + 2) // 4
    return first if bad == 1 else first + first // 16 + 1


@kernel
def _tiles(tag, program, visits, law, job, result, space, stop, first, last):
    p, law, job, result, s = bare(program), bare(law), bare(job), bare(result), bare(space)
    o, longest, width = bare(visits), _longest(job.max_rounds), len(tag)
    t, waiting = first, 0
    while True:
        ends = t >= last or peek_volatile(stop, 0) != 0
        late = 0
        if waiting > 0:
            other = peek(s.late, 0)
            if (
                ends
                or waiting > width - width // 4
                or peek(job.row, t) != peek(job.row, other)
                or peek(job.context, t) != peek(job.context, other)
            ):
                late = waiting
        if ends and late == 0:
            return
        tile = peek(s.late, 0) if late > 0 else np.int64(t)
        words = min(width, (peek(job.lanes, tile) + 63) // 64)
        _begin(tag, job, s, tile, late)
        length = min(peek(s.first, 0), longest)
        if late > 0:
            length = min(length + length // 4 + 1, longest)
        row, again, bad = peek(job.row, tile) * p.n, True, 0
        met, apart = 0, zeros(tag)
        while again:
            met, apart = _run(tag, p, o, law, row, s, job, tile, length, stop)
            if met == STOPPED:
                poke(result.resampled, tile, peek(job.lanes, tile))
                _give_up(tag, job, result, s, waiting)
                return
            bad = _count_apart(tag, s, apart)
            again = length < longest and (4 * bad > words if late == 0 else bad > 0)
            if again:  # where few lanes are apart, somewhat longer is often enough
                few = 32 * total(popcount(apart)) <= peek(job.lanes, tile)
                length = min(length + (length + 2) // 3 if few else 2 * length, longest)
        if bad > 0 and length == longest:
            poke(result.rounds, tile, length)
            poke(result.resampled, tile, total(popcount(apart)))
            poke(stop, 0, END_AT_ONCE)
            if late == 0:
                _give_up(tag, job, result, s, waiting)
            return
        if late > 0:
            waiting = 0
            for w in range(late):
                place = peek(s.late, w)
                poke(result.rounds, place, max(length, peek(result.rounds, place)))
        else:
            poke(result.rounds, tile, length if peek(s.trial, 0) < 0 else met)
            if bad > 0:
                waiting = _put_off(tag, s, waiting)
            poke(s.first, 0, _next_length(peek(s.first, 0), met, length, bad, words))
            t += 1
        for v in range(p.n):
            store(s.x, v, load(tag, s.bounds, 2 * v))
        _hand_out(tag, p, job, result, s)
