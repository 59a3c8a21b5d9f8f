"""All valid structures of a small formula, as one array.

A breadth-first search over partial assignments. Each step sets one variable in all of them:

    frontier_(t+1) = {(a, 0), (a, 1) : a in frontier_t} without those that violate a clause whose
                     last variable was just set

The next variable comes from the clause with the fewest unset variables, so that clauses remove rows
early. A frontier is kept in packed words, 64 variables in each. The search gives up as soon as a
frontier holds more than `limit` rows, or as all frontiers together hold more than _MAX_WORK words.
The formula may still have few structures: then this order of variables does not show it. At worst
O(limit n L) bit operations.

A tiny formula needs no search: all 2^n assignments are tested against all clauses at once. For
n = L = 10 this takes 0.03 ms, and the search 0.9 ms.
"""

from __future__ import annotations

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.formula import Formula
from nelson.formula.flat import owners
from nelson.formula.memo import Slot
from nelson.formula.propagate import propagated
from nelson.kernels.core.bits import words_for

#: (limit of the search, its rows or None if it gave up)
_STRUCTURES: Slot[tuple[int, np.ndarray | None]] = Slot("all valid structures")
#: Formulas with more structures than this are not enumerated.
MAX_STRUCTURES = 1 << 18
#: Up to this many assignments times clauses there is no search: about 0.3 ms.
_MAX_TESTED = 1 << 18
#: Words of all frontiers together, once for each clause that is checked on them: about a second.
_MAX_WORK = 1 << 28


def structures(
    formula: Formula, limit: int = MAX_STRUCTURES, budget: Budget | None = None
) -> np.ndarray | None:
    """(m, n_vars) bool, in lexicographic order with false first; None if the search gave up. No
    rows mean that there is no valid structure. Kept with the formula.

    budget: past its deadline the search raises BudgetExceeded.
    """
    known = formula.memo.get(_STRUCTURES)
    if known is None or (known[1] is None and known[0] < limit):
        known = formula.memo.put(_STRUCTURES, (limit, _search(formula, limit, budget or Budget())))
    rows = known[1]
    return None if rows is None or len(rows) > limit else rows


def all_structures(formula: Formula) -> np.ndarray:
    """`structures`, or BudgetExceeded where that gives up."""
    rows = structures(formula)
    if rows is None:
        raise BudgetExceeded(f"enumeration of {formula!r} takes more than {MAX_STRUCTURES} rows")
    return rows


def _search(formula: Formula, limit: int, budget: Budget) -> np.ndarray | None:
    # Each of n steps scans all literals; no search is begun if that is more work than this.
    max_scanned = 1 << 28
    max_frontier_bytes = 1 << 28
    n = formula.n_total
    # One true literal per clause is enough: a satisfiable formula has 2^(n - L) structures or more.
    if n - formula.n_clauses > np.log2(limit) or n * len(formula.literals) > max_scanned:
        return None
    if n <= _MAX_TESTED.bit_length() and formula.n_clauses << n <= _MAX_TESTED:
        return _tested(formula)
    try:
        literals, offsets = propagated(formula).with_units()
    except Unsatisfiable:
        return np.zeros((0, formula.n_vars), bool)
    owner = owners(offsets)
    left = np.diff(offsets)  # unset variables of each clause
    place = np.full(n, -1)  # the step in which each variable was set; -1 if it is not set yet
    rows = np.zeros((0, 1), np.uint64)  # (words, frontier): step t is bit t % 64 of word t // 64
    work = 0
    for step in range(n):
        if step % 16 == 0 and budget.spent:
            raise BudgetExceeded(f"the time was up with {step} of {n} variables enumerated")
        variable = _next_variable(literals, offsets, left, place)
        place[variable] = step
        if step % 64 == 0:
            rows = np.vstack([rows, np.zeros((1, rows.shape[1]), np.uint64)])
        rows = np.repeat(rows, 2, axis=1)
        rows[-1, 1::2] |= np.uint64(1 << step % 64)
        touched = owner[np.abs(literals) - 1 == variable]
        left[touched] -= 1
        complete = touched[left[touched] == 0]
        work += rows.size * (1 + len(complete))
        if work > _MAX_WORK:
            return None
        if len(complete):
            clauses = [literals[offsets[j] : offsets[j + 1]] for j in complete]
            rows = rows[:, _valid(rows, place, clauses)]
        if rows.shape[1] > limit or rows.shape[1] * (step + 1) > max_frontier_bytes:
            return None
    return _sorted(rows, place[: formula.n_vars])


def _tested(formula: Formula) -> np.ndarray:
    """The valid ones of all 2^n assignments. An assignment is a number whose highest bit is
    variable 1, so that numbers have the order of the rows.
    """
    literals, offsets, n = formula.literals, formula.offsets, formula.n_total
    if formula.has_empty_clause:
        return np.zeros((0, formula.n_vars), bool)
    numbers = np.arange(1 << n, dtype=np.uint32)
    if len(literals):
        bit = np.uint32(1) << (n - np.abs(literals)).astype(np.uint32)
        mask = np.bitwise_or.reduceat(bit, offsets[:-1])
        false = np.bitwise_or.reduceat(np.where(literals < 0, bit, 0), offsets[:-1])
        # A clause is violated if its negative literals are all at 1 and its positive ones at 0.
        numbers = numbers[((numbers & mask[:, None]) != false[:, None]).all(0)]
    if not formula.n_vars:
        numbers = numbers[:1]  # as in `_sorted`
    shifts = np.arange(n - 1, n - 1 - formula.n_vars, -1)
    return (numbers[:, None] >> shifts.astype(np.uint32) & 1).astype(bool)


def _valid(rows: np.ndarray, place: np.ndarray, clauses: list[np.ndarray]) -> np.ndarray:
    """(frontier,) bool: do all of these clauses hold."""
    valid = np.ones(rows.shape[1], bool)
    for mine in clauses:
        at, holds = place[np.abs(mine) - 1], np.zeros(rows.shape[1], bool)
        bits = np.uint64(1) << (at & 63).astype(np.uint64)
        for word in np.unique(at >> 6):
            here = at >> 6 == word
            flipped = np.bitwise_or.reduce(bits[here & (mine < 0)], initial=np.uint64(0))
            holds |= ((rows[word] ^ flipped) & np.bitwise_or.reduce(bits[here])) != 0
        valid &= holds
    return valid


def _sorted(rows: np.ndarray, at: np.ndarray) -> np.ndarray:
    """(frontier, len(at)) bool: the variables that were set in the steps `at`, in lexicographic
    order of the rows.
    """
    if not len(at):
        return np.zeros((min(rows.shape[1], 1), 0), bool)
    keys = np.zeros((words_for(len(at)), rows.shape[1]), np.uint64)  # the first variable is highest
    for v, step in enumerate(at.tolist()):
        bit = rows[step >> 6] >> np.uint64(step & 63) & np.uint64(1)
        keys[v >> 6] |= bit << np.uint64(63 - (v & 63))
    keys = keys[:, np.lexsort(keys[::-1])]
    octets = np.ascontiguousarray(keys.T).astype(">u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, count=len(at)).view(bool)


def _next_variable(
    literals: np.ndarray, offsets: np.ndarray, left: np.ndarray, place: np.ndarray
) -> int:
    """An unset variable of the clause with the fewest; without such a clause, the first unset."""
    if (left > 0).any():
        clause = np.argmin(np.where(left > 0, left, len(place) + 1))
        mine = np.abs(literals[offsets[clause] : offsets[clause + 1]]) - 1
        return int(mine[place[mine] < 0][0])
    return int(np.flatnonzero(place < 0)[0])
