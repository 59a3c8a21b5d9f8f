"""Can these shares occur? A proof that they cannot is one inequality that every solution obeys.

Literals l_1..l_k have the values f(x) in {0, 1}^k in a solution x. Shares t_1..t_k are those of
some law over the solutions if and only if t lies in the convex hull of all f(x). If it does not,
there is a direction d with

    max over solutions x of d . f(x)  <  d . t                                   (a cut)

The simplest cuts are tried first, since people must understand them:

    values of a field  their shares do not sum to 1
    one literal        no solution has it, but its share is above 0
    two literals       no solution has both, but their shares sum to more than 1; negations too
    several literals   of share 1 (but for one of them): no solution has them all
    values of a field  a literal excludes some of them
    any other          the deepest d with sum |d_k| = 1: a linear program over known solutions; the
                       maximum of d . f (MaxSAT) gives a proof, or one more solution

The depth d . t - max d . f of the deepest cut is the distance to the hull: for any law over the
solutions some share is off by at least that much.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact.mode import most_likely
from nelson.exact.solver import SECONDS, conflict, solve_within
from nelson.formula import Formula
from nelson.io.progress import phase

#: Solutions in the first linear program; others are added as they are needed.
_MAX_FIRST_ROWS = 1000


@dataclass(frozen=True)
class Cut:
    """direction . f(x) <= highest for every solution x, where direction . targets = asked."""

    direction: tuple[int, ...]
    highest: int
    asked: float

    @property
    def depth(self) -> float:
        """Some share is off by at least this much, for any law over the solutions."""
        return (self.asked - self.highest) / sum(map(abs, self.direction))


def features(states: np.ndarray, literals: np.ndarray) -> np.ndarray:
    """The values of literals (k,) in assignments (m, n) bool -> (m, k) bool."""
    return states[:, np.abs(literals) - 1] == (literals > 0)


def separate(
    formula: Formula,
    literals: Sequence[int],
    targets: Sequence[float],
    known: np.ndarray,
    *,
    complete: bool = False,
    groups: Iterable[Sequence[int]] = (),
    tolerance: float = 1e-9,
    budget: Budget | None = None,
) -> Cut | None:
    """A proof that no law over the solutions has these shares; None if there is such a law, up to
    `tolerance` in each share (or 1e-6, where the nearest face of the hull has no small integers).

    known     solutions, (m, n) bool; complete: they are all of them
    groups    places in `literals`, such that exactly one literal of a group holds in any solution
    budget    a minute if it has no deadline

    Raises BudgetExceeded if neither is known in time, Unsatisfiable if there is no solution.
    """
    from pysat.solvers import Solver

    if formula.has_empty_clause:
        raise Unsatisfiable("the formula has an empty clause")
    fields = [list(group) for group in groups]
    budget = Budget() if budget is None else budget
    budget = budget.within(SECONDS) if budget.counted else budget
    looking = phase("a solver looks for a proof that the shares are impossible")
    with looking, Solver(name="glucose4", bootstrap_with=formula.clauses()) as solver:
        search = _CutSearch(formula, literals, targets, known, complete, tolerance, budget, solver)
        return (
            search.sums(fields)
            or search.conflict([])
            or search.pairs()
            or search.conflict(np.flatnonzero(search.share == 1).tolist())
            or search.exclusions(fields)
            or search.deepest()
        )


class _CutSearch:
    """Columns 0..k-1 of `seen` are the literals, k..2k-1 their negations; so for `share`."""

    def __init__(
        self,
        formula: Formula,
        literals: Sequence[int],
        targets: Sequence[float],
        known: np.ndarray,
        complete: bool,
        tolerance: float,
        budget: Budget,
        solver: Any,
    ) -> None:
        self.formula, self.complete, self.tolerance = formula, complete, tolerance
        self.literals = np.asarray(literals, np.int64)
        self.targets = np.asarray(targets, np.float64)
        self.rows = np.unique(features(known, self.literals), axis=0)
        self.k = len(self.literals)
        self.signed = np.concatenate([self.literals, -self.literals]).tolist()
        self.seen = np.concatenate([self.rows, ~self.rows], axis=1)
        self.share = np.concatenate([self.targets, 1 - self.targets])
        self.solver, self.budget, self.seconds = solver, budget, budget.left
        counts = self.seen.astype(np.float32)  # below 2^24, hence exact
        self.apart = counts.T @ counts == 0

    def conflict(self, certain: list[int]) -> Cut | None:
        """Literals of share 1, and at most one other of share above 0, that exclude each other."""
        if certain and (cut := self._unsatisfiable(certain)):
            return cut
        under = self.seen[self.seen[:, certain].all(axis=1)]
        rare = ~under.any(axis=0) & (self.share > self.tolerance)
        for column in np.flatnonzero(rare).tolist():
            if not self._together([*certain, column]):
                return self._unsatisfiable([*certain, column])
        return None

    def sums(self, groups: list[list[int]]) -> Cut | None:
        """Exactly one literal of a group holds in a solution, but the shares do not sum to 1."""
        high = [(g, 1) for g in groups]
        low = [([i + self.k for i in g], len(g) - 1) for g in groups]
        return self._first(high + low)

    def pairs(self) -> Cut | None:
        """Two literals that never hold together."""
        over = np.add.outer(self.share, self.share) - 1 > self.tolerance
        return self._first([(c, 1) for c in np.argwhere(np.triu(self.apart & over, 1)).tolist()])

    def exclusions(self, groups: list[list[int]]) -> Cut | None:
        """A literal that excludes several literals of a group: at most one of all these holds. Or,
        if that is shorter: it implies one of the others, [i] + sum of [not j] <= their number.
        """
        candidates = []
        for group in groups:
            for i in range(2 * self.k):
                if i % self.k not in group:
                    excluded = [j for j in group if self.apart[i, j]]
                    others = [j + self.k for j in group if not self.apart[i, j]]
                    short = len(others) < len(excluded)
                    candidates.append(([i, *others], len(others)) if short else ([i, *excluded], 1))
        return self._first(candidates)

    def _first(self, candidates: list[tuple[list[int], int]]) -> Cut | None:
        """The first candidate that is proved: (columns, how many of these literals can hold in one
        solution). The shares that exceed this number most are tried first, short ones before long.
        """
        # Pairs and values of fields that are checked with a solver, the most violated first.
        max_candidates = 200
        over = {tuple(c): float(self.share[c].sum()) - most for c, most in candidates}
        tried = sorted(
            (c for c in over if over[c] > self.tolerance), key=lambda c: (-over[c], len(c))
        )
        for columns in map(list, tried[:max_candidates]):
            if len(columns) == 2:
                cut = None if self._together(columns) else self._cut(columns)
            else:
                cut, _ = self._proved(self._direction(columns))
            if cut is not None and cut.depth > self.tolerance:
                return cut
        return None

    def deepest(self) -> Cut | None:
        """The cut of the greatest depth, by cutting planes."""
        rows, best = self.rows, None
        if not len(rows):
            rows = self._proved(np.zeros(self.k, np.int64))[1][None]
        if len(rows) > _MAX_FIRST_ROWS:
            rows = rows[:: -(-len(rows) // _MAX_FIRST_ROWS)]
        while True:
            depth, d = deepest_direction(rows, self.targets, self._seconds_left())
            if depth <= self.tolerance:
                return None
            cut, row = self._proved(_whole(d))
            if cut.depth > max(self.tolerance, best.depth if best else 0.0):
                best = cut
            new = not (rows == row).all(axis=1).any()
            if not new or (best is not None and best.depth > (1 - 1e-6) * depth):
                return best
            if best is not None and self.budget.spent:
                return best
            rows = np.concatenate([rows, row[None]])

    def _together(self, columns: list[int]) -> bool:
        """Is there a solution in which all of these literals hold?"""
        if self.seen[:, columns].all(axis=1).any():
            return True
        if self.complete:
            return False
        answer = solve_within(self.solver, self._seconds_left(), [self.signed[c] for c in columns])
        if answer is None:
            raise self._late()
        return answer

    def _unsatisfiable(self, columns: list[int]) -> Cut | None:
        conflicting = conflict(
            self.formula, [[[self.signed[c]]] for c in columns], self._seconds_left()
        )
        if conflicting is None:
            return None
        if not conflicting.groups:
            raise Unsatisfiable("a CDCL solver proved that the formula has no solution")
        return self._cut([columns[g] for g in conflicting.groups])

    def _proved(self, d: np.ndarray) -> tuple[Cut, np.ndarray]:
        """The cut of a direction of integers (it may have depth <= 0), and a solution with the
        highest d . f, as a row (k,)."""
        if self.complete:
            row = self.rows[int((self.rows @ d).argmax())]
        else:
            theta = np.zeros(self.formula.n_vars)
            np.add.at(theta, np.abs(self.literals) - 1, np.sign(self.literals) * d)
            best = most_likely(self.formula, theta, self._seconds_left())
            row = features(best[None], self.literals)[0]
        return Cut(tuple(d.tolist()), int(row @ d), float(d @ self.targets)), row

    def _cut(self, columns: list[int]) -> Cut:
        """The cut of literals that cannot hold together, while all but any one of them can."""
        d = self._direction(columns)
        highest = len(columns) - 1 - int((d < 0).sum())
        return Cut(tuple(d.tolist()), highest, float(d @ self.targets))

    def _direction(self, columns: list[int]) -> np.ndarray:
        """The sum of these literals as a direction; [not l] = 1 - [l]."""
        d = np.zeros(self.k, np.int64)
        for c in columns:
            d[c % self.k] += 1 if c < self.k else -1
        return d

    def _seconds_left(self) -> float:
        if self.budget.spent:
            raise self._late()
        return self.budget.left

    def _late(self) -> BudgetExceeded:
        return BudgetExceeded(
            f"it was not decided in {self.seconds:.3g} seconds whether these shares are possible"
        )


def deepest_direction(
    rows: np.ndarray, targets: np.ndarray, seconds: float = SECONDS
) -> tuple[float, np.ndarray]:
    """max over d, sum |d_k| <= 1, of d . t - max over rows of d . row; and that d, (k,).

    The value is the distance of t from the convex hull of the rows (m, k), measured by the largest
    difference of a share. Raises BudgetExceeded if `seconds` ran out.
    """
    from scipy.optimize import linprog

    m, k = rows.shape
    # Variables: d+ (k), d- (k), z >= d . row for all rows.
    bounded = np.concatenate([rows, -rows.astype(np.float64), -np.ones((m, 1))], axis=1)
    norm = np.append(np.ones(2 * k), 0.0)
    answer = linprog(
        np.concatenate([-targets, targets, [1.0]]),
        A_ub=np.concatenate([bounded, norm[None]]),
        b_ub=np.append(np.zeros(m), 1.0),
        bounds=[(0, None)] * (2 * k) + [(None, None)],
        method="highs",
        options={"time_limit": seconds},
    )
    if answer.status != 0:
        raise BudgetExceeded(f"a linear program was not solved in {seconds:.3g} seconds")
    return -float(answer.fun), answer.x[:k] - answer.x[k : 2 * k]


def _whole(d: np.ndarray) -> np.ndarray:
    """A direction as integers, small ones if that is possible without changing it."""
    d = d / np.abs(d).max()
    for scale in (*range(1, 25), 10**6):
        whole = np.rint(scale * d)
        if np.abs(whole - scale * d).max() < 1e-6 * scale:
            break
    whole = whole.astype(np.int64)
    return whole // math.gcd(*whole.tolist())
