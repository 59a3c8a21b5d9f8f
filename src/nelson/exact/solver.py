"""A CDCL solver (PySAT) decides whether a formula has a solution, finds several, or says which
rules cannot hold together.

`conflict` finds a minimal unsatisfiable subset of groups of clauses. Each group has a selector s.
The solver gets (not s or clause) for each clause of the group, and the selectors of some groups as
assumptions. If the answer is "unsatisfiable", the solver names the assumptions that its proof used:
a core. Deletion makes the core minimal: leave one group out; if the others still conflict, their
core is the new set; if not, the group is needed (Chinneck and Dravnieks 1991; groups with
selectors: Liffiton and Sakallah 2008). At most one call of the solver for each group of the first
core.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.formula import Formula
from nelson.formula.checks import duration
from nelson.io.progress import phase

#: The time limit if the caller sets none.
SECONDS = 60.0


def satisfiable(
    formula: Formula,
    evidence: Sequence[int] = (),
    blocked: Iterable[Sequence[int]] = (),
    seconds: float | None = None,
) -> bool | None:
    """True, False (proved), or None if the solver did not decide in time or is not installed.

    evidence: literals that must hold. blocked: further clauses.
    """
    try:
        from pysat.solvers import Solver
    except ImportError:
        return None
    clauses = itertools.chain(formula, blocked)
    looking = phase("a solver looks for a solution")
    with looking, Solver(name="glucose4", bootstrap_with=clauses) as solver:
        return solve_within(solver, SECONDS if seconds is None else seconds, evidence)


def solutions(
    clauses: list[list[int]], near: np.ndarray, flips: int, first: float, more: float
) -> np.ndarray:
    """One solution for each row of `near` (m, n) bool, whose values the solver prefers; then, for
    up to `flips` variables that have the same value in all of them, one with the other value if
    there is any. -> (k, n) bool; k = 0 if none was found in time.

    first, more: seconds for the first solution, and for all others together. Raises Unsatisfiable
    if that was proved.
    """
    from pysat.solvers import Solver

    rows: list[np.ndarray] = []
    with Solver(name="glucose4", bootstrap_with=clauses) as solver:

        def ask(preferred: np.ndarray, seconds: float, evidence: Sequence[int] = ()) -> bool | None:
            names = np.arange(1, near.shape[1] + 1)
            solver.set_phases(np.where(preferred, names, -names).tolist())
            answer = solve_within(solver, seconds, evidence)
            if answer:
                row = preferred.copy()  # kept by variables that are in no clause
                model = np.array(solver.get_model(), np.int64)
                row[np.abs(model) - 1] = model > 0
                rows.append(row)
            return answer

        if (answer := ask(near[0], first)) is False:
            raise Unsatisfiable("a CDCL solver proved that the formula has no solution")
        if answer is None:
            return np.zeros((0, near.shape[1]), bool)
        until = time.monotonic() + more
        for row in near[1:]:
            if ask(row, until - time.monotonic()) is None:
                break
        same = np.flatnonzero((np.array(rows) == rows[0]).all(axis=0))
        for v in same[:flips].tolist():
            other = -(v + 1) if rows[0][v] else v + 1
            if ask(near[-1], until - time.monotonic(), [other]) is None:
                break
    return np.array(rows)


def completed(
    clauses: list[list[int]], columns: np.ndarray, rows: np.ndarray, budget: Budget
) -> np.ndarray:
    """A solution for each row of `rows` (m, n) bool that agrees with it on `columns` (from 0).

    Fewer rows if the time is up. A row without such a solution stays as it is.
    """
    from pysat.solvers import Solver

    out, names = rows.copy(), columns + 1
    used = np.unique(np.abs(np.fromiter((v for c in clauses for v in c), np.int64)))
    with Solver(name="glucose4", bootstrap_with=clauses) as solver:
        for k, row in enumerate(rows):
            given = np.where(row[columns], names, -names).tolist()
            answer = solve_within(solver, budget.left, given)
            if answer is None:
                return out[:k]
            if answer:
                model = np.array(solver.get_model(), np.int64)[used - 1]
                out[k, used - 1] = model > 0
    return out


def solve_within(solver: Any, seconds: float, evidence: Sequence[int] = ()) -> bool | None:
    """Ask a PySAT solver: True, False (proved), or None if the time ran out first."""
    # Without a limit the seconds are infinite, or more than a timer takes.
    timer = threading.Timer(min(max(seconds, 0.0), threading.TIMEOUT_MAX), solver.interrupt)
    timer.start()
    try:
        answer: bool | None = solver.solve_limited(
            assumptions=list(evidence), expect_interrupt=True
        )
    finally:
        timer.cancel()
        timer.join()
    return answer


@dataclass(frozen=True)
class Conflict:
    """Groups (indices from 0, ascending) that cannot hold together with the hard clauses.

    No groups: the hard clauses alone are unsatisfiable. minimal: no proper subset conflicts; False
    if the time ran out before this was known.
    """

    groups: tuple[int, ...]
    minimal: bool = True


def conflict(
    hard: Iterable[Sequence[int]],
    groups: Sequence[Iterable[Sequence[int]]],
    seconds: float = SECONDS,
) -> Conflict | None:
    """A minimal set of groups of clauses that contradict each other and `hard`, clauses that always
    hold (a list or a `Formula`). None if all groups can hold together.

    If the time runs out, the set found so far, which conflicts but may not be minimal. Raises
    BudgetExceeded if it was not even decided whether there is a conflict.
    """
    from pysat.solvers import Solver

    until = time.monotonic() + duration(seconds)
    fixed = [list(map(int, clause)) for clause in hard]
    soft = [[list(map(int, clause)) for clause in group] for group in groups]
    if not all(fixed):  # an empty clause
        return Conflict(())
    every = (abs(v) for group in (fixed, *soft) for clause in group for v in clause)
    first = max(every, default=0) + 1
    with phase("a solver looks for rules that contradict each other"), Solver("glucose4") as solver:
        solver.append_formula(fixed)
        for selector, group in enumerate(soft, first):
            solver.append_formula([[-selector, *clause] for clause in group])

        def core(chosen: Sequence[int]) -> list[int] | None:
            """Groups among `chosen` that conflict; None if all of them can hold together."""
            answer = solve_within(solver, until - time.monotonic(), [first + g for g in chosen])
            if answer is None:
                raise BudgetExceeded(f"no conflict was found or excluded in {seconds:.3g} seconds")
            return None if answer else sorted(s - first for s in solver.get_core() or ())

        groups_left = core(range(len(soft)))
        if groups_left is None:
            return None
        needed: set[int] = set()
        while spare := [g for g in groups_left if g not in needed]:
            try:
                smaller = core([g for g in groups_left if g != spare[-1]])
            except BudgetExceeded:
                return Conflict(tuple(groups_left), minimal=False)
            if smaller is None:
                needed.add(spare[-1])
            else:
                groups_left = smaller
    return Conflict(tuple(groups_left))
