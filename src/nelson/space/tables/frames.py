"""DataFrames: fields declared from their columns, and frames of the same look back.

    bool                    a flag
    category                a choice of the categories, in their order
    text, objects           a choice of the values, in the order of appearance
    whole numbers           an integer from the smallest to the largest
    other numbers           refused, unless `bins` divides the column into ranges

A missing value of a category or a text is the value None.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import FormulaError, NelsonError
from nelson.io.json_values import scalar
from nelson.space.language.fields import Bins, Field, Integer, NumericChoice
from nelson.space.rows import Rows

if TYPE_CHECKING:
    from nelson.space.space import Space

#: Values of the largest choice that is declared from a column.
_MAX_VALUES = 4096


def is_frame(table: Any) -> bool:
    """Is it a pandas DataFrame?"""
    return all(hasattr(table, name) for name in ("iloc", "dtypes", "columns"))


def declare(space: Space, frame: Any, bins: Any = None) -> None:
    """Add a field for each column. bins: {column: number of bins, or their edges}; a number alone
    holds for all columns of numbers that are not whole.
    """
    pandas = load_pandas()
    if not is_frame(frame):
        frame = frame.to_pandas() if hasattr(frame, "to_pandas") else pandas.DataFrame(frame)
    if isinstance(bins, Mapping):
        for name in bins:
            if name not in frame.columns:
                raise FormulaError(
                    f"bins of {name!r}", expected=f"one of the columns {list(frame.columns)}"
                )
    for name in frame.columns:
        column = frame[name]
        if not isinstance(name, str):
            raise FormulaError(f"a column with the name {name!r}", expected="a text as name")
        texts = hasattr(column.dtype, "categories") or column.dtype.kind not in "biufc"
        if not texts and column.isna().any():
            at = int(np.flatnonzero(column.isna())[0])
            raise FormulaError(
                f"a missing value in row {at} of the column {name!r}",
                expected="a number in each row: frame.dropna(), or frame.fillna(...)",
            )
        if not len(column):
            raise FormulaError(f"the column {name!r} without rows", expected="one row or more")
        asked = bins.get(name) if isinstance(bins, Mapping) else None
        if asked is None and bins is not None and is_continuous(column):
            asked = None if isinstance(bins, Mapping) else bins
        if asked is not None:
            space.bins(name, edges_of(name, column, asked))
        else:
            _declare_one(space, name, column)


def _declare_one(space: Space, name: str, column: Any) -> None:
    kind = column.dtype
    missing = [None] if column.isna().any() else []
    if hasattr(kind, "categories"):
        space.choice(name, [*map(scalar, kind.categories), *missing])
        return
    if is_continuous(column):
        raise continuous(name)
    values = column.dropna().to_numpy()
    if kind.kind == "b" or all(type(v) is bool or isinstance(v, np.bool_) for v in values):
        space.choice(name, [False, True, None]) if missing else space.flag(name)
    elif kind.kind in "iuf":
        space.integer(name, int(values.min()), int(values.max()))
    else:
        seen = [*dict.fromkeys(map(scalar, values)), *missing]
        if len(seen) > _MAX_VALUES:
            raise FormulaError(
                f"the column {name!r} with {len(seen):,} different values",
                expected=f"at most {_MAX_VALUES:,}; leave a column of names or keys out",
            )
        space.choice(name, seen)


def is_continuous(column: Any) -> bool:
    """Does a column hold numbers that are not whole?"""
    kind = getattr(column, "dtype", None)
    if hasattr(kind, "categories") or getattr(kind, "kind", "O") not in "fO":
        return False
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if values.dtype.kind == "f":
        finite = values[np.isfinite(values)]
        return bool((finite != np.floor(finite)).any())
    return any(
        isinstance(v, numbers.Real) and math.isfinite(v) and v != math.floor(v)
        for v in values.tolist()
    )


def continuous(name: str) -> FormulaError:
    return FormulaError(
        f"the column {name!r} holds numbers that are not whole: continuous columns are not "
        "supported",
        expected=f"bins, as in Space.from_frame(frame, bins={{{name!r}: [0, 18, 65, 120]}}), or a "
        f"number of bins with about equal shares, bins={{{name!r}: 8}}",
    )


def edges_of(name: str, column: Any, bins: Any) -> list[float]:
    """Edges of bins: as given, or so that each of a number of bins has about the same share."""
    if isinstance(bins, (int, np.integer)) and not isinstance(bins, bool):
        if bins < 1:
            raise FormulaError(f"{bins} bins of {name}", expected="1 or more")
        values = np.asarray(column.to_numpy(), float)
        inner = np.quantile(values, np.arange(1, bins) / bins)
        shown = sorted({float(f"{edge:.6g}") for edge in inner})
        return [-math.inf, *shown, math.inf]
    return list(bins)


# --- back to a frame ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnLook:
    """The look of a column: its type, and its categories if it has some."""

    name: str
    dtype: str
    categories: tuple[Any, ...] | None = None
    ordered: bool = False


def look_of(frame: Any, fields: Mapping[str, Field]) -> tuple[ColumnLook, ...] | None:
    """The look of the columns that are fields, in the order of the frame; None: not a DataFrame."""
    if not is_frame(frame):
        return None
    found = []
    for name in frame.columns:
        if name in fields:
            kind = frame[name].dtype
            if hasattr(kind, "categories"):
                categories = tuple(map(scalar, kind.categories))
                found.append(ColumnLook(name, "category", categories, bool(kind.ordered)))
            else:
                found.append(ColumnLook(name, str(kind)))
    return tuple(found)


def as_frame(rows: Rows, look: tuple[ColumnLook, ...]) -> Any:
    """A DataFrame of this look; `frame.attrs` has guarantee, status and info."""
    pandas = load_pandas()
    columns = {column.name: _series(pandas, rows, column) for column in look}
    frame = pandas.DataFrame(columns, index=pandas.RangeIndex(len(rows)), copy=False)
    plain = (str, int, float, bool, type(None))  # what pandas can compare and write to files
    info = {key: value for key, value in rows.info.items() if isinstance(value, plain)}
    frame.attrs = {"guarantee": rows.guarantee, "status": rows.status, "info": info}
    return frame


def _series(pandas: Any, rows: Rows, column: ColumnLook) -> Any:
    field = rows.fields[column.name]
    codes = rows.codes[column.name]
    if isinstance(field, Bins):
        kind = pandas.CategoricalDtype(list(field.values), ordered=True)
        return pandas.Categorical.from_codes(codes.astype(np.int64), dtype=kind)
    if column.categories is not None and field.size <= _MAX_VALUES:
        # Values that are no category of the training data come last.
        own = [field.value(code) for code in range(field.size)]
        categories = [v for v in dict.fromkeys([*column.categories, *own]) if v is not None]
        place = {value: k for k, value in enumerate(categories)} | {None: -1}
        places = np.array([place[value] for value in own], np.int64)
        index = pandas.Index(categories, tupleize_cols=False)
        kind = pandas.CategoricalDtype(index, ordered=column.ordered)
        return pandas.Categorical.from_codes(places[codes.astype(np.int64)], dtype=kind)
    values = rows[column.name]
    if column.categories is not None:
        return pandas.Categorical(values, list(column.categories), ordered=column.ordered)
    kind = pandas.api.types.pandas_dtype(column.dtype)
    if isinstance(field, (Integer, NumericChoice)) and kind.kind in "iu":
        limits = np.iinfo(getattr(kind, "numpy_dtype", kind))
        if field.low < limits.min or field.high > limits.max:
            return values
    return pandas.Series(values).astype(kind)


def load_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise NelsonError("DataFrames need pandas: pip install pandas") from error
    return pandas
