"""Expressions on rows, with NumPy: the plain meaning of every operator.

Columns are codes (`fields`): one array for each field. This is the reference that judges the
clauses, and what finds the rows of a table that break a rule. Bit vectors are patterns, numbers
0 .. 2^w - 1: int64 up to 31 bits, where no product leaves 62 bits, and Python's integers beyond.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from nelson.space.language.expressions import Category, Expression, Number, Rule, leaves, refuse
from nelson.space.language.text import OPERATORS, VECTOR_COMPARISONS, text
from nelson.space.language.vectors import Bits

Columns = Mapping[str, np.ndarray]
#: Name of a column -> the least and the greatest number that each row may have; NaN: missing.
Ends = Mapping[str, tuple[np.ndarray, np.ndarray]]
#: (may the rule hold, may it fail), for each row.
Possible = tuple[np.ndarray, np.ndarray]
#: Numbers beyond this are computed with Python's integers.
_MAX_INT = 2**62
#: Widest vectors whose products, and shifts by their width, fit in int64.
_NARROW = 31

_OPERATIONS: dict[str, Callable[..., Any]] = {
    **{sign: apply for sign, (apply, _, _) in OPERATORS.items()},
    "neg": np.negative,
    "not": np.logical_not,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "iff": np.equal,
    "implies": lambda a, b: ~a | b,
    "if": np.where,
}
_LOGICAL = {"not", "and", "or", "xor", "iff", "implies"}


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
    if op in ("truth", "count"):
        return sum(np.asarray(evaluate(arg, columns)).astype(np.int64) for arg in args)
    if op == "value":
        patterns = evaluate(args[0], columns)
        if args[0].is_signed:
            patterns = _signed(patterns, args[0].width)
        return _integers(np.asarray(patterns), node)
    if op == "bit":
        return np.asarray(evaluate(args[0], columns) >> args[1] & 1, bool)
    if op in VECTOR_COMPARISONS:
        a, b = (evaluate(arg, columns) for arg in args)
        return _vector_comparison(op, a, b, args[0].width)
    if isinstance(node, Bits):
        return _patterns(node, columns)
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
    if _wide(node) or any(v.dtype == object for v in values if op not in _LOGICAL):
        values = [v if v.dtype == bool else v.astype(object) for v in values]
    apply = _OPERATIONS[op]
    result = reduce(apply, values) if op in ("+", "and", "or") else apply(*values)
    # NumPy turns an array of objects without an axis, as of two wide constants, into its object.
    return np.asarray(result, bool) if isinstance(node, Rule) else np.asarray(result)


def _wide(node: Expression) -> bool:
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
    codes = evaluate(node, columns)
    return node.values_of(codes) if isinstance(node, Category) else codes  # type: ignore[attr-defined]


def _distinct(values: list[Any]) -> Any:
    pairs = (a != b for k, a in enumerate(values) for b in values[:k])
    return reduce(np.logical_and, pairs, np.asarray(True))


def _listed(columns: list[np.ndarray], rows: tuple[tuple[int, ...], ...]) -> Any:
    every = np.broadcast_arrays(*columns)
    allowed = set(rows)
    flat = [c.reshape(-1).tolist() for c in every]
    inside = [tuple(map(int, row)) in allowed for row in zip(*flat, strict=True)]
    return np.array(inside, bool).reshape(every[0].shape)


# --- bit vectors ----------------------------------------------------------------------------------


def _patterns(node: Bits, columns: Columns) -> Any:
    """The bits of a vector, as numbers 0 .. 2^w - 1."""
    op, args = node.op, node.args
    if op in ("bits", "bvconst"):
        value = args[0]
        return _modulo(evaluate(value, columns) if op == "bits" else value, node.width)
    widest = max(node.width, *(arg.width for arg in args if isinstance(arg, Bits)))
    values = [evaluate(arg, columns) if isinstance(arg, Expression) else arg for arg in args]
    for k, arg in enumerate(args):
        if isinstance(arg, Bits):
            values[k] = np.asarray(values[k]).astype(np.int64 if widest <= _NARROW else object)
    return _modulo(_VECTOR_OPERATIONS[op](node, *values), node.width)


def _modulo(values: Any, width: int) -> Any:
    """Numbers mod 2^width, in the type of vectors of this width."""
    kind = np.int64 if width <= _NARROW else object
    wide = np.asarray(values)
    if wide.dtype.kind == "u" or kind is object:
        wide = wide.astype(object)
    # NumPy turns an array of objects without an axis into its object.
    return np.asarray(np.asarray(wide & ((1 << width) - 1)), kind)


def _signed(a: Any, width: int) -> Any:
    """Patterns as numbers in two's complement."""
    half = 1 << (width - 1)
    return (a ^ half) - half


def _where(condition: Any, then: Any, otherwise: Any) -> Any:
    return np.where(np.asarray(condition, bool), then, otherwise)


def _quotient(node: Bits, a: Any, b: Any) -> Any:
    return _where(b == 0, (1 << node.width) - 1, a // _where(b == 0, 1, b))


def _remainder(node: Bits, a: Any, b: Any) -> Any:
    return _where(b == 0, a, a % _where(b == 0, 1, b))


def _negative(node: Bits, a: Any) -> Any:
    return np.asarray(a >> (node.width - 1), bool)


def _magnitude(node: Bits, a: Any) -> Any:
    return _where(_negative(node, a), (1 << node.width) - a, a)


def _signed_quotient(node: Bits, a: Any, b: Any) -> Any:
    quotient = _quotient(node, _magnitude(node, a), _magnitude(node, b))
    return _where(_negative(node, a) != _negative(node, b), -quotient, quotient)


def _signed_remainder(node: Bits, a: Any, b: Any) -> Any:
    rest = _remainder(node, _magnitude(node, a), _magnitude(node, b))
    return _where(_negative(node, a), -rest, rest)


def _signed_modulus(node: Bits, a: Any, b: Any) -> Any:
    """The remainder with the sign of the divisor."""
    rest = _signed_remainder(node, a, b)
    differ = _negative(node, a) != _negative(node, b)
    return _where((rest % (1 << node.width) != 0) & differ, rest + b, rest)


def _amount(node: Bits, b: Any) -> Any:
    """The amount of a shift; more than the width shifts as much as the width."""
    return _where(b >= node.width, node.width, b)


#: op -> numbers that are the patterns of a node mod 2^w, of the values of its arguments.
_VECTOR_OPERATIONS: dict[str, Callable[..., Any]] = {
    "bvneg": lambda node, a: -a,
    "bvnot": lambda node, a: ~a,
    "bvadd": lambda node, a, b: a + b,
    "bvsub": lambda node, a, b: a - b,
    "bvmul": lambda node, a, b: a * b,
    "bvand": lambda node, a, b: a & b,
    "bvor": lambda node, a, b: a | b,
    "bvxor": lambda node, a, b: a ^ b,
    "bvudiv": _quotient,
    "bvurem": _remainder,
    "bvsdiv": _signed_quotient,
    "bvsrem": _signed_remainder,
    "bvsmod": _signed_modulus,
    "bvshl": lambda node, a, b: a << _amount(node, b),
    "bvlshr": lambda node, a, b: a >> _amount(node, b),
    "bvashr": lambda node, a, b: _signed(a, node.width) >> _amount(node, b),
    "bvif": lambda node, condition, a, b: _where(condition, a, b),
    "concat": lambda node, a, b: (a << node.args[1].width) | b,
    "extract": lambda node, a, high, low: a >> low,
    "zero_extend": lambda node, a, more: a,
    "sign_extend": lambda node, a, more: _signed(a, node.args[0].width),
    "signed": lambda node, a: a,
    "unsigned": lambda node, a: a,
}


def _vector_comparison(op: str, a: Any, b: Any, width: int) -> np.ndarray:
    """bv=, bvult, bvule, bvslt, bvsle on patterns."""
    if op[2] == "s":
        a, b = _signed(a, width), _signed(b, width)
    compare = operator.eq if op == "bv=" else operator.lt if op.endswith("lt") else operator.le
    return np.asarray(compare(a, b), bool)


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
        if isinstance(node, Expression):
            if node.op == "measure":
                return True
            node = node.args
        if isinstance(node, tuple):
            stack += node
    return False


def possible(node: Expression, codes: Mapping[str, np.ndarray], ends: Ends) -> Possible:
    """May the rule hold, and may it fail, for numbers between these ends?"""
    op, args = node.op, node.args
    if op == "measure":
        return _compare(args[0], *_bounds(args[1], codes, ends))
    if not has_measure(node):
        holds = np.asarray(evaluate(node, codes), bool)
        return holds, ~holds
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
    return refuse(f"{text(node)}, with numbers that are not whole", "and, or, not, implies, iff")


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
