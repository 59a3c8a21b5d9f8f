"""The files of rows with named columns, as `nelson sample SPACE.toml` writes them.

| format              | content                                                                    |
|---------------------|----------------------------------------------------------------------------|
| `.csv`              | a line of names, then the values; flags as True and False                  |
| `.npz`              | `rows`, a structured array; `info` (JSON text); loads without pickle       |
| `.parquet`          | a column for each field; metadata `nelson.info` (JSON)                     |
| `.arrow`, `.feather`| the same columns, an Arrow file                                            |

Writers take blocks and write them at once, in constant memory. Use them on a file of
`nelson.io.atomic.writing`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from nelson.errors import NelsonError
from nelson.io.arrow import load_pyarrow
from nelson.io.sample_files import csv_lines, info_array, write_npz

_KINDS = {".csv": "csv", ".npz": "npz", ".parquet": "parquet", ".arrow": "arrow"}
_KINDS[".feather"] = "arrow"  # the same format


class NamedRows(Protocol):
    """A block of rows with named columns, such as `nelson.space.Rows`."""

    @property
    def columns(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, name: str, /) -> np.ndarray: ...
    def to_arrow(self) -> Any: ...
    def to_numpy(self) -> np.ndarray: ...


class RowWriter(Protocol):
    """Takes blocks; `close` takes the info about the whole run."""

    def write(self, rows: Any) -> None: ...
    def close(self, info: dict[str, Any]) -> None: ...


def format_of_rows(path: str) -> str:
    """The format that a file name asks for; formats that we do not write are refused."""
    suffix = Path(path).suffix.lower()
    if suffix not in _KINDS:
        raise NelsonError(
            f"{path}: cannot write rows to {suffix or 'this kind of'} files; use "
            ".csv, .parquet, .arrow, .feather or .npz"
        )
    return _KINDS[suffix]


def make_row_writer(
    kind: str, out: BinaryIO, first: NamedRows, cell: Callable[[Any], Any] | None = None
) -> RowWriter:
    """A writer over an open binary file. first: rows with the columns of all blocks, or none.

    cell: in CSV, what becomes of each name and value, such as `nelson.io.sample_files.as_text`.
    """
    writer: RowWriter = CsvRows(out, first, cell) if kind == "csv" else _WRITERS[kind](out, first)
    return writer


class CsvRows:
    """Values as Python prints them. cell: what becomes of each name and each value."""

    def __init__(self, out: BinaryIO, first: NamedRows, cell: Callable[[Any], Any] | None) -> None:
        self._out, self._cell = out, cell
        self._write([first.columns])

    def write(self, rows: NamedRows) -> None:
        columns = [rows[name].tolist() for name in rows.columns]
        self._write(zip(*columns, strict=True))

    def _write(self, lines: Iterable[Iterable[Any]]) -> None:
        if self._cell is not None:
            lines = (map(self._cell, line) for line in lines)
        self._out.write(csv_lines(lines))

    def close(self, info: dict[str, Any]) -> None:
        self._out.flush()


class NpzRows:
    """A structured array. Its shape stands before its bytes, so they go to a scratch file first."""

    def __init__(self, out: BinaryIO, first: NamedRows) -> None:
        self._out, self._count = out, 0
        self._type = first.to_numpy().dtype
        for name in self._type.names or ():
            if self._type[name].kind == "O":
                raise NelsonError(
                    f"the column {name} has values that NumPy holds as Python objects only, which "
                    ".npz cannot store; use .csv, .parquet or .arrow"
                )
        self._scratch = tempfile.TemporaryFile()  # noqa: SIM115 - lives until close()

    def write(self, rows: NamedRows) -> None:
        self._scratch.write(rows.to_numpy().astype(self._type, copy=False).tobytes())
        self._count += len(rows)

    def close(self, info: dict[str, Any]) -> None:
        self._scratch.seek(0)
        shape = (self._count,)
        write_npz(self._out, "rows", self._type, shape, self._scratch, info_array(info))
        self._scratch.close()


class ParquetRows:
    def __init__(self, out: BinaryIO, first: NamedRows) -> None:
        _, parquet = load_pyarrow()
        self._file = parquet.ParquetWriter(out, first.to_arrow().schema)

    def write(self, rows: NamedRows) -> None:
        self._file.write_table(rows.to_arrow())

    def close(self, info: dict[str, Any]) -> None:
        self._file.add_key_value_metadata({"nelson.info": json.dumps(info)})
        self._file.close()


class ArrowRows:
    """An Arrow IPC file, which Feather is, too. Its metadata come first, so it holds no info."""

    def __init__(self, out: BinaryIO, first: NamedRows) -> None:
        arrow, _ = load_pyarrow()
        self._file = arrow.ipc.new_file(out, first.to_arrow().schema)

    def write(self, rows: NamedRows) -> None:
        self._file.write_table(rows.to_arrow())

    def close(self, info: dict[str, Any]) -> None:
        self._file.close()


_WRITERS: dict[str, Any] = {
    "npz": NpzRows,
    "parquet": ParquetRows,
    "arrow": ArrowRows,
}
