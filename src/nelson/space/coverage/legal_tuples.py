"""Which t-tuples are legal? A SAT solver finds legal rows with given bins, or proves it cannot."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.formula import Formula
from nelson.policy import CoverPolicy
from nelson.space.clauses.gates import TRUE
from nelson.space.coverage.bins import OUTSIDE
from nelson.space.coverage.tuples import BLOCK, Tuples


class LegalRowSolver:
    """One SAT solver for all questions: is there a legal row in which these bins occur together?

    formula    the clauses of a law; given: literals that hold in every row
    literals   for each column the literals of its bins
    """

    def __init__(
        self,
        formula: Formula,
        given: Iterable[int],
        literals: Sequence[Sequence[int]],
        budget: Budget | None = None,
    ) -> None:
        from pysat.solvers import Solver as Sat

        self.given = [x for x in given if x != TRUE]
        self.literals = [list(column) for column in literals]
        self.n_vars, self.budget = formula.n_vars, budget or Budget()
        self._flat = np.array([x for column in literals for x in column], np.int64)
        # Constants are the last variable, which is true.
        self._at = np.where(np.abs(self._flat) == TRUE, self.n_vars, np.abs(self._flat) - 1)
        self._sizes = np.array([len(column) for column in literals], np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._number = np.arange(len(self._flat)) - np.repeat(self._starts, self._sizes)
        # Variables that the solver is told what to try first: those of the fields and of the bins.
        bins = self._at[self._at < self.n_vars] + 1
        self._shown = np.union1d(bins, np.array(formula.projection or (), np.int64))
        self._signs = np.ones(self.n_vars + 1, np.int64)
        self._state = np.zeros(self.n_vars + 1, bool)
        self._sat = Sat(name="glucose4", bootstrap_with=formula.clauses())
        self._empty = formula.has_empty_clause or -TRUE in self.given
        self._timer: threading.Timer | None = None
        if not self.budget.counted:
            self._timer = threading.Timer(self.budget.left, self._sat.interrupt)
            self._timer.daemon = True
            self._timer.start()

    def __enter__(self) -> LegalRowSolver:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        self._sat.delete()

    def prefer(self, row: np.ndarray) -> None:
        """Let the solver try these bins (columns,) first, as far as they are not OUTSIDE."""
        known = np.flatnonzero(row >= 0)
        self._phases(self._starts[known] + row[known], np.repeat(row >= 0, self._sizes))

    def scatter(self, rng: np.random.Generator) -> None:
        """Let the solver try random bins, and random values of fields without bins, first."""
        self._signs[self._shown - 1] = rng.integers(0, 2, len(self._shown)) * 2 - 1
        picked = (rng.random(len(self._sizes)) * self._sizes).astype(np.int64)
        self._phases(self._starts + picked, np.ones(len(self._flat), bool))

    def _phases(self, wanted_bins: np.ndarray, set_bins: np.ndarray) -> None:
        """wanted_bins: places of bins to try first; set_bins: (bins,) bool, those with a phase."""
        wanted = np.zeros(len(self._flat), bool)
        wanted[wanted_bins] = True
        signs = np.where((self._flat > 0) == wanted, 1, -1)
        self._signs[self._at[set_bins]] = signs[set_bins]
        self._sat.set_phases((self._signs[self._shown - 1] * self._shown).tolist())

    def ask(self, literals: Iterable[int], model: bool = True) -> bool:
        """Is there a legal row with these literals? With `model` it is `state` and `row()` then."""
        asked = [*self.given, *(x for x in literals if x != TRUE)]
        if self._empty or -TRUE in asked:
            return False
        if self.budget.spent:
            raise BudgetExceeded("the time ran out")
        answer = self._sat.solve_limited(
            assumptions=asked, expect_interrupt=not self.budget.counted
        )
        if answer is None:
            raise BudgetExceeded("the time ran out")
        if answer and model:
            model_literals = np.array(self._sat.get_model(), np.int64)[: self.n_vars]
            self._state[:] = False
            self._state[np.abs(model_literals) - 1] = model_literals > 0
            self._state[-1] = True
        return answer

    @property
    def state(self) -> np.ndarray:
        """(n_vars,) bool: the last row found."""
        return self._state[:-1].copy()

    def row(self) -> np.ndarray:
        """(columns,) int64: the bins of the last row found."""
        holds = self._state[self._at] == (self._flat > 0)
        bins = np.add.reduceat(np.where(holds, self._number - OUTSIDE, 0), self._starts)
        return bins + OUTSIDE

    def core(self) -> list[int]:
        """After `ask` was answered by no: some of the literals that suffice for this."""
        return list(self._sat.get_core() or ())

    def implied(self, literal: int) -> set[int]:
        """Literals that unit propagation derives from one."""
        if abs(literal) == TRUE:
            return set()
        return set(self._sat.propagate([*self.given, literal])[1])


class LegalTuples:
    """Which tuples are legal: exactly, level by level from 1 to t.

    Rows that are known to be legal show that their tuples are. A tuple with an illegal part is
    illegal. The solver decides about each of the rest, and every row that it finds shows more.
    """

    def __init__(self, solver: LegalRowSolver, tuples: Tuples, policy: CoverPolicy) -> None:
        self.solver, self.tuples, self.policy = solver, tuples, policy
        self.rng = np.random.default_rng(0)  # of no influence on the answer
        self.rows = np.zeros((0, len(tuples.sizes)), np.int64)  # legal rows found so far
        if not solver.ask(()):
            raise Unsatisfiable("no row is legal")

    def decide(self, covered: np.ndarray, some: np.ndarray, draw: Any) -> np.ndarray:
        """(total,) bool.

        covered: (total,) tuples that are known to be legal; some: legal rows (m, columns), which
        help to decide about parts of tuples; draw(seed, k): up to k random legal rows, as columns.
        """
        lower: Tuples | None = None
        allowed = np.zeros(0, bool)
        self.rows = some
        for level in range(1, self.tuples.t + 1):
            last = level == self.tuples.t
            tuples = self.tuples if last else Tuples(self.tuples.sizes.tolist(), level)
            legal = covered.copy() if last else np.zeros(tuples.total, bool)
            tuples.mark(legal, list(self.rows.T))
            undecided = np.flatnonzero(~legal[1:]) + 1
            if lower is not None:
                undecided = undecided[_parts_legal(tuples, lower, allowed, undecided)]
            if level == 2:
                undecided = undecided[~self._apart(tuples, undecided)]
            if last:
                undecided = self._drawn(tuples, legal, undecided, draw)
            self._solved(tuples, legal, undecided)
            lower, allowed = tuples, legal
        return allowed

    def _apart(self, tuples: Tuples, places: np.ndarray) -> np.ndarray:
        """(k,) bool: pairs of which one bin excludes the other by unit propagation."""
        literals = [x for column in self.solver.literals for x in column]
        columns, bins = tuples.decode(places)
        first, second = (tuples.starts[columns] + bins).T
        out = np.zeros(len(places), bool)
        order = np.argsort(first, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(first[order])) + 1):
            if len(group):
                implied = self.solver.implied(literals[first[group[0]]])
                out[group] = [-literals[k] in implied for k in second[group].tolist()]
        return out

    def _drawn(
        self, tuples: Tuples, legal: np.ndarray, undecided: np.ndarray, draw: Any
    ) -> np.ndarray:
        """Draw rows at random while that is cheaper than to ask the solver; -> what remains."""
        crosses = len(tuples.offsets)
        seeds = itertools.count()
        while len(undecided) > self.policy.undecided * crosses:
            columns = draw(next(seeds), max(64, BLOCK // crosses))
            if not len(columns[0]):
                break
            tuples.mark(legal, columns)
            left = undecided[~legal[undecided]]
            if len(undecided) - len(left) < self.policy.few_new:
                return left
            undecided = left
        return undecided

    def _solved(self, tuples: Tuples, legal: np.ndarray, undecided: np.ndarray) -> None:
        rows: list[np.ndarray] = []
        columns, bins = tuples.decode(undecided)
        literals = self.solver.literals
        self.solver.scatter(self.rng)
        for place, at, which in zip(
            undecided.tolist(), columns.tolist(), bins.tolist(), strict=True
        ):
            if legal[place]:
                continue
            if self.solver.ask([literals[c][b] for c, b in zip(at, which, strict=True)]):
                row = self.solver.row()
                rows.append(row)
                legal[tuples.places(row[None])[0]] = True
                self.solver.scatter(self.rng)
        legal[0] = False
        if rows:
            self.rows = np.concatenate([self.rows, np.array(rows)])


def _parts_legal(
    tuples: Tuples, lower: Tuples, allowed: np.ndarray, places: np.ndarray
) -> np.ndarray:
    """(k,) bool: are all parts of each tuple, with one bin less, legal?"""
    columns, bins = tuples.decode(places)
    good = np.ones(len(places), bool)
    for k in range(tuples.t):
        rest = [j for j in range(tuples.t) if j != k]
        good &= allowed[lower.encode(columns[:, rest], bins[:, rest])]
    return good
