"""Proposals of a formula of gates: draw the inputs, compute the gates, test the other clauses.

The inputs of a tile have the random numbers that resampling gives them in its first draw. Entries
(`exact.inputs.GateOrder`) follow in their order, each for all lanes of the tile at once. A tile
ends as soon as no lane is left: where one proposal in a thousand is valid, most tiles are never
complete.

Let W be the weight of a gate, exp(theta x_v) over its maximum. A lane stays with probability W:
always if the gate has the favoured value, with probability exp(-|theta|) if not. So each lane that
is left at the end is drawn from P_theta(. | C), by rejection. The coin of a gate has the random
numbers that its variable has in the first draw.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.bernoulli import draw, finish, law, rows_for
from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.program import Program
from nelson.kernels.core.reference import FAVOURS_ONE, UNWEIGHTED, gate_weights
from nelson.kernels.core.vector import (
    any_lane,
    bare,
    load,
    ones,
    peek,
    peek_volatile,
    poke,
    store,
    tag,
    zeros,
)
from nelson.kernels.cpu.state import (
    KEY1,
    STOPPED,
    WANTED,
    Job,
    Result,
    TileScratch,
    stream,
    violated,
)
from nelson.kernels.cpu.tiles import begin, hand_out


class Entries(NamedTuple):
    """`exact.inputs.GateOrder` in the numbers of the program."""

    n_inputs: int
    n_entries: int
    inputs: np.ndarray  # int32
    target: np.ndarray  # int32
    flip: np.ndarray  # uint8
    first: np.ndarray  # int64
    start: np.ndarray  # int64
    codes: np.ndarray  # int32


class GateLaw(NamedTuple):
    """P(x_v = 1) of inputs; P(a lane stays where v has the other value) of gates: thr / 2^32."""

    thr: np.ndarray
    table: np.ndarray
    max_rows: int
    favoured: np.ndarray  # (contexts * n) uint8: see `reference.gate_weights`


def weights(thr: np.ndarray, theta: np.ndarray, gates: np.ndarray) -> GateLaw:
    """thr and theta (contexts, n), thr of the first draw; gates: the variables that have one."""
    thr, favoured = gate_weights(thr, theta, gates)
    table = law(thr)
    return GateLaw(table.thr, table.table, table.max_rows, favoured.reshape(-1))


def run(
    entries: Entries,
    width: int,
    program: Program,
    law: GateLaw,
    job: Job,
    result: Result,
    space: TileScratch,
    stop: np.ndarray,
    tiles: tuple[int, int],
) -> None:
    """As `tiles.run`: each tile is one proposal in each lane; valid lanes are those that stay."""
    _tiles(tag(width), entries, program, law, job, result, space, stop, tiles[0], tiles[1])


@inline
def _bernoulli(tag, p, law, at, s, v, h):
    """The first draw of variable v, whose table entry is `at`, in all lanes."""
    start, key1 = stream(tag, p, s, 0, v), load(tag, s.constants, KEY1)
    undecided, value = draw(tag, law, at, start, key1, ones(tag), h)
    if any_lane(undecided):
        value = value | finish(tag, law, at, start, key1, undecided, h)
    return value


@inline
def _fails(tag, g, s, e):
    """The lanes in which all literals of some term of entry e are false."""
    some, every = zeros(tag), ones(tag)
    for term in range(peek(g.first, e), peek(g.first, e + 1)):
        some = some | violated(tag, every, g.start, g.codes, s, term)
    return some


@inline
def _compute(tag, p, g, law, row, s, e, h, alive):
    """Set the variable of gate e. -> the lanes, of those alive, that stay"""
    v = peek(g.target, e)
    value = _fails(tag, g, s, e) ^ load(tag, s.constants, peek(g.flip, e))
    store(s.x, v, value)
    favoured = peek(law.favoured, row + v)
    if favoured == UNWEIGHTED:
        return alive
    other = value ^ load(tag, s.constants, int(favoured == FAVOURS_ONE))
    return alive & ~(other & ~_bernoulli(tag, p, law, row + v, s, v, h))


@kernel
def _tiles(tag, entries, program, law, job, result, space, stop, first, last):
    g, p, law, job = bare(entries), bare(program), bare(law), bare(job)
    result, s = bare(result), bare(space)
    h = rows_for(64.0 * len(tag), law.max_rows)
    for t in range(first, last):
        if peek_volatile(stop, 0) != 0:
            poke(result.rounds, t, STOPPED)
            return
        row = peek(job.row, t) * p.n
        begin(tag, job, s, t)
        for k in range(g.n_inputs):
            v = peek(g.inputs, k)
            store(s.x, v, _bernoulli(tag, p, law, row + v, s, v, h))
        for q in range(p.n_fixed):
            code = peek(p.fixed, q)
            store(s.x, code >> 1, load(tag, s.constants, code & 1))
        alive = load(tag, s.constants, WANTED)
        for e in range(g.n_entries):
            if peek(g.target, e) >= 0:
                alive = _compute(tag, p, g, law, row, s, e, h, alive)
            else:
                alive = alive & ~_fails(tag, g, s, e)
                if not any_lane(alive):
                    break
        if any_lane(alive):
            store(s.constants, WANTED, alive)
            hand_out(tag, p, job, result, s, t)
        poke(result.rounds, t, 0)
