"""Expressions on rows, with NumPy: the plain meaning of every operator.

Columns are codes (`fields`): one array for each field. This is the reference that judges the
clauses, and what finds the rows of a table that break a rule.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.space.language import vector_values
from nelson.space.language.expressions import Category, Expression, Number, Rule, leaves
from nelson.space.language.text import text
from nelson.space.language.vectors import VECTOR_COMPARISONS, Bits

Columns = Mapping[str, np.ndarray]
#: Name of a column -> the least and the greatest number that each row may have; NaN: missing.
Ends = Mapping[str, tuple[np.ndarray, np.ndarray]]
#: (may the rule hold, may it fail), for each row.
Possible = tuple[np.ndarray, np.ndarray]
#: Numbers beyond this are computed with Python's integers.
_MAX_INT = 2**62

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "+": np.add,
    "*": np.multiply,
    "%": np.mod,
    "//": np.floor_divide,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
    "neg": np.negative,
    "not": np.logical_not,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "iff": np.equal,
    "implies": lambda a, b: ~a | b,
    "if": np.where,
}


def evaluate(node: Expression, columns: Columns) -> Any:
    """The value on each row: bool for a rule, int64 or Python's integers for a number."""
    op, args = node.op, node.args
    if op == "const":
        return np.asarray(args[0], object) if _wide(node) else np.asarray(args[0])
    if op == "field":
        codes = columns[node.name]  # type: ignore[attr-defined]
        if isinstance(node, Category):
            return codes
        values = node.values_of(codes)  # type: ignore[attr-defined]
        return values if isinstance(node, Rule) else _integers(values, node)
    if op == "truth":
        return np.asarray(evaluate(args[0], columns)).astype(np.int64)
    if op == "count":
        return sum(np.asarray(evaluate(arg, columns)).astype(np.int64) for arg in args)
    if op == "value":
        patterns, w = evaluate(args[0], columns), args[0].width
        if args[0].is_signed:
            patterns = vector_values.signed_value(patterns, w)
        return _integers(np.asarray(patterns), node)
    if op == "bit":
        return np.asarray(evaluate(args[0], columns) >> args[1] & 1, bool)
    if op in VECTOR_COMPARISONS:
        a, b = (evaluate(arg, columns) for arg in args)
        return np.asarray(vector_values.compare(op, a, b, args[0].width), bool)
    if isinstance(node, Bits):
        return _pattern(node, columns)
    if op == "is":
        return np.isin(evaluate(args[0], columns), np.array(args[1], np.int64))
    if op == "in":
        return _within(np.asarray(evaluate(args[0], columns)), args[1])
    if op == "same":
        return _values(args[0], columns) == _values(args[1], columns)
    if op == "distinct":
        return _distinct([_values(arg, columns) for arg in args])
    if op == "possible":
        return possible(args[0], columns, ends_of(args[0], columns))[0]
    if op == "table":
        return _listed([np.asarray(evaluate(arg, columns)) for arg in args[0]], args[1])
    values = [
        evaluate(arg, columns) if isinstance(arg, Expression) else np.asarray(arg) for arg in args
    ]
    wide = isinstance(node, Number) and _wide(node)
    if wide or any(v.dtype == object for v in values if op not in _LOGICAL):
        values = [v if v.dtype == bool else v.astype(object) for v in values]
    apply = _OPERATIONS[op]
    found = reduce(apply, values) if op in ("+", "and", "or") else apply(*values)
    # NumPy turns an array of objects without an axis, as of two wide constants, into its object.
    return np.asarray(found, bool) if isinstance(node, Rule) else np.asarray(found)


def _pattern(node: Bits, columns: Columns) -> Any:
    """The bits of a vector, as numbers 0 .. 2^w - 1."""
    op, args = node.op, node.args
    if op == "bits":
        return vector_values.pattern(evaluate(args[0], columns), node.width)
    if op == "bvconst":
        return vector_values.pattern(args[0], node.width)
    values = tuple(evaluate(a, columns) if isinstance(a, Expression) else a for a in args)
    widths = tuple(a.width for a in args if isinstance(a, Bits))
    return vector_values.apply(op, node.width, values, widths)


_LOGICAL = {"not", "and", "or", "xor", "iff", "implies"}


def _wide(node: Number | Expression) -> bool:
    return isinstance(node, Number) and max(abs(node.low), abs(node.high)) > _MAX_INT


def _integers(values: np.ndarray, node: Any) -> np.ndarray:
    return values.astype(object if _wide(node) else np.int64)


def _within(values: np.ndarray, runs: tuple[tuple[int, int], ...]) -> Any:
    """Which values lie in one of the ranges (first, last), which are sorted and disjoint."""
    if not runs:
        return np.zeros(values.shape, bool)
    wide = any(abs(end) > _MAX_INT for run in runs for end in run)
    first, last = np.array(runs, object if wide or values.dtype == object else np.int64).T
    at = np.searchsorted(first, values, side="right") - 1
    return (at >= 0) & np.asarray(values <= last[np.maximum(at, 0)], bool)


def _values(node: Expression, columns: Columns) -> Any:
    """Values rather than codes, so that choices with other lists of values can be compared."""
    found = evaluate(node, columns)
    return node.values_of(found) if isinstance(node, Category) else found  # type: ignore[attr-defined]


def _distinct(values: list[Any]) -> Any:
    pairs = (a != b for k, a in enumerate(values) for b in values[:k])
    return reduce(np.logical_and, pairs, np.asarray(True))


def _listed(columns: list[np.ndarray], rows: tuple[tuple[int, ...], ...]) -> Any:
    every = np.broadcast_arrays(*columns)
    allowed = set(rows)
    flat = [c.reshape(-1).tolist() for c in every]
    found = [tuple(map(int, row)) in allowed for row in zip(*flat, strict=True)]
    return np.array(found, bool).reshape(every[0].shape)


# --- numbers that are known by their ranges: three values ---------------------------------------


def ends_of(rule: Expression, codes: Columns) -> Ends:
    """The ends of the ranges of all columns of a rule that are kept as ranges."""
    ranged = {leaf.name: leaf for leaf in leaves(rule) if hasattr(leaf, "ends")}  # type: ignore[attr-defined]
    return {name: leaf.ends(codes[name]) for name, leaf in ranged.items()}


def has_measure(rule: Expression) -> bool:
    """Is there a comparison of a measure in the rule?"""
    stack: list[Any] = [rule]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack += node
        elif isinstance(node, Expression):
            if node.op == "measure":
                return True
            stack += node.args
    return False


def possible(node: Expression, codes: Mapping[str, np.ndarray], ends: Ends) -> Possible:
    """May the rule hold, and may it fail, for numbers between these ends?"""
    op, args = node.op, node.args
    if op == "measure":
        return _compare(args[0], *_bounds(args[1], codes, ends))
    if not has_measure(node):
        found = np.asarray(evaluate(node, codes), bool)
        return found, ~found
    each = [possible(arg, codes, ends) for arg in args]
    if op == "not":
        return each[0][1], each[0][0]
    if op in ("and", "or"):
        may = reduce(operator.and_ if op == "and" else operator.or_, [a for a, _ in each])
        fail = reduce(operator.or_ if op == "and" else operator.and_, [b for _, b in each])
        return may, fail
    if op == "implies":
        (a, not_a), (b, not_b) = each
        return not_a | b, a & not_b
    if op == "if":
        (a, not_a), (b, not_b), (c, not_c) = each
        return a & b | not_a & c, a & not_b | not_a & not_c
    if op in ("iff", "xor"):
        (a, not_a), (b, not_b) = each
        same, differ = a & b | not_a & not_b, a & not_b | not_a & b
        return (same, differ) if op == "iff" else (differ, same)
    raise FormulaError(
        f"{text(node)}, with numbers that are not whole", expected="and, or, not, implies, iff"
    )


def _bounds(gap: Any, codes: Mapping[str, np.ndarray], ends: Ends) -> tuple[Any, Any]:
    low: Any = gap.constant
    high: Any = gap.constant
    for term, factor in gap.terms:
        if (name := getattr(term, "name", "")) in ends:
            a, b = ends[name]
        else:
            a = b = np.asarray(evaluate(term, codes), float)
        low = low + factor * (a if factor > 0 else b)
        high = high + factor * (b if factor > 0 else a)
    return low, high


def _compare(op: str, low: np.ndarray, high: np.ndarray) -> Possible:
    """low..high op 0; comparisons with NaN are False, so each line says when it is sure."""
    never: dict[str, Any] = {
        "<": lambda: low >= 0,
        "<=": lambda: low > 0,
        ">": lambda: high <= 0,
        ">=": lambda: high < 0,
        "==": lambda: (low > 0) | (high < 0),
        "!=": lambda: (low == 0) & (high == 0),
    }
    opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
    return ~np.asarray(never[op]()), ~np.asarray(never[opposite[op]]())
