"""Numbers that need not be whole: sums over columns that are kept as ranges (`fields.Bins`).

    income > 50000.5,    end - start <= 90,    start >= "2024-01-01"

A `Measure` is a constant plus a sum of coefficient * column. A comparison with it is a rule. On
ranges such a rule has three values: it holds for all numbers in them, for none, or for some
(`evaluate.possible`). A rule that a missing number leaves open is not broken, as for CHECK in SQL.

Numbers of dates are days since 1970-01-01, and numbers of durations are days.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from nelson.errors import FormulaError
from nelson.space.language.expressions import (
    Derived,
    Expression,
    Number,
    Rule,
    any_of_rules,
    number,
    refuse,
)
from nelson.space.language.text import text

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_DURATION = re.compile(
    r"\s*([-+]?[\d.]+)\s*(d|day|days|h|hour|hours|min|minutes|s|seconds|w|weeks)\s*"
)
_DAYS = {"d": 1.0, "h": 1 / 24, "m": 1 / 1440, "s": 1 / 86400, "w": 7.0}


class Measure(Number):
    """constant + sum of coefficient * column; unit: "", "date" or "duration"."""

    __slots__ = ("constant", "terms", "unit")

    def __init__(
        self, terms: Iterable[tuple[Expression, float]], constant: float = 0.0, unit: str = ""
    ) -> None:
        joined: dict[int, list[Any]] = {}
        for term, factor in terms:
            joined.setdefault(id(term), [term, 0.0])[1] += factor
        self.terms = tuple((term, factor) for term, factor in joined.values() if factor)
        self.constant, self.unit = constant, unit
        Expression.__init__(self, "measure", (tuple(term for term, _ in self.terms), constant))
        self.low, self.high = -math.inf, math.inf  # type: ignore[assignment]

    def _plus(self, other: Any, sign: int) -> Measure:
        other = self._operand(other)
        if "date" in (self.unit, other.unit):
            unit = "date" if self.unit != other.unit else "duration"
        else:
            unit = self.unit or other.unit
        terms = [*self.terms, *((term, sign * factor) for term, factor in other.terms)]
        return Measure(terms, self.constant + sign * other.constant, unit)

    def _operand(self, other: Any) -> Measure:
        """A number, a column or a constant as a measure; texts are dates or durations."""
        if isinstance(other, Measure):
            return other
        if hasattr(other, "measure"):
            return other.measure
        if isinstance(other, (Number, Rule)):
            whole = number(other)
            if whole.op == "const":
                return Measure((), float(whole.args[0]))
            return Measure([(whole, 1.0)])
        return Measure((), constant_of(other, self.unit, repr(self)))

    def __add__(self, other: Any) -> Measure:
        return self._plus(other, 1)

    def __sub__(self, other: Any) -> Measure:
        return self._plus(other, -1)

    def __rsub__(self, other: Any) -> Measure:
        return -self + other

    __radd__ = __add__

    def __neg__(self) -> Measure:
        return Measure([(t, -f) for t, f in self.terms], -self.constant, self.unit)

    def __mul__(self, other: Any) -> Measure:
        factor = self._operand(other)
        if factor.terms:
            refuse(f"a product of {self!r} and {other!r}", "a product with a constant")
        unit = "" if self.unit == "date" else self.unit
        by = factor.constant
        return Measure([(t, f * by) for t, f in self.terms], self.constant * by, unit)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Measure:
        divisor = self._operand(other)
        if divisor.terms or not divisor.constant:
            refuse(f"{self!r} / {other!r}", "a division by a constant that is not 0")
        return self * (1 / divisor.constant)

    def _refused(self, *other: Any) -> NoReturn:
        refuse(f"an operation on {self!r}", "+, -, * by a constant, and comparisons")

    __mod__ = __floordiv__ = __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _refused
    __abs__ = __invert__ = _refused

    def _compared(self, op: str, other: Any) -> Rule:
        if other is None:
            refuse(f"{self!r} {op} None", "a number to compare with; `income.missing` is a rule")
        gap = self - other
        return Derived("measure", (op, gap, text_of(op, gap)))

    def isin(self, values: Iterable[Any]) -> Rule:
        """Is the number one of these?"""
        if isinstance(values, range) and values.step == 1:
            return (self >= values.start) & (self < values.stop)
        return any_of_rules([self == value for value in values])


def constant_of(value: Any, unit: str, of: str) -> float:
    """A constant in the numbers of a column: days for dates and durations."""
    if isinstance(value, str):
        if (match := _DURATION.fullmatch(value)) is not None:
            return float(match[1]) * _DAYS[match[2][0]]
        try:
            value = np.datetime64(value)
        except ValueError:
            wanted = "a date such as '2024-01-31'" if unit == "date" else "a number"
            raise FormulaError(f"{value!r}, compared with {of}", expected=wanted) from None
    if isinstance(value, (datetime.date, np.datetime64)):
        return float(np.array(value, "datetime64[us]").astype(np.int64)) / 86400e6
    if isinstance(value, (datetime.timedelta, np.timedelta64)):
        return float(np.array(value, "timedelta64[us]").astype(np.int64)) / 86400e6
    real = isinstance(value, (int, float, np.integer, np.floating))
    if not real or isinstance(value, bool) or not math.isfinite(value):
        raise FormulaError(f"{value!r}, compared with {of}", expected="a number")
    return float(value)


def text_of(op: str, gap: Measure) -> str:
    """The rule `gap op 0`, as the user would write it: `end >= start`, `income > 50000`."""
    left, right = _columns(gap), []
    if not gap.constant and any(f > 0 for _, f in left):
        right = [(t, -f) for t, f in left if f < 0]
        left = [(t, f) for t, f in left if f > 0]
    elif left and all(f < 0 for _, f in left):
        return text_of(_TURNED[op], -gap)
    if right:
        return f"{_sum(left)} {op} {_sum(right)}"
    single = len(left) == 1 and left[0][1] == 1.0
    if gap.unit == "date" and single:
        return f"{_sum(left)} {op} {date_text(-gap.constant)!r}"
    return f"{_sum(left) or 0} {op} {shown(-gap.constant)}"


def _columns(gap: Measure) -> list[tuple[Expression, float]]:
    """The terms by column: the field of a column `after` another one is their difference."""
    columns: dict[int, list[Any]] = {}
    for term, factor in gap.terms:
        columns.setdefault(id(term), [term, 0.0])[1] += factor
        if (after := getattr(term, "after", None)) is not None:
            columns.setdefault(id(after), [after, 0.0])[1] -= factor
    return [(term, factor) for term, factor in columns.values() if factor]


def shown(value: float) -> str:
    """A number as Python reads it: without .0."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def date_text(days: float) -> str:
    """The date, with the time of day if it is not midnight."""
    stamp = np.datetime64(round(days * 86400e6), "us")
    whole = float(days).is_integer()
    return str(stamp.astype("datetime64[D]" if whole else "datetime64[s]"))


def _sum(terms: list[tuple[Expression, float]]) -> str:
    line = ""
    for term, factor in terms:
        shape = text(term) if abs(factor) == 1 else f"{shown(abs(factor))} * {text(term)}"
        sign = "-" if factor < 0 else "+"
        line += (f" {sign} " if line else "-" * (factor < 0)) + shape
    return line
