"""One sampling problem, prepared: the fixed variables, the remaining clauses, and their program.

Preparation keeps the distribution. Unit propagation fixes the variables that evidence and unit
clauses imply. The remaining clauses fall into independent components. Resampling alone draws the
extremal components exactly, so only the variables of the other components need sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nelson.formula import Formula
from nelson.formula.components import clause_components, components
from nelson.formula.extremal import breach, condition1
from nelson.formula.flat import select
from nelson.formula.memo import Recent, Slot
from nelson.formula.propagate import propagated
from nelson.kernels.core.bits import pack, unpack
from nelson.kernels.core.deadline import check_time
from nelson.kernels.core.program import Program, build
from nelson.kernels.core.reference import threshold
from nelson.kernels.cpu.packed_samples import holds

_PREPARED: Slot[Recent[tuple[int, ...], Problem]] = Slot("prepared problems by evidence")
_SWEEPING_ALL: Slot[Recent[tuple[int, ...], Problem]] = Slot("problems that sweep every variable")
#: Up to this many non-extremal components are found one by one; with more, all variables are swept.
_MAX_WITNESSES = 32
#: Conditioned programs kept with a formula.
_CACHE_SIZE = 16


@dataclass(frozen=True)
class Problem:
    formula: Formula  # as given
    evidence: tuple[int, ...]  # literals given with the call
    rest: Formula  # the clauses that propagation leaves, over the same variables
    fixed: np.ndarray  # literals that propagation found
    extremal: bool  # is `rest` extremal
    program: Program

    @property
    def n(self) -> int:
        return self.formula.n_vars

    def sweeping_all(self) -> Problem:
        """The same problem with a program that sweeps every variable that is not fixed."""
        if len(self.program.order) == self.formula.n_total - len(self.fixed):
            return self
        kept = self.formula.memo.once(_SWEEPING_ALL, lambda: Recent(_CACHE_SIZE))
        return kept.once(self.evidence, self._sweeping_all)

    def _sweeping_all(self) -> Problem:
        swept = np.ones(self.formula.n_total, bool)
        swept[np.abs(self.fixed) - 1] = False
        return replace(
            self, program=_program(self.formula, self.evidence, self.rest, self.fixed, swept)
        )

    def thresholds(self, theta: np.ndarray) -> np.ndarray:
        """2^32 P(x_v = 1) for theta (contexts, n): (contexts, n_total) uint32.

        Auxiliary variables are fair; fixed variables are not drawn and get 0.
        """
        thresholds = np.full((len(theta), self.formula.n_total), 1 << 31, np.uint32)
        thresholds[:, : self.n] = threshold(theta)
        thresholds[:, np.abs(self.fixed) - 1] = 0
        return thresholds


def prepare(formula: Formula, evidence: tuple[int, ...] = ()) -> Problem:
    """Condition, simplify, compile. Raises Unsatisfiable if propagation proves it."""
    prepared = formula.memo.once(_PREPARED, lambda: Recent(_CACHE_SIZE))
    return prepared.once(evidence, lambda: _prepare(formula, evidence))


def _prepare(formula: Formula, evidence: tuple[int, ...]) -> Problem:
    fixed, literals, offsets = propagated(formula, evidence)
    rest = formula  # if there is no unit, these are its clauses
    if len(fixed):
        rest = Formula.from_arrays(literals, offsets, n_vars=formula.n_vars, n_aux=formula.n_aux)
    swept, extremal = _swept(rest)
    program = _program(formula, evidence, rest, fixed, swept)
    return Problem(formula, evidence, rest, fixed, extremal, program)


def _program(
    formula: Formula, evidence: tuple[int, ...], rest: Formula, fixed: np.ndarray, swept: np.ndarray
) -> Program:
    given = np.array(evidence, np.int32)
    ends = formula.offsets[-1] + np.arange(1, len(given) + 1)
    check = np.concatenate([formula.literals, given]), np.concatenate([formula.offsets, ends])
    return build(formula.n_total, rest.literals, rest.offsets, swept, fixed, check)


def _swept(rest: Formula) -> tuple[np.ndarray, bool]:
    """(variables of components that are not extremal, whether there is none)."""
    swept = np.zeros(rest.n_total, bool)
    if (witness := condition1(rest)) is None:
        return swept, True
    label = components(rest)
    clause_label = clause_components(rest)
    left = np.ones(rest.n_clauses, bool)  # clauses of components not looked at yet
    for _ in range(_MAX_WITNESSES):
        check_time()
        if witness is None:
            return swept, False
        bad = clause_label[left][witness[0]]
        swept |= label == bad
        left &= clause_label != bad
        kept = select(rest.literals, rest.offsets, left)
        for array in kept:  # as in a formula: one kernel serves both
            array.setflags(write=False)
        witness = breach(*kept)
    swept[np.abs(rest.literals) - 1] = True
    return swept, False


def satisfying(problem: Problem, packed: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """The lanes (words,) in which formula and evidence hold; packed (words, n_total or n_vars)."""
    formula = problem.formula
    for literal in problem.evidence:
        column = packed[:, abs(literal) - 1]
        lanes = lanes & (column if literal > 0 else ~column)
    if packed.shape[1] == formula.n_total:
        return holds(formula.literals, formula.offsets, packed, lanes)
    count = 64 * len(lanes)
    good = formula.satisfied(unpack(packed, count)) if count else np.zeros(0, bool)
    return lanes & pack(good[:, None])[:, 0]
