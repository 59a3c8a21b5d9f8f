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
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np

from nelson.errors import FormulaError
from nelson.io.arrow import load_pyarrow
from nelson.io.boolean_table import Table, arrow_table, boolean, named
from nelson.io.sampler_text import read_samples, samples
from nelson.io.streams import text_lines

_PIECE = 1 << 16  # bytes of an archive that are read at a time
_TRUE = {"1", "1.0", "true", "t", "yes"}
_FALSE = {"0", "0.0", "false", "f", "no"}

#: Number of rows of a file -> the rows that are wanted, from and to. None: all rows.
Window = Callable[[int], tuple[int, int]] | None


class Rows(NamedTuple):
    """The rows of a file that a window selects."""

    table: Table
    first: int  # the number of the first row, from 0
    total: int  # rows of the whole file


def _bounds(window: Window, total: int) -> tuple[int, int]:
    return (0, total) if window is None else window(total)


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Any error that a broken or missing file causes becomes a FormulaError."""
    try:
        yield
    except FormulaError:
        raise
    except OSError as error:
        reason = error.strerror or f"not a file of its format ({error})"
        raise FormulaError(f"cannot read it: {reason}", source=path) from None
    except (ValueError, EOFError, KeyError, zlib.error, zipfile.BadZipFile) as error:
        raise FormulaError(f"cannot read it: {error}", source=path) from None  # also ArrowInvalid


# --- NumPy ---------------------------------------------------------------------------------------


def npy(path: str, window: Window = None) -> Rows:
    with _readable(path):
        array = np.load(path, "r", allow_pickle=False)
    if getattr(array, "ndim", 0) != 2:
        shape = getattr(array, "shape", "of several arrays")
        raise FormulaError(f"data of shape {shape}", expected="(N, n)", source=path)
    first, last = _bounds(window, len(array))
    x = boolean(np.asarray(array[first:last]), path, first)
    return Rows(Table(np.array(x), source=path), first, len(array))


def npz(path: str, window: Window = None) -> Rows:
    """An archive of `nelson sample`, or any other with one 2-D array, or one called x or data."""
    if not zipfile.is_zipfile(path):
        return npy(path, window)
    with _readable(path), zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if {"packed", "variables", "count"} <= set(names):
            return _nelson_npz(archive, path, window, "info" in names)
        shapes = {name: _shape(archive, name) for name in names}
        name = _array_of_examples(shapes, path)
        total = shapes[name][0]
        first, last = _bounds(window, total)
        x = boolean(_member(archive, name, first, last), path, first)
        return Rows(Table(x, source=path), first, total)


def _nelson_npz(archive: zipfile.ZipFile, path: str, window: Window, has_info: bool) -> Rows:
    from nelson.kernels.core.bits import unpack

    total = int(_member(archive, "count"))
    first, last = _bounds(window, total)
    words = _member(archive, "packed", first // 64, -(-last // 64))
    x = unpack(words, last - first // 64 * 64)[first % 64 :]
    variables = tuple(_member(archive, "variables").tolist())
    info = json.loads(str(_member(archive, "info"))) if has_info else None
    return Rows(Table(x, variables, None, path, info), first, total)


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
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def _member(archive: zipfile.ZipFile, name: str, first: int = 0, last: int | None = None) -> Any:
    """Rows first..last of an array in an archive (default: all of it)."""
    with archive.open(f"{name}.npy") as file:
        shape, by_columns, dtype = _header(file)
        if last is None or by_columns or (first, last) == (0, shape[0]):
            file.seek(0)
            array = np.lib.format.read_array(file, allow_pickle=False)
            return array if last is None else array[first:last]
        if dtype.hasobject:
            raise ValueError("an array of objects")
        row = dtype.itemsize * int(np.prod(shape[1:]))
        for _ in _pieces(file, first * row):
            pass
        data = bytearray().join(_pieces(file, (last - first) * row))
        return np.frombuffer(data, dtype).reshape(last - first, *shape[1:])


def _pieces(file: IO[bytes], size: int) -> Iterator[bytes]:
    """The next `size` bytes, in pieces. (`seek` in an archive would read them all at once.)"""
    while size:
        piece = file.read(min(_PIECE, size))
        if not piece:
            raise EOFError("it ends early")
        size -= len(piece)
        yield piece


# --- Parquet -------------------------------------------------------------------------------------


def parquet(path: str, window: Window = None) -> Rows:
    """A file of `nelson sample`, or a table with one column per variable."""
    _, pq = load_pyarrow()
    with _readable(path), pq.ParquetFile(path) as file:
        total = file.metadata.num_rows
        first, last = _bounds(window, total)
        sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
        ends = np.cumsum(sizes, dtype=np.int64)
        groups = np.flatnonzero((ends > first) & (ends - sizes < last))
        table = file.read_row_groups(groups.tolist())
        begin = int(ends[groups[0]] - sizes[groups[0]]) if len(groups) else first
        table = table.slice(first - begin, last - first)
        metadata = file.metadata.metadata or {}
    if b"nelson.variables" not in metadata:
        return Rows(arrow_table(table, path, first), first, total)
    variables = tuple(json.loads(metadata[b"nelson.variables"]))
    info = json.loads(metadata.get(b"nelson.info", b"{}"))
    octets = _octets(table.column("x").combine_chunks())
    x = np.unpackbits(octets, axis=1, count=len(variables), bitorder="little").astype(bool)
    return Rows(Table(x, variables, None, path, info), first, total)


def _octets(column: Any) -> np.ndarray:
    """A column of fixed-size binary as (rows, bytes) uint8."""
    width = column.type.byte_width
    if not len(column):
        return np.zeros((0, width), np.uint8)
    start = column.offset * width
    raw = np.frombuffer(column.buffers()[1], np.uint8)[start : start + len(column) * width]
    return raw.reshape(-1, width)


# --- text ----------------------------------------------------------------------------------------


def text(path: str, window: Window = None, n_vars: int | None = None) -> Rows:
    """The forms of `nelson.io.sampler_text`; "-" is stdin."""
    first, last, total = 0, None, 0
    if window is not None:
        with text_lines(path) as lines:
            total = sum(sample.times for sample in samples(lines, path, n_vars))
        first, last = window(total)
    with text_lines(path) as lines:
        table = read_samples(samples(lines, path, n_vars), path, first, last)
    return Rows(table, first, len(table.x) if window is None else total)


def delimited(path: str, window: Window = None) -> Rows:
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
        body = list(itertools.islice(rows, first, last))
    x = np.zeros((len(body), len(head)), bool)
    for k, row in enumerate(body):
        x[k] = _values(row, len(head), path, first + k + 1 + titled)
    table = named(head, x, path) if titled else Table(x, source=path)
    return Rows(table, first, len(x) if window is None else total)


def _cells(
    sample: str, lines: Iterable[str], path: str
) -> tuple[bool, list[str], Iterator[list[str]]]:
    """Whether there is a line of titles, the cells of the first line, and the rows.

    sample: the beginning of the text, from which the delimiter is guessed.
    """
    delimiter = max("\t;,", key=sample.count)
    rows = (row for row in csv.reader(lines, delimiter=delimiter) if row)
    first = next(rows, None)
    if first is None:
        raise FormulaError("no rows", expected="one example per line", source=path)
    head = [cell.strip() for cell in first]
    titled = not all(cell.lower() in _TRUE | _FALSE for cell in head)
    return titled, head, rows if titled else itertools.chain([first], rows)


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
