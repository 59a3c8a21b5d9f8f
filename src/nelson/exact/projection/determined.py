"""Which variables are functions of the projected ones? Padoa's test, by a CDCL solver.

    v is a function of S   <=>   C(x) and C(x') and x_S = x'_S and x_v and not x'_v  has no solution

Two copies of the formula share the variables of S. The two copies can be exchanged, so the case
"not x_v and x'_v" needs no test. A solution of the test shows at once all variables in which x and
x' differ. A variable that was proved is made equal in both copies, which shortens later proofs:
inputs come before outputs in most files, so variables are tried in the order of their numbers, with
few conflicts each at first.

The effort is counted (conflicts and propagations of the solver), so that the answer is the same on
every machine. Padoa 1901; Lagniez, Lonca, Marquis: Definability for model counting, AIJ 2020.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

#: Conflicts that one variable may take: first few, to prove the easy ones, then more.
CONFLICTS = (10, 1_000, 20_000)
#: Conflicts of all variables together.
ALL_CONFLICTS = 100_000
#: Propagations of all variables together: some seconds.
ALL_PROPAGATIONS = 20_000_000
#: A formula with more literals is not tried.
MAX_LITERALS = 5_000_000


class Determined(NamedTuple):
    """Variables outside of S, from 0. Those in neither array could not be decided."""

    proved: np.ndarray  # functions of S
    refuted: np.ndarray  # not functions of S: two solutions agree on S and differ here
    conflicts: int
    cut: bool  # the deadline ended it: another run may decide more


def determined(
    clauses: list[list[int]], n: int, projection: np.ndarray, until: float | None = None
) -> Determined:
    """Padoa's test for every variable of the clauses outside of `projection` (variables from 0).

    until: time.monotonic() at which to stop; None: only counted limits.
    """
    from pysat.solvers import Solver

    used = np.zeros(n + 1, bool)
    for clause in clauses:
        used[np.abs(clause)] = True
    used[projection + 1] = False
    others = np.flatnonzero(used)
    none = np.zeros(0, np.int64)
    if not len(others) or sum(map(len, clauses)) > MAX_LITERALS:
        return Determined(none, none, 0, False)
    twin = np.arange(n + 1)  # of each variable, its copy; variables of S are their own copies
    twin[others] = n + 1 + np.arange(len(others))
    copies = [(np.sign(c) * twin[np.abs(c)]).tolist() for c in map(np.array, clauses)]
    open_variables = others.tolist()
    proved: list[int] = []
    refuted: set[int] = set()
    cut = False
    with Solver(name="glucose4", bootstrap_with=clauses) as solver:
        solver.append_formula(copies)
        # Both copies as different as possible: then one solution refutes many variables.
        solver.set_phases([*others.tolist(), *(-twin[others]).tolist()])
        for most in CONFLICTS:
            progress = True
            while open_variables and progress and not cut:
                progress, left = False, []
                for v in open_variables:
                    if v in refuted:
                        continue
                    stats = solver.accum_stats()
                    conflicts = ALL_CONFLICTS - stats["conflicts"]
                    propagations = ALL_PROPAGATIONS - stats["propagations"]
                    late = until is not None and time.monotonic() > until
                    if conflicts <= 0 or propagations <= 0 or late:
                        cut |= late
                        left.append(v)
                        continue
                    solver.conf_budget(min(most, conflicts))
                    solver.prop_budget(propagations)
                    answer = solver.solve_limited(assumptions=[v, -int(twin[v])])
                    if answer is None:
                        left.append(v)
                    elif answer:
                        progress = True
                        model = np.array(solver.get_model(), np.int64)
                        value = np.zeros(len(model) + 1, bool)
                        value[np.abs(model)] = model > 0
                        refuted |= set(others[value[others] != value[twin[others]]].tolist())
                    else:
                        progress = True
                        proved.append(v)
                        solver.add_clause([v, -int(twin[v])])
                        solver.add_clause([-v, int(twin[v])])
                open_variables = [v for v in left if v not in refuted]
                if most > CONFLICTS[0]:
                    break  # a second round with many conflicts each rarely proves more
        conflicts = int(solver.accum_stats()["conflicts"])
    return Determined(
        np.array(sorted(proved), np.int64) - 1,
        np.array(sorted(refuted), np.int64) - 1,
        conflicts,
        cut,
    )
