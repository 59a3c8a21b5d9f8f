"""Gates: variables that are functions of others are resolved away.

`nelson.kernels.reduce.eliminate` says when that keeps the solutions.
"""

from __future__ import annotations

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.exact.preprocess.simplify import units
from nelson.exact.preprocess.state import State
from nelson.formula.flat import lengths_to_offsets
from nelson.kernels.reduce import eliminate as kernels
from nelson.kernels.reduce.clause_store import DefinitionLog, Store, load, tally
from nelson.kernels.reduce.definition import CLAUSES

#: Clauses that resolving one variable away may add. On two factoring formulas, 8 leaves 58 and 194
#: variables where 0 leaves 107 and 313, with nearly as many clauses.
GROWTH = 8
#: Passes over the variables whose clauses changed.
PASSES = 12
#: Room for new literals, besides half as many as there are. A pass ends when it is used up.
ROOM = 1 << 14
#: At most this for each variable: kernels with large arrays are not interpreted, and a formula of
#: five variables would wait for Numba.
ROOM_FOR_EACH = 512


def gates(state: State, share: int) -> None:
    """Resolve away variables that their clauses define, with theta = 0 in every context."""
    eliminate(state, share, (state.theta == 0).all(axis=1))


def _candidates(state: State, may: np.ndarray, only_defined: bool) -> np.ndarray:
    """Variables that may be eliminated, cheapest first."""
    held, share = np.zeros(2 * state.n, np.int32), np.zeros(state.n)
    tally(state.literals, state.offsets, held, share)
    state.visits.use(len(state.literals))
    positive, negative = held[::2], held[1::2]
    total = positive + negative
    chosen = may & (total > 0) & (total <= CLAUSES)
    if only_defined:
        chosen &= (share >= 1.0) & (positive > 0) & (negative > 0)
    variables = np.flatnonzero(chosen)
    cost = positive[variables].astype(np.int64) * negative[variables]
    return variables[np.argsort(cost, kind="stable")].astype(np.int32)


def eliminate(
    state: State, share: int, may: np.ndarray, only_defined: bool = True, growth: int = GROWTH
) -> None:
    """Resolve away variables among `may` (bool), within `share` visits, if that adds at most
    `growth` clauses for each.

    only_defined=False takes variables that no gate defines, too: that keeps the solutions on all
    other variables, each once, but not the law (`nelson.exact.projection`).
    """
    # Literals of the longest resolvent.
    longest = 24
    order, taken = _candidates(state, may, only_defined), 0
    for _ in range(PASSES):
        if not len(order) or state.visits.spent:
            break
        store, definitions, scratch = _space(state)
        load(state.literals, state.offsets, store)
        state.visits.use(2 * len(state.literals))
        at, outcome = 0, kernels.DONE
        while at < len(order) and (steps := state.visits.next(share)):
            at, outcome, work = kernels.eliminate(
                store, definitions, scratch, order, at, steps, only_defined, growth, longest
            )
            share -= work
            state.visits.use(work)
            if outcome == kernels.CONFLICT:
                raise Unsatisfiable("resolution leads to the empty clause")
            if outcome == kernels.FULL:
                break
        taken += _unload(state, store, definitions)
        if at < len(order) and outcome != kernels.FULL:
            state.cut = True
            break
        changed = store.touched.astype(bool)
        changed[order[at:]] = True
        order = _candidates(state, may & changed, only_defined)
    state.count("gates", taken)
    units(state)


def _space(state: State) -> tuple[Store, DefinitionLog, kernels.DefinitionScratch]:
    """An empty clause store with room to grow, empty definitions, and scratch arrays."""
    n, m = state.n, len(state.offsets) - 1
    room = min(ROOM, ROOM_FOR_EACH * n)
    places = len(state.literals) + len(state.literals) // 2 + room
    clauses = m + m // 2 + room // 4
    store = empty_store(n, places, clauses)
    # Each clause is removed once, and becomes part of at most one definition.
    definitions = DefinitionLog(
        target=np.empty(n, np.int32),
        flip=np.empty(n, np.uint8),
        first=np.zeros(n + 1, np.int64),
        start=np.zeros(clauses + 1, np.int64),
        literals=np.empty(places, np.int32),
        used=np.zeros(2, np.int64),
    )
    return store, definitions, scratch_for(n)


def empty_store(n: int, places: int, clauses: int) -> Store:
    """A store with room for this many literals and clauses over n variables."""
    return Store(
        literals=np.empty(places, np.int32),
        begin=np.empty(clauses, np.int32),
        size=np.zeros(clauses, np.int32),
        owner=np.empty(places, np.int32),
        after=np.empty(places, np.int32),
        head=np.full(2 * n, -1, np.int32),
        held=np.zeros(2 * n, np.int32),
        used=np.zeros(2, np.int64),
        touched=np.zeros(n, np.uint8),
    )


def scratch_for(n: int) -> kernels.DefinitionScratch:
    """Work space for the clauses of one of n variables."""
    return kernels.DefinitionScratch(
        clauses=np.empty(CLAUSES, np.int32),
        positive=np.empty(CLAUSES, np.uint64),
        negative=np.empty(CLAUSES, np.uint64),
        use=np.empty(CLAUSES, np.uint8),
        gate=np.empty(CLAUSES, np.uint8),
        stack=np.empty((2, 66), np.uint64),
        sorted=np.empty(CLAUSES, np.int32),
        local=np.full(n, -1, np.int8),
        mark=np.zeros(n, np.int8),
    )


def _unload(state: State, store: Store, definitions: DefinitionLog) -> int:
    """Copy the clauses of the store back. -> how many variables were eliminated"""
    entries, clauses = definitions.used
    if not entries:
        return 0
    first, start = definitions.first[: entries + 1], definitions.start[: clauses + 1]
    target = definitions.target[:entries].copy()
    flip, literals = definitions.flip[:entries].copy(), definitions.literals[: start[-1]].copy()
    state.eliminated.add(target, flip, np.diff(first), np.diff(start), literals)
    state.out[target] = True
    alive = np.flatnonzero(store.size[: store.used[0]])
    lengths = store.size[alive].astype(np.int64)
    offsets = lengths_to_offsets(lengths)
    places = np.arange(offsets[-1]) + np.repeat(store.begin[alive] - offsets[:-1], lengths)
    state.replace(store.literals[places], offsets)
    state.visits.use(4 * len(places))
    return int(entries)
