"""Rows of a space: what a draw returns, as values with names.

A column is kept as codes (`fields`) in the smallest type that holds them: a byte for a flag or a
small choice. Values are made when they are asked for.
"""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from nelson.errors import FormulaError, installed, printable
from nelson.io.arrow import load_pyarrow
from nelson.space.language.expressions import refuse
from nelson.space.language.fields import (
    Bins,
    Choice,
    Field,
    Flag,
    Integer,
    NumericChoice,
    lookup,
    unknown,
)


class Rows(Sequence[dict[str, Any]]):
    """Rows with named columns; rows[0] is a dict, rows[:5] are rows, rows["addr"] is a column.

    guarantee, status and info are those of `nelson.Samples`.
    """

    def __init__(
        self,
        fields: Mapping[str, Field],
        codes: Mapping[str, np.ndarray],
        n: int,
        guarantee: str = "exact",
        status: str = "ok",
        info: dict[str, Any] | None = None,
    ) -> None:
        self.fields = dict(fields)
        self.codes = dict(codes)
        self.guarantee, self.status, self.info = guarantee, status, info or {}
        self._n = n

    @classmethod
    def empty(cls, fields: Mapping[str, Field], status: str = "ok", **info: Any) -> Rows:
        """No row, with these columns."""
        codes = {name: np.zeros(0, code_type(field.size)) for name, field in fields.items()}
        guarantee = "exact" if status == "ok" else "heuristic"
        return cls(fields, codes, 0, guarantee, status, info)

    def __len__(self) -> int:
        return self._n

    @property
    def tv_bound(self) -> float | None:
        """As `Samples.tv_bound`."""
        return self.info.get("tv_bound") if self.guarantee == "exact" else None

    @property
    def columns(self) -> list[str]:
        return list(self.fields)

    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> Rows: ...
    @overload
    def __getitem__(self, key: str) -> np.ndarray: ...
    def __getitem__(self, key: int | slice | str) -> Any:
        if isinstance(key, str):
            if key not in self.fields:
                raise unknown(f"no column {key!r}", key, self.fields)
            return self.fields[key].values_of(self.codes[key])
        if isinstance(key, slice):
            codes = {name: column[key] for name, column in self.codes.items()}
            n = len(range(*key.indices(len(self))))
            return Rows(self.fields, codes, n, self.guarantee, self.status, self.info)
        at = range(len(self))[key]  # raises IndexError
        return {name: f.value(int(self.codes[name][at])) for name, f in self.fields.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        step = 4096
        for first in range(0, len(self), step):
            block = self[first : first + step]
            values = [block[name].tolist() for name in self.fields]
            for row in zip(*values, strict=True) if values else [()] * len(block):
                yield dict(zip(self.fields, row, strict=True))

    def shares(self, name: str) -> dict[Any, float]:
        """The share of each value of a column that occurs."""
        if name not in self.fields:
            raise unknown(f"no column {name!r}", name, self.fields)
        codes, counts = np.unique(self.codes[name], return_counts=True)
        field = self.fields[name]
        pairs = zip(codes.tolist(), counts.tolist(), strict=True)
        return {field.value(code): count / len(self) for code, count in pairs}

    # --- out --------------------------------------------------------------------------------------

    def to_pandas(self) -> Any:
        """A DataFrame: bool for flags, int64 for integers, categories for choices.

        Integers beyond 64 bits are Python's integers, in columns of type object.
        """
        with installed("to_pandas needs pandas: pip install pandas"):
            import pandas
        columns: dict[str, Any] = {}
        for name, field in self.fields.items():
            if not isinstance(field, Choice):
                columns[name] = self[name]
                continue
            values = [v for v in field.values if v is not None]
            present = np.array([v is not None for v in field.values])
            places = np.where(present, present.cumsum() - 1, -1)  # -1: pandas' missing value
            kind = pandas.CategoricalDtype(pandas.Index(values, tupleize_cols=False))
            codes = places.astype(_signed(field.size))[self.codes[name]]
            columns[name] = pandas.Categorical.from_codes(codes, dtype=kind)
        return pandas.DataFrame(columns, index=pandas.RangeIndex(len(self)), copy=False)

    def to_arrow(self) -> Any:
        """A pyarrow.Table: bool, int64, dictionaries for choices; decimals from 64 to 126 bits."""
        arrow, _ = load_pyarrow()
        arrays = [self._arrow(arrow, name, field) for name, field in self.fields.items()]
        return arrow.Table.from_arrays(arrays, names=list(self.fields))

    def _arrow(self, arrow: Any, name: str, field: Field) -> Any:
        if isinstance(field, Choice):
            values = lookup(field.values).tolist()
            if len({type(v) for v in values}) > 1 or not isinstance(values[0], (str, bool, float)):
                values = [str(v) for v in values]
            codes = arrow.array(self.codes[name].astype(_signed(field.size)))
            return arrow.DictionaryArray.from_arrays(codes, arrow.array(values))
        column = self[name]
        if column.dtype != object:
            return arrow.array(column)
        if max(field.high, -field.low) >= 10**38:  # type: ignore[union-attr]
            refuse(f"to_arrow of the column {name}, of more than 126 bits", "to_pandas")
        return arrow.array(column.tolist(), arrow.decimal128(38, 0))

    def to_numpy(self) -> np.ndarray:
        """A structured array: one record for each row."""
        columns = {name: self[name] for name in self.fields}
        kind = [(name, _record_type(column, self.fields[name])) for name, column in columns.items()]
        out = np.empty(len(self), np.dtype(kind))
        for name, column in columns.items():
            out[name] = column
        return out

    def to_list(self) -> list[dict[str, Any]]:
        """All rows as dicts."""
        return list(self)

    def __repr__(self) -> str:
        shown = self[:10]
        head = [list(self.fields), *(row.values() for row in shown)]
        cells = [[printable(str(cell)) for cell in line] for line in head]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.rjust, line, widths)) for line in cells]
        if len(self) > len(shown):
            lines.append("...")
        method = f", method {self.info['method']}" if "method" in self.info else ""
        lines.append(f"[{len(self):,} rows, {self.guarantee}{method}]")
        return "\n".join(lines)


def _signed(size: int) -> Any:
    """The smallest signed type for codes below `size`, as pandas and Arrow want them."""
    return next(t for t in (np.int8, np.int16, np.int32, np.int64) if size <= np.iinfo(t).max)


def code_type(size: int) -> Any:
    """The smallest type that holds codes below `size`; objects beyond 64 bits."""
    for bits, kind in ((8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64)):
        if size <= 1 << bits:
            return kind
    return object


def _record_type(column: np.ndarray, field: Field) -> Any:
    if isinstance(field, Choice) and all(isinstance(v, str) for v in field.values):
        return f"U{max(len(str(v)) for v in field.values)}"
    return column.dtype


def codes_of(field: Field, column: Any) -> np.ndarray:
    """The codes of a column of the user's values; -1 where a value is not in the domain."""
    if hasattr(column, "cat"):  # pandas: one look-up for each category; -1 is a missing value
        places = [_code_or_missing(field, value) for value in (*column.cat.categories, None)]
        kind = np.int64 if field.size < 2**62 else object
        return np.array(places, kind)[column.cat.codes.to_numpy()]
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if isinstance(field, (Integer, Flag, NumericChoice)) and values.dtype.kind in "biuf":
        return _numeric_codes(field, values)
    known: dict[Any, int] = {}
    out = np.empty(len(values), np.int64 if field.size < 2**62 else object)
    absent = _missing(column, values)
    for k, value in enumerate(values.tolist()):
        if absent[k]:
            value = None
        try:
            if value not in known:
                known[value] = _code_or_missing(field, value)
            out[k] = known[value]
        except TypeError:  # a value that cannot be hashed
            out[k] = -1
    return out


def _code_or_missing(field: Field, value: Any) -> int:
    try:
        return field.code(value)
    except FormulaError:
        return -1


def _numeric_codes(field: Any, values: np.ndarray) -> np.ndarray:
    whole = values.astype(np.int64) if values.dtype.kind in "bi" else values
    if values.dtype.kind == "u":
        whole = values.astype(object if values.size and values.max() >= 2**63 else np.int64)
    elif values.dtype.kind == "f":
        finite = np.isfinite(values) & (np.abs(values) < 2.0**62)
        finite &= np.where(finite, values, 0) == np.floor(np.where(finite, values, 0))
        return np.where(finite, _numeric_codes(field, np.where(finite, values, 0).astype(int)), -1)
    if isinstance(field, NumericChoice):
        order = np.argsort(np.array(field.values, object))
        ordered = np.array(field.values, object)[order]
        at = np.clip(np.searchsorted(ordered, whole.astype(object)), 0, len(order) - 1)
        return np.where(ordered[at] == whole, order[at], -1).astype(np.int64)
    low, high = (0, 1) if isinstance(field, Flag) else (field.low, field.high)
    if field.size >= 2**62 or low < -(2**62) or high >= 2**62:
        whole = whole.astype(object)
    inside = (whole >= low) & (whole <= high)
    return np.where(inside, whole - low, -1)


def numbers_of(field: Bins, table: Any) -> np.ndarray:
    """The numbers of a column that is kept in ranges, float64; NaN where there is none.

    Dates and durations are days. Of a field `after` another one: the differences.
    """
    column = as_numbers(table[field.name])
    return column if field.after is None else column - as_numbers(table[field.after.name])


def as_numbers(column: Any) -> np.ndarray:
    """Any column of numbers, dates or durations as float64; NaN where there is no number."""
    if getattr(getattr(column, "dtype", None), "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if values.dtype.kind in "Mm":
        return days(values)
    if values.dtype.kind in "biuf":
        return values.astype(float)
    missing = _missing(column, values)
    known = values[~missing].tolist()
    out = np.full(len(values), np.nan)
    if known and all(isinstance(v, (datetime.date, datetime.timedelta, str)) for v in known):
        kind = "timedelta64[us]" if isinstance(known[0], datetime.timedelta) else "datetime64[us]"
        try:
            out[~missing] = days(np.array(known, kind))
        except (ValueError, TypeError):
            pass
        return out
    from decimal import Decimal

    real = (numbers.Real, Decimal)
    out[~missing] = [float(v) if isinstance(v, real) else np.nan for v in known]
    return out


def _missing(column: Any, values: np.ndarray) -> np.ndarray:
    """(n,) bool: where a column of objects has None, NaN or pandas' NA."""
    if hasattr(column, "isna"):
        return np.asarray(column.isna(), bool)
    return np.array([v is None or v != v for v in values.tolist()], bool)


def days(values: np.ndarray) -> np.ndarray:
    """Dates or durations of NumPy as days, float64; NaT is NaN."""
    whole, _ = np.datetime_data(values.dtype)
    kind = values.dtype.kind
    if whole not in ("D", "s", "ms", "us", "ns"):
        values = values.astype(f"{kind}8[s]")
        whole = "s"
    per_day = {"D": 1, "s": 86400, "ms": 86400_000, "us": 86400_000_000, "ns": 86400 * 10**9}
    in_days = values.astype(np.int64) / per_day[whole]
    in_days[np.isnat(values)] = np.nan
    return in_days


def number_ends(
    fields: Mapping[str, Field], table: Any, codes: Mapping[str, np.ndarray]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Least and greatest number of each row, for fields kept in ranges: the number itself where a
    table has it, the ends of the range for `Rows`.
    """
    ends = {}
    for name, field in fields.items():
        if isinstance(field, Bins):
            if isinstance(table, Rows):
                ends[name] = field.ends(codes[name])
            else:
                ends[name] = (numbers_of(field, table),) * 2
    return ends


def columns_of_records(table: Any) -> Any:
    """A list of records, such as `Rows.to_list()`, as a dict of columns; other tables unchanged."""
    if not isinstance(table, list) or not all(isinstance(row, Mapping) for row in table):
        return table
    names = dict.fromkeys(name for row in table for name in row)
    for k, row in enumerate(table):
        if len(row) < len(names):
            name = next(name for name in names if name not in row)
            raise FormulaError(f"row {k} without the value {name!r}", expected=f"values {[*names]}")
    return {name: [row[name] for row in table] for name in names}


def table_codes(fields: Mapping[str, Field], table: Any) -> dict[str, np.ndarray]:
    """Codes of the columns of a table (DataFrame, Arrow table, Rows, records, dict of columns).

    -1 stands for a value that is not in the domain of its field. Columns that are no field are
    ignored; a missing one is an error.
    """
    if isinstance(table, Rows) and _same(table.fields, fields):
        return table.codes
    table = columns_of_records(table)
    out = {}
    for name, field in fields.items():
        try:
            column = table[name]
        except (KeyError, ValueError, IndexError):
            raise FormulaError(
                f"a table without the column {name!r}", expected=f"columns {list(fields)}"
            ) from None
        if (
            isinstance(field, Bins)
            and not hasattr(column, "cat")
            and not _has_labels(field, column)
        ):
            out[name] = field.codes(numbers_of(field, table))
        else:
            out[name] = codes_of(field, column)
    return out


def _has_labels(field: Bins, column: Any) -> bool:
    """Are the values texts of ranges, rather than numbers?"""
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    return values.dtype.kind not in "biufMm" and any(value in field.values for value in values[:9])


def _same(fields: Mapping[str, Field], others: Mapping[str, Field]) -> bool:
    """Are these the same field objects?"""
    return len(fields) == len(others) and all(
        fields.get(name) is field for name, field in others.items()
    )
