"""What a sweep over units reads and writes (`units.py`), as flat arrays."""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.rng import GOLDEN
from nelson.kernels.core.vector import aligned
from nelson.kernels.cpu.native import ENTRIES, WIDTH

#: Kinds of units.
PLAIN, FIELD, TERMS = 0, 1, 2
#: Inputs that number the entries of a block of a table: 2^6 = ENTRIES.
INDEX = 6
#: Most inputs of a table: sixteen blocks cost about a third of the fields of a word.
_MOST = 10
#: Most bytes of all tables of a thread: about what the second cache of a core holds.
_BYTES = 1 << 20
#: Bytes of a block: four for each entry.
_BLOCK = 4 * ENTRIES


class UnitProgram(NamedTuple):
    """Units, clauses and terms as flat arrays. Literals are codes 2 v + s, s = 1 if positive."""

    n: int
    n_units: int
    most: int  # literals of the largest unit
    n_inputs: int
    most_inputs: int  # of one variable
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
    input_at: np.ndarray  # (n + 1,) int64 -> the inputs of a variable: terms that add to its field
    rest_at: np.ndarray  # (inputs + 1,) int64 -> `rest`
    rest: np.ndarray  # int32: the other variables of the term


class UnitWeights(NamedTuple):
    """The weights of each context."""

    threshold: np.ndarray  # (contexts, n) uint32: 2^32 P(x_v = 1), for PLAIN
    pattern: np.ndarray  # (contexts, patterns) int32: weights of the patterns, for FIELD
    theta: np.ndarray  # (contexts, n) int32: theta / step, for TERMS
    coefficient: np.ndarray  # (contexts, inputs) int32: c / step
    step: np.ndarray  # (contexts,) float32


class UnitScratch(NamedTuple):
    """Work space of one thread. Rows have a word for each word of the tile."""

    x: np.ndarray  # a row for each variable
    keys: np.ndarray  # two rows
    free: np.ndarray  # one row: lanes that choose
    old: np.ndarray  # the variables of a unit before the move
    bad: np.ndarray  # for each pattern of a unit
    drawn: np.ndarray  # for each pattern of a unit
    inputs: np.ndarray  # a row for each input of a variable
    weights: np.ndarray  # for each pattern of a unit, 16 int32
    energy: np.ndarray  # for each pattern of a unit and each word, 64 int32
    places: np.ndarray  # one row: 32 GOLDEN times 0 .. 7
    blocks: np.ndarray  # lanes that take each block of a table
    tables: np.ndarray  # uint8: four digits of each threshold
    digits: np.ndarray  # the first block of `tables`: thresholds of the lanes of one word
    table_at: np.ndarray  # (n,) int64 -> `tables`; 0: none
    table_of: np.ndarray  # (1,) int64: context of the tables, -1: none


class UnitTask(NamedTuple):
    """What to sweep, in place."""

    words: np.ndarray  # (contexts, n_words, n) uint64
    n_words: int
    context: np.ndarray  # (contexts,) int64: their numbers, for the random numbers
    first_word: int  # number of the first word, for the random numbers
    seed: np.uint64
    done: int  # sweeps that the states have made already
    sweeps: int


def tiles(task: UnitTask) -> int:
    """How many tiles the states make."""
    return len(task.context) * -(-task.n_words // WIDTH)


def space(program: UnitProgram, draws: int) -> UnitScratch:
    """draws: how often each variable moves a word, for one context and one thread."""
    places = aligned(WIDTH)
    with np.errstate(over="ignore"):
        places[:] = np.arange(WIDTH, dtype=np.uint64) * np.uint64(32) * GOLDEN
    alone = np.zeros(program.n, bool)
    sizes = np.diff(program.unit_at)
    first = program.unit_at[:-1][(sizes == 1) & (program.kind == TERMS)]
    alone[program.literal[first] >> 1] = True
    table_at, size, blocks = _tables_for(np.diff(program.input_at), alone, draws)
    tables = aligned(size, np.uint8)
    patterns = (program.most + 1) * WIDTH
    energies = patterns * (ENTRIES // 2) if (program.kind == TERMS).any() else 1
    return UnitScratch(
        x=aligned(max(1, program.n) * WIDTH),
        keys=aligned(2 * WIDTH),
        free=aligned(WIDTH),
        old=aligned(patterns),
        bad=aligned(patterns),
        drawn=aligned(patterns),
        inputs=aligned(program.most_inputs * WIDTH),
        weights=aligned(patterns),
        energy=aligned(energies),
        places=places,
        blocks=aligned(blocks),
        tables=tables,
        digits=tables[:_BLOCK].view(np.uint64),
        table_at=table_at,
        table_of=np.full(1, -1, np.int64),
    )


def _tables_for(inputs: np.ndarray, alone: np.ndarray, draws: int) -> tuple[np.ndarray, int, int]:
    """Which variables have tables -> (place of each table or 0, bytes in all, most blocks).

    inputs: of each variable; alone: is it a lone variable with terms?; draws: how often a variable
    moves a word, for each context and thread.
    """
    blocks = 1 << np.maximum(0, inputs - INDEX).clip(max=_MOST + 1)
    wanted = alone & (inputs <= _MOST) & (draws >= 2 * blocks)
    size = np.where(wanted, blocks, 0)
    end = np.cumsum(size) + 1  # the first block is for fields that are computed in each lane
    wanted &= end * _BLOCK <= _BYTES
    place = np.where(wanted, (end - size) * _BLOCK, 0)
    used = int(end[wanted].max(initial=1)) * _BLOCK
    return place.astype(np.int64), used, int(blocks[wanted].max(initial=1))
