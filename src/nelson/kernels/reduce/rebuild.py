"""Values of eliminated variables, from the variables that stayed; then the check of all clauses.

    x_v = flip_v xor OR over clauses c of v of AND over literals l of c of not l(x)

that is, some clause of the definition of v leaves no other value. A constant has no clause; a copy
of a literal has one clause of one literal. Entries have the order in which variables were
eliminated, so the last one is rebuilt first.

A tile of 64 W samples is turned into rows of W words, one row per variable. It is rebuilt, checked
and written while its rows are in the cache. A definition and a clause are read once for a whole
tile, and each of their literals costs one vector operation.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.vector import aligned, bare, load, peek, poke, store, tag, zeros
from nelson.kernels.cpu.state import violated

#: Words of a row. 8 words are a cache line, and the rows of 16,000 variables fit in an L2 cache.
WIDTH = 8
#: Rows of `RebuildScratch.constants` behind zeros and ones (as in `cpu.state`): the lanes of the
#: tile, and those of them in which all clauses hold.
_LANES, _SOUND, _CONSTANTS = range(2, 5)


class CodedDefinitions(NamedTuple):
    """Clauses of entry i: first[i] .. first[i + 1] - 1; clause c is codes[start[c]:start[c + 1]].

    A code is 2 (variable from 0) + (is the literal positive).
    """

    target: np.ndarray  # int64: the variable of each entry
    flip: np.ndarray
    first: np.ndarray
    start: np.ndarray
    codes: np.ndarray  # int32


class SampleWords(NamedTuple):
    """Packed samples, 64 in each of `words` words; two-dimensional arrays are flat."""

    words: int
    held: np.ndarray  # (words, variables): given
    variables: np.ndarray  # int32: variables of the columns of `held`
    lanes: np.ndarray  # (words,): the bits that hold samples
    columns: np.ndarray  # int32: variables to write
    out: np.ndarray  # (words, columns): written, 0 outside of `lanes`; may be `held` itself
    sound: np.ndarray  # (words,): written, the lanes in which all clauses hold


class RebuildScratch(NamedTuple):
    """Work space of one thread. A variable that is neither held nor rebuilt is 0."""

    x: np.ndarray  # n rows: the assignments
    constants: np.ndarray


def space(n: int) -> RebuildScratch:
    constants = aligned(_CONSTANTS * WIDTH, fill=0)
    constants[WIDTH : 2 * WIDTH] = ~np.uint64(0)
    return RebuildScratch(aligned(n * WIDTH, fill=0), constants)


def complete(
    definitions: CodedDefinitions,
    ptr: np.ndarray,
    codes: np.ndarray,
    samples: SampleWords,
    space: RebuildScratch,
    first: int,
    last: int,
) -> None:
    """Rebuild, check and write tiles first .. last - 1 of `WIDTH` words.

    Clause c is codes[ptr[c]:ptr[c + 1]]. O(literals of definitions and clauses) for each tile.
    """
    _complete(tag(WIDTH), definitions, ptr, codes, samples, space, first, last)


@inline
def _read(width, m, s, at, words, n_held):
    """Load the held columns of a tile, eight at a time: a cache line of each word."""
    for w in range(width):
        poke(s.constants, _LANES * width + w, peek(m.lanes, at + w) if w < words else np.uint64(0))
    for begin in range(0, n_held, 8):
        end = min(begin + 8, n_held)
        for w in range(words):
            row = (at + w) * n_held
            for k in range(begin, end):
                to = np.int64(peek(m.variables, k)) * width + w
                poke(s.x, to, peek(m.held, row + k))


@inline
def _rebuild(tag, d, s, entries):
    for back in range(entries):
        i = entries - 1 - back
        value = load(tag, s.constants, peek(d.flip, i))
        some = zeros(tag)
        for clause in range(peek(d.first, i), peek(d.first, i + 1)):
            some = some | violated(tag, load(tag, s.constants, 1), d.start, d.codes, s, clause)
        store(s.x, peek(d.target, i), value ^ some)


@inline
def _write(width, m, s, at, words, n_columns):
    for w in range(words):
        poke(m.sound, at + w, peek(s.constants, _SOUND * width + w))
    for begin in range(0, n_columns, 8):
        end = min(begin + 8, n_columns)
        for w in range(words):
            row, lanes = (at + w) * n_columns, peek(s.constants, _LANES * width + w)
            for k in range(begin, end):
                word = peek(s.x, np.int64(peek(m.columns, k)) * width + w)
                poke(m.out, row + k, word & lanes)


@kernel
def _complete(tag, definitions, ptr, codes, samples, space, first, last):
    width, d, m, s = len(tag), bare(definitions), bare(samples), bare(space)
    for t in range(first, last):
        at = t * width
        words = min(width, samples.words - at)
        _read(width, m, s, at, words, samples.variables.size)
        _rebuild(tag, d, s, definitions.target.size)
        good = load(tag, s.constants, _LANES)
        for c in range(ptr.size - 1):
            good = good & ~violated(tag, good, ptr, codes, s, c)
        store(s.constants, _SOUND, good)
        _write(width, m, s, at, words, samples.columns.size)
