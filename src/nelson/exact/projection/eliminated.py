"""Existential quantification: clauses over fewer variables with the same projected solutions.

    exists u: F  =  F without the clauses of u, and all resolvents on u         (Davis, Putnam 1960)

Each assignment of the other variables that some u extends is a solution of the result, once. That
is not the law of F, which would count it once for each value of u, but it is what a projection asks
for. Resolution may add many clauses. So variables that it would take too many clauses to resolve
away are kept, and given a *default* instead:

    u  <=>  some clause (u or A) of F has A false

If the others have a solution, the clauses force u or leave it free; a free u is now false. This
adds one variable for each clause of u. It is right for all of these variables together if no clause
holds two of them: the A are then over variables that are not quantified.

All limits are counted (visits, clauses, literals), so that the result is the same on every machine.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from nelson.exact.preprocess import compile_kernels, simplify
from nelson.exact.preprocess.gates import eliminate
from nelson.exact.preprocess.pipeline import begin
from nelson.exact.preprocess.state import State
from nelson.formula import Formula
from nelson.formula.flat import lengths_to_offsets, owners, take

#: Clauses that resolving one variable away may add: first none, so that cheap ones go first.
GROWTH = (0, 8, 32, 128)
#: Up to this growth all variables may go. Later only variables that share a clause with another
#: one: the others can have a default.
_ALL = 8
#: The clauses may grow to this many times their literals, and by this many literals.
TIMES, MORE = 4, 1 << 16
#: Most pairs of variables that share a clause: an independent set is not searched among more.
_MAX_PAIRS = 2_000_000
#: Visits (of a literal or a clause) of all steps together: some seconds.
VISITS = 100_000_000


class Eliminated(NamedTuple):
    """Clauses over the variables that are left, with the same solutions on them."""

    fixed: np.ndarray  # int32: literals that hold in every solution
    literals: np.ndarray  # int32: the other clauses
    offsets: np.ndarray  # int64
    left: np.ndarray  # variables from 0 that should have been eliminated, but are in some clause


def eliminated(clauses: tuple[np.ndarray, np.ndarray], n: int, may: np.ndarray) -> Eliminated:
    """Resolve away the variables among `may` (n,) bool, of clauses over variables 1..n.

    Raises Unsatisfiable if that was proved.
    """
    compile_kernels()
    formula = Formula.from_arrays(*clauses, n_vars=n)
    state = begin(formula, np.zeros((1, n)), (), math.inf)
    state.budget.left = VISITS
    most = TIMES * len(state.literals) + MORE
    for growth in GROWTH:
        while True:
            before, kept = state.version, (state.literals, state.offsets, len(state.fixed))
            left = _mentioned(state) & may
            if growth > _ALL:
                left &= _beside_another(state, left)
            if not left.any() or state.budget.spent:
                break
            eliminate(state, VISITS, left, only_defined=False, growth=growth)
            simplify.subsume(state, VISITS)
            if len(state.literals) > most:
                state.literals, state.offsets = kept[:2]
                return _result(state, may)
            if state.version == before:
                break
    return _result(state, may)


def _result(state: State, may: np.ndarray) -> Eliminated:
    fixed = np.concatenate([np.zeros(0, np.int32), *state.fixed])
    left = np.flatnonzero(_mentioned(state) & may)
    return Eliminated(fixed, state.literals, state.offsets, left)


def _mentioned(state: State) -> np.ndarray:
    """(n,) bool: variables in some clause."""
    out = np.zeros(state.n, bool)
    out[np.abs(state.literals) - 1] = True
    return out


def _beside_another(state: State, left: np.ndarray) -> np.ndarray:
    """(n,) bool: variables among `left` that share a clause with another one of them, less an
    independent set of those with the most clauses.
    """
    out = np.zeros(state.n, bool)
    together = _together(state.literals, state.offsets, left)
    if sum(len(own) ** 2 for own in together) > _MAX_PAIRS:
        return out
    beside: dict[int, set[int]] = {}
    for own in together:
        for v in own:
            beside.setdefault(v, set()).update(own)
    held = np.bincount(np.abs(state.literals) - 1, minlength=state.n)
    independent: set[int] = set()
    for v in sorted(beside, key=lambda v: (-held[v], v)):
        if not beside[v] & independent:
            independent.add(v)
    out[[v for v in beside if v not in independent]] = True
    return out


def _together(literals: np.ndarray, offsets: np.ndarray, left: np.ndarray) -> list[list[int]]:
    """For each clause with two or more variables among `left` (bool): these variables."""
    chosen = left[np.abs(literals) - 1]
    counts = np.bincount(owners(offsets)[chosen], minlength=len(offsets) - 1)
    variables, first = np.abs(literals[chosen]) - 1, lengths_to_offsets(counts)
    return [variables[first[j] : first[j + 1]].tolist() for j in np.flatnonzero(counts > 1)]


def with_defaults(done: Eliminated, n: int) -> tuple[list[list[int]], int] | None:
    """Clauses that make each variable of `done.left` a function of the others, and how many new
    variables, n + 1, n + 2, .., they use; None if two of these variables share a clause.
    """
    left = np.zeros(n, bool)
    left[done.left] = True
    if _together(done.literals, done.offsets, left):
        return None
    owner, new = owners(done.offsets), 0
    clauses: list[list[int]] = []
    for u in (done.left + 1).tolist():
        sides = [done.literals == u, done.literals == -u]
        sizes = [int(np.diff(done.offsets)[owner[side]].sum()) for side in sides]
        negative = sizes[1] < sizes[0]
        forced = -u if negative else u
        reasons = []
        rows, ends = take(done.literals, done.offsets, owner[sides[negative]])
        for a, b in itertools.pairwise(ends.tolist()):
            others = [literal for literal in rows[a:b].tolist() if literal != forced]
            if len(others) == 1:
                reasons.append(-others[0])
                continue
            new += 1
            reasons.append(n + new)  # all others are false
            clauses.append([n + new, *others])
            clauses += [[-(n + new), -literal] for literal in others]
        clauses.append([-forced, *reasons])
    return clauses, new


def joined(*parts: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(literals, offsets) of all clauses of the parts, which have the same variables."""
    literals = np.concatenate([np.zeros(0, np.int32), *(part[0] for part in parts)])
    lengths = np.concatenate([np.zeros(0, np.int64), *(np.diff(part[1]) for part in parts)])
    return literals.astype(np.int32), lengths_to_offsets(lengths.astype(np.int64))
