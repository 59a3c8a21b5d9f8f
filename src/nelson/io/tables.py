"""Examples in any of the usual forms -> an (N, columns) Boolean matrix and what its columns mean.

| source                 | columns are                                                            |
|------------------------|------------------------------------------------------------------------|
| array, `.npy`          | variables 1..n in order                                                |
| DataFrame (any with `.columns` and `.to_numpy()`), `.csv`, `.parquet` table | `3`, `x3` or `v3`: |
|                        | variable 3; other names: in order, and kept as names                   |
| `Samples`, `.npz` and `.parquet` of `nelson sample` | the variables written with them           |
| `.npz` of anything     | its only 2-D array, or the one called `x` or `data`                    |
| other text             | literals, a sample a line, ending in 0 (`v` in front is skipped)       |

Text and CSV may be compressed (gzip, xz). Nothing is unpickled. `nelson.io.table_slices` reads some
of the rows of a file, with the same functions.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nelson.errors import FormulaError
from nelson.io.streams import decompressed, load

_VARIABLE = re.compile(r"[xv]?_?([1-9]\d*)", re.IGNORECASE)
_TRUE = {"1", "1.0", "true", "t", "yes"}
_FALSE = {"0", "0.0", "false", "f", "no"}


class Table(NamedTuple):
    """x: (N, columns) bool. variables: of each column, None for 1, 2, ... in order."""

    x: np.ndarray
    variables: tuple[int, ...] | None = None
    names: tuple[str, ...] | None = None
    source: str | None = None
    first_line: int = 1  # of row 0 in the source, where the source has lines


def read(data: Any) -> Table:
    """Any of the forms above. Raises FormulaError where it is none."""
    if isinstance(data, (str, os.PathLike)):
        return _file(os.fspath(data))
    if hasattr(data, "packed") and hasattr(data, "variables"):
        if data.packed.ndim != 2:
            raise FormulaError("samples of several contexts", expected="(N, n) examples")
        return Table(data.to_numpy(), tuple(data.variables))
    if hasattr(data, "to_pandas") and hasattr(data, "column_names"):  # a pyarrow.Table
        return _arrow(data, None)
    if hasattr(data, "columns") and hasattr(data, "to_numpy"):  # pandas, polars
        return _named([str(c) for c in data.columns], boolean(data.to_numpy()), None)
    if hasattr(data, "detach"):  # torch, without importing it
        data = data.detach().cpu().numpy()
    return Table(boolean(data))


def boolean(values: Any, source: str | None = None, first: int = 0) -> np.ndarray:
    """A 2-D array of True and False, from that or from zeros and ones; first: number of row 0."""
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


def suffix_of(path: str) -> str:
    """What names the format: that before .gz or .xz."""
    return Path(path.removesuffix(".gz").removesuffix(".xz")).suffix.lower()


def _file(path: str) -> Table:
    suffix = suffix_of(path)
    if suffix == ".npy":
        return Table(boolean(_loaded(path), path), source=path)
    if suffix == ".npz":
        return _npz(path)
    if suffix == ".parquet":
        return _parquet(path)
    _, raw = load(path)
    text = decompressed(raw, path).decode("utf-8", "replace")
    if suffix in (".csv", ".tsv"):
        return _csv(text, path)
    return literals(text.splitlines(), path)


def _loaded(path: str, mmap_mode: Any = None) -> Any:
    try:
        return np.load(path, mmap_mode, allow_pickle=False)
    except OSError as error:
        reason = error.strerror or "not a numpy file"
        raise FormulaError(f"cannot read it: {reason}", source=path) from None
    except (ValueError, EOFError) as error:
        raise FormulaError(f"cannot read it: {error}", source=path) from None


def _npz(path: str) -> Table:
    archive = _loaded(path)
    if not hasattr(archive, "files"):
        return Table(boolean(archive, path), source=path)
    with archive:
        if {"packed", "variables", "count"} <= set(archive.files):
            from nelson.kernels.core.bits import unpack

            variables = tuple(archive["variables"].tolist())
            return Table(unpack(archive["packed"], int(archive["count"])), variables, source=path)
        name = npz_array({name: archive[name].ndim for name in archive.files}, path)
        return Table(boolean(archive[name], path), source=path)


def npz_array(axes: dict[str, int], path: str) -> str:
    """Which of an archive's arrays, given the number of axes of each, holds the examples."""
    two = [name for name, count in axes.items() if count == 2]
    known = [name for name in ("x", "data") if name in two] or (two if len(two) == 1 else [])
    if not known:
        raise FormulaError(
            f"arrays {', '.join(axes) or '(none)'}",
            expected="one (N, n) array, or one of them called x or data",
            source=path,
        )
    return known[0]


def _parquet(path: str) -> Table:
    from nelson.io import sample_files as nio

    _, pq = nio._pyarrow()
    try:
        file = pq.ParquetFile(path)
        if b"nelson.variables" in (file.metadata.metadata or {}):
            file.close()
            x, variables, _ = nio.read(path)
            return Table(x, variables, source=path)
        with file:
            return _arrow(file.read(), path)
    except OSError as error:
        raise FormulaError(f"cannot read it: {error.strerror or error}", source=path) from None
    except ValueError as error:  # pyarrow.ArrowInvalid is one
        if isinstance(error, FormulaError):
            raise
        raise FormulaError(f"cannot read it: {error}", source=path) from None


def _arrow(table: Any, path: str | None, first: int = 0) -> Table:
    columns = [np.asarray(column.to_pylist()) for column in table.columns]
    x = np.stack(columns, 1) if columns else np.zeros((table.num_rows, 0), bool)
    return _named(list(table.column_names), boolean(x, path, first), path)


def _csv(text: str, path: str) -> Table:
    titled, head, rows = csv_rows(text[:4096], io.StringIO(text), path)
    return csv_table(titled, head, list(rows), path)


def csv_rows(
    sample: str, lines: Iterable[str], path: str
) -> tuple[bool, list[str], Iterator[list[str]]]:
    """Is there a line of titles; the first line; the rows. sample: how the text begins."""
    delimiter = max("\t;,", key=sample.count)
    rows = (row for row in csv.reader(lines, delimiter=delimiter) if row)
    first = next(rows, None)
    if first is None:
        raise FormulaError("no rows", expected="one example a line", source=path)
    head = [cell.strip() for cell in first]
    titled = not all(cell.lower() in _TRUE | _FALSE for cell in head)
    return titled, head, rows if titled else itertools.chain([first], rows)


def csv_table(
    titled: bool, head: list[str], body: list[list[str]], path: str, first: int = 0
) -> Table:
    """first: number of the first row of body."""
    known = _TRUE | _FALSE
    x = np.zeros((len(body), len(head)), bool)
    for k, row in enumerate(body):
        cells = [cell.strip().lower() for cell in row]
        if len(cells) != len(head):
            raise FormulaError(
                f"{len(cells)} cells",
                expected=f"{len(head)}, as in the first line",
                source=path,
                line=first + k + 1 + titled,
            )
        if odd := [cell for cell in cells if cell not in known]:
            raise FormulaError(
                f"cell {odd[0][:40]!r}", expected="0 or 1", source=path, line=first + k + 1 + titled
            )
        x[k] = [cell in _TRUE for cell in cells]
    table = _named(head, x, path) if titled else Table(x, source=path)
    return table._replace(first_line=1 + titled)


def _named(columns: list[str], x: np.ndarray, path: str | None) -> Table:
    """Column names that number variables say which; any others are names, in order."""
    found = [_VARIABLE.fullmatch(name.strip()) for name in columns]
    if columns and all(found):
        numbers = tuple(int(match[1]) for match in found if match)
        if len(set(numbers)) == len(numbers):
            return Table(x, numbers, source=path)
    zero_based = columns == [str(i) for i in range(len(columns))]
    return Table(x, None, None if zero_based else tuple(columns), source=path)


def sample_lines(lines: Iterable[str]) -> Iterator[tuple[int, str, list[str]]]:
    """Of SAT-sampler text, the lines that hold samples: number, text, words."""
    for number, line in enumerate(lines, 1):
        words = line.split()
        if words and words[0] == "v":
            words = words[1:]
        if words and not words[0].startswith("c"):
            yield number, line, words


def literals(lines: Iterable[str], path: str, rows: range | None = None) -> Table:
    """SAT-sampler text: the literals of a line in any order, every line the same variables.

    rows: the samples to keep; None: all. The first is looked at in any case.
    """
    variables: np.ndarray | None = None
    kept, first = [], 0
    for row, (number, line, words) in enumerate(sample_lines(lines)):
        if rows is not None and row not in rows and row:
            if row >= rows.stop:
                break
            continue
        try:
            values = np.array(words, np.int64)
        except (ValueError, OverflowError):
            raise FormulaError(
                f"{line[:40]!r}", expected="literals ending in 0", source=path, line=number
            ) from None
        if values[-1] != 0 or not values[:-1].all():
            raise FormulaError(
                "a line without its 0 at the end",
                expected="one sample a line, literals ending in 0",
                source=path,
                line=number,
            )
        values = values[np.argsort(np.abs(values[:-1]), kind="stable")]
        if variables is None:
            variables, first = np.abs(values), number
            if (np.diff(variables) == 0).any():
                raise FormulaError("a variable twice", expected="once", source=path, line=number)
        elif not np.array_equal(np.abs(values), variables):
            raise FormulaError(
                f"{len(values)} literals of other variables than line {first}",
                expected="the same variables in every line",
                source=path,
                line=number,
            )
        if rows is None or row in rows:
            kept.append(values > 0)
    if variables is None:
        raise FormulaError("no samples", expected="one sample a line", source=path)
    x = np.array(kept, bool).reshape(len(kept), len(variables))
    return Table(x, tuple(variables.tolist()), source=path, first_line=first)
