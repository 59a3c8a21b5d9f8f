"""Unit propagation to its fixpoint, in time linear in the total number of literals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.formula.checks import evidence_literals
from nelson.formula.flat import lengths_to_offsets
from nelson.kernels.core.deadline import check_time

if TYPE_CHECKING:
    from nelson.formula.formula import Formula


class Propagated(NamedTuple):
    """Clauses at the fixpoint: units, and clauses over the other variables.

    The remaining clauses are those that the units do not satisfy, without their false literals.
    Each has two literals or more. Clauses that became equal are all kept.
    """

    fixed: np.ndarray  # int32: the true literals, in the order of their variables
    literals: np.ndarray  # int32: the remaining clauses
    offsets: np.ndarray  # int64

    def with_units(self) -> tuple[np.ndarray, np.ndarray]:
        """(literals, offsets) of all clauses: one unit for each fixed literal, then the rest."""
        k = len(self.fixed)
        offsets = np.concatenate([np.arange(k, dtype=np.int64), self.offsets + k])
        return np.concatenate([self.fixed, self.literals]), offsets


def propagated(formula: Formula, evidence: Mapping[int, bool] | Iterable[int] = ()) -> Propagated:
    """Unit propagation on a formula under evidence, {3: True, 5: False} or [3, -5].

    Raises Unsatisfiable on a contradiction.
    """
    values = values_given(formula, evidence)
    return with_values(formula.literals, formula.offsets, values)


def values_given(
    formula: Formula, evidence: Mapping[int, bool] | Iterable[int] = ()
) -> np.ndarray | None:
    """As `fixpoint_values` of a formula. Raises Unsatisfiable on a contradiction."""
    given = evidence_literals(evidence, formula.n_vars)
    if formula.has_empty_clause:
        raise Unsatisfiable("the formula has an empty clause")
    try:
        return fixpoint_values(formula.literals, formula.offsets, formula.n_total, given)
    except Unsatisfiable as error:
        if not len(given):
            raise
        shown = ", ".join(map(str, given[:8])) + (", ..." if len(given) > 8 else "")
        raise Unsatisfiable(f"{error} given {shown}") from None


def propagate(literals: np.ndarray, offsets: np.ndarray, n: int, given: np.ndarray) -> Propagated:
    """Unit propagation on flat clauses over variables 1..n, with `given` (int32) as true literals.

    Raises Unsatisfiable on a contradiction.
    """
    return with_values(literals, offsets, fixpoint_values(literals, offsets, n, given))


def fixpoint_values(
    literals: np.ndarray, offsets: np.ndarray, n: int, given: np.ndarray
) -> np.ndarray | None:
    """(n + 1,) int8: +1 true, -1 false, 0 open; entry 0 is unused. None: all are open."""
    from nelson.kernels.reduce.propagate import CONTRADICTION, FIXPOINT, fixpoint

    check_time()
    lengths = np.diff(offsets)
    if not len(given) and (not len(lengths) or lengths.min() > 1):  # there is no unit
        return None
    values = np.zeros(n + 1, dtype=np.int8)
    codes = 2 * np.abs(literals) + (literals < 0)
    check_time()
    start = lengths_to_offsets(np.bincount(codes, minlength=2 * n + 2))
    outcome = fixpoint(
        literals,
        offsets,
        given,
        values,
        start,
        start[:-1].copy(),
        np.empty(len(literals), dtype=np.int32),
        np.empty(len(offsets) - 1, dtype=np.int32),
        np.empty(n + 1, dtype=np.int32),
    )
    if outcome == CONTRADICTION:
        raise Unsatisfiable("the evidence contradicts itself")
    if outcome != FIXPOINT:
        raise Unsatisfiable(f"unit propagation falsifies clause {outcome + 1}")
    return values


def fixed_literals(values: np.ndarray | None) -> np.ndarray:
    """The literals that hold, int32, in the order of their variables."""
    if values is None:
        return np.zeros(0, np.int32)
    variables = values.nonzero()[0].astype(np.int32)
    return variables * values[variables]


def with_values(literals: np.ndarray, offsets: np.ndarray, values: np.ndarray | None) -> Propagated:
    """The clauses with these values of variables."""
    check_time()
    fixed = fixed_literals(values)
    if values is None:
        return Propagated(fixed, literals, offsets)
    state = values[np.abs(literals)] * np.sign(literals).astype(np.int8)  # of each literal
    check_time()
    true_before = lengths_to_offsets(state > 0)
    open_before = lengths_to_offsets(state == 0)
    alive = true_before[offsets[1:]] == true_before[offsets[:-1]]
    lengths = (open_before[offsets[1:]] - open_before[offsets[:-1]])[alive]
    rest = literals[(state == 0) & np.repeat(alive, np.diff(offsets))]
    return Propagated(fixed, rest, lengths_to_offsets(lengths))
