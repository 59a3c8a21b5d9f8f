"""Local search for more definitions: each input less doubles the share of valid proposals.

A parity x + y + z = 0 defines any one of its variables. Which one is taken decides what else can be
defined: a known output, for example, may define an input. So again and again some neighbouring
definitions are dropped, and the variables around them are defined anew, first those that had no
definition. If that leaves more inputs than before, it is undone.
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import helper, kernel
from nelson.kernels.core.rng import GOLDEN, scramble
from nelson.kernels.reduce.definition import CLAUSES
from nelson.kernels.reduce.inputs import define_one

#: Most definitions that are dropped at a time. On a cipher of 80 key bits with 36 bits of output
#: known, dropping up to 3 leaves 70 inputs; dropping 30 leaves 78.
DROPPED = 3
#: Most variables without a definition that are tried at a time.
TRIED = 32


class Undo(NamedTuple):
    """What the last change did."""

    dropped: np.ndarray  # int32 (DROPPED,): variables whose definition was dropped
    clause: np.ndarray  # int32: clauses of these definitions
    owner: np.ndarray  # int32: the variable that each of them defined
    tried: np.ndarray  # int32 (TRIED + DROPPED,): variables to define anew


def undo() -> Undo:
    sizes = DROPPED, DROPPED * CLAUSES, DROPPED * CLAUSES, TRIED + DROPPED
    return Undo(*(np.empty(size, np.int32) for size in sizes))


@helper
def _random(state, below):
    """A random number from 0 to below - 1; moves the state on."""
    state[0] += GOLDEN
    return np.int64(scramble(state[0], GOLDEN) >> np.uint64(33)) % below


@helper
def _neighbour(s, v, state):
    """A random variable of a random clause of v."""
    sizes = s.held[2 * v] + s.held[2 * v + 1]
    skip = _random(state, sizes)
    sign = 0 if skip < s.held[2 * v] else 1
    if sign:
        skip -= s.held[2 * v]
    place = s.head[2 * v + sign]
    for _ in range(skip):
        place = s.after[place]
    j = s.owner[place]
    return abs(s.literals[s.begin[j] + _random(state, s.size[j])]) - 1


@helper
def _forget(s, v, f, undo, saved):
    """Drop the definition of v, and save its clauses behind the first `saved`. -> how many now"""
    f.defined[v] = 0
    for sign in range(2):
        place = s.head[2 * v + sign]
        while place >= 0:
            j = s.owner[place]
            if f.definer[j] == v:
                if saved >= 0:
                    undo.clause[saved], undo.owner[saved] = j, v
                    saved += 1
                f.definer[j] = -1
            place = s.after[place]
    return saved


@helper
def _listed(undo, count, v):
    listed = False
    for k in range(count):
        listed |= undo.tried[k] == v
    return listed


@helper
def _around(s, v, f, undo, known):
    """List variables without a definition that share a clause with v. -> how many are listed"""
    for sign in range(2):
        place = s.head[2 * v + sign]
        while place >= 0 and known < TRIED:
            j = s.owner[place]
            for at in range(s.begin[j], s.begin[j] + s.size[j]):
                u = abs(s.literals[at]) - 1
                if known < TRIED and not f.defined[u] and not _listed(undo, known, u):
                    undo.tried[known] = u
                    known += 1
            place = s.after[place]
    return known


@kernel
def improve(s, w, f, undo, state, limit):
    """Change definitions until `limit` visits are made. state uint64 (1,): random numbers."""
    while limit > 0:
        limit -= 64
        v = abs(s.literals[_random(state, s.used[1])]) - 1
        if f.defined[v]:
            continue
        undo.tried[0] = v
        known, dropped, saved, at = 1, 0, 0, v
        wanted = 1 + _random(state, DROPPED)
        for _ in range(2 * DROPPED):
            at = _neighbour(s, at, state)
            if dropped < wanted and f.defined[at]:
                known = _around(s, at, f, undo, known)
                saved = _forget(s, at, f, undo, saved)
                undo.dropped[dropped] = at
                dropped += 1
        for k in range(dropped):
            undo.tried[known + k] = undo.dropped[k]
        gained = 0
        for k in range(known + dropped):
            if not f.defined[undo.tried[k]]:  # a dropped one may be listed twice
                good, work = define_one(s, w, undo.tried[k], f)
                gained += int(good)
                limit -= work
        if gained < dropped:
            for k in range(known + dropped):
                if f.defined[undo.tried[k]]:
                    _forget(s, undo.tried[k], f, undo, -1)
            for k in range(saved):
                f.definer[undo.clause[k]] = undo.owner[k]
                f.defined[undo.owner[k]] = 1
