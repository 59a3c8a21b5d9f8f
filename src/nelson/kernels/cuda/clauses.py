"""Clauses on the GPU: the lanes that violate them, and the lanes in which a variable is redrawn."""

import numpy as np

from nelson.kernels.cuda.setup import (
    atomic_add,
    atomic_or,
    device,
    load2,
    masked,
    peek,
    peek2,
    poke,
    poke2,
    popcount,
    rolled,
    sign,
    sign_low,
)
from nelson.kernels.cuda.team import (
    ALL,
    BAD,
    BIT,
    EVERY,
    GIVEN,
    HITS,
    LANES,
    WANTED,
    WORD_CELLS,
    ZERO,
    int32,
)


@device
def entries(ints, start, member):
    """(first, end) of the entries of one member of the slices at `start` (see `program.py`)."""
    s = int32(start + (member >> 5))
    return int32(peek(ints, s) + (member & 31)), peek(ints, int32(s + 1))


@device
def literals(p, w, j):
    """(first, number) of the words of clause j; computed without a load if all have one length."""
    if len(w.narrow) > 1:
        number = len(w.narrow) >> 1  # a constant for the compiler, which unrolls loops over it
        return int32(j + (j & ~31) * (number - 1)), number
    at, end = entries(w.ints, p.clause, j)
    return at, (end - at + 31) >> 5


@device
def variable(w, word, half):
    """The variable of a literal, which is half a word (narrow) or a word."""
    if len(w.narrow):
        return int32((word >> np.uint32(3 + 16 * half)) & np.uint32(0xFFF))
    return int32((word >> np.uint32(3)) & np.uint32(0xFFFFFFF))


@device
def flip(w, word, half):
    """All ones if the literal is negated, else zero."""
    if len(w.narrow) and half == 0:
        return sign_low(word)
    return sign(word)


@device
def place_of(w, word, half):
    """Address in bytes of the pair of words of the variable of a literal."""
    if len(w.narrow) and half:
        return np.uint32(masked(word, 0x7FF80000) >> np.uint32(15))
    return np.uint32(masked(word, 0x7FF8 if len(w.narrow) else 0x7FFFFFF8) << np.uint32(1))


@device
def and_false(w, place, negation, first, second):
    """The lanes of a pair, of those given, in which a literal is false."""
    x, y = load2(w.x, place)
    return first & (x ^ negation), second & (y ^ negation)


@device
def second_half(w, k):
    """Does word k of a clause have two literals? The last word has one if all clauses have the same
    odd length.
    """
    return len(w.narrow) == 1 or 2 * k + 2 < len(w.narrow)


@device
def _and_false_but(p, w, word, half, v, first, second):
    """As `and_false`, but a literal of variable v counts as false."""
    place, negation = place_of(w, word, half), flip(w, word, half)
    if v >= 0 and place == np.uint32(16 * v):  # read the pair of all ones behind the clauses
        place, negation = np.uint32(16 * (p.n + p.n_clauses + 1)), ZERO
    return and_false(w, place, negation, first, second)


@device
def violated(p, w, words, at, number, first, second, given, v):
    """The lanes, of those given, in which every literal of a clause is false; literals of variable
    v count as false (v = -1: none). given: the clause is not from `w.clauses`, so that its length
    may differ.
    """
    k = 0
    while k < number:
        word = peek(words, at + 32 * k)
        if len(w.narrow) and (given or second_half(w, k)):
            first, second = _and_false_but(p, w, word, 1, v, first, second)
        first, second = _and_false_but(p, w, word, 0, v, first, second)
        k += 1
    return first, second


@device
def halves(word):
    """The two clauses in a word of a list."""
    return np.uint32(word & np.uint32(0xFFFF)), np.uint32(word >> np.uint32(16))


@device
def padding(p, w):
    """An entry of a list that names only the clause that is never violated."""
    return np.uint32(p.n_clauses * (0x100010 if len(w.narrow) else 16))


@device
def _or_bad(w, word, first, second):
    """Add the violated lanes of the clauses (one, or two if narrow) in a word of a list."""
    code = word
    if len(w.narrow):
        code, other = halves(word)
        x, y = load2(w.bad, other)
        first, second = first | x, second | y
    x, y = load2(w.bad, code)
    return first | x, second | y


@device
def gather(p, w, v):
    """The lanes in which some clause of v is resampled."""
    at, end = entries(w.ints, p.occ, v)
    first, second = ZERO, ZERO
    while at < end:
        rolled()
        k = np.int64(at)  # 64 bits, so that the second load needs no arithmetic
        word = peek(w.words, k)
        after = padding(p, w)
        if int32(at + 32) < end:
            after = peek(w.words, k + 32)
        at = int32(at + 64)
        first, second = _or_bad(w, word, first, second)
        first, second = _or_bad(w, after, first, second)
    return first, second


@device
def check(p, w, mode, listing, turn):
    """Check clauses; count violated lanes and listed words in the cells of a turn.

    ALL     check every clause and write its violated lanes to bad[j]. listing: also list the
            nonzero words of `bad`, as long as the list has room
    GIVEN   check the clauses as given and write violated lanes to the cells of their words
    """
    lanes, j, mine, bit = int32(0), w.me, np.uint32(0), BIT  # mine: this thread's violated clauses
    count = p.n_clauses if mode == ALL else p.n_checks
    wanted, wanted_too = wanted_lanes(w, 0)
    while j < count:
        if len(w.log_copies):
            wanted, wanted_too = wanted_lanes(w, j)
        if mode == GIVEN and p.far_checks:
            at, end = entries(w.far_ints, p.check, j)
            number = (end - at + 31) >> 5
            first, second = violated(p, w, w.far_words, at, number, wanted, wanted_too, True, -1)
        else:
            at, number = literals(p, w, j)
            first, second = violated(p, w, w.clauses, at, number, wanted, wanted_too, False, -1)
        if mode == ALL:
            poke2(w.bad, j, first, second)
            lanes = int32(lanes + popcount(first) + popcount(second))
            mine = np.uint32(mine | (bit if first | second != ZERO else np.uint32(0)))
            bit = np.uint32(bit << BIT)
        elif first | second != ZERO:
            at_bad = int32(_cells_of(w, j) + BAD)
            atomic_or(w.word_cells, at_bad, first)
            atomic_or(w.word_cells, int32(at_bad + WORD_CELLS), second)
        j = int32(j + w.size)
    if lanes:
        atomic_add(w.cells, np.uint32(LANES + turn), np.uint32(lanes))
        if listing:
            _list(w, mine, turn)


@device
def _cells_of(w, j):
    """Place of the cells of the two words to which clause j belongs."""
    return int32((j & ((1 << len(w.log_copies)) - 1)) * 2 * WORD_CELLS)


@device
def wanted_lanes(w, j):
    """The lanes wanted of the two words to which clause j belongs."""
    at = int32(_cells_of(w, j) + WANTED)
    return peek(w.word_cells, at), peek(w.word_cells, int32(at + WORD_CELLS))


@device
def _list(w, mine, turn):
    """List the words of the violated clauses among those that this thread has checked."""
    while mine != 0:
        low = np.uint32(mine & (~mine + BIT))
        mine = np.uint32(mine ^ low)
        j = int32(w.me + w.size * popcount(np.uint32(low - BIT)))
        first, second = peek2(w.bad, j)
        k = 0
        while k < 2:
            if (second if k else first) != ZERO:
                at = int32(atomic_add(w.cells, np.uint32(HITS + turn), BIT))
                if at < w.listed_room:
                    poke(w.lists, int32(w.listed + at), np.uint32(2 * j + k))
            k += 1


@device
def _stuck(p, w, code, v, stuck, stuck_too):
    """Add the lanes in which a clause does not hold without variable v."""
    at, number = literals(p, w, int32(code >> np.uint32(4)))
    first, second = violated(p, w, w.clauses, at, number, EVERY, EVERY, False, v)
    return stuck | first, stuck_too | second


@device
def stuck_lanes(p, w, i, v):
    """The lanes in which some clause of v, the variable at position i, does not hold without v."""
    at, end = entries(w.ints, p.sweep, i)
    if at < end:
        code = peek(w.words, at)
        if len(w.narrow):
            code, _ = halves(code)
        if int32(code >> np.uint32(4)) >= p.n_clauses:  # only padding
            end = at
    stuck, stuck_too = ZERO, ZERO
    while at < end:
        code = peek(w.words, at)
        at = int32(at + 32)
        if len(w.narrow):
            code, other = halves(code)
            stuck, stuck_too = _stuck(p, w, other, v, stuck, stuck_too)
        stuck, stuck_too = _stuck(p, w, code, v, stuck, stuck_too)
    return stuck, stuck_too
