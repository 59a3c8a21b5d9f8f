"""Which variables are functions of the projected ones? Padoa's test, by a CDCL solver.

    v is a function of S   <=>   C(x) and C(x') and x_S = x'_S and x_v and not x'_v  has no solution

Two copies of the formula share the variables of S. The two copies can be exchanged, so the case
"not x_v and x'_v" needs no test. A solution of the test shows at once all variables in which x and
x' differ. A variable that was proved is made equal in both copies, which shortens later proofs:
inputs come before outputs in most files, so variables are tried in the order of their numbers, with
few conflicts each at first.

Gates need no search through the formula, and come first: v is a function of known variables if the
clauses of v over these variables, without v itself, have no solution (`gates`).

The effort is counted (conflicts and propagations of the solver), so that the answer is the same on
every machine. Padoa 1901; Lagniez, Lonca, Marquis: Definability for model counting, AIJ 2020.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from nelson.budget import Budget

#: Conflicts that one variable may take: first few, to prove the easy ones, then more.
CONFLICTS = (10, 1_000, 20_000)
#: Conflicts of all variables together.
ALL_CONFLICTS = 100_000


class Determined(NamedTuple):
    """Variables outside of S, from 0. Those in neither array could not be decided."""

    proved: np.ndarray  # functions of S
    refuted: np.ndarray  # not functions of S: two solutions agree on S and differ here
    conflicts: int
    cut: bool  # the deadline ended it: another run may decide more


def determined(
    clauses: list[list[int]], n: int, projection: np.ndarray, budget: Budget | None = None
) -> Determined:
    """Padoa's test for every variable of the clauses outside of `projection` (variables from 0).

    Without a deadline only counted limits end it.
    """
    # A formula with more literals is not tried.
    max_literals = 5_000_000
    from pysat.solvers import Solver

    used = np.zeros(n + 1, bool)
    used[np.abs(np.fromiter(itertools.chain.from_iterable(clauses), np.int64))] = True
    used[projection + 1] = False
    others = np.flatnonzero(used)
    none = np.zeros(0, np.int64)
    if not len(others) or sum(map(len, clauses)) > max_literals:
        return Determined(none, none, 0, False)
    outputs = gates(clauses, n, projection)
    if len(outputs) == len(others):
        return Determined(outputs - 1, none, 0, False)
    with Solver(name="glucose4", bootstrap_with=clauses) as solver:
        test = _Padoa(solver, clauses, n, others, budget or Budget())
        for v in outputs.tolist():
            test.prove(v)
        test.open = sorted(set(others.tolist()) - set(outputs.tolist()))
        for most in CONFLICTS:
            # Proofs with few conflicts help each other: repeated while they succeed.
            while test.round(most) and most == CONFLICTS[0]:
                pass
        proved, refuted = (np.array(sorted(v), np.int64) - 1 for v in (test.proved, test.refuted))
        return Determined(proved, refuted, int(solver.accum_stats()["conflicts"]), test.cut)


def gates(clauses: list[list[int]], n: int, projection: np.ndarray) -> np.ndarray:
    """Variables, from 1 and sorted, that clauses of their own make functions of the projected ones
    (from 0), or of others found before. O(total literals), and a small search for each variable.
    """
    held: list[list[int]] = [[] for _ in range(n + 1)]  # clauses of each variable
    for j, clause in enumerate(clauses):
        for literal in clause:
            held[abs(literal)].append(j)
    unknown = [len(clause) for clause in clauses]  # variables of each clause that are not known
    counted = np.zeros(n + 1, bool)  # known, and `unknown` says so
    ready: dict[int, list[int]] = {}  # clauses in which the variable is the only unknown one
    waiting = (projection + 1).tolist()
    given = set(waiting)
    determined = set(waiting)
    while waiting:
        u = waiting.pop()
        counted[u] = True
        for j in held[u]:
            unknown[j] -= 1
            if unknown[j] != 1:
                continue
            v = next(abs(literal) for literal in clauses[j] if not counted[abs(literal)])
            ready.setdefault(v, []).append(j)
            if v not in determined and _defines([clauses[k] for k in ready[v]], v):
                determined.add(v)
                waiting.append(v)
    return np.array(sorted(determined - given), np.int64)


def _defines(clauses: list[list[int]], v: int) -> bool:
    """Do these clauses force v, whatever the values of the other variables are?"""
    # A clause of k literals forces v for a share 2^-(k - 1) of all values: too few cannot do it.
    if sum(2.0 ** (1 - len(clause)) for clause in clauses) < 1:
        return False
    from pysat.solvers import Solver

    names: dict[int, int] = {}  # small numbers: the solver's memory grows with the largest
    rest: list[list[int]] = []
    for clause in clauses:
        rest.append([])
        for literal in clause:
            if abs(literal) != v:
                name = names.setdefault(abs(literal), len(names) + 1)
                rest[-1].append(name if literal > 0 else -name)
    if [] in rest:
        return True
    with Solver(name="glucose4", bootstrap_with=rest) as solver:
        solver.conf_budget(CONFLICTS[0])
        return solver.solve_limited() is False


class _Padoa:
    def __init__(
        self,
        solver: Any,
        clauses: list[list[int]],
        n: int,
        others: np.ndarray,
        budget: Budget,
    ) -> None:
        """solver: holds the clauses over variables 1..n; others: the variables to test, from 1."""
        self.solver, self.others, self.budget = solver, others, budget
        self.twin = np.arange(n + 1)  # the copy of each variable; of a projected one, itself
        self.twin[others] = n + 1 + np.arange(len(others))
        for clause in clauses:
            literals = np.array(clause)
            solver.add_clause((np.sign(literals) * self.twin[np.abs(literals)]).tolist())
        # The copies as different as possible: then one solution refutes many variables.
        solver.set_phases([*others.tolist(), *(-self.twin[others]).tolist()])
        self.open: list[int] = others.tolist()
        self.proved: list[int] = []
        self.refuted: set[int] = set()
        self.cut = False

    def round(self, most: int) -> bool:
        """Try each open variable with at most this many conflicts. -> was one of them decided?"""
        before = len(self.proved) + len(self.refuted)
        for v in self.open:
            if v not in self.refuted and not self._try(v, most):
                break
        self.open = sorted(set(self.open) - self.refuted - set(self.proved))
        return bool(self.open) and len(self.proved) + len(self.refuted) > before and not self.cut

    def _try(self, v: int, most: int) -> bool:
        """Test one variable. -> may the next one be tried?"""
        # Propagations of all variables together: some seconds.
        all_propagations = 10_000_000
        solver, used, copy = self.solver, self.solver.accum_stats(), int(self.twin[v])
        conflicts = ALL_CONFLICTS - used["conflicts"]
        propagations = all_propagations - used["propagations"]
        self.cut |= self.budget.spent
        if self.cut or conflicts <= 0 or propagations <= 0:
            return False
        solver.conf_budget(min(most, conflicts))
        solver.prop_budget(propagations)
        answer = solver.solve_limited(assumptions=[v, -copy])
        if answer:
            model = np.array(solver.get_model(), np.int64)
            value = np.zeros(len(model) + 1, bool)
            value[np.abs(model)] = model > 0
            differ = value[self.others] != value[self.twin[self.others]]
            self.refuted |= set(self.others[differ].tolist())
        elif answer is False:
            self.prove(v)
        return True

    def prove(self, v: int) -> None:
        """Take note that v is a function of the projected variables."""
        copy = int(self.twin[v])
        self.proved.append(v)
        self.solver.add_clause([v, -copy])
        self.solver.add_clause([-v, copy])
