"""Chains of a law with terms over several variables, many lanes at once.

    P(x) ~ exp(theta . x + sum_S c_S prod_{i in S} x_i) C(x)

A walk is made for a formula and the sets S; theta and the coefficients c are arguments of every
sweep, so that one walk serves all points of a path (`annealed.py`) and all steps of learning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nelson.errors import BudgetExceeded, NelsonError
from nelson.formula import Formula
from nelson.formula.polynomial import Monomial
from nelson.kernels.core.bits import pack, unpack
from nelson.sampling.diagnosis.diagnose import pilot_request
from nelson.sampling.problem import prepare
from nelson.sampling.sample_stream import sample
from nelson.sampling.terms import Terms
from nelson.sampling.units import unit_moves


class Walk:
    """States are packed words, (words, n) uint64, over all variables with the auxiliary ones."""

    def __init__(self, formula: Formula, monomials: Sequence[Monomial]) -> None:
        self.visible = formula.n_vars
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
        self.problem = prepare(self.formula)
        moves = unit_moves(self.problem, Terms.of(self.monomials))
        if moves is None:
            raise NelsonError("the formula is too large for sweeps with terms")
        self._moves = moves
        self._request = pilot_request(np.zeros((1, self.n)), 64, 1, None, 0)

    def start(self, theta: np.ndarray, words: int, seed: int) -> tuple[np.ndarray, str]:
        """64 lanes for each word from the law without terms, and their guarantee."""
        drawn = sample(self.formula, self.padded(theta), 64 * words, seed=seed, project="all")
        if not drawn.count:
            raise BudgetExceeded("no valid start was found for chains with terms")
        packed = drawn.packed
        if drawn.count < 64 * words:
            x = drawn.to_numpy()
            packed = pack(x[np.arange(64 * words) % drawn.count])
        return np.array(packed), drawn.guarantee

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
            moves=None,
            seed=seed,
            sweeps=sweeps,
            threads=threads or 1,
        )
        moves = self._moves.weighted(coefficients)
        block = moves.moved(self.problem, request, words[None], done, 0, 64 * len(words))
        return block.packed[0]

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
