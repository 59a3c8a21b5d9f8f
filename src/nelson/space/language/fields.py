"""Fields: the named finite variables of a space. Each is a leaf of the expressions.

    Flag            true or false; a Rule
    Integer         low..high; a Number
    BitField        a vector of bits, signed or not
    Choice          one of some values; compared by == and isin
    NumericChoice   a choice whose values are all whole numbers; a Number
    Bins            a choice whose values are ranges of numbers, for continuous columns

Every field numbers its values 0, 1, ..., size - 1: the *codes*. Rows are kept as codes, and
`values(codes)` gives the user's values back.
"""

from __future__ import annotations

import bisect
import itertools
import math
import numbers
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from nelson.errors import FormulaError, shortened
from nelson.space.language.expressions import Category, Number, Rule, forward, refuse
from nelson.space.language.functions import count
from nelson.space.language.measures import Measure, date_text


class Flag(Rule):
    """True or false."""

    __slots__ = ("name",)
    size = 2

    def __init__(self, name: str) -> None:
        super().__init__("field", ())
        self.name = name

    def code(self, value: Any) -> int:
        if isinstance(value, (bool, np.bool_)) or (
            isinstance(value, (int, float, np.integer, np.floating)) and value in (0, 1)
        ):
            return int(value)
        return refuse(f"{self.name} = {value!r}", "True or False")

    def value(self, code: int) -> bool:
        return bool(code)

    def values_of(self, codes: np.ndarray) -> np.ndarray:
        return codes.astype(bool)

    @property
    def domain(self) -> str:
        return "flag"


class Integer(Number):
    """A whole number between low and high, both included."""

    __slots__ = ("name", "size")

    def __init__(self, name: str, low: int, high: int) -> None:
        super().__init__("field", (), low, high)
        self.name, self.size = name, high - low + 1

    def code(self, value: Any) -> int:
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        whole = whole or (isinstance(value, (float, np.floating)) and float(value).is_integer())
        if not whole or not self.low <= value <= self.high:
            refuse(f"{self.name} = {value!r}", f"a whole number in {self.low}..{self.high}")
        return int(value) - self.low

    def value(self, code: int) -> int:
        return self.low + code

    def values_of(self, codes: np.ndarray) -> np.ndarray:
        """int64 where that holds all values, uint64 up to 64 bits, else Python's integers."""
        for kind in (np.int64, np.uint64):
            if np.iinfo(kind).min <= self.low and self.high <= np.iinfo(kind).max:
                if codes.dtype == object:
                    return (codes + self.low).astype(kind)
                # Two's complement wraps: the sum is right although `low` may be negative.
                return (codes.astype(np.uint64) + np.uint64(self.low % 2**64)).astype(kind)
        return codes.astype(object) + self.low

    @property
    def domain(self) -> str:
        return f"{self.low}..{self.high}"


class BitField(Integer):
    """A vector of bits, kept as the number that it stands for. Rules see it as a `vectors.Bits`."""

    __slots__ = ("is_signed", "width")

    def __init__(self, name: str, width: int, is_signed: bool) -> None:
        half = 1 << (width - 1)
        super().__init__(name, *((-half, half - 1) if is_signed else (0, 2 * half - 1)))
        self.width, self.is_signed = width, is_signed

    @property
    def domain(self) -> str:
        return f"{self.width} bits{', signed' if self.is_signed else ''}"


class _Listed:
    """What fields with a list of values have in common."""

    __slots__ = ()
    name: str
    values: tuple[Any, ...]
    _codes: dict[Any, int]

    @property
    def size(self) -> int:
        return len(self.values)

    def code(self, value: Any) -> int:
        return _code(self.name, self._codes, value)

    def value(self, code: int) -> Any:
        return self.values[code]

    @property
    def domain(self) -> str:
        return _shown(self.values)


class Choice(_Listed, Category):
    """One of some values: strings, or anything that can be hashed."""

    __slots__ = ("_codes", "name", "values")

    def __init__(self, name: str, values: tuple[Hashable, ...]) -> None:
        super().__init__("field", ())
        self.name, self.values = name, values
        self._codes = {value: k for k, value in enumerate(values)}

    def values_of(self, codes: np.ndarray) -> np.ndarray:
        return lookup(self.values)[codes]


class Bins(Choice):
    """A number, known by the range that it falls in: `[0, 18)`, `[18, 65)`, `[65, 120]`.

    missing   is there one more value, None, for rows without a number?
    unit      "", or "date" or "duration": numbers are then days (`measures`)
    after     the ranges are those of the difference to this other field
    """

    __slots__ = ("after", "edges", "missing", "unit")
    __hash__ = Category.__hash__

    def __init__(
        self,
        name: str,
        edges: tuple[float, ...],
        missing: bool = False,
        unit: str = "",
        after: Bins | None = None,
    ) -> None:
        labels = bin_labels(edges, "duration" if after is not None and unit else unit)
        super().__init__(name, (*labels, None) if missing else labels)
        self.edges, self.missing, self.unit, self.after = edges, missing, unit, after

    @property
    def ranges(self) -> int:
        return len(self.edges) - 1

    def code(self, value: Any) -> int:
        """The bin of a number (of the difference, if there is `after`), or of the text of a bin."""
        if isinstance(value, str) or not isinstance(value, numbers.Real):
            return super().code(value)
        if not self.edges[0] <= float(value) <= self.edges[-1]:  # also refuses NaN
            refuse(f"{self.name} = {value!r}", f"{self.edges[0]:g} to {self.edges[-1]:g}")
        return min(bisect.bisect_right(self.edges, float(value)), self.ranges) - 1

    def codes(self, values: np.ndarray) -> np.ndarray:
        """`code` of an array of numbers; NaN is missing; -1: not in the domain."""
        codes = np.full(len(values), -1)
        codes[np.isnan(values)] = self.ranges if self.missing else -1
        inside = (values >= self.edges[0]) & (values <= self.edges[-1])
        at = np.searchsorted(self.edges, values[inside], side="right")
        codes[inside] = at.clip(1, self.ranges) - 1
        return codes

    def ends(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest number of each code; NaN if it is missing."""
        low = np.array([*self.edges[:-1], np.nan])[codes.astype(np.int64)]
        high = np.array([*self.edges[1:], np.nan])[codes.astype(np.int64)]
        last = codes == self.ranges - 1
        below = np.nextafter(high, -np.inf)  # the upper end of a range does not belong to it
        return low, np.where(last | np.isinf(high), high, below)

    @property
    def measure(self) -> Measure:
        """The number, for rules: that of `after` plus the difference."""
        if self.after is None:
            return Measure([(self, 1.0)], unit=self.unit)
        return Measure([*self.after.measure.terms, (self, 1.0)], unit=self.unit)

    def __eq__(self, other: object) -> Rule:  # type: ignore[override]
        label = other is None or (isinstance(other, str) and other in self.values)
        if label or (isinstance(other, Category) and not isinstance(other, Bins)):
            return Category.__eq__(self, other)
        return self.measure == other

    def __ne__(self, other: object) -> Rule:  # type: ignore[override]
        return ~(self == other)


forward(
    Bins,
    lambda field: field.measure,
    *("__lt__", "__le__", "__gt__", "__ge__", "__neg__", "__truediv__"),
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__"),
)


def bin_labels(edges: tuple[float, ...], unit: str = "") -> tuple[str, ...]:
    """[a, b) for each bin; the last one includes its upper end. `= a` for a single number."""
    shown = [_edge(edge, unit) for edge in edges]
    if len(set(shown)) < len(shown):
        shown = [repr(edge) for edge in edges]
    last = len(edges) - 2
    labels = []
    for k, (low, high) in enumerate(itertools.pairwise(shown)):
        closed = k == last and high != "inf"
        label = f"{'(' if low == '-inf' else '['}{low}, {high}{']' if closed else ')'}"
        single = np.nextafter(edges[k], np.inf) == edges[k + 1]
        labels.append(f"= {low}" if single else label)
    return tuple(labels)


def _edge(edge: float, unit: str) -> str:
    if unit == "date" and abs(edge) < 3e6:
        return date_text(edge)
    return f"{edge:.6g}" + " d" * (unit == "duration" and math.isfinite(edge))


class NumericChoice(_Listed, Number):
    """One of some whole numbers."""

    __slots__ = ("_codes", "name", "values")

    def __init__(self, name: str, values: tuple[int, ...]) -> None:
        super().__init__("field", (), min(values), max(values))
        self.name, self.values = name, values
        self._codes = {value: k for k, value in enumerate(values)}

    def values_of(self, codes: np.ndarray) -> np.ndarray:
        wide = self.low < -(2**63) or self.high >= 2**63
        return np.array(self.values, object if wide else np.int64)[codes]


Field = Flag | Integer | Choice | NumericChoice
FIELDS = (Flag, Integer, Choice, NumericChoice)


class Flags:
    """A set of flags: the member `abs` of the set `brakes` is the field `brakes.abs`."""

    def __init__(self, name: str, members: dict[str, Flag]) -> None:
        self.name, self.members = name, members

    def __getitem__(self, member: str) -> Flag:
        if member not in self.members:
            raise unknown(f"{self.name} has no member {member!r}", member, self.members)
        return self.members[member]

    def __iter__(self) -> Iterator[Flag]:
        return iter(self.members.values())

    def __len__(self) -> int:
        return len(self.members)

    def count(self) -> Number:
        """How many members are in the set."""
        return count(*self)

    def __repr__(self) -> str:
        return f"Flags({self.name!r}, {list(self.members)})"


def choice(name: str, values: Iterable[Any]) -> Choice | NumericChoice:
    """A choice; of numbers if all values are whole numbers."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        refuse(f"the values {values!r} of {name}", "a list of values")
    listed = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    if not listed:
        refuse(f"the choice {name} without values", "one value or more")
    try:
        seen: set[Hashable] = set()
        for value in listed:
            if value in seen:
                refuse(f"the value {value!r} of {name} twice", "distinct ones")
            seen.add(value)
    except TypeError:
        raise FormulaError(f"the values of {name}", expected="values that can be hashed") from None
    if all(type(value) is int for value in listed):
        return NumericChoice(name, listed)
    return Choice(name, listed)


def lookup(values: tuple[Hashable, ...]) -> np.ndarray:
    """(size,) the values as an array: of one type where NumPy has it, else of objects."""
    out = np.empty(len(values), object)
    out[:] = values
    if all(type(v) is bool for v in values):
        return out.astype(bool)
    return out.astype(np.float64) if all(type(v) is float for v in values) else out


def unknown(what: str, asked: Any, known: Iterable[Any]) -> FormulaError:
    """An error that lists the known names, and the one that looks most alike first."""
    from difflib import get_close_matches

    names = list(known)
    near = get_close_matches(str(asked)[:200], [str(n)[:200] for n in names], 1)
    shown = ", ".join(shortened(repr(name), 200) for name in names[:8])
    shown += ", ..." if len(names) > 8 else ""
    hint = f"one of {shown}" if names else "a name that was declared"
    return FormulaError(what, expected=f"{near[0]!r}? Known: {shown}" if near else hint)


def _code(name: str, codes: dict[Any, int], value: Any) -> int:
    if isinstance(value, np.generic):
        value = value.item()
    try:
        return codes[value]
    except (KeyError, TypeError):  # TypeError: it cannot be hashed
        raise unknown(f"{name} has no value {value!r}", value, codes) from None


def _shown(values: tuple[Hashable, ...]) -> str:
    shown = ", ".join(map(str, values[:6]))
    return "{" + shown + (f", ... {len(values)} values" if len(values) > 6 else "") + "}"
