"""From (formula, theta) to a constant and independent parts.

    log Z = constant + sum over parts of log P(part holds)

Preprocessing is that of samples and of the exact law (`nelson.exact.law.preprocessed`): evidence
and units fix variables, equal literals become one variable, whose log-odds add up. The remaining
clauses fall into components that share no variable. A variable that no clause mentions any more is
summed out in closed form. Auxiliary variables are functions of the visible ones and have theta = 0,
so that the sum over the encoded clauses is the sum over visible structures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.problem import Problem, prepare
from nelson.errors import FormulaError
from nelson.exact.law import preprocessed
from nelson.formula import Formula
from nelson.formula.checks import evidence_of, theta_rows
from nelson.formula.flat import join
from nelson.policy import DEFAULT, Policy


@dataclass(frozen=True, eq=False)
class WeightedClauses:
    """Clauses over variables 1..n, each in some clause, with their log-odds."""

    formula: Formula  # without auxiliary variables
    theta: np.ndarray  # (n,) finite

    @property
    def literals(self) -> np.ndarray:
        return self.formula.literals

    @property
    def offsets(self) -> np.ndarray:
        return self.formula.offsets

    @property
    def n(self) -> int:
        return len(self.theta)

    @property
    def n_clauses(self) -> int:
        return self.formula.n_clauses

    @cached_property
    def log_p(self) -> np.ndarray:
        """(n, 2): log P(x_i = 0), log P(x_i = 1)."""
        return np.stack([-np.logaddexp(0, self.theta), -np.logaddexp(0, -self.theta)], axis=1)

    @cached_property
    def problem(self) -> Problem:
        return prepare(self.formula)


@dataclass(frozen=True)
class Reduced:
    """A formula and theta after preprocessing."""

    constant: float
    parts: list[WeightedClauses]  # smallest first
    fixed: int  # variables that evidence and preprocessing fixed
    product: float  # sum over visible variables without evidence of log(1 + e^theta_i)


def reduce(
    f: Formula, theta: Any, budget: Budget | None = None, policy: Policy = DEFAULT
) -> Reduced:
    """The parts of log Z for one theta. Raises Unsatisfiable if preprocessing proves it."""
    rows, single = theta_rows(f, theta)
    if not single:
        raise FormulaError(f"theta of shape {rows.shape}", expected=f"one vector, ({f.n_vars},)")
    evidence = evidence_of(f, None, rows[0])
    smaller = preprocessed(f, evidence, Budget() if budget is None else budget, policy)
    weight = np.zeros((1, f.n_total))
    weight[0, : f.n_vars] = np.where(np.isinf(rows[0]), 0.0, rows[0])
    y, constants = smaller.weights(weight)
    parts = [WeightedClauses(piece.formula, y[0, piece.variables]) for piece in smaller.pieces]
    parts.sort(key=lambda part: part.n)
    constant = float(constants[0]) + np.logaddexp(0, y[0, smaller.free]).sum()
    constant += sum(float(np.logaddexp(0, part.theta).sum()) for part in parts)
    product = float(np.logaddexp(0, rows[0][np.isfinite(rows[0])]).sum())
    return Reduced(float(constant), parts, int((smaller.sign == 0).sum()), product)


def merge(parts: Sequence[WeightedClauses]) -> WeightedClauses:
    """Several parts as one: their variables and clauses in a row."""
    if len(parts) == 1:
        return parts[0]
    literals, offsets = join([(part.literals, part.offsets, part.n) for part in parts])
    theta = np.concatenate([part.theta for part in parts])
    return WeightedClauses(Formula.from_arrays(literals, offsets, n_vars=len(theta)), theta)
