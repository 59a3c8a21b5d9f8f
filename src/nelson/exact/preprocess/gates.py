"""Variables taken out by resolution; see `kernels.eliminate` for when that keeps the solutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.exact.preprocess.simplify import units
from nelson.exact.preprocess.state import State
from nelson.formula.flat import lengths_to_offsets

if TYPE_CHECKING:
    from nelson.kernels.reduce.clause_store import Definitions, Store
    from nelson.kernels.reduce.eliminate import Scratch

#: Longest resolvent, and clauses more than were there before: for samples, and for a start. On two
#: factoring formulas, 8 leaves 58 and 194 variables where 0 leaves 107 and 313, with nearly as
#: many clauses.
LONGEST, GROWTH, GROWTH_FOR_START = 24, 8, 16
#: Passes over the variables whose clauses changed.
PASSES = 12
#: Places for new literals, next to half as many as there are: when they are used up, a pass ends.
ROOM = 1 << 14


def gates(state: State, share: int, growth: int = GROWTH) -> None:
    """Take out variables that their clauses define and that weigh nothing in any context."""
    weightless = (state.theta == 0).all(axis=1)
    _eliminate(state, share, weightless, True, growth)


def any_variable(state: State, share: int, growth: int = GROWTH_FOR_START) -> None:
    """Take out any variable. Keeps satisfiability, not the law."""
    _eliminate(state, share, np.ones(state.n, bool), False, growth)


def _candidates(state: State, may: np.ndarray, only_defined: bool) -> np.ndarray:
    """Variables worth a look, cheapest first."""
    from nelson.kernels.reduce.clause_store import tally
    from nelson.kernels.reduce.definition import CLAUSES

    held, share = np.zeros(2 * state.n, np.int32), np.zeros(state.n)
    tally(state.literals, state.offsets, held, share)
    state.budget.use(len(state.literals))
    positive, negative = held[::2], held[1::2]
    total = positive + negative
    chosen = may & (total > 0) & (total <= CLAUSES)
    if only_defined:
        chosen &= (share >= 1.0) & (positive > 0) & (negative > 0)
    found = np.flatnonzero(chosen)
    cost = positive[found].astype(np.int64) * negative[found]
    return found[np.argsort(cost, kind="stable")].astype(np.int32)


def _eliminate(state: State, share: int, may: np.ndarray, only_defined: bool, growth: int) -> None:
    from nelson.kernels.reduce import eliminate as kernels
    from nelson.kernels.reduce.clause_store import load

    order, taken = _candidates(state, may, only_defined), 0
    for _ in range(PASSES):
        if not len(order) or state.budget.spent:
            break
        store, definitions, scratch = _space(state)
        load(state.literals, state.offsets, store)
        state.budget.use(2 * len(state.literals))
        at, outcome = 0, kernels.DONE
        while at < len(order) and (steps := state.budget.next(share)):
            at, outcome, work = kernels.eliminate(
                store, definitions, scratch, order, at, steps, only_defined, growth, LONGEST
            )
            share -= work
            state.budget.use(work)
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
    state.count("gates" if only_defined else "eliminated", taken)
    units(state)


def _space(state: State) -> tuple[Store, Definitions, Scratch]:
    """Empty arrays for a clause store with room to grow, definitions, and scratch."""
    from nelson.kernels.reduce.clause_store import Definitions, Store
    from nelson.kernels.reduce.definition import CLAUSES
    from nelson.kernels.reduce.eliminate import Scratch

    n, m = state.n, len(state.offsets) - 1
    places = len(state.literals) + len(state.literals) // 2 + ROOM
    clauses = m + m // 2 + ROOM // 4
    code = 2 * n
    store = Store(
        literals=np.empty(places, np.int32),
        begin=np.empty(clauses, np.int32),
        size=np.zeros(clauses, np.int32),
        owner=np.empty(places, np.int32),
        after=np.empty(places, np.int32),
        head=np.full(code, -1, np.int32),
        held=np.zeros(code, np.int32),
        used=np.zeros(2, np.int64),
        touched=np.zeros(n, np.uint8),
    )
    # Each clause is removed once and is part of at most one definition.
    definitions = Definitions(
        target=np.empty(n, np.int32),
        flip=np.empty(n, np.uint8),
        first=np.zeros(n + 1, np.int64),
        start=np.zeros(clauses + 1, np.int64),
        literals=np.empty(places, np.int32),
        used=np.zeros(2, np.int64),
    )
    scratch = Scratch(
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
    return store, definitions, scratch


def _unload(state: State, store: Store, definitions: Definitions) -> int:
    """Back to flat clauses; -> how many variables were taken out."""
    entries, clauses = definitions.used
    if not entries:
        return 0
    first, start = definitions.first[: entries + 1], definitions.start[: clauses + 1]
    target = definitions.target[:entries].copy()
    flip, literals = definitions.flip[:entries].copy(), definitions.literals[: start[-1]].copy()
    state.taken.definitions(target, flip, first, start, literals)
    state.out[target] = True
    alive = np.flatnonzero(store.size[: store.used[0]])
    lengths = store.size[alive].astype(np.int64)
    offsets = lengths_to_offsets(lengths)
    places = np.arange(offsets[-1]) + np.repeat(store.begin[alive] - offsets[:-1], lengths)
    state.replace(store.literals[places], offsets)
    state.budget.use(4 * len(places))
    return int(entries)
