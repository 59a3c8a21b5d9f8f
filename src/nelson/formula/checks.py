"""Checks of arguments that many functions share: clauses, counts, durations, theta, evidence.

All raise FormulaError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import FormulaError, Unsatisfiable

if TYPE_CHECKING:
    from nelson.formula.formula import Formula

#: Largest variable number. Arrays of length n_vars are allocated only when theta is given.
MAX_VARIABLE = 2**28
#: Longest duration, in seconds: 31 years. Timers of the system refuse much longer ones.
MAX_SECONDS = 1e9


def flatten(clauses: Iterable[Iterable[int]] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nested clauses -> (literals int64, offsets int64)."""
    if isinstance(clauses, np.ndarray) and clauses.ndim == 2:
        m, k = clauses.shape
        return clauses.reshape(-1), np.arange(m + 1, dtype=np.int64) * k
    flat: list[int] = []
    ends = [0]
    for clause in clauses:
        try:
            flat.extend(clause)
        except TypeError:
            raise FormulaError(f"clause {clause!r}", expected="a list of literals") from None
        ends.append(len(flat))
    return integers(flat), np.array(ends, dtype=np.int64)


def integers(values: Any) -> np.ndarray:
    """A 1-D integer array; floats and bools are refused rather than truncated."""
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise FormulaError(f"literals of type {array.dtype}", expected="non-zero integers")
    return array


def checked_arrays(literals: Any, offsets: Any) -> tuple[np.ndarray, np.ndarray]:
    """Flat clauses as (int32, int64) arrays."""
    literals = integers(literals)
    offsets = np.asarray(offsets)
    whole = offsets.ndim == 1 and len(offsets) > 0 and offsets.dtype.kind in "iu"
    ends_fit = whole and offsets[0] == 0 and offsets[-1] == len(literals)
    if not ends_fit or (offsets[1:] < offsets[:-1]).any():  # a difference could overflow
        raise FormulaError(
            "clause offsets", expected="0 = offsets[0] <= ... <= offsets[-1] = len(literals)"
        )
    if len(literals) and (literals == 0).any():
        raise FormulaError("literal 0", expected="non-zero integers")
    if largest_variable(literals) > MAX_VARIABLE:
        raise FormulaError(
            f"literal of variable {largest_variable(literals)}", expected=f"at most {MAX_VARIABLE}"
        )
    return literals.astype(np.int32, copy=False), offsets.astype(np.int64, copy=False)


def largest_variable(literals: np.ndarray) -> int:
    return max(int(literals.max()), -int(literals.min())) if len(literals) else 0


def count(value: Any, name: str) -> int:
    """A whole number of 0 or more, also as a float (1e6); `name` is what the error calls it."""
    if not is_whole(value) or value < 0:
        raise FormulaError(f"{name} = {value!r}", expected="a count: a whole number, 0 or more")
    return int(value)


def is_whole(value: Any) -> bool:
    """Is it one whole number: 3, np.int64(3), 3.0? Not True, 1.5, NaN, infinity, "3", an array."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isfinite(value)) and value == int(value)
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def duration(value: Any, name: str = "seconds", *, positive: bool = False) -> float:
    """A time limit in seconds: a number from 0 to MAX_SECONDS, above 0 if `positive`.

    NaN is refused: every comparison with it is false, so that such a limit would never be reached.
    """
    least = "above 0" if positive else "0 or more"
    number = isinstance(value, (int, float, np.integer, np.floating)) and type(value) is not bool
    if not number or not 0 <= value <= MAX_SECONDS or (positive and value == 0):
        raise FormulaError(
            f"{name} = {value!r}",
            expected=f"a number of seconds, {least}, at most {MAX_SECONDS:.0e}",
        )
    return float(value)


def checked_theta(theta: Any, n_vars: int) -> np.ndarray | None:
    """theta as read-only float64 (n_vars,), or None for None."""
    if theta is None:
        return None
    array = np.array(_numeric(theta, n_vars))
    if array.shape != (n_vars,):
        raise FormulaError(f"theta of shape {array.shape}", expected=f"({n_vars},)")
    _refuse_nan(array)
    array += 0.0  # -0.0 -> 0.0: equal formulas have equal bytes
    array.setflags(write=False)
    return array


def theta_rows(formula: Formula, theta: Any) -> tuple[np.ndarray, bool]:
    """theta as float64 (contexts, n_vars), and whether it was one vector. None means uniform."""
    n_vars = formula.n_vars
    if theta is None:
        return np.zeros((1, n_vars)), True
    rows = _numeric(theta, n_vars)
    if rows.ndim == 0:
        raise FormulaError(f"theta = {theta!r}", expected=f"None or a vector of {n_vars} log-odds")
    if rows.ndim not in (1, 2) or rows.shape[-1] != n_vars:
        raise FormulaError(
            f"theta of shape {rows.shape}", expected=f"({n_vars},), or (contexts, {n_vars})"
        )
    if rows.ndim == 2 and len(rows) == 0:
        raise FormulaError("theta has no rows", expected="one row per context")
    _refuse_nan(rows)
    return np.atleast_2d(rows), rows.ndim == 1


def _numeric(theta: Any, n_vars: int) -> np.ndarray:
    if hasattr(theta, "detach"):  # a torch tensor, without importing torch
        theta = theta.detach().cpu().numpy()
    try:
        return np.asarray(theta, np.float64)
    except (TypeError, ValueError):
        raise FormulaError("theta is not numeric", expected=f"{n_vars} numbers") from None


def _refuse_nan(theta: np.ndarray) -> None:
    missing = np.isnan(theta)
    if missing.any():
        variable = int(np.argwhere(missing)[0][-1]) + 1
        raise FormulaError(f"theta of variable {variable} is NaN", expected="a number or +-inf")


def checked_projection(
    variables: Iterable[int] | str | None, n_vars: int
) -> tuple[int, ...] | None:
    """Distinct visible variables in the given order; None for None and for "all"."""
    if variables is None:
        return None
    if isinstance(variables, str):
        if variables != "all":
            raise FormulaError(f"projection on {variables!r}", expected='variables, or "all"')
        return None
    chosen = tuple(dict.fromkeys(integers(list(variables)).tolist()))
    for v in chosen:
        if not 1 <= v <= n_vars:
            raise FormulaError(f"projection on variable {v}", expected=f"1..{n_vars}")
    return chosen


def evidence_literals(evidence: Mapping[int, bool] | Iterable[int], n_vars: int) -> np.ndarray:
    """{3: True, 5: False} or [3, -5] as int32 literals of visible variables."""
    if isinstance(evidence, Mapping):
        evidence = [v if value else -v for v, value in evidence.items()]
    literals = integers(list(evidence))
    for literal in literals.tolist():
        if not 1 <= abs(literal) <= n_vars:
            raise FormulaError(f"given literal {literal}", expected=f"a variable in 1..{n_vars}")
    return literals.astype(np.int32)


def evidence_of(
    formula: Formula,
    given: Mapping[int, bool] | Iterable[int] | None,
    theta: np.ndarray | None = None,
) -> tuple[int, ...]:
    """The literals that `given` and infinite entries of one theta vector fix, by variable."""
    if given is None and theta is None:
        return ()
    literals = set(evidence_literals(given if given is not None else (), formula.n_vars).tolist())
    if theta is not None:
        infinite = np.flatnonzero(np.isinf(theta))
        literals |= {int(i + 1) if theta[i] > 0 else -int(i + 1) for i in infinite}
    return tuple(sorted(literals, key=lambda literal: (abs(literal), literal)))


def with_evidence(theta: np.ndarray, literals: Iterable[int]) -> np.ndarray:
    """theta (n,) with an infinite entry for each literal that is given: the inverse of
    `evidence_of`. Raises Unsatisfiable if a variable would have to be true and false.
    """
    out = np.array(theta, np.float64)
    for literal in evidence_literals(literals, len(out)).tolist():
        end = np.inf if literal > 0 else -np.inf
        if out[abs(literal) - 1] == -end:
            raise Unsatisfiable(f"variable {abs(literal)} is given as true and as false")
        out[abs(literal) - 1] = end
    return out
