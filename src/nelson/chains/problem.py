"""One sampling problem, prepared: the fixed variables, the remaining clauses, and their program.

Preparation keeps the distribution. Unit propagation fixes the variables that evidence and unit
clauses imply. The remaining clauses fall into independent components. Resampling alone draws the
extremal components exactly, so only the variables of the other components need sweeps.

Kernels round probabilities to multiples of 2^-32; `beyond_resolution` says which weights are too
large for that.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nelson.formula import Formula
from nelson.formula.components import clause_components, components
from nelson.formula.extremal import breach, condition1
from nelson.formula.flat import select
from nelson.formula.memo import Recent, Slot
from nelson.formula.propagate import fixed_literals, values_given, with_values
from nelson.kernels.core.bernoulli import ProductLaw, law
from nelson.kernels.core.bits import pack, unpack
from nelson.kernels.core.deadline import check_time
from nelson.kernels.core.program import Program, build
from nelson.kernels.core.reference import threshold
from nelson.kernels.cpu.packed_samples import holds
from nelson.kernels.cpu.state import TileScratch

_PREPARED: Slot[Recent[tuple[int, ...], Problem]] = Slot("prepared problems by evidence")
_SWEEPING_ALL: Slot[Recent[tuple[int, ...], Problem]] = Slot("problems that sweep every variable")
#: Up to this many non-extremal components are found one by one; with more, all variables are swept.
_MAX_WITNESSES = 32
#: Conditioned programs kept with a formula.
_CACHE_SIZE = 16
#: Tables of Bernoulli words kept with a problem, for theta of at most so many bytes: they take
#: eight times as much.
_LAWS, _SMALL_THETA = 8, 1 << 17


@dataclass(frozen=True, eq=False)
class Problem:
    """What no draw may need is made when it is first asked for: a circuit needs no program."""

    formula: Formula  # as given
    evidence: tuple[int, ...]  # literals given with the call
    values: np.ndarray | None  # `propagate.fixpoint_values`
    sweeps_all: bool = False  # does the program sweep every variable that is not fixed?

    def __getstate__(self) -> dict[str, Any]:
        """For pickles: without what is kept for speed."""
        kept_for_speed = "_laws", "idle_scratch"
        return {name: value for name, value in vars(self).items() if name not in kept_for_speed}

    @cached_property
    def n(self) -> int:
        return self.formula.n_vars

    @cached_property
    def fixed(self) -> np.ndarray:
        """The literals that propagation found."""
        return fixed_literals(self.values)

    @cached_property
    def rest(self) -> Formula:
        """The clauses that propagation leaves, over the same variables."""
        if not len(self.fixed):
            return self.formula
        left = with_values(self.formula.literals, self.formula.offsets, self.values)
        n, n_aux = self.formula.n_vars, self.formula.n_aux
        return Formula.from_arrays(left.literals, left.offsets, n_vars=n, n_aux=n_aux)

    @cached_property
    def _witness(self) -> tuple[int, int] | None:
        return condition1(self.rest)

    @cached_property
    def extremal(self) -> bool:
        """Is `rest` extremal?"""
        return self._witness is None

    @cached_property
    def program(self) -> Program:
        """The clauses as kernels read them, with the variables to sweep."""
        if self.sweeps_all:
            swept = np.ones(self.formula.n_total, bool)
            swept[np.abs(self.fixed) - 1] = False
        else:
            swept = _swept(self.rest, self._witness)
        given = np.array(self.evidence, np.int32)
        ends = self.formula.offsets[-1] + np.arange(1, len(given) + 1)
        check = (
            np.concatenate([self.formula.literals, given]),
            np.concatenate([self.formula.offsets, ends]),
        )
        rest = self.rest
        return build(self.formula.n_total, rest.literals, rest.offsets, swept, self.fixed, check)

    def sweeping_all(self) -> Problem:
        """The same problem with a program that sweeps every variable that is not fixed."""
        if len(self.program.order) == self.formula.n_total - len(self.fixed):
            return self
        problems = self.formula.memo.recent(_SWEEPING_ALL, _CACHE_SIZE)
        return problems.once(self.evidence, lambda: replace(self, sweeps_all=True))

    def thresholds(self, theta: np.ndarray) -> np.ndarray:
        """2^32 P(x_v = 1) for theta (contexts, n): (contexts, n_total) uint32.

        Auxiliary variables are fair; fixed variables are not drawn and get 0.
        """
        thresholds = np.full((len(theta), self.formula.n_total), 1 << 31, np.uint32)
        thresholds[:, : self.n] = threshold(theta)
        thresholds[:, np.abs(self.fixed) - 1] = 0
        return thresholds

    def law(self, theta: np.ndarray) -> ProductLaw:
        """Bernoulli tables for theta (contexts, n), in the order of the program. Those of small
        theta are kept: chains that are watched go on under the same theta again and again.
        """
        key = theta.tobytes() if theta.nbytes <= _SMALL_THETA else b""
        tables = self._laws.get(key)
        if tables is None:
            tables = law(self.thresholds(theta)[:, self.program.name])
            if key:
                if len(self._laws) >= _LAWS:
                    self._laws.clear()
                self._laws[key] = tables
        return tables

    @cached_property
    def _laws(self) -> dict[bytes, ProductLaw]:
        """theta -> its tables."""
        return {}

    @cached_property
    def idle_scratch(self) -> dict[int, list[TileScratch]]:
        """Work spaces that no thread uses now, by their width: chains that are watched call the
        kernel again and again.
        """
        return defaultdict(list)


def prepare(formula: Formula, evidence: tuple[int, ...] = ()) -> Problem:
    """Condition, simplify, compile. Raises Unsatisfiable if propagation proves it."""
    prepared = formula.memo.recent(_PREPARED, _CACHE_SIZE)
    return prepared.once(evidence, lambda: _prepare(formula, evidence))


def _prepare(formula: Formula, evidence: tuple[int, ...]) -> Problem:
    return Problem(formula, evidence, values_given(formula, evidence))


def _swept(rest: Formula, witness: tuple[int, int] | None) -> np.ndarray:
    """The variables of components that are not extremal. witness: what `condition1` found."""
    swept = np.zeros(rest.n_total, bool)
    if witness is None:
        return swept
    label = components(rest)
    clause_label = clause_components(rest)
    left = np.ones(rest.n_clauses, bool)  # clauses of components not looked at yet
    for _ in range(_MAX_WITNESSES):
        check_time()
        if witness is None:
            return swept
        bad = clause_label[left][witness[0]]
        swept |= label == bad
        left &= clause_label != bad
        clauses_left = select(rest.literals, rest.offsets, left)
        for array in clauses_left:  # as in a formula: one kernel serves both
            array.setflags(write=False)
        witness = breach(*clauses_left)
    swept[np.abs(rest.literals) - 1] = True
    return swept


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


#: Nats by which rounding may change the weight of a structure.
MAX_ROUNDING = 0.05


def change(theta: np.ndarray) -> np.ndarray:
    """delta: how log-odds change if probabilities are rounded to multiples of 2^-32."""
    p = threshold(theta).astype(np.float64) / 2.0**32
    return np.log(p) - np.log1p(-p) - theta


def rounding(theta: np.ndarray) -> np.ndarray:
    """(contexts, n) -> (contexts,): |change of theta|, summed over variables."""
    return np.abs(change(theta)).sum(-1)


def beyond_resolution(theta: np.ndarray) -> str:
    """Why the kernels cannot draw from such weights, "" if they can."""
    if (rounding(theta) <= MAX_ROUNDING).all():
        return ""
    far = float(np.abs(theta).max())
    return f"|theta| = {far:.3g} is beyond the resolution of the random numbers, 2^-32"
