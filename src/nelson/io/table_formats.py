"""One reader per file format: all rows of a table, or a window of them.

Memory that a reader needs beside the rows it returns:

| file                 | memory                                                                  |
|----------------------|-------------------------------------------------------------------------|
| `.npy`               | none: the file is mapped, and only the pages of the rows are read       |
| `.npz`               | none: the archive is read in pieces, up to the last of the rows         |
| `.parquet`           | the row groups in which the rows lie                                    |
| `.csv`, `.tsv`, text | one line; a window is read in two passes, to count and to parse         |

An array that is stored by columns (Fortran order) is the exception: all its pages are read from an
`.npy` file, and the whole array from an `.npz` file.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np

from nelson.errors import FormulaError, NelsonError
from nelson.io.arrow import load_pyarrow, octets
from nelson.io.boolean_table import (
    MAX_EMPTY_ROWS,
    Table,
    arrow_table,
    boolean,
    named,
    numbered,
)
from nelson.io.sampler_text import read_samples, samples
from nelson.io.streams import text_lines

_TRUE = {"1", "1.0", "true", "t", "yes"}
_FALSE = {"0", "0.0", "false", "f", "no"}

#: Number of rows of a file -> the rows that are wanted, from and to. None: all rows.
Window = Callable[[int], tuple[int, int]] | None


class TableSlice(NamedTuple):
    """The rows of a file that a window selects."""

    table: Table
    first: int  # the number of the first row, from 0
    total: int  # rows of the whole file


def _bounds(window: Window, total: int) -> tuple[int, int]:
    return (0, total) if window is None else window(total)


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Any error that a broken or missing file causes becomes a FormulaError.

    zipfile, NumPy, pyarrow and json document no complete list of the errors that broken bytes can
    cause, and new versions add some. So every error counts as "cannot read it".
    """
    try:
        yield
    except NelsonError:  # a FormulaError of ours, or pyarrow is not installed
        raise
    except OSError as error:
        reason = error.strerror or f"not a file of its format ({error})"
        raise FormulaError(f"cannot read it: {reason}", source=path) from None
    except MemoryError:
        what = "cannot read it: what it claims to hold does not fit into memory"
        raise FormulaError(what, source=path) from None
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise FormulaError(f"cannot read it: {reason}", source=path) from None


# --- NumPy ---------------------------------------------------------------------------------------


def npy(path: str, window: Window = None) -> TableSlice:
    with _readable(path):
        with open(path, "rb") as file:
            shape, _, dtype = _header(file)
            size, there = _bytes(shape, dtype), os.path.getsize(path) - file.tell()
        if size > there:  # NumPy's own check overflows for large shapes
            raise ValueError(f"{there} bytes of data, but its header says {size}")
        if len(shape) != 2:
            raise FormulaError(f"data of shape {shape}", expected="(N, n)", source=path)
        array = np.load(path, "r", allow_pickle=False)
        first, last = _bounds(window, len(array))
        x = boolean(np.asarray(array[first:last]), path, first)
        return TableSlice(Table(np.array(x), source=path), first, len(array))


def vector(path: str) -> np.ndarray:
    """The numbers of an `.npy` file, or of a text file (as `np.loadtxt` reads it), as float64."""
    with _readable(path):
        if path.endswith(".npy"):
            array = np.load(path, allow_pickle=False)
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
                raise ValueError("not an array of numbers")
            return array.astype(np.float64)
        return np.loadtxt(path, dtype=np.float64, ndmin=1)


def npz(path: str, window: Window = None) -> TableSlice:
    """An archive of `nelson sample`, or any other with one 2-D array, or one called x or data."""
    with _readable(path):
        if not zipfile.is_zipfile(path):
            return npy(path, window)
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            if {"packed", "variables", "count"} <= set(names):
                return _nelson_npz(archive, path, window, "info" in names)
            shapes = {name: _shape(archive, name) for name in names}
            name = _array_of_examples(shapes, path)
            total = shapes[name][0]
            first, last = _bounds(window, total)
            x = boolean(_member(archive, name, first, last), path, first)
            return TableSlice(Table(x, source=path), first, total)


def npz_arrays(path: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Some arrays of an archive, whole. Their sizes and checksums are verified."""
    with _readable(path), zipfile.ZipFile(path) as archive:
        return {name: _member(archive, name) for name in names}


def _nelson_npz(archive: zipfile.ZipFile, path: str, window: Window, has_info: bool) -> TableSlice:
    """Kernels trust sizes, so every size in the file is compared with the words that are there."""
    from nelson.kernels.core.bits import unpack, words_for

    count = _member(archive, "count")
    if count.dtype.kind not in "iu" or count.size != 1 or not 0 <= int(count.reshape(())) < 2**63:
        raise FormulaError("wrong `count`", expected="the number of samples", source=path)
    total = int(count.reshape(()))
    with archive.open("packed.npy") as file:
        shape, _, dtype = _header(file)
    if dtype.kind != "u" or dtype.itemsize != 8 or len(shape) != 2:
        what = f"`packed` of type {dtype} and shape {shape}"
        raise FormulaError(what, expected="(words, n) uint64", source=path)
    if shape[0] != words_for(total):
        raise FormulaError(
            f"{total} samples by `count`, but {shape[0]} words in `packed`",
            expected=f"{words_for(total)} words of 64 samples each",
            source=path,
        )
    if not shape[1] and total > MAX_EMPTY_ROWS:
        raise FormulaError(f"{total} samples without variables", expected="fewer", source=path)
    first, last = _bounds(window, total)
    words = _member(archive, "packed", first // 64, words_for(last)).astype(np.uint64, copy=False)
    if last == total and total % 64 and (words[-1] >> np.uint64(total % 64)).any():
        what = f"bits behind the last of the {total} samples that `count` states"
        raise FormulaError(what, expected="zeros there", source=path)
    x = unpack(words, last - first // 64 * 64)[first % 64 :]
    variables = _member(archive, "variables").tolist()
    info = _json_object(str(_member(archive, "info"))) if has_info else None
    return TableSlice(numbered(x, variables, path, info), first, total)


def _json_object(text: str | bytes) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("its info is not a JSON object")
    return value


def _array_of_examples(shapes: dict[str, tuple[int, ...]], path: str) -> str:
    """The name of the array that holds the examples, given the shapes of all arrays."""
    two = [name for name, shape in shapes.items() if len(shape) == 2]
    known = [name for name in ("x", "data") if name in two] or (two if len(two) == 1 else [])
    if not known:
        raise FormulaError(
            f"arrays {', '.join(shapes) or '(none)'}",
            expected="one (N, n) array, or one of them called x or data",
            source=path,
        )
    return known[0]


def _shape(archive: zipfile.ZipFile, name: str) -> tuple[int, ...]:
    with archive.open(f"{name}.npy") as file:
        return _header(file)[0]


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether the array is stored by columns, and dtype."""
    if np.lib.format.read_magic(file) == (1, 0):
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, by_columns, dtype = np.lib.format.read_array_header_2_0(file)
    if any(length < 0 for length in shape):
        raise ValueError(f"an array of shape {shape}")
    return shape, by_columns, dtype


def _bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Bytes of an array, without overflow. Raises ValueError for an array of objects: a pickle."""
    if dtype.hasobject:
        raise ValueError("an array of objects")
    return dtype.itemsize * math.prod(shape)


def _member(archive: zipfile.ZipFile, name: str, first: int = 0, last: int | None = None) -> Any:
    """TableSlice first..last of an array in an archive (default: all of it)."""
    with archive.open(f"{name}.npy") as file:
        shape, by_columns, dtype = _header(file)
        size = _bytes(shape, dtype)  # checked before NumPy allocates what the header claims
        there = archive.getinfo(f"{name}.npy").file_size - file.tell()
        if size != there:
            raise ValueError(f"the array {name!r} has {there} bytes, and its header says {size}")
        if last is None or by_columns or (first, last) == (0, shape[0]):
            file.seek(0)
            array = np.lib.format.read_array(file, allow_pickle=False)
            return array if last is None else array[first:last]
        row = dtype.itemsize * math.prod(shape[1:])
        for _ in _pieces(file, first * row):
            pass
        data = bytearray().join(_pieces(file, (last - first) * row))
        return np.frombuffer(data, dtype).reshape(last - first, *shape[1:])


def _pieces(file: IO[bytes], size: int, most: int = 1 << 16) -> Iterator[bytes]:
    """The next `size` bytes, in pieces. (`seek` in an archive would read them all at once.)"""
    while size:
        piece = file.read(min(most, size))
        if not piece:
            raise EOFError("it ends early")
        size -= len(piece)
        yield piece


# --- Parquet -------------------------------------------------------------------------------------


def parquet(path: str, window: Window = None) -> TableSlice:
    """A file of `nelson sample`, or a table with one column per variable."""
    _, pq = load_pyarrow()
    with _readable(path), pq.ParquetFile(path) as file:
        total = file.metadata.num_rows
        sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
        if total != sum(sizes) or min(sizes, default=0) < 0:
            raise ValueError(f"{total} rows, but row groups of {sizes[:5]}")
        first, last = _bounds(window, total)
        ends = np.cumsum(sizes, dtype=np.int64)
        groups = np.flatnonzero((ends > first) & (ends - sizes < last))
        table = file.read_row_groups(groups.tolist())
        begin = int(ends[groups[0]] - sizes[groups[0]]) if len(groups) else first
        table = table.slice(first - begin, last - first)
        if len(table) != last - first:
            raise ValueError(f"{len(table)} rows where {last - first} should be")
        table.validate(full=True)
        metadata = file.metadata.metadata or {}
        if b"nelson.variables" not in metadata:
            return TableSlice(arrow_table(table, path, first), first, total)
        variables = json.loads(metadata[b"nelson.variables"])
        info = _json_object(metadata.get(b"nelson.info", b"{}"))
        rows = octets(table, len(variables))
        x = np.unpackbits(rows, axis=1, count=len(variables), bitorder="little").astype(bool)
        return TableSlice(numbered(x, variables, path, info), first, total)


# --- text ----------------------------------------------------------------------------------------


def text(path: str, window: Window = None, n_vars: int | None = None) -> TableSlice:
    """The forms of `nelson.io.sampler_text`; "-" is stdin."""
    first, last, total = 0, None, 0
    if window is not None:
        with text_lines(path) as lines:
            total = sum(sample.times for sample in samples(lines, path, n_vars))
        first, last = window(total)
    with text_lines(path) as lines:
        table = read_samples(samples(lines, path, n_vars), path, first, last)
    return TableSlice(table, first, len(table.x) if window is None else total)


def delimited(path: str, window: Window = None) -> TableSlice:
    """A CSV or TSV file of 0s and 1s, with or without a line of titles."""
    with text_lines(path) as lines:
        sample = lines.read(4096)
    first, last, total = 0, None, 0
    if window is not None:
        with text_lines(path) as lines:
            total = sum(1 for _ in _cells(sample, lines, path)[2])
        first, last = window(total)
    with text_lines(path) as lines:
        titled, head, rows = _cells(sample, lines, path)
        body = [
            _values(row, len(head), path, first + k + 1 + titled)
            for k, row in enumerate(itertools.islice(rows, first, last))
        ]
    x = np.array(body, bool).reshape(len(body), len(head))
    table = named(head, x, path) if titled else Table(x, source=path)
    return TableSlice(table, first, len(x) if window is None else total)


def _cells(
    sample: str, lines: Iterable[str], path: str
) -> tuple[bool, list[str], Iterator[list[str]]]:
    """Whether there is a line of titles, the cells of the first line, and the rows.

    sample: the beginning of the text, from which the delimiter is guessed.
    """
    delimiter = max("\t;,", key=sample.count)
    rows = (row for row in _csv_rows(lines, delimiter, path) if row)
    first = next(rows, None)
    if first is None:
        raise FormulaError("no rows", expected="one example per line", source=path)
    head = [cell.strip() for cell in first]
    titled = not all(cell.lower() in _TRUE | _FALSE for cell in head)
    return titled, head, rows if titled else itertools.chain([first], rows)


def _csv_rows(lines: Iterable[str], delimiter: str, path: str) -> Iterator[list[str]]:
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise FormulaError(
                f"not CSV ({error})", expected="cells of 0 and 1", source=path, line=reader.line_num
            ) from None
        yield row


def _values(row: list[str], width: int, path: str, line: int) -> list[bool]:
    cells = [cell.strip().lower() for cell in row]
    if len(cells) != width:
        raise FormulaError(
            f"{len(cells)} cells",
            expected=f"{width}, as in the first line",
            source=path,
            line=line,
        )
    for cell in cells:
        if cell not in _TRUE and cell not in _FALSE:
            raise FormulaError(f"cell {cell[:40]!r}", expected="0 or 1", source=path, line=line)
    return [cell in _TRUE for cell in cells]
