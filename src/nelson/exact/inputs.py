"""Inputs and gates of a formula: which variables are functions of which, and which clauses remain.

A formula of gates (a circuit, an adder, a counter, an unrolled automaton) has few degrees of
freedom: values of its inputs fix all other variables. `find_gates` finds such functions in the
clauses, whatever they encode (`nelson.kernels.reduce.inputs`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nelson.exact.implied_clauses import implied
from nelson.exact.preprocess.gates import empty_store, scratch_for
from nelson.formula import Formula
from nelson.formula.flat import lengths_to_offsets, owners, take
from nelson.formula.memo import Slot
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
        task = self.store, self.scratch
        kernel.define_before(*task, order, rank, self.found, visits)
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
