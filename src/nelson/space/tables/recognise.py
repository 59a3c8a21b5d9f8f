"""What a column of a table is taken for, from its values alone.

kind        what it is                                   what becomes of it
flag        true or false                                a flag
choice      texts or categories                          a choice of its values
code        whole numbers that name things               a choice: no value between two codes
integer     whole numbers, few                           each has its own share
number      whole numbers or not                         ranges, and the numbers inside of them
date        dates, times, also as ISO texts              the same, in days
duration    differences of times                         the same, in days
id          a value of its own for each row              numbered anew
text        texts, mostly different                      left out: the new column is empty
constant    one value                                    that value
"""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.io.json_values import scalar
from nelson.space.rows import as_numbers
from nelson.space.tables.inside import bins_for, resolution

KINDS = (
    "flag", "choice", "code", "integer", "number", "date", "duration", "id", "text", "constant",
)  # fmt: skip
#: Kinds that are kept as ranges of numbers, unless there are few whole numbers.
NUMERIC = ("integer", "number", "date", "duration")
#: Whole numbers of a smaller range may each have a share of their own; they have it if they are at
#: most this many, or as many as ranges of the table would be.
SMALL, FEW_INTEGERS = 64, 12
#: Values of the largest choice that is declared from a column.
MAX_VALUES = 4096
#: A column of texts is a key, or free text, if it has this many values and they are most rows.
FEW_ROWS = 20
#: Whole numbers are codes if they have less than this share of the values that as many draws from
#: a smooth law on the same range would have.
GAPS = 0.5

_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?")
_NUMBERED = re.compile(r"(\D*)(\d+)(\D*)")


@dataclass(frozen=True)
class Taken:
    """What a column was taken for.

    because   what in the data says so
    doubt     another kind that it may be: `columns={name: doubt}` changes it
    """

    kind: str
    because: str
    doubt: str = ""


def recognise(column: Any, name: str, asked: str | None = None) -> Taken:
    """column: a pandas Series. asked: the kind that the user named."""
    taken = _recognised(column, name)
    if asked is None or asked == taken.kind:
        return taken
    if asked not in KINDS:
        raise FormulaError(
            f"columns={{{name!r}: {asked!r}}}", expected=f"one of {', '.join(KINDS)}"
        )
    present = column.dropna()
    numbers = bool(np.isfinite(as_numbers(present)).all()) if asked in (*NUMERIC, "code") else True
    times = [kind in ("date", "duration") for kind in (asked, taken.kind)]
    if (asked in NUMERIC or asked == "code") and (not numbers or times[0] != times[1]):
        raise FormulaError(
            f"columns={{{name!r}: {asked!r}}} of {taken.because}", expected=f"{taken.kind!r}"
        )
    return Taken(asked, "you said so")


def _recognised(column: Any, name: str) -> Taken:
    present = column.dropna()
    n, kind = len(present), column.dtype
    if not n:
        return Taken("constant", "no value at all")
    if hasattr(kind, "categories"):
        return Taken("choice", f"{len(kind.categories):,} categories")
    letter = getattr(kind, "kind", "O")
    if letter == "b":
        return Taken("flag", "true and false")
    if letter == "c":
        raise FormulaError(f"the column {name!r} of complex numbers", expected="real numbers")
    if letter == "M":
        return Taken("date", "dates")
    if letter == "m":
        return Taken("duration", "differences of times")
    if letter in "iuf":
        return _number(present, name)
    return _object(present, name)


def _object(present: Any, name: str) -> Taken:
    values = present.to_numpy()
    types = {type(value) for value in values}
    if all(issubclass(t, (bool, np.bool_)) for t in types):
        return Taken("flag", "true and false")
    if all(issubclass(t, datetime.date) for t in types):
        return Taken("date", "dates")
    if all(issubclass(t, datetime.timedelta) for t in types):
        return Taken("duration", "differences of times")
    if types <= {str} and all(_ISO.fullmatch(value) for value in values):
        return Taken("date", "dates as texts")
    if all(issubclass(t, (int, float, np.number)) or hasattr(t, "as_integer_ratio") for t in types):
        return _number(present, name)
    try:
        distinct = len(set(values.tolist()))
    except TypeError:
        return Taken("text", f"values of type {', '.join(sorted(t.__name__ for t in types))}")
    if distinct == 1:
        return Taken("constant", "one value")
    mixed = f", of types {', '.join(sorted(t.__name__ for t in types))}" if len(types) > 1 else ""
    keys = distinct == len(values) >= FEW_ROWS and types <= {str}
    if keys and pattern_of(values) is not None:
        return Taken("id", "a different value in each row, with a number in it")
    if distinct > MAX_VALUES or (len(values) >= FEW_ROWS and distinct > 0.5 * len(values)):
        doubt = "choice" if distinct <= MAX_VALUES else ""
        return Taken("text", f"{distinct:,} different values in {len(values):,} rows{mixed}", doubt)
    return Taken("choice", f"{distinct:,} different values{mixed}")


def _number(present: Any, name: str) -> Taken:
    values = as_numbers(present)
    if not np.isfinite(values).all():
        raise FormulaError(
            f"infinite numbers in the column {name!r}", expected="finite ones, or missing values"
        )
    n, distinct = len(values), np.unique(values)
    if len(distinct) == 1:
        return Taken("constant", "one value")
    if not resolution(values, 0) or np.abs(values).max() > 2**53:
        return Taken("number", "numbers that are not whole")
    low, high = int(distinct[0]), int(distinct[-1])
    if len(distinct) == n >= FEW_ROWS:
        dense, rising = high - low < 2 * n, bool((np.diff(values) > 0).all())
        if dense or rising:
            what = "rising" if rising else "dense"
            return Taken("id", f"each value once, {what}", "number")
    step = int(np.gcd.reduce(np.diff(distinct).astype(np.int64)))
    cells = (high - low) // step + 1
    expected = cells * -math.expm1(n * math.log1p(-1 / cells)) if cells > 1 else 1.0
    widths = np.char.str_len(np.abs(distinct).astype(np.int64).astype(str))
    same_width = float((widths == np.median(widths)).mean())
    long = np.median(widths) >= 3 and len(distinct) <= MAX_VALUES
    said = f"{len(distinct):,} of the {cells:,} whole numbers from {low:,} to {high:,}"
    if cells > SMALL and len(distinct) < GAPS * expected and long:
        if same_width >= 0.9:
            return Taken("code", f"{said}, all of one width", "number")
        return Taken("number", said, "code")
    if cells <= max(FEW_INTEGERS, bins_for(n)) and low > -(2**31):
        return Taken("integer", said)
    return Taken("number", f"whole numbers, {said}")


def pattern_of(values: Any) -> tuple[str, int, str] | None:
    """("C-", 5, "") if all texts are like C-00042: what stays, and how many digits."""
    first = _NUMBERED.fullmatch(values[0])
    if first is None:
        return None
    before, digits, after = first[1], first[2], first[3]
    for value in values:
        match = _NUMBERED.fullmatch(value)
        if match is None or match[1] != before or match[3] != after:
            return None
    width = len(digits) if all(len(v) == len(values[0]) for v in values) else 0
    return before, width, after


def distinct_values(column: Any) -> list[Any]:
    """The values of a choice, in the order of appearance; None last if one is missing."""
    values = column.dropna()
    missing = [None] if len(values) < len(column) else []
    if hasattr(column.dtype, "categories"):
        return [*map(scalar, column.dtype.categories), *missing]
    return [*dict.fromkeys(map(scalar, values.unique().tolist())), *missing]
