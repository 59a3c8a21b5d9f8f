"""Existential quantification: clauses over fewer variables with the same projected solutions.

    exists u: F  =  F without the clauses of u, and all resolvents on u         (Davis, Putnam 1960)

Each assignment of the other variables that some u extends is a solution of the result, once. That
is not the law of F, which would count it once for each value of u, but it is what a projection asks
for. Resolution may add many clauses. Variables that it leaves form *clusters*: two of them are in
the same cluster if they share a clause. A small cluster U goes by cases instead,

    exists U: F  =  some a in {0,1}^U has e_a,     e_a  <=>  all clauses that a leaves open hold

with a new variable for each e_a and for the rest of each clause. All of these are functions of the
other variables, so that each solution is still counted once.

All limits are counted (visits, clauses, literals), so that the result is the same on every machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nelson.budget import Budget
from nelson.errors import Unsatisfiable
from nelson.exact.preprocess import compile_kernels, simplify
from nelson.exact.preprocess.gates import eliminate
from nelson.exact.preprocess.pipeline import begin
from nelson.exact.preprocess.state import State
from nelson.formula import Formula
from nelson.formula.checks import flatten
from nelson.formula.components import split
from nelson.formula.flat import lengths_to_offsets, lists, owners, select

#: Clauses that resolving one variable away may add: first none, so that cheap ones go first.
GROWTH = (0, 8, 32, 128)
#: Most variables of a cluster that goes by cases: it has 2^6 cases.
CLUSTER = 6
#: The clauses may grow to this many times their literals, and by this many literals.
TIMES, MORE = 4, 1 << 16
#: Visits (of a literal or a clause) of all steps together: some seconds.
VISITS = 100_000_000


class Remainder(NamedTuple):
    """Clauses over the variables that are left, with the same solutions on them."""

    fixed: np.ndarray  # int32: literals that hold in every solution
    literals: np.ndarray  # int32: the other clauses
    offsets: np.ndarray  # int64
    left: np.ndarray  # variables from 0 that should have been eliminated, but are in some clause


def eliminated(
    clauses: tuple[np.ndarray, np.ndarray], n: int, may: np.ndarray, budget: Budget | None = None
) -> Remainder:
    """Resolve away the variables among `may` (n,) bool, of clauses over variables 1..n.

    A deadline ends it with what is done; without one only counted limits do.
    Raises Unsatisfiable if that was proved.
    """
    budget = Budget() if budget is None else budget
    if not budget.counted:
        compile_kernels()
    formula = Formula.from_arrays(*clauses, n_vars=n)
    state = begin(formula, np.zeros((1, n)), (), budget)
    state.visits.left = VISITS
    most = TIMES * len(state.literals) + MORE
    # Up to this growth all variables may go. Later only those of clusters too large for cases.
    growth_of_all = 8
    for growth in GROWTH:
        while True:
            before, clauses_before = state.version, (state.literals, state.offsets)
            left = _mentioned(state) & may
            if growth > growth_of_all:
                large = [v for c in clusters(state, left) if len(c) > CLUSTER for v in c]
                left[:] = False
                left[large] = True
            if not left.any() or state.visits.spent:
                break
            eliminate(state, VISITS, left, only_defined=False, growth=growth)
            simplify.subsume(state, VISITS)
            if len(state.literals) > most:
                state.literals, state.offsets = clauses_before
                return _result(state, may)
            if state.version == before:
                break
    return _result(state, may)


def _result(state: State, may: np.ndarray) -> Remainder:
    fixed = np.concatenate([np.zeros(0, np.int32), *state.fixed])
    left = np.flatnonzero(_mentioned(state) & may)
    return Remainder(fixed, state.literals, state.offsets, left)


def _mentioned(state: State) -> np.ndarray:
    """(n,) bool: variables in some clause."""
    out = np.zeros(state.n, bool)
    out[np.abs(state.literals) - 1] = True
    return out


def clusters(state: State | Remainder, left: np.ndarray) -> list[list[int]]:
    """Variables among `left` (bool) that clauses connect, without a way over other variables."""
    chosen = left[np.abs(state.literals) - 1]
    counts = np.bincount(owners(state.offsets)[chosen], minlength=len(state.offsets) - 1)
    chosen_clauses = select(state.literals[chosen], lengths_to_offsets(counts), counts > 0)
    return [part.variables.tolist() for part in split(*chosen_clauses, len(left))]


def by_cases(done: Remainder, n: int) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Clauses without the variables that are left, (literals, offsets), and how many new variables,
    n + 1, n + 2, .., they use; None if a cluster of these variables is too large.

    Raises Unsatisfiable if that was proved.
    """
    # Most cases times clauses of a cluster.
    max_cases = 1 << 14
    left = np.zeros(n, bool)
    left[done.left] = True
    held = np.zeros(len(done.offsets) - 1, bool)
    held[owners(done.offsets)[left[np.abs(done.literals) - 1]]] = True
    by_variable: dict[int, list[list[int]]] = {}
    for clause in lists(*select(done.literals, done.offsets, held)):
        first = next(abs(literal) - 1 for literal in clause if left[abs(literal) - 1])
        by_variable.setdefault(first, []).append(clause)
    names = itertools.count(n + 1)
    added: list[list[int]] = []
    for cluster in clusters(done, left):
        clauses = [clause for v in cluster for clause in by_variable.get(v, ())]
        if len(cluster) > CLUSTER or len(clauses) << len(cluster) > max_cases:
            return None
        added += _cases(clauses, [v + 1 for v in cluster], names)
    literals, offsets = joined(select(done.literals, done.offsets, ~held), flatten(added))
    return literals, offsets, next(names) - n - 1


def _cases(clauses: list[list[int]], cluster: list[int], names: Iterator[int]) -> list[list[int]]:
    """Clauses that say that some values of the cluster satisfy these clauses."""
    place = {v: k for k, v in enumerate(cluster)}
    inner = [[literal for literal in clause if abs(literal) in place] for clause in clauses]
    rest = [[literal for literal in clause if abs(literal) not in place] for clause in clauses]
    cases = set()
    for values in itertools.product((False, True), repeat=len(cluster)):
        needs = frozenset(
            j
            for j, clause in enumerate(inner)
            if not any(values[place[abs(literal)]] == (literal > 0) for literal in clause)
        )
        if all(rest[j] for j in needs):
            cases.add(needs)
    if not cases:
        raise Unsatisfiable("no case of a cluster of variables has a solution")
    # A case that needs more than another one does not matter.
    minimal = [case for case in sorted(cases, key=sorted) if not any(o < case for o in cases)]
    if not minimal[0]:
        return []
    out: list[list[int]] = []

    def defined(literals: list[int], sign: int) -> int:
        """A literal that is true if all (sign = 1), or if some (sign = -1), literals are."""
        if len(literals) == 1:
            return literals[0]
        new = next(names)
        out.append([sign * new, *(-sign * literal for literal in literals)])
        out.extend([-sign * new, sign * literal] for literal in literals)
        return new

    holds = {j: defined(rest[j], -1) for j in sorted(frozenset().union(*minimal))}
    out.append([defined(sorted({holds[j] for j in case}), 1) for case in minimal])
    return out


def joined(*parts: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(literals, offsets) of all clauses of the parts, which have the same variables."""
    literals = np.concatenate([np.zeros(0, np.int32), *(part[0] for part in parts)])
    lengths = np.concatenate([np.zeros(0, np.int64), *(np.diff(part[1]) for part in parts)])
    return literals.astype(np.int32), lengths_to_offsets(lengths.astype(np.int64))
