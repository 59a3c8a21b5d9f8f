"""Bit vectors on rows: the plain meaning of every operator, on patterns 0 .. 2^w - 1.

Patterns are int64 up to 31 bits, where no product leaves 62 bits, and Python's integers beyond.
This is the one definition that clauses and other solvers are compared with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Widest vectors whose products, and shifts by their width, fit in int64.
_NARROW = 31


def pattern(values: Any, width: int) -> Any:
    """Numbers mod 2^width, in the type of vectors of this width."""
    kind = np.int64 if width <= _NARROW else object
    wide = np.asarray(values)
    if wide.dtype.kind == "u" or kind is object:
        wide = wide.astype(object)
    # NumPy turns an array of objects without an axis into its object.
    return np.asarray(np.asarray(wide & ((1 << width) - 1)), kind)


def signed_value(a: Any, width: int) -> Any:
    """Patterns as numbers in two's complement."""
    half = 1 << (width - 1)
    return (a ^ half) - half


def _where(condition: Any, then: Any, otherwise: Any) -> Any:
    return np.where(np.asarray(condition, bool), then, otherwise)


def _udiv(a: Any, b: Any, w: int) -> Any:
    return _where(b == 0, (1 << w) - 1, a // _where(b == 0, 1, b))


def _urem(a: Any, b: Any, w: int) -> Any:
    return _where(b == 0, a, a % _where(b == 0, 1, b))


def _negative(a: Any, w: int) -> Any:
    return np.asarray(a >> (w - 1), bool)


def _magnitude(a: Any, w: int) -> Any:
    return _where(_negative(a, w), (1 << w) - a, a)


def _sdiv(a: Any, b: Any, w: int) -> Any:
    quotient = _udiv(_magnitude(a, w), _magnitude(b, w), w)
    return _where(_negative(a, w) != _negative(b, w), -quotient, quotient)


def _srem(a: Any, b: Any, w: int) -> Any:
    rest = _urem(_magnitude(a, w), _magnitude(b, w), w)
    return _where(_negative(a, w), -rest, rest)


def _smod(a: Any, b: Any, w: int) -> Any:
    """The remainder with the sign of the divisor."""
    rest = _urem(_magnitude(a, w), _magnitude(b, w), w)
    rest = _where(_negative(a, w), -rest, rest)
    return _where((rest % (1 << w) != 0) & (_negative(a, w) != _negative(b, w)), rest + b, rest)


def _shift(a: Any, b: Any, w: int) -> Any:
    """The amount of a shift; more than the width shifts as much as the width."""
    return _where(b >= w, w, b)


_BINARY = {
    "bvadd": lambda a, b, w: a + b,
    "bvsub": lambda a, b, w: a - b,
    "bvmul": lambda a, b, w: a * b,
    "bvand": lambda a, b, w: a & b,
    "bvor": lambda a, b, w: a | b,
    "bvxor": lambda a, b, w: a ^ b,
    "bvudiv": _udiv,
    "bvurem": _urem,
    "bvsdiv": _sdiv,
    "bvsrem": _srem,
    "bvsmod": _smod,
    "bvshl": lambda a, b, w: a << _shift(a, b, w),
    "bvlshr": lambda a, b, w: a >> _shift(a, b, w),
    "bvashr": lambda a, b, w: signed_value(a, w) >> _shift(a, b, w),
}
_UNARY = {"bvneg": lambda a: -a, "bvnot": lambda a: ~a}


def apply(op: str, width: int, args: tuple[Any, ...], widths: tuple[int, ...]) -> Any:
    """The patterns of an operator. args: patterns, rules and constants; widths: of the patterns."""
    if op in _BINARY:
        wide = object if max(width, *widths) > _NARROW else np.int64
        a, b = (np.asarray(arg).astype(wide) for arg in args)
        return pattern(_BINARY[op](a, b, width), width)
    if op in _UNARY:
        return pattern(_UNARY[op](args[0]), width)
    if op == "extract":
        return pattern(args[0] >> args[2], width)
    if op == "concat":
        high = np.asarray(args[0]).astype(np.int64 if width <= _NARROW else object)
        return pattern((high << widths[1]) | args[1], width)
    if op == "sign_extend":
        return pattern(signed_value(args[0], widths[0]), width)
    if op == "bvif":
        return pattern(_where(args[0], args[1], args[2]), width)
    assert op in ("zero_extend", "signed", "unsigned"), op
    return pattern(args[0], width)


def compare(op: str, a: Any, b: Any, width: int) -> Any:
    """bv=, bvult, bvule, bvslt, bvsle on patterns."""
    if op == "bv=":
        return a == b
    if op[2] == "s":
        a, b = signed_value(a, width), signed_value(b, width)
    return a < b if op.endswith("lt") else a <= b
