"""C(x) for many assignments at once, packed eight to a byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula.flat import blocks, lengths_to_offsets, select
from nelson.formula.memo import Slot
from nelson.kernels.core.deadline import check_time

if TYPE_CHECKING:
    from nelson.formula.formula import Formula

_VISIBLE: Slot[tuple[np.ndarray, np.ndarray]] = Slot("clauses over visible variables")
BLOCK = 1 << 24  # bytes of gathered literals per block


def satisfied(f: Formula, x: Any) -> np.ndarray:
    """(..., n_vars) or (..., n_total) bool -> (...) bool; see `Formula.satisfied`.

    Layout: row v of `bits` holds variable v + 1, bit k of byte b (most significant first) holds
    assignment 8 b + k. A clause is the OR of its rows, the formula the AND of its clauses.
    """
    x = _boolean(x)
    if x.ndim == 0 or x.shape[-1] not in (f.n_vars, f.n_total):
        raise FormulaError(f"assignment of shape {x.shape}", expected=f"(..., {f.n_vars})")
    batch, n = x.shape[:-1], x.shape[-1]
    rows = x.reshape(int(np.prod(batch, dtype=np.int64)), n)
    if f.has_empty_clause or len(rows) == 0:
        return np.zeros(batch, dtype=bool)
    literals, offsets = (f.literals, f.offsets) if n == f.n_total else visible_clauses(f)
    ok = _all_clauses(literals, offsets, rows)
    for constraint in f.constraints:
        ok &= constraint.satisfied(rows)
    return ok.reshape(batch)


def _boolean(x: Any) -> np.ndarray:
    x = np.asarray(x)
    if x.dtype == bool:
        return x
    if x.size and not ((x == 0) | (x == 1)).all():
        raise FormulaError("assignment with values other than 0 and 1", expected="booleans")
    return x.astype(bool)


def visible_clauses(f: Formula) -> tuple[np.ndarray, np.ndarray]:
    """The clauses over visible variables alone; the other clauses only encode f.constraints."""
    if f.n_aux == 0:
        return f.literals, f.offsets
    if not f.constraints:
        raise FormulaError(
            "auxiliary variables that no constraint of the formula explains",
            expected=f"values for all {f.n_total} variables",
        )
    return f.memo.once(_VISIBLE, lambda: _without_auxiliary(f))


def _without_auxiliary(f: Formula) -> tuple[np.ndarray, np.ndarray]:
    hidden = lengths_to_offsets(np.abs(f.literals) > f.n_vars)  # auxiliary literals before each
    return select(f.literals, f.offsets, hidden[f.offsets[1:]] == hidden[f.offsets[:-1]])


def _all_clauses(literals: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> np.ndarray:
    m = len(rows)
    bits = np.packbits(rows.T, axis=1)  # (n, bytes)
    ok = np.full(bits.shape[1] if bits.size else (m + 7) // 8, 0xFF, dtype=np.uint8)
    variables = np.abs(literals) - 1
    flip = np.where(literals < 0, np.uint8(0xFF), np.uint8(0))
    for a, b in blocks(offsets, max(BLOCK // max(len(ok), 1), 1)):
        if not ok.any():
            break
        check_time()
        lo, hi = offsets[a], offsets[b]
        values = bits[variables[lo:hi]] ^ flip[lo:hi, None]
        clauses = np.bitwise_or.reduceat(values, offsets[a:b] - lo, axis=0)
        ok &= np.bitwise_and.reduce(clauses, axis=0)
    return np.unpackbits(ok, count=m).astype(bool)


def violated(formula: Formula, x: np.ndarray) -> str:
    """In words: one clause or constraint that the assignment x (n_vars,) breaks."""
    if formula.has_empty_clause:
        return "the empty clause"
    visible = formula.offsets
    variables = np.abs(formula.literals) - 1
    known = variables < len(x)
    true = np.zeros(len(variables), bool)
    true[known] = x[variables[known]] == (formula.literals[known] > 0)
    # A clause with an auxiliary variable may still be satisfied by it.
    holds = np.logical_or.reduceat(true | ~known, visible[:-1]) if len(visible) > 1 else true
    broken = np.flatnonzero(~holds)
    if len(broken):
        clause = formula.literals[visible[broken[0]] : visible[broken[0] + 1]].tolist()
        shown = " ".join(map(str, clause[:12])) + (" ..." if len(clause) > 12 else "")
        return f"clause {int(broken[0]) + 1} ({shown})"
    for number, constraint in enumerate(formula.constraints, 1):
        if not constraint.satisfied(x[None])[0]:
            return f"constraint {number} ({constraint})"
    return "the formula"
