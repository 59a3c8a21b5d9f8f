"""What every reader of examples or samples returns: a Boolean matrix and what its columns mean."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from nelson.errors import FormulaError

_VARIABLE = re.compile(r"[xv]?_?([1-9]\d*)", re.IGNORECASE)


class Table(NamedTuple):
    """Rows of 0s and 1s. If `variables` is None, the columns are variables 1, 2, ... in order."""

    x: np.ndarray  # (N, columns) bool
    variables: tuple[int, ...] | None = None  # the variable of each column
    names: tuple[str, ...] | None = None  # names of the columns that are not numbers of variables
    source: str | None = None
    info: dict[str, Any] | None = None  # what `nelson sample` wrote about the run


def boolean(values: Any, source: str | None = None, first: int = 0) -> np.ndarray:
    """A 2-D array of True and False, or of zeros and ones, as bool.

    first: the number of row 0 in the source, for error messages.
    """
    try:
        x = np.asarray(values)
    except ValueError:
        raise FormulaError("rows of different lengths", expected="(N, n)", source=source) from None
    if x.ndim != 2:
        raise FormulaError(f"data of shape {x.shape}", expected="(N, n)", source=source)
    if x.dtype == bool:
        return x
    if x.dtype == object:
        try:
            x = x.astype(np.float64)
        except (TypeError, ValueError):
            x = np.full(x.shape, 2)
    bad = np.argwhere((x != 0) & (x != 1)) if x.dtype.kind in "iuf" else np.zeros((1, 2), int)
    if len(bad):
        row, column = bad[0].tolist()
        shown = np.asarray(values)[row, column] if x.size else x.dtype
        raise FormulaError(
            f"row {first + row}, column {column}: {shown!r}", expected="0 or 1", source=source
        )
    return x.astype(bool)


def named(columns: list[str], x: np.ndarray, source: str | None) -> Table:
    """`3`, `x3`, `v3` mean variable 3; other names are kept, and columns are variables in order."""
    numbered = [_VARIABLE.fullmatch(name.strip()) for name in columns]
    if columns and all(numbered):
        numbers = tuple(int(match[1]) for match in numbered if match)
        if len(set(numbers)) == len(numbers):
            return Table(x, numbers, source=source)
    zero_based = columns == [str(i) for i in range(len(columns))]
    return Table(x, None, None if zero_based else tuple(columns), source=source)


def arrow_table(table: Any, source: str | None, first: int = 0) -> Table:
    """The columns of a pyarrow.Table; first: the number of its first row in the source."""
    columns = [np.asarray(column.to_pylist()) for column in table.columns]
    x = np.stack(columns, 1) if columns else np.zeros((table.num_rows, 0), bool)
    return named(list(table.column_names), boolean(x, source, first), source)
