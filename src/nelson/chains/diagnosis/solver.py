"""Starts of chains from a SAT solver in this process: with preferences, or with a value flipped.

A solver goes where its preferences and its decisions lead, not where resampling leads. Its
solutions have no known law, but they lie elsewhere, and that is what a check of chains needs.
Glucose takes preferred values (phases), so that a start costs a fraction of a millisecond on most
formulas.

The solver knows the variables under random numbers, and the clauses in a random order: it decides
the first variable first, and what it finds should not depend on names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nelson.budget import seconds_left
from nelson.chains.problem import Problem
from nelson.exact.solver import solve_within
from nelson.kernels.core.deadline import check_time
from nelson.policy import DEFAULT


class Finder:
    """Solutions of a problem, found one by one, within a given number of conflicts in all."""

    def __init__(
        self,
        problem: Problem,
        conflicts: int = DEFAULT.diagnosis.conflicts,
        each: int = DEFAULT.diagnosis.question_conflicts,
    ) -> None:
        """conflicts: for all questions, and for each."""
        from pysat.solvers import Solver

        self.n, self.most, self.each = problem.formula.n_total, conflicts, each
        random = np.random.default_rng(self.n)
        self.number = random.permutation(self.n) + 1  # of each variable
        self.name = np.argsort(self.number) + 1  # of each number
        offsets, literals = problem.rest.offsets, self._renumbered(problem.rest.literals)
        clauses = [
            literals[offsets[k] : offsets[k + 1]].tolist()
            for k in random.permutation(len(offsets) - 1).tolist()
        ]
        clauses += [[literal] for literal in self._renumbered(problem.fixed).tolist()]
        self.solver = Solver(name="glucose4", bootstrap_with=clauses)

    def _renumbered(self, literals: Sequence[int] | np.ndarray) -> np.ndarray:
        """Literals of variables as literals of their numbers."""
        given = np.array(literals, np.int64)
        return np.sign(given) * self.number[np.abs(given) - 1]

    def __enter__(self) -> Finder:
        return self

    def __exit__(self, *_: object) -> None:
        self.solver.delete()

    @property
    def left(self) -> int:
        """Conflicts that are left."""
        return self.most - int(self.solver.accum_stats()["conflicts"])

    def near(self, values: np.ndarray, given: Sequence[int] = ()) -> np.ndarray | bool | None:
        """A solution (n,) bool in which decisions follow `values` (n,) and the literals `given`
        hold; False if there is none, None if the solver could not decide.
        """
        if self.left <= 0:
            return None
        self.solver.set_phases(np.where(values, self.number, -self.number).tolist())
        self.solver.conf_budget(min(self.each, self.left))
        evidence = self._renumbered(given).tolist()
        if (seconds := seconds_left()) < math.inf:
            answer = solve_within(self.solver, seconds, evidence)
            check_time()
        else:
            answer = self.solver.solve_limited(assumptions=evidence)
        if not answer:
            return answer
        model = np.array(self.solver.get_model(), np.int64)
        model = model[np.abs(model) <= self.n]
        x = np.array(values, bool)
        x[self.name[np.abs(model) - 1] - 1] = model > 0
        return x

    def compatible(self, literals: Sequence[int]) -> list[int]:
        """Literals that hold together, as far as unit propagation sees: one by one, if it fits."""
        chosen: list[int] = []
        for literal in literals:
            if self.solver.propagate(self._renumbered([*chosen, literal]).tolist())[0]:
                chosen.append(literal)
        return chosen

    def solutions(self, values: np.ndarray) -> np.ndarray:
        """A solution near each row of values (m, n) -> (k, n), k <= m."""
        rows = [row for preferred in values if isinstance(row := self.near(preferred), np.ndarray)]
        return np.array(rows, bool).reshape(-1, self.n)
