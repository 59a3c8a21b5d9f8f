"""Chains of a law with terms over several variables, many lanes at once.

    P(x) ~ exp(theta . x + sum_S c_S prod_{i in S} x_i) C(x)

A walk is made for a formula and the sets S; theta and the coefficients c are arguments of every
sweep, so that one walk serves all points of a path (`annealed.py`) and all steps of learning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nelson.errors import BudgetExceeded
from nelson.formula import Formula
from nelson.formula.polynomial import Monomial
from nelson.kernels.core.bits import pack, unpack
from nelson.sampling.sample_stream import sample


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
        self._units = _units(self.formula)

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
    ) -> np.ndarray:
        """The states after `sweeps` sweeps; `done` sweeps of this seed were made before."""
        x = unpack(words, 64 * len(words)).astype(np.float32)
        table = self.table(coefficients)
        table = (table + table.T).astype(np.float32)
        weights = self.padded(theta).astype(np.float32)
        for k in range(done, done + sweeps):
            random = np.random.Generator(np.random.Philox(key=[seed % 2**64, k]))
            for own, patterns, clauses in self._units:
                h = x @ table[:, own] + weights[own]
                score = h @ patterns.T
                for others, signs, holds in clauses:
                    open_ = (x[:, others] != signs).all(axis=1)
                    score[np.ix_(open_, ~holds)] = -np.inf
                score += random.gumbel(size=score.shape).astype(np.float32)
                x[:, own] = patterns[score.argmax(axis=1)]
        return pack(x != 0)

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


def _units(formula: Formula) -> list:
    """Interim: groups by binary clauses."""
    n = formula.n_vars
    clauses = formula.clauses
    clauses = clauses() if callable(clauses) else clauses
    conflict = np.zeros((n, n), bool)
    for c in clauses:
        if len(c) == 2 and c[0] < 0 and c[1] < 0:
            conflict[-c[0] - 1, -c[1] - 1] = conflict[-c[1] - 1, -c[0] - 1] = True
    used, groups = np.zeros(n, bool), []
    for v in range(n):
        if used[v]:
            continue
        own = [v]
        for u in np.flatnonzero(conflict[v] & ~used):
            if u > v and all(conflict[u, w] for w in own):
                own.append(int(u))
        used[own] = True
        groups.append(np.array(own))
    where = np.zeros(n, int)
    for g, own in enumerate(groups):
        where[own] = g
    touching: list[list[list[int]]] = [[] for _ in groups]
    for c in clauses:
        for g in {int(where[abs(lit) - 1]) for lit in c}:
            touching[g].append(c)
    out = []
    for own, some in zip(groups, touching, strict=True):
        k = len(own)
        patterns = np.concatenate([np.zeros((1, k)), np.eye(k)]).astype(np.float32)
        place = {int(v): i for i, v in enumerate(own)}
        rows = []
        for c in some:
            holds = np.zeros(k + 1, bool)
            others = [lit for lit in c if abs(lit) - 1 not in place]
            for lit in c:
                if abs(lit) - 1 in place:
                    holds |= (patterns[:, place[abs(lit) - 1]] > 0) == (lit > 0)
            if not holds.all():
                rest = np.array(others, int)
                rows.append((np.abs(rest) - 1, rest > 0, holds))
        out.append((own, patterns, rows))
    return out
