"""All valid structures of a small formula, as one array.

A breadth-first search over partial assignments. Each step sets one variable in all of them:

    frontier_(t+1) = {(a, 0), (a, 1) : a in frontier_t} without those that violate a clause whose
                     last variable was just set

The next variable comes from the clause with the fewest unset variables, so that clauses remove rows
early. The search gives up as soon as a frontier holds more than `limit` rows. The formula may still
have few structures: then this order of variables does not show it. At worst O(limit n L) bit
operations.
"""

from __future__ import annotations

import time

import numpy as np

from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.formula import Formula
from nelson.formula.flat import owners
from nelson.formula.memo import Slot
from nelson.formula.propagate import propagated

#: (limit of the search, its rows or None if it gave up)
_STRUCTURES: Slot[tuple[int, np.ndarray | None]] = Slot("all valid structures")
#: Formulas with more structures than this are not enumerated.
MAX_STRUCTURES = 1 << 18
#: Each of n steps scans all literals; no search is begun if that is more work than this.
_MAX_SCANNED = 1 << 28
_MAX_FRONTIER_BYTES = 1 << 28


def structures(
    formula: Formula, limit: int = MAX_STRUCTURES, deadline: float | None = None
) -> np.ndarray | None:
    """(m, n_vars) bool, in lexicographic order with false first; None if the search gave up. No
    rows mean that there is no valid structure. Kept with the formula.

    deadline: time.monotonic(); past it the search raises BudgetExceeded.
    """
    kept = formula.memo.get(_STRUCTURES)
    if kept is None or (kept[1] is None and kept[0] < limit):
        kept = formula.memo.put(_STRUCTURES, (limit, _search(formula, limit, deadline)))
    rows = kept[1]
    return None if rows is None or len(rows) > limit else rows


def all_structures(formula: Formula) -> np.ndarray:
    """`structures`, or BudgetExceeded where that gives up."""
    rows = structures(formula)
    if rows is None:
        raise BudgetExceeded(f"enumeration of {formula!r} takes more than {MAX_STRUCTURES} rows")
    return rows


def _search(formula: Formula, limit: int, deadline: float | None) -> np.ndarray | None:
    n = formula.n_total
    # One true literal per clause is enough: a satisfiable formula has 2^(n - L) structures or more.
    if n - formula.n_clauses > np.log2(limit) or n * len(formula.literals) > _MAX_SCANNED:
        return None
    try:
        literals, offsets = propagated(formula).with_units()
    except Unsatisfiable:
        return np.zeros((0, formula.n_vars), bool)
    owner = owners(offsets)
    left = np.diff(offsets)  # unset variables of each clause
    place = np.full(n, -1)  # column of each variable in `rows`; -1 if it is not set yet
    rows = np.zeros((1, 0), bool)
    for step in range(n):
        if deadline is not None and time.monotonic() > deadline:
            raise BudgetExceeded(f"the time was up with {step} of {n} variables enumerated")
        variable = _next_variable(literals, offsets, left, place)
        place[variable] = step
        value = np.tile([[False], [True]], (len(rows), 1))
        rows = np.hstack([np.repeat(rows, 2, axis=0), value])
        touched = owner[np.abs(literals) - 1 == variable]
        left[touched] -= 1
        for clause in touched[left[touched] == 0]:
            mine = literals[offsets[clause] : offsets[clause + 1]]
            rows = rows[(rows[:, place[np.abs(mine) - 1]] == (mine > 0)).any(axis=1)]
        if len(rows) > limit or rows.size > _MAX_FRONTIER_BYTES:
            return None
    if not formula.n_vars:
        return rows[:1, :0]
    visible = rows[:, place[: formula.n_vars]]
    return np.ascontiguousarray(visible[np.lexsort(visible.T[::-1])])


def _next_variable(
    literals: np.ndarray, offsets: np.ndarray, left: np.ndarray, place: np.ndarray
) -> int:
    """An unset variable of the clause with the fewest; without such a clause, the first unset."""
    if (left > 0).any():
        clause = np.argmin(np.where(left > 0, left, len(place) + 1))
        mine = np.abs(literals[offsets[clause] : offsets[clause + 1]]) - 1
        return int(mine[place[mine] < 0][0])
    return int(np.flatnonzero(place < 0)[0])
