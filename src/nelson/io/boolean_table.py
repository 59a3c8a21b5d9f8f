"""What every reader of examples or samples returns: a Boolean matrix and what its columns mean."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from nelson.errors import FormulaError
from nelson.io.arrow import load_pyarrow

#: Larger numbers of variables are taken for mistakes: no formula has so many (see
#: `nelson.formula.checks.MAX_VARIABLE`), and arrays of int32 hold every number up to here.
MAX_VARIABLE = 2**31 - 1
#: Rows without columns take no space in a file, so that the size of the file is no bound for them.
MAX_EMPTY_ROWS = 2**31
_VARIABLE = re.compile(r"[xv]?_?([1-9][0-9]*)", re.IGNORECASE)


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
    if not x.shape[1] and len(x) > MAX_EMPTY_ROWS:
        raise FormulaError(f"{len(x)} rows without columns", expected="(N, n)", source=source)
    if x.dtype == bool:
        return x
    if x.dtype == object:
        try:
            x = x.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            x = np.full(x.shape, 2)
    bad = np.argwhere((x != 0) & (x != 1)) if x.dtype.kind in "iuf" else np.zeros((1, 2), int)
    if len(bad):
        row, column = bad[0].tolist()
        shown = np.asarray(values)[row, column] if x.size else x.dtype
        raise FormulaError(
            f"row {first + row}, column {column}: {shown!r}", expected="0 or 1", source=source
        )
    return x.astype(bool)


def numbered(
    x: np.ndarray, variables: Any, source: str | None, info: dict[str, Any] | None = None
) -> Table:
    """A table whose columns are the given variables, as `checked_variables` wants them."""
    return Table(x, checked_variables(variables, x.shape[1], source), None, source, info)


def checked_variables(variables: Any, columns: int, source: str | None) -> tuple[int, ...]:
    """Variables that a file states: distinct whole numbers from 1 on, one for each column.

    Raises FormulaError if they are something else.
    """
    expected = "a different variable from 1 on for each column"
    numbers = list(variables) if isinstance(variables, list | tuple) else None
    if numbers is None or not all(type(v) is int and 1 <= v <= MAX_VARIABLE for v in numbers):
        raise FormulaError("wrong numbers of variables", expected=expected, source=source)
    if len(numbers) != columns or len(set(numbers)) < len(numbers):
        what = f"{len(set(numbers))} different variables for {columns} columns"
        raise FormulaError(what, expected=expected, source=source)
    return tuple(numbers)


def named(columns: list[str], x: np.ndarray, source: str | None) -> Table:
    """`3`, `x3`, `v3` mean variable 3; other names are kept, and columns are variables in order."""
    matches = [_VARIABLE.fullmatch(name.strip()) for name in columns]
    if columns and all(matches):
        # A number of more than ten digits is above MAX_VARIABLE; Python refuses very long ones.
        numbers = [int(match[1]) if len(match[1]) <= 10 else 0 for match in matches if match]
        if len(set(numbers)) == len(numbers):
            return numbered(x, numbers, source)
    zero_based = columns == [str(i) for i in range(len(columns))]
    return Table(x, None, None if zero_based else tuple(columns), source=source)


def arrow_table(table: Any, source: str | None, first: int = 0) -> Table:
    """The columns of a pyarrow.Table; first: the number of its first row in the source.

    Only columns of Booleans and numbers are converted: the conversion of other types, such as
    times and nested lists, may fail in many ways.
    """
    pyarrow, _ = load_pyarrow()
    types = pyarrow.types
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        if not (numeric or types.is_boolean(kind) or types.is_null(kind)):
            raise FormulaError(
                f"column {name[:40]!r} of type {kind}", expected="0s and 1s", source=source
            )
    columns = [np.asarray(column.to_pylist()) for column in table.columns]
    x = np.stack(columns, 1) if columns else np.zeros((table.num_rows, 0), bool)
    return named(list(table.column_names), boolean(x, source, first), source)
