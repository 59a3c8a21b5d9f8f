"""Chains of a law with terms over several variables, many lanes at once.

    P(x) ~ exp(theta . x + sum_S c_S prod_{i in S} x_i) C(x)

They are made for a formula and the sets S; theta and the coefficients c are arguments of every
sweep, so that one object serves all points of a path (`log_z/annealing.py`), all steps of learning,
and all draws of a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nelson.budget import Budget
from nelson.chains.chain import resumed
from nelson.chains.diagnosis.diagnose import pilot_request
from nelson.chains.moves.fields import unit_moves
from nelson.chains.problem import prepare
from nelson.chains.terms import Terms
from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.flat import owners
from nelson.formula.groups import groups_of
from nelson.formula.polynomial import Monomial
from nelson.kernels.core.bits import unpack


class TermChains:
    """States are packed words, (words, n) uint64, over all variables with the auxiliary ones."""

    def __init__(
        self, formula: Formula, monomials: Sequence[Monomial], evidence: tuple[int, ...] = ()
    ) -> None:
        self.given, self.visible = formula, formula.n_vars
        self.formula = Formula.from_arrays(
            formula.literals, formula.offsets, n_vars=formula.n_total
        )
        self.n = formula.n_total
        self.monomials = tuple(monomials)
        degrees = np.array([len(m) for m in self.monomials], np.int64)
        self._pairs = np.flatnonzero(degrees == 2)
        self._more = np.flatnonzero(degrees != 2)
        both = np.array([self.monomials[k] for k in self._pairs], np.int64).reshape(-1, 2) - 1
        self._first, self._second = both.T
        self.problem = prepare(self.formula, evidence)
        moves = unit_moves(self.problem, Terms.of(self.monomials))
        if moves is None:
            raise FormulaError(
                "a formula that is too large for sweeps with terms",
                expected="a smaller one, or fewer variables in groups of which at most one is true",
            )
        self.moves = moves
        self._request = pilot_request(np.zeros((1, self.n)), 64, Budget(threads=1), 0)

    def padded(self, theta: np.ndarray) -> np.ndarray:
        """With zeros for auxiliary variables."""
        return np.concatenate([theta, np.zeros(self.n - len(theta))])

    def sweep(
        self,
        words: np.ndarray,
        theta: np.ndarray,
        coefficients: np.ndarray,
        seed: int,
        done: int,
        sweeps: int = 1,
        threads: int | None = None,
    ) -> np.ndarray:
        """The states after `sweeps` sweeps; `done` sweeps of this seed were made before."""
        request = replace(
            self._request,
            theta=self.padded(theta)[None],
            moves=self.moves.weighted(coefficients),
            seed=seed,
            sweeps=sweeps,
            budget=Budget(threads=threads or 1),
        )
        return resumed(self.problem, request, words[None], done, 0, 64 * len(words)).packed[0]

    def table(self, coefficients: np.ndarray) -> np.ndarray:
        """The coefficients of the pairs, (n, n), each at one place."""
        table = np.zeros((self.n, self.n))
        table[self._first, self._second] = coefficients[self._pairs]
        return table

    def potential(
        self, words: np.ndarray, theta: np.ndarray, coefficients: np.ndarray
    ) -> np.ndarray:
        """theta . x + sum_S c_S prod x_i of each lane, (64 words,)."""
        x = unpack(words, 64 * len(words)).astype(np.float64)
        total = x[:, : self.visible] @ theta
        if len(self._pairs):
            total += ((x @ self.table(coefficients)) * x).sum(axis=1)
        for k in self._more:
            total += coefficients[k] * x[:, np.array(self.monomials[k]) - 1].prod(axis=1)
        return total


class Fields:
    """The units of a formula over its visible variables: groups of which at most one is true, and
    lone variables. Groups with negative literals are left to lone variables."""

    def __init__(self, formula: Formula) -> None:
        n = formula.n_vars
        groups = groups_of(formula)
        self.unit = np.full(n, -1, np.int64)
        owner = owners(groups.offsets)
        for g in range(len(groups.exactly)):
            literals = groups.literals[owner == g]
            if (literals > 0).all() and (literals <= n).all():
                self.unit[literals - 1] = g
        lone = self.unit < 0
        self.unit[lone] = len(groups.exactly) + np.arange(int(lone.sum()))
        _, self.unit = np.unique(self.unit, return_inverse=True)
        self.order = np.argsort(self.unit, kind="stable")
        self.first = np.flatnonzero(np.diff(self.unit[self.order], prepend=-1))

    def apart(self) -> np.ndarray:
        """(n, n) bool: pairs of variables in different units."""
        return self.unit[:, None] != self.unit[None, :]

    def independent(self, mean: np.ndarray, least: float) -> np.ndarray:
        """theta (n,) of the law of independent units with these means, each at least `least`."""
        share = np.maximum(mean, least)
        total = np.add.reduceat(share[self.order], self.first)
        none = np.maximum(1 - total, least)
        return np.log(share) - np.log(none)[self.unit]
