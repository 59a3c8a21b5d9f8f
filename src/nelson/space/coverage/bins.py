"""Fields divided into bins, for coverage.

A small field has one bin for each of its values. A wide integer has ranges as bins:

    {"addr": 16}                        16 ranges of equal size
    {"addr": [0, range(1, 256)]}        bins of your own: a value, a range, or a list of values
    ["addr"], {"addr": None}            the lowest and the highest legal value, and 8 ranges of
                                        equal size between them

Bins of a field do not overlap. A value outside all bins of its field is in no tuple.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.space.language.expressions import Rule, refuse, rule, runs
from nelson.space.language.fields import Field, Flag, Integer, NumericChoice
from nelson.space.names import field_of, has

if TYPE_CHECKING:
    from nelson.space.space import Space

#: Values of the largest field that has one bin for each value unless the user asks for it.
MAX_VALUES = 64
#: Most bins of a field.
MAX_BINS = 65_536
#: Stands for "in no bin". So far below 0 that every sum over places of a tuple stays below 0.
OUTSIDE = -(2**30)

#: A field -> its lowest and its highest legal value.
Extremes = Callable[[Integer], tuple[int, int]]


@dataclass(frozen=True)
class BinnedField:
    """A field and its bins.

    labels     what the user sees for each bin: a value, a range, or a tuple of values
    intervals  for each bin the codes that are in it, as (first, last), ascending
    """

    field: Field
    labels: tuple[Any, ...]
    intervals: tuple[tuple[tuple[int, int], ...], ...]

    def __len__(self) -> int:
        return len(self.labels)

    def rules(self) -> list[Rule]:
        """For each bin the rule that the field lies in it."""
        return [self._rule(parts) for parts in self.intervals]

    def _rule(self, parts: tuple[tuple[int, int], ...]) -> Rule:
        (first, last), *more = parts
        if isinstance(self.field, Integer) and not more:
            return has(self.field, range(self.field.value(first), self.field.value(last) + 1))
        codes = [code for first, last in parts for code in range(first, last + 1)]
        if isinstance(self.field, Flag):
            return has(self.field, bool(codes[0])) if len(codes) == 1 else rule(True)
        return self.field.isin([self.field.value(code) for code in codes])

    def places(self, codes: np.ndarray) -> np.ndarray:
        """The bin of each code, (rows,) int32; OUTSIDE if it is in none."""
        out = np.full(len(codes), OUTSIDE, np.int32)
        if all(parts == ((k, k),) for k, parts in enumerate(self.intervals)):
            inside = np.asarray(codes < len(self), bool)
            out[inside] = codes[inside]
            return out
        for k, parts in enumerate(self.intervals):
            for first, last in parts:
                out[np.asarray((codes >= first) & (codes <= last), bool)] = k
        return out


def columns(space: Space, fields: Any, extremes: Extremes) -> tuple[list[BinnedField], list[str]]:
    """The fields that `fields` asks for, with their bins; and the names of those left out.

    None: all fields of at most 64 values. A mapping {field: bins}: these, with these bins, and the
    other fields of at most 64 values. A list: only these; an item is a field or (field, bins).
    """
    asked: dict[str, Any] = {}
    if isinstance(fields, Mapping):
        asked = {name: bins for key, bins in fields.items() for name in _named(space, key)}
    elif fields is not None:
        if isinstance(fields, str) or not hasattr(fields, "__iter__"):
            refuse(f"fields = {fields!r}", "a list of fields, or {field: bins}")
        for item in fields:
            key, bins = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
            asked |= dict.fromkeys(_named(space, key), bins)
    names = [name for name in space.fields if name in asked]
    if fields is None or isinstance(fields, Mapping):
        names = [n for n, f in space.fields.items() if n in asked or f.size <= MAX_VALUES]
    made = [_column(space.fields[name], asked.get(name), extremes) for name in names]
    return made, [name for name in space.fields if name not in names]


def _named(space: Space, key: Any) -> list[str]:
    """The names of a field, or of all members of a set of flags."""
    name = key if isinstance(key, str) else getattr(key, "name", key)
    if isinstance(name, str) and name in space.sets:
        return [flag.name for flag in space.sets[name]]
    return [field_of(space, key).name]


def _column(field: Field, bins: Any, extremes: Extremes, ranges: int = 8) -> BinnedField:
    """ranges: between the lowest and the highest legal value of a wide integer."""
    if isinstance(bins, (int, np.integer)) and not isinstance(bins, (bool, np.bool_)):
        return _of(field, _ranges(field, int(bins)))
    if bins is not None:
        if isinstance(bins, (str, bytes)) or not hasattr(bins, "__iter__"):
            refuse(f"the bins {bins!r} of {field.name}", "a number, or a list of values and ranges")
        return _of(field, list(bins))
    if isinstance(field, Integer) and field.size > MAX_VALUES:
        low, high = extremes(field)
        inner = _equal(low + 1, high, min(ranges, high - low - 1))
        return _of(field, [low, *inner, high] if low < high else [low])
    return _of(field, [field.value(k) for k in range(field.size)])


def _ranges(field: Field, count: int) -> list[Any]:
    if not isinstance(field, Integer):
        refuse(f"{count} ranges of {field.name}, which is no integer", "a list of bins")
    if not 1 <= count <= field.size:
        refuse(f"{count} ranges of {field.name}", f"1 to {field.size}, the number of its values")
    return _equal(field.low, field.high + 1, count)


def _equal(first: int, end: int, count: int) -> list[Any]:
    """first..end - 1 in ranges of equal size; a range of one value is that value."""
    size = end - first
    ends = [first + k * size // count for k in range(count + 1)] if count > 0 else []
    return [range(a, b) if b - a > 1 else a for a, b in itertools.pairwise(ends)]


def _of(field: Field, bins: list[Any]) -> BinnedField:
    if not bins or len(bins) > MAX_BINS:
        refuse(f"{len(bins)} bins of {field.name}", f"1 to {MAX_BINS}; name fewer or wider ones")
    labels, intervals = [], []
    for label in bins:
        labels.append(tuple(label) if isinstance(label, (list, set, frozenset)) else label)
        intervals.append(_codes(field, label))
    every = sorted((first, last, k) for k, parts in enumerate(intervals) for first, last in parts)
    for (_, last, j), (first, _, k) in itertools.pairwise(every):
        if first <= last:
            refuse(
                f"the bins {labels[j]!r} and {labels[k]!r} of {field.name} share a value",
                "bins that do not overlap",
            )
    return BinnedField(field, tuple(labels), tuple(intervals))


def _codes(field: Field, label: Any) -> tuple[tuple[int, int], ...]:
    """The codes of a bin: of a value, a range, or a list of values."""
    if isinstance(label, range):
        if not isinstance(field, (Integer, NumericChoice)) or not len(label):
            refuse(f"the bin {label!r} of {field.name}", "values of the field")
        if isinstance(field, NumericChoice):
            values: Any = [v for v in field.values if v in label]
            if not values:
                refuse(f"the bin {label!r} of {field.name}", "a value in it")
        elif label.step in (1, -1):
            ends = sorted((field.code(label[0]), field.code(label[-1])))
            return ((ends[0], ends[1]),)
        else:
            values = label
    else:
        values = label if isinstance(label, (list, set, frozenset)) else [label]
    if not 0 < len(values) <= MAX_BINS:
        refuse(
            f"the bin {label!r} of {field.name}, of {len(values)} single values",
            f"1 to {MAX_BINS} values, or a range without a step",
        )
    return runs(sorted({field.code(value) for value in values}))
