"""Steps that lose no solution: units, equivalent literals, failed literals, subsumed clauses.

Each leaves its clauses at the fixpoint of unit propagation.
"""

from __future__ import annotations

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.exact.preprocess.state import State, occurrences
from nelson.formula.flat import lengths_to_offsets
from nelson.formula.propagate import propagate
from nelson.kernels.reduce import binary_clauses
from nelson.kernels.reduce import probe as probe_kernels
from nelson.kernels.reduce import subsume as subsume_kernels


def units(state: State, what: str = "implied", given: np.ndarray | None = None) -> None:
    """Unit propagation to its fixpoint; fixed variables are counted under the name `what`."""
    lengths = state.lengths
    given = np.zeros(0, np.int32) if given is None else given
    if not len(given) and (len(lengths) == 0 or lengths.min() > 1):
        return
    fixed, literals, offsets = propagate(state.literals, state.offsets, state.n, given)
    state.visits.use(2 * len(state.literals))
    state.fix(fixed)
    state.replace(literals, offsets)
    state.count(what, len(fixed))


def equal(state: State) -> None:
    """Merge literals that imply each other in binary clauses. O(variables + binary clauses)."""
    first = state.offsets[:-1][state.lengths == 2]
    if len(first) < 2:
        return
    ends = np.concatenate([state.literals[first], state.literals[first + 1]])
    sources = 2 * (np.abs(ends) - 1) + (ends > 0)  # the negation of each end implies the other
    start = lengths_to_offsets(np.bincount(sources, minlength=2 * state.n))
    to = np.empty(len(ends), np.int32)
    binary_clauses.implications(state.literals, state.offsets, start[:-1].copy(), to)
    root, index, low, stack, path = np.zeros((5, 2 * state.n), np.int32)
    edge = np.empty(2 * state.n, np.int64)
    binary_clauses.strong_components(start, to, index, low, edge, stack, path, root)
    state.visits.use(2 * state.n + len(to) + len(state.literals))
    positive, negative = root[::2], root[1::2]
    if (positive == negative).any():
        v = int(np.flatnonzero(positive == negative)[0]) + 1
        raise Unsatisfiable(f"binary clauses say that variable {v} is its own negation")
    merged = np.flatnonzero(positive >> 1 != np.arange(state.n))
    if not len(merged):
        return
    literal = np.where(positive & 1, -1, 1) * ((positive >> 1) + 1)  # of each variable
    state.merge(merged, literal[merged])
    changed = np.sign(state.literals) * literal[np.abs(state.literals) - 1]
    state.replace(changed.astype(np.int32), state.offsets)
    mark = np.zeros(state.n, np.int8)
    dead, gone = np.zeros(len(state.offsets) - 1, np.uint8), np.zeros(len(state.literals), np.uint8)
    if subsume_kernels.tidy(state.literals, state.offsets, mark, dead, gone):
        state.keep(dead == 0, gone == 0)
    state.count("merged", len(merged))
    units(state)


def probe(state: State, share: int) -> int:
    """Assume each literal that implies another by a binary clause, and propagate.

    Literals that nothing implies come first: their consequences include those of the literals
    they imply. -> how many pairs of equal literals were found; they become clauses, for `equal`.
    """
    lengths = state.lengths
    two = np.repeat(lengths == 2, lengths)
    if not two.any():
        return 0
    codes = 2 * (np.abs(state.literals[two]) - 1) + (state.literals[two] < 0)
    held = np.bincount(codes, minlength=2 * state.n).reshape(state.n, 2)  # v, not v
    implies = held[:, ::-1] > 0  # v implies something if a binary clause holds not v
    root = (implies & (held == 0)).any(axis=1)
    variables = np.flatnonzero(implies.any(axis=1))
    variables = variables[np.argsort(~root[variables], kind="stable")]
    both = np.stack([variables + 1, -(variables + 1)], axis=1)
    order = both[implies[variables]].astype(np.int32)
    start, where = occurrences(state)
    values = np.zeros(state.n, np.int8)
    left = lengths.astype(np.int32)
    trail, keep = np.empty((2, state.n), np.int32)
    stamp = np.zeros(2 * state.n, np.int32)
    pairs = np.empty((4096, 2), np.int32)
    at, equal_literals = 0, []
    while at < len(order) and (steps := state.visits.next(share)):
        at, outcome, failed, necessary, equal_pairs, work = probe_kernels.probe(
            state.literals,
            state.offsets,
            start,
            where,
            order,
            at,
            steps,
            values,
            left,
            trail,
            keep,
            stamp,
            pairs,
        )
        share -= work
        state.visits.use(work)
        state.count("failed", failed)
        state.count("necessary", necessary)
        if outcome == probe_kernels.CONFLICT:
            raise Unsatisfiable("a literal and its negation both fail")
        equal_literals.append(pairs[:equal_pairs].copy())
    state.cut |= at < len(order)
    return _learn(state, np.concatenate([np.zeros((0, 2), np.int32), *equal_literals]), values)


def _learn(state: State, pairs: np.ndarray, values: np.ndarray) -> int:
    """Add fixed literals and equal pairs as clauses. They are implied, so the law is unchanged."""
    variables = np.flatnonzero(values) + 1
    fixed = np.where(values[variables - 1] > 0, variables, -variables)
    if not len(pairs) and not len(fixed):
        return 0
    open_pairs = pairs[(values[np.abs(pairs) - 1] == 0).all(axis=1)]
    a, b = open_pairs[:, 0], open_pairs[:, 1]
    binary = np.concatenate([np.stack([-a, b], 1), np.stack([a, -b], 1)]).reshape(-1)
    lengths = np.concatenate([state.lengths, np.full(2 * len(a), 2), np.ones(len(fixed))])
    literals = np.concatenate([state.literals, binary, fixed]).astype(np.int32)
    state.replace(literals, lengths_to_offsets(lengths.astype(np.int64)))
    units(state)
    return len(a)


def subsume(state: State, share: int) -> None:
    """Remove subsumed clauses, and literals by self-subsuming resolution; short clauses first."""
    m = len(state.offsets) - 1
    if m < 2:
        return
    start, where = occurrences(state)
    signature, size = np.empty(m, np.uint64), np.empty(m, np.int32)
    mark = np.zeros(state.n, np.int8)
    dead, gone = np.zeros(m, np.uint8), np.zeros(len(state.literals), np.uint8)
    subsume_kernels.signatures(state.literals, state.offsets, gone, signature, size)
    order = np.argsort(size, kind="stable") if size.min() < size.max() else np.arange(m)
    at, subsumed, removed = 0, 0, 0
    while at < m and (steps := state.visits.next(share)):
        at, some, places, work = subsume_kernels.subsume(
            state.literals,
            state.offsets,
            start,
            where,
            order,
            at,
            steps,
            signature,
            size,
            mark,
            dead,
            gone,
        )
        subsumed, removed = subsumed + some, removed + places
        share -= work
        state.visits.use(work)
    state.cut |= at < m
    if subsumed or removed:
        state.keep(dead == 0, gone == 0)
        state.count("subsumed", subsumed)
        state.count("strengthened", removed)
        units(state)
