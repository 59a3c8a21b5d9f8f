"""A small set of rules that cannot hold together: a minimal unsatisfiable subset of clause groups.

Each group has a selector s. The solver gets (not s or clause) for each clause of the group, and the
selectors of some groups as assumptions. If the answer is "unsatisfiable", the solver names the
assumptions that its proof used: a core. Deletion makes the core minimal: leave one group out; if
the others still conflict, their core is the new set; if not, the group is needed (Chinneck and
Dravnieks 1991; groups with selectors: Liffiton and Sakallah 2008).

At most one call of the solver for each group of the first core.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nelson.errors import BudgetExceeded
from nelson.exact.solver import SECONDS, solve_within
from nelson.formula.checks import duration
from nelson.io.progress import phase


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
