"""All valid structures of a small formula, as one array.

A breadth-first search over partial assignments, one variable a step, all of them at once:

    frontier_(t+1) = {(a, 0), (a, 1) : a in frontier_t} without those that violate a clause whose
                     last variable was just set

The next variable is one of the clause with the fewest variables left, so that clauses cut early.
The search gives up as soon as a frontier holds more than `limit` rows: then there may be few
structures, but not in an order that this search finds. O(limit n L) bit operations at worst.
"""

from __future__ import annotations

import time

import numpy as np

from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.formula import Formula
from nelson.formula.memo import Slot
from nelson.formula.propagate import propagated

#: (limit of the search, its rows, or None if there were more than that)
_STRUCTURES: Slot[tuple[int, np.ndarray | None]] = Slot("all valid structures")
#: Structures up to which sums over all of them are taken.
LIMIT = 1 << 18
#: Variables times literals beyond which no search is begun, and bytes of a frontier.
_WORK = 1 << 28


def structures(
    formula: Formula, limit: int = LIMIT, deadline: float | None = None
) -> np.ndarray | None:
    """(m, n_vars) bool, in lexicographic order with false first; None if that takes more than
    `limit` rows. Kept with the formula. No row at all means: there is no valid structure.

    deadline: time.monotonic(); past it the search raises BudgetExceeded.
    """
    kept = formula.memo.get(_STRUCTURES)
    if kept is None or (kept[1] is None and kept[0] < limit):
        kept = formula.memo.put(_STRUCTURES, (limit, _search(formula, limit, deadline)))
    rows = kept[1]
    return None if rows is None or len(rows) > limit else rows


def all_structures(formula: Formula, limit: int = LIMIT) -> np.ndarray:
    """The same, or BudgetExceeded."""
    rows = structures(formula, limit)
    if rows is None:
        raise BudgetExceeded(f"enumeration of {formula!r} takes more than {limit} rows")
    return rows


def _search(formula: Formula, limit: int, deadline: float | None = None) -> np.ndarray | None:
    n = formula.n_total
    # One true literal of each clause is enough: a satisfiable formula has 2^(n - L) structures.
    if n - formula.n_clauses > np.log2(limit) or n * len(formula.literals) > _WORK:
        return None
    try:
        literals, offsets = propagated(formula).with_units()
    except Unsatisfiable:
        return np.zeros((0, formula.n_vars), bool)
    lengths = np.diff(offsets)
    owner = np.repeat(np.arange(len(lengths)), lengths)  # clause of each literal
    left = lengths.copy()  # variables of each clause that are not set yet
    place = np.full(n, -1)  # column of each variable in `rows`, -1 as long as it is not set
    rows = np.zeros((1, 0), bool)
    for step in range(n):
        if deadline is not None and time.monotonic() > deadline:
            raise BudgetExceeded(f"the time was up with {step} of {n} variables enumerated")
        variable = _next(literals, offsets, left, place)
        place[variable] = step
        value = np.tile([[False], [True]], (len(rows), 1))
        rows = np.hstack([np.repeat(rows, 2, axis=0), value])
        touched = owner[np.abs(literals) - 1 == variable]
        left[touched] -= 1
        for clause in touched[left[touched] == 0]:
            mine = literals[offsets[clause] : offsets[clause + 1]]
            rows = rows[(rows[:, place[np.abs(mine) - 1]] == (mine > 0)).any(axis=1)]
        if len(rows) > limit or rows.size > _WORK:
            return None
    if not formula.n_vars:
        return rows[:1, :0]
    visible = rows[:, place[: formula.n_vars]]
    return np.ascontiguousarray(visible[np.lexsort(visible.T[::-1])])


def _next(literals: np.ndarray, offsets: np.ndarray, left: np.ndarray, place: np.ndarray) -> int:
    """A variable of a clause with the fewest left to set; the first of all where none is."""
    if (left > 0).any():
        clause = np.argmin(np.where(left > 0, left, len(place) + 1))
        mine = np.abs(literals[offsets[clause] : offsets[clause + 1]]) - 1
        return int(mine[place[mine] < 0][0])
    return int(np.flatnonzero(place < 0)[0])
