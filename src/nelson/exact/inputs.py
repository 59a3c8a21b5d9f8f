"""Inputs and gates of a formula: which variables are functions of which, and which clauses remain.

A formula of gates (a circuit, an adder, a counter, an unrolled automaton) has few degrees of
freedom: values of its inputs fix all other variables. `find_gates` finds such functions in the
clauses, whatever they encode (`nelson.kernels.reduce.inputs`).

An S-box computes four bits from four bits. Its clauses say so for the outputs only, but the inputs
are functions of the outputs, too; no single clause of the file says that. `implied` finds such
clauses, so that functions can be read in any direction. Clauses that share two variables belong to
one group. The *prime implicates* of a group of few variables are the shortest clauses that it
implies. Among them are all definitions of all of its variables.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from nelson.exact.preprocess.gates import empty_store, scratch_for
from nelson.formula import Formula
from nelson.formula.components import components
from nelson.formula.flat import check_ahead, lengths_to_offsets, lists, owners, take
from nelson.formula.memo import Slot
from nelson.kernels.core.deadline import check_time
from nelson.kernels.reduce import fewer_inputs
from nelson.kernels.reduce import inputs as kernel
from nelson.kernels.reduce.clause_store import load

#: Most visits of the local search for fewer inputs: 0.3 s or less; and visits for each literal.
_MORE_VISITS, _MORE_FOR_EACH = 1 << 25, 1 << 13


_GATES: Slot[GateOrder] = Slot("inputs and gates")


@dataclass(frozen=True, eq=False)
class GateOrder:
    """Entries in an order in which each comes after those it needs. Variables count from 0.

    An entry with target v >= 0 is a gate: x_v = flip xor OR over its terms of "all literals of the
    term are false". An entry with target -1 is a test: it has one term, a clause that must hold.
    Gates that no test needs come last.
    """

    inputs: np.ndarray  # int32: all variables without a gate, also those in no clause
    target: np.ndarray  # int32 (entries,)
    flip: np.ndarray  # uint8 (entries,)
    first: np.ndarray  # int64 (entries + 1,): the terms of an entry
    start: np.ndarray  # int64 (terms + 1,): the literals of a term
    literals: np.ndarray  # int32, DIMACS

    @property
    def targets(self) -> np.ndarray:
        """The variables that have a gate."""
        return self.target[self.target >= 0]


def gates_of(formula: Formula) -> GateOrder:
    """`find_gates`, kept with the formula."""
    return formula.memo.once(_GATES, lambda: find_gates(formula))


def find_gates(formula: Formula) -> GateOrder:
    """The gates of a formula: those of the order of its variables, or of the opposite order if that
    leaves fewer inputs; then a local search for fewer inputs. The same with the clauses that small
    groups of clauses imply, if that leaves fewer. O(total literals), and at most about two
    seconds. The same in every run.
    """
    best = _best(formula, [])
    if best.found.defined.any() and (more := implied(formula)):
        best = max(best, _best(formula, more), key=_GateSearch.defined)
    return best.gates()


def _best(formula: Formula, more: list[tuple[int, ...]]) -> _GateSearch:
    order = np.arange(formula.n_total, dtype=np.int32)
    best = max(
        (_GateSearch(formula, more, each) for each in (order, order[::-1].copy())),
        key=_GateSearch.defined,
    )
    best.improve(min(_MORE_VISITS, _MORE_FOR_EACH * len(best.literals)))
    return best


class _GateSearch:
    def __init__(self, formula: Formula, more: list[tuple[int, ...]], order: np.ndarray) -> None:
        """more: clauses that the formula implies. They may compute a gate, but need no test."""
        # Most visits of literals in the search along one order of the variables: about a second.
        visits = 1 << 27
        self.n, self.own = formula.n_total, formula.n_clauses
        added = np.array([literal for clause in more for literal in clause], np.int32)
        self.literals = np.concatenate([formula.literals, added])
        sizes = np.concatenate([np.diff(formula.offsets), [len(clause) for clause in more]])
        self.offsets = lengths_to_offsets(sizes.astype(np.int64))
        for array in self.literals, self.offsets:  # as in a formula: one kernel serves both
            array.setflags(write=False)
        self.store = empty_store(self.n, len(self.literals), len(sizes))
        load(self.literals, self.offsets, self.store)
        self.scratch = scratch_for(self.n)
        self.found = kernel.Found(
            defined=np.zeros(self.n, np.uint8),
            definer=np.full(len(sizes), -1, np.int32),
            mark=np.zeros(self.n, np.uint8),
            queue=np.empty(self.n, np.int32),
        )
        rank = np.empty(self.n, np.int32)
        rank[order] = np.arange(self.n, dtype=np.int32)
        task, seconds = (self.store, self.scratch), 3e-7  # for a literal
        check_ahead(len(self.literals), seconds)
        kernel.define_before(*task, order, rank, self.found, visits)
        check_ahead(len(self.literals), seconds)
        kernel.define_more(*task, order[::-1].copy(), self.found, visits)

    def defined(self) -> int:
        """The number of variables that have a gate."""
        return int(self.found.defined.sum())

    def improve(self, visits: int) -> None:
        """Look for definitions of more variables, if there are any at all."""
        if self.found.defined.any():
            undo, state = fewer_inputs.undo(), np.ones(1, np.uint64)
            task = self.store, self.scratch, self.found
            fewer_inputs.improve(*task, undo, state, visits)

    def forget_constants(self) -> None:
        """Variables whose clauses give them one and the same value become inputs: a gate has
        clauses with both of its literals.
        """
        variable, definer = np.abs(self.literals) - 1, self.found.definer
        in_definition = definer[owners(self.offsets)] == variable
        signs = [in_definition & (self.literals * sign > 0) for sign in (1, -1)]
        held = [np.bincount(variable[sign], minlength=self.n) > 0 for sign in signs]
        constant = held[0] ^ held[1]
        self.found.defined[constant] = 0
        definer[(definer >= 0) & constant[definer]] = -1

    def gates(self) -> GateOrder:
        self.forget_constants()
        literals, offsets = self.literals, self.offsets
        code, role = np.zeros(self.n, np.int32), np.empty(len(offsets) - 1, np.uint8)
        kernel.roles(self.store, self.found, np.zeros(self.n, np.int8), code, role)
        role[self.own :][role[self.own :] == kernel.TEST] = kernel.IMPLIED
        variable, sizes, clause = np.abs(literals) - 1, np.diff(offsets), owners(offsets)

        def numbers(roots: np.ndarray) -> np.ndarray:
            number = np.full(self.n, -1, np.int32)
            kernel.arrange(self.store, self.found, code, roots.astype(np.int32), number)
            return number

        def latest(number: np.ndarray) -> np.ndarray:
            """(m,): the largest number among the variables of each clause; -1: inputs only."""
            most = np.full(len(sizes), -1, np.int64)
            np.maximum.at(most, clause, number[variable])
            return most

        # Tests of few gates come first. Each gate comes just before the first test that needs it.
        is_test = role == kernel.TEST
        by_size = np.lexsort((clause, latest(numbers(np.arange(self.n)))[clause]))
        needed = variable[by_size[is_test[clause[by_size]]]]
        number = numbers(np.concatenate([needed, np.arange(self.n)]))
        key = 2 * latest(number) + 1
        is_term = role == kernel.TERM
        key[is_term] = 2 * number[self.found.definer[is_term]]
        used = np.flatnonzero(is_test | is_term)
        used = used[np.lexsort((used, key[used]))]
        # A test is an entry of its own, and all terms of a gate are one entry.
        begins = is_test[used] | (np.diff(key[used], prepend=-2) != 0)
        first = np.append(np.flatnonzero(begins), len(used)).astype(np.int64)
        head = used[first[:-1]]
        target = np.where(is_test[head], -1, self.found.definer[head]).astype(np.int32)
        literals, ends = take(literals, offsets, used)
        output = np.repeat(np.repeat(target, np.diff(first)), np.diff(ends))
        keep = np.abs(literals) - 1 != output
        return GateOrder(
            inputs=np.flatnonzero(self.found.defined == 0).astype(np.int32),
            target=target,
            flip=np.where(target < 0, 0, code[target] & 1).astype(np.uint8),
            first=first,
            start=lengths_to_offsets(np.diff(ends) - np.repeat(target >= 0, np.diff(first))),
            literals=literals[keep],
        )


#: Variables of a group. One gate has fewer, and its clauses say all. Larger groups are left out.
FEWEST, MOST = 5, 8
#: Literals of the implicates that are returned. A single literal is no function of others.
SHORTEST, LONGEST = 2, 5
#: Entries of all different tables together, at most, and most groups: about a second in all.
_ENTRIES, _GROUPS = 1 << 21, 4096


def implied(formula: Formula) -> list[tuple[int, ...]]:
    """Clauses of SHORTEST to LONGEST literals that the formula implies and does not have."""
    implied_clauses: set[tuple[int, ...]] = set()
    known: dict[bytes, list[tuple[np.ndarray, np.ndarray]]] = {}
    left = _ENTRIES
    for group in _groups(formula)[:_GROUPS]:
        check_time()
        clauses = lists(*take(formula.literals, formula.offsets, group))
        variables = sorted({abs(literal) for clause in clauses for literal in clause})
        table = _solutions(clauses, variables)
        if table.tobytes() not in known:
            left -= 3 ** len(variables)
            if left < 0:
                break
            known[table.tobytes()] = _implicates(table)
        given_clauses = {tuple(sorted(clause)) for clause in clauses}
        names = np.array(variables)
        for places, signs in known[table.tobytes()]:
            implied_clauses.add(tuple(sorted((names[places] * signs).tolist())))
        implied_clauses -= given_clauses
    return sorted(implied_clauses)


def _groups(formula: Formula) -> list[np.ndarray]:
    """Clauses by group, for groups of FEWEST to MOST variables."""
    sizes, n = np.diff(formula.offsets), np.int64(formula.n_total)
    variables = np.abs(formula.literals).astype(np.int64) - 1
    some = np.flatnonzero((sizes > 1) & (sizes <= MOST))
    pairs = []
    for size in np.unique(sizes[some]).tolist():
        clauses = some[sizes[some] == size]
        rows = np.sort(variables[formula.offsets[clauses][:, None] + np.arange(size)], axis=1)
        for i, j in itertools.combinations(range(size), 2):
            pairs.append((clauses, rows[:, i] * n + rows[:, j]))
    if not pairs:
        return []
    owner = np.concatenate([clauses for clauses, _ in pairs])
    _, pair = np.unique(np.concatenate([keys for _, keys in pairs]), return_inverse=True)
    order = np.argsort(owner, kind="stable")
    owner, pair = owner[order], pair[order]
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    offsets = np.append(first, len(owner)).astype(np.int64)
    linked = Formula.from_arrays(pair.astype(np.int32) + 1, offsets, n_vars=int(pair.max()) + 1)
    label = components(linked)[pair[first]]  # of each clause owner[first]
    members, ends = take(variables, formula.offsets, owner[first])
    held = np.unique(np.repeat(label.astype(np.int64), np.diff(ends)) * n + members)
    count = np.bincount(held // n, minlength=int(label.max()) + 1)
    good = (count >= FEWEST) & (count <= MOST)
    by_label = np.argsort(label, kind="stable")
    by_label = by_label[good[label[by_label]]]
    cuts = np.flatnonzero(np.diff(label[by_label])) + 1
    return [group for group in np.split(owner[first][by_label], cuts) if len(group)]


def _solutions(clauses: list[list[int]], variables: list[int]) -> np.ndarray:
    """(2, .., 2) bool, an axis for each variable: which assignments satisfy the clauses?"""
    place = {variable: k for k, variable in enumerate(variables)}
    table = np.ones((2,) * len(variables), bool)
    for clause in clauses:
        at: list[slice | int] = [slice(None)] * len(variables)
        for literal in clause:
            at[place[abs(literal)]] = int(literal < 0)
        table[tuple(at)] = False
    return table


def _implicates(table: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The prime implicates of a table: (axes, signs of their literals)."""
    possible = table  # (3, .., 3): is there a solution with these values? Value 2: any.
    for axis in range(table.ndim):
        possible = np.concatenate([possible, possible.any(axis, keepdims=True)], axis)
    prime = ~possible
    for axis in range(table.ndim):  # a shorter one would do if it had no literal of this axis
        given = (slice(None),) * axis + (slice(0, 2),)
        prime[given] &= np.take(possible, [2], axis)
    out = []
    for values in np.argwhere(prime):
        axes = np.flatnonzero(values < 2)
        if SHORTEST <= len(axes) <= LONGEST:
            out.append((axes, np.where(values[axes] == 1, -1, 1)))
    return out
