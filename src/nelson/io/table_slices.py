"""Some rows of a file of examples, without the others: the readers of `io/tables.py`, a
window at a time.

What a rank holds in memory at any time:

| file                  | beside its own rows                                                    |
|-----------------------|------------------------------------------------------------------------|
| `.npy`                | nothing: mapped, so only its pages are read (rows stored by columns:   |
|                       | all pages)                                                             |
| `.npz`                | nothing: the archive is read up to its rows, a piece at a time (rows   |
|                       | stored by columns: the whole array)                                    |
| `.parquet`            | the row groups that its rows lie in                                    |
| `.csv`, `.tsv`, text  | a line: read twice, to count and to parse                              |
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import IO, Any

import numpy as np

from nelson.errors import FormulaError
from nelson.io import tables
from nelson.io.tables import Table

_PIECE = 1 << 16  # bytes read at a time

Window = Callable[[int], tuple[int, int]]  # rows of a file -> those wanted, from and to
Part = tuple[Table, int, int]  # rows, number of the first, rows of the whole file


def part(path: str, window: Window) -> Part:
    """The rows of a file that the window selects."""
    suffix = tables.suffix_of(path)
    if suffix == ".npy":
        return _npy(path, window)
    if suffix == ".npz":
        return _npz(path, window)
    if suffix == ".parquet":
        return _parquet(path, window)
    return _csv(path, window) if suffix in (".csv", ".tsv") else _literals(path, window)


def _npy(path: str, window: Window) -> Part:
    array = tables._loaded(path, "r")
    if getattr(array, "ndim", 0) != 2:
        shape = getattr(array, "shape", "of several arrays")
        raise FormulaError(f"data of shape {shape}", expected="(N, n)", source=path)
    first, last = window(len(array))
    x = tables.boolean(np.asarray(array[first:last]), path, first)
    return Table(np.array(x), source=path), first, len(array)


def _npz(path: str, window: Window) -> Part:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            if {"packed", "variables", "count"} <= set(names):
                from nelson.kernels.core.bits import unpack

                total = int(_member(archive, "count"))
                first, last = window(total)
                words = _member(archive, "packed", first // 64, -(-last // 64))
                x = unpack(words, last - first // 64 * 64)[first % 64 :]
                variables = tuple(_member(archive, "variables").tolist())
                return Table(x, variables, source=path), first, total
            shapes = {name: _header(archive, name)[1] for name in names}
            name = tables.npz_array({name: len(shape) for name, shape in shapes.items()}, path)
            first, last = window(shapes[name][0])
            x = tables.boolean(_member(archive, name, first, last), path, first)
            return Table(x, source=path), first, shapes[name][0]
    except FormulaError:
        raise
    except OSError as error:
        reason = error.strerror or "not a numpy file"
        raise FormulaError(f"cannot read it: {reason}", source=path) from None
    except (ValueError, EOFError, KeyError, zlib.error, zipfile.BadZipFile) as error:
        raise FormulaError(f"cannot read it: {error}", source=path) from None


def _header(archive: zipfile.ZipFile, name: str) -> tuple[np.dtype, tuple[int, ...], bool]:
    with archive.open(f"{name}.npy") as file:
        return _read_header(file)


def _read_header(file: IO[bytes]) -> tuple[np.dtype, tuple[int, ...], bool]:
    """dtype, shape, and whether it is stored by columns."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, columns, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, columns, dtype = np.lib.format.read_array_header_2_0(file)
    return dtype, shape, columns


def _member(archive: zipfile.ZipFile, name: str, first: int = 0, last: int | None = None) -> Any:
    """Rows first..last of an array in an archive; what comes before is read and forgotten."""
    with archive.open(f"{name}.npy") as file:
        dtype, shape, columns = _read_header(file)
        if last is None or columns:
            file.seek(0)
            array = np.lib.format.read_array(file, allow_pickle=False)
            return array if last is None else array[first:last]
        if dtype.hasobject:
            raise ValueError("an array of objects")
        row = dtype.itemsize * int(np.prod(shape[1:]))
        for _ in _pieces(file, first * row):
            pass
        out = bytearray()
        for piece in _pieces(file, (last - first) * row):
            out += piece
        return np.frombuffer(out, dtype).reshape(last - first, *shape[1:])


def _pieces(file: IO[bytes], size: int) -> Iterator[bytes]:
    """The next bytes of a file, some at a time. (`seek` in an archive reads them all at once.)"""
    while size:
        piece = file.read(min(_PIECE, size))
        if not piece:
            raise EOFError("it ends early")
        size -= len(piece)
        yield piece


def _parquet(path: str, window: Window) -> Part:
    from nelson.io import sample_files as nio

    _, pq = nio._pyarrow()
    try:
        with pq.ParquetFile(path) as file:
            total = file.metadata.num_rows
            first, last = window(total)
            sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
            ends = np.cumsum(sizes, dtype=np.int64)
            inside = np.flatnonzero((ends > first) & (ends - sizes < last))
            table = file.read_row_groups(inside.tolist())
            begin = int(ends[inside[0]] - sizes[inside[0]]) if len(inside) else first
            table = table.slice(first - begin, last - first)
            known = file.metadata.metadata or {}
    except OSError as error:
        raise FormulaError(f"cannot read it: {error.strerror or error}", source=path) from None
    except ValueError as error:  # pyarrow.ArrowInvalid is one
        raise FormulaError(f"cannot read it: {error}", source=path) from None
    if b"nelson.variables" in known:
        variables = tuple(json.loads(known[b"nelson.variables"]))
        raw = b"".join(table.column("x").to_pylist())
        octets = np.frombuffer(raw, np.uint8).reshape(last - first, -1)
        x = np.unpackbits(octets, axis=1, count=len(variables), bitorder="little").astype(bool)
        return Table(x, variables, source=path), first, total
    return tables._arrow(table, path, first), first, total


def _csv(path: str, window: Window) -> Part:
    with _lines(path) as lines:
        sample = lines.read(4096)
    with _lines(path) as lines:
        total = sum(1 for _ in tables.csv_rows(sample, lines, path)[2])
    first, last = window(total)
    with _lines(path) as lines:
        titled, head, rows = tables.csv_rows(sample, lines, path)
        body = list(islice(rows, first, last))
    return tables.csv_table(titled, head, body, path, first), first, total


def _literals(path: str, window: Window) -> Part:
    with _lines(path) as lines:
        total = sum(1 for _ in tables.sample_lines(lines))
    first, last = window(total)
    with _lines(path) as lines:
        return tables.literals(lines, path, range(first, last)), first, total


@contextmanager
def _lines(path: str) -> Iterator[IO[str]]:
    """The text of a file, unpacked as it is read if it is gzip or xz."""
    try:
        with open(path, "rb") as file:
            begin = file.read(6)
            file.seek(0)
            source: Any = file
            if begin.startswith(b"\x1f\x8b"):
                source = gzip.GzipFile(fileobj=file)
            elif begin.startswith(b"\xfd7zXZ\x00"):
                source = lzma.LZMAFile(file)  # noqa: SIM115  (closed with the text below)
            with io.TextIOWrapper(source, "utf-8", "replace") as text:
                yield text
    except FormulaError:
        raise
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise FormulaError(
            f"broken compressed data ({error})", expected="a whole .gz or .xz file", source=path
        ) from None
    except OSError as error:
        raise FormulaError(f"cannot read it: {error.strerror}", source=path) from None
