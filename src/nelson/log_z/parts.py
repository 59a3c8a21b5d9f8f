"""From (formula, theta) to a constant and independent parts.

    log Z = constant + sum over parts of log P(part holds)

Evidence and unit propagation fix variables; the remaining clauses fall into components that share
no variable. A variable that no clause mentions any more is summed out in closed form. Auxiliary
variables are functions of the visible ones and have theta = 0, so that the sum over the encoded
clauses is the sum over visible structures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.canonical import normalise
from nelson.formula.checks import evidence_of, theta_rows
from nelson.formula.components import split
from nelson.formula.flat import join
from nelson.formula.propagate import propagated


@dataclass(frozen=True)
class Part:
    """Clauses over variables 1..n, each in some clause, with their log-odds."""

    literals: np.ndarray  # int32
    offsets: np.ndarray  # int64
    theta: np.ndarray  # (n,) finite

    @property
    def n(self) -> int:
        return len(self.theta)

    @property
    def n_clauses(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def log_p(self) -> np.ndarray:
        """(n, 2): log P(x_i = 0), log P(x_i = 1)."""
        return np.stack([-np.logaddexp(0, self.theta), -np.logaddexp(0, -self.theta)], axis=1)

    def clauses(self) -> list[list[int]]:
        flat, ends = self.literals.tolist(), self.offsets.tolist()
        return [flat[a:b] for a, b in pairwise(ends)]


@dataclass(frozen=True)
class Reduced:
    constant: float
    parts: list[Part]  # smallest first
    fixed: int  # variables that evidence and propagation fixed
    product: float  # sum over visible variables without evidence of log(1 + e^theta_i)


def reduce(f: Formula, theta: Any) -> Reduced:
    """The parts of log Z for one theta. Raises Unsatisfiable if propagation proves it.

    O(total literals), and a sort of the components.
    """
    rows, single = theta_rows(f, theta)
    if not single:
        raise FormulaError(f"theta of shape {rows.shape}", expected=f"one vector, ({f.n_vars},)")
    left = propagated(f, evidence_of(f, None, rows[0]))
    weight = np.zeros(f.n_total)
    weight[: f.n_vars] = np.where(np.isinf(rows[0]), 0.0, rows[0])
    free = np.ones(f.n_total, bool)
    free[np.abs(left.fixed) - 1] = False
    constant = weight[left.fixed[left.fixed > 0] - 1].sum() + np.logaddexp(0, weight[free]).sum()
    components = split(*normalise(left.literals, left.offsets), f.n_total)
    parts = [Part(c.literals, c.offsets, weight[c.variables]) for c in components]
    finite = rows[0][np.isfinite(rows[0])]
    product = float(np.logaddexp(0, finite).sum())
    parts.sort(key=lambda part: part.n)
    return Reduced(float(constant), parts, len(left.fixed), product)


def merge(parts: list[Part]) -> Part:
    """Several parts as one: their variables and clauses in a row."""
    literals, offsets = join([(part.literals, part.offsets, part.n) for part in parts])
    return Part(literals, offsets, np.concatenate([part.theta for part in parts]))
