"""A formula as independent components, and the way from their variables back to its own.

    x_v = offset_v + sign_v y_root(v),      sign in {-1, 0, 1}

Preprocessing (`nelson.exact.preprocess`) fixes variables (sign 0) and merges equal literals, for
any theta; it keeps gates, whose elimination needs theta = 0. y are the variables that stay: those
of the components, and free ones that are in no clause. So log Z of theta is a constant plus log Z
of an affine map of theta, and means and covariances of x are linear in those of y.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nelson.budget import Budget
from nelson.errors import Unsatisfiable
from nelson.exact.preprocess import STEPS, Rebuild, preprocess
from nelson.formula import Formula
from nelson.formula.flat import join
from nelson.formula.memo import Slot
from nelson.policy import DEFAULT, Policy

#: Preprocessing steps that keep the law for every theta.
_STEPS = tuple(step for step in STEPS if step != "gates")
_ALL_VISIBLE: Slot[Formula] = Slot("the same clauses without auxiliary variables")
CONTRADICTED = "no valid structure agrees with the infinite log-odds"


@dataclass(frozen=True, eq=False)
class Piece:
    """Clauses over some of the variables that stay."""

    variables: np.ndarray  # from 0, in the numbers of the formula as given
    formula: Formula  # over 1, 2, .. in this order; all of them visible


@dataclass(frozen=True, eq=False)
class Reduction:
    """All arrays have n_total entries, one for each variable of the formula."""

    root: np.ndarray  # int64, from 0; the variable itself if it stays
    sign: np.ndarray  # int8
    offset: np.ndarray  # int8
    pieces: list[Piece]  # components, the smallest first
    free: np.ndarray  # variables from 0 that stay and are in no clause

    @classmethod
    def whole(cls, formula: Formula) -> Reduction:
        """The formula as it is, in one piece."""
        n = formula.n_total
        every = np.arange(n)
        plain = (
            formula
            if not formula.n_aux
            else formula.memo.once(
                _ALL_VISIBLE,
                lambda: Formula.from_arrays(formula.literals, formula.offsets, n_vars=n),
            )
        )
        ones, zeros = np.ones(n, np.int8), np.zeros(n, np.int8)
        return cls(every, ones, zeros, [Piece(every, plain)], every[:0])

    @property
    def n(self) -> int:
        return len(self.root)

    @cached_property
    def changed(self) -> np.ndarray:
        """The variables that do not stay."""
        return np.flatnonzero((self.sign != 1) | (self.root != np.arange(self.n)))

    def weights(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """theta (b, n_total) -> (log-odds of y (b, n_total), constants of log Z (b,)).

        A variable with infinite log-odds has weight 1, as everywhere. Raises Unsatisfiable if
        infinite log-odds contradict each other.
        """
        hard = np.isinf(theta)
        soft = np.where(hard, 0.0, theta)
        moved = self.changed
        constant = soft[:, moved] @ self.offset[moved].astype(float)
        rows = soft.copy()
        rows[:, moved] = 0.0
        merged = moved[self.sign[moved] != 0]
        np.add.at(rows.T, self.root[merged], (soft[:, merged] * self.sign[merged]).T)
        if hard.any():
            self._fix(theta, hard, rows, constant)
        return rows, constant

    def _fix(
        self, theta: np.ndarray, hard: np.ndarray, rows: np.ndarray, constant: np.ndarray
    ) -> None:
        """Put infinite log-odds into rows; a root keeps its other weights as a constant."""
        row, v = np.nonzero(hard)
        value = theta[row, v] > 0
        fixed = self.sign[v] == 0
        if (value[fixed] != (self.offset[v[fixed]] > 0)).any():
            raise Unsatisfiable(CONTRADICTED)
        row, v, value = row[~fixed], v[~fixed], value[~fixed]
        wanted = np.where(self.sign[v] > 0, value, ~value)
        root = self.root[v]
        given = np.zeros(rows.shape, np.int8)
        np.bitwise_or.at(given, (row, root), np.where(wanted, 1, 2).astype(np.int8))
        if (given == 3).any():
            raise Unsatisfiable(CONTRADICTED)
        constant += np.where(given == 1, rows, 0.0).sum(axis=1)
        rows[given == 1], rows[given == 2] = np.inf, -np.inf

    def values(self, y: np.ndarray) -> np.ndarray:
        """States (.., n_total) bool of the variables that stay -> states of all, in place."""
        moved = self.changed
        fixed, merged = moved[self.sign[moved] == 0], moved[self.sign[moved] != 0]
        y[..., fixed] = self.offset[fixed] > 0
        y[..., merged] = y[..., self.root[merged]] ^ (self.sign[merged] < 0)
        return y

    def means(self, y: np.ndarray) -> np.ndarray:
        """Means (.., n_total) of the variables that stay -> means of all, in place."""
        moved = self.changed
        y[..., moved] = self.offset[moved] + self.sign[moved] * y[..., self.root[moved]]
        return y

    def pulled(self, v: np.ndarray) -> np.ndarray:
        """Directions (b, n_total) in x -> in y: the transpose of the linear map."""
        moved = self.changed
        out = v.copy()
        out[:, moved] = 0.0
        np.add.at(out.T, self.root[moved], (v[:, moved] * self.sign[moved]).T)
        return out

    def pushed(self, y: np.ndarray, axis: int = -1) -> np.ndarray:
        """Changes of y along an axis -> changes of x, in place."""
        moved = self.changed
        out = np.moveaxis(y, axis, -1)
        out[..., moved] = self.sign[moved] * out[..., self.root[moved]]
        return y

    def literal(self, literal: int) -> int:
        """A literal of x as a literal of y; 0: it always holds. Raises Unsatisfiable: it never
        does.
        """
        v = abs(literal) - 1
        if self.sign[v] == 0:
            if (literal > 0) != (self.offset[v] > 0):
                raise Unsatisfiable(CONTRADICTED)
            return 0
        return int(np.sign(literal) * self.sign[v] * (self.root[v] + 1))


def reduction(
    formula: Formula, evidence: Sequence[int], budget: Budget, policy: Policy = DEFAULT
) -> Reduction:
    """Preprocess a formula under evidence. Raises Unsatisfiable if that was proved."""
    share = budget.share(policy.exact.preprocessing_share)
    zeros = np.zeros((1, formula.n_vars))
    reduced = preprocess(formula, zeros, evidence, budget=share, steps=_STEPS)
    root, sign, offset = _roots(reduced.rebuild, formula.n_total)
    pieces = [Piece(part.variables, part.formula) for part in reversed(reduced.components)]
    return Reduction(root, sign, offset, pieces, reduced.free)


def _roots(rebuild: Rebuild, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Root, sign and offset of each variable. An entry is a constant (no clause), or a copy of a
    literal l (one clause, not l). The last entry refers to variables that stay.
    """
    root, sign, offset = np.arange(n), np.ones(n, np.int8), np.zeros(n, np.int8)
    for i in range(len(rebuild.target) - 1, -1, -1):
        v = int(rebuild.target[i])
        if rebuild.first[i] == rebuild.first[i + 1]:
            sign[v], offset[v] = 0, rebuild.flip[i]
            continue
        literal = -int(rebuild.literals[rebuild.start[rebuild.first[i]]])
        u, way = abs(literal) - 1, 1 if literal > 0 else -1
        root[v], sign[v] = root[u], way * sign[u]
        offset[v] = offset[u] if way > 0 else 1 - offset[u]
    return root, sign, offset


def joined(pieces: Sequence[Piece]) -> Piece:
    """Several pieces as one."""
    if len(pieces) == 1:
        return pieces[0]
    literals, offsets = join(
        [(p.formula.literals, p.formula.offsets, p.formula.n_total) for p in pieces]
    )
    variables = np.concatenate([piece.variables for piece in pieces])
    return Piece(variables, Formula.from_arrays(literals, offsets, n_vars=len(variables)))
