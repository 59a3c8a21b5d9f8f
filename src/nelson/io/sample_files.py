"""The files of `nelson sample`: text, `.csv`, `.npz`, `.parquet`.

All writers take *bit-sliced* blocks, the layout of the sampler: `packed` is `(words, n)` uint64 and
bit k of `packed[w, j]` is the value of variable `variables[j]` in sample `64*w + k` of the block.
They write block by block in constant memory, and whole samples only. Use them on a file of
`nelson.io.atomic.writing`, so that it appears under its name only when it is complete.

| format     | content                                                                           |
|------------|-----------------------------------------------------------------------------------|
| text       | one sample per line: DIMACS literals, ending in 0 (as SAT samplers print them)    |
| `.csv`     | a header with the names of the variables (x1, x2, ... without names), then 0 or 1 |
| `.npz`     | `packed`, `variables`, `count`, `info` (JSON text); loads without pickle;         |
|            | `names` if the variables have names                                               |
| `.parquet` | one row per sample, one column `x` of ceil(n/8) bytes: bit j%8 of byte j//8 is    |
|            | column j                                                                          |

pyarrow is imported when a `.parquet` file is written, numba when text or `.parquet` is.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol

import numpy as np

from nelson.errors import NelsonError
from nelson.io.arrow import load_pyarrow, packed_table
from nelson.io.table_formats import delimited, npz, parquet, text

_OTHER_FORMATS = {".npy", ".tsv", ".json", ".gz", ".xz", ".bz2", ".zst", ".arrow", ".h5"}
_CSV_CELLS = 1 << 24  # of CSV, spelled at once: 32 MB
_ROWS_PER_GROUP = 65536  # of Parquet, a multiple of 64: fast to read, and small enough for memory


class Writer(Protocol):
    """Takes blocks; `close` takes the info about the whole run."""

    def write(self, packed: np.ndarray, count: int) -> None: ...
    def close(self, info: dict[str, Any]) -> None: ...


def format_of(path: str) -> str:
    """The format that a file name asks for; formats that we do not write are refused."""
    suffix = Path(path).suffix.lower()
    if suffix in _OTHER_FORMATS:
        raise NelsonError(f"{path}: cannot write {suffix} files; use .txt, .csv, .npz or .parquet")
    return suffix[1:] if suffix in (".csv", ".npz", ".parquet") else "text"


# ------------------------------------------------------------------------------------------- bits


def _append_bits(tail: np.ndarray, used: int, packed: np.ndarray) -> np.ndarray:
    """Shift a block up by `used` lanes and put it on top of the `used` lanes of `tail`, `(n,)`.

    The last row may be empty; `tail` must be zero above its `used` lanes and 0 < used < 64.
    """
    out = np.zeros((packed.shape[0] + 1, packed.shape[1]), dtype=np.uint64)
    out[:-1] = packed << np.uint64(used)
    out[1:] |= packed >> np.uint64(64 - used)
    out[0] |= tail
    return out


def _clear_tail(packed: np.ndarray, count: int) -> np.ndarray:
    """The words that `count` samples occupy, with the lanes above them set to 0."""
    packed = packed[: -(-count // 64)]
    if count % 64:
        packed = packed.copy()
        packed[-1] &= np.uint64((1 << (count % 64)) - 1)
    return packed


# ------------------------------------------------------------------------------------------- text


class TextWriter:
    """One sample per line: literals, ending in 0. A kernel spells 64 lines at a time.

    `kernels/cpu/packed_samples.py` describes its table of spellings. About 600 MB/s on one core.
    """

    def __init__(
        self, out: BinaryIO, variables: Sequence[int], names: Sequence[str] | None = None
    ) -> None:
        from nelson.kernels.cpu.packed_samples import SPELL_SLACK

        self._out = out
        n = len(variables)
        spell = np.array([[b"-%d " % v, b"%d " % v] for v in variables], dtype=bytes).reshape(n, 2)
        width = max(1, -(-spell.dtype.itemsize // 8))
        self._lengths = np.char.str_len(spell).astype(np.int64)
        self._tokens = spell.astype(f"S{8 * width}").view(np.uint64).reshape(n, 2, width)
        longest = int(self._lengths.max(axis=1, initial=0).sum()) + len("0\n")
        self._buffer = np.empty(64 * longest + SPELL_SLACK, dtype=np.uint8)

    def write(self, packed: np.ndarray, count: int) -> None:
        from nelson.kernels.cpu.packed_samples import spell

        packed = np.ascontiguousarray(packed, dtype=np.uint64)
        for w in range(-(-count // 64)):
            lanes = min(64, count - 64 * w)
            size = spell(packed[w], self._tokens, self._lengths, lanes, self._buffer)
            self._out.write(self._buffer[:size].data)

    def close(self, info: dict[str, Any]) -> None:
        self._out.flush()


# -------------------------------------------------------------------------------------------- csv


class CsvWriter:
    """A header, then one line of zeros and ones for each sample, which `nelson learn` reads."""

    def __init__(
        self, out: BinaryIO, variables: Sequence[int], names: Sequence[str] | None = None
    ) -> None:
        self._out, self._n = out, len(variables)
        out.write(csv_lines([names or [f"x{v}" for v in variables]]))

    def write(self, packed: np.ndarray, count: int) -> None:
        from nelson.kernels.core.bits import unpack

        step = 64 * max(1, _CSV_CELLS // (64 * max(1, self._n)))
        for start in range(0, count, step):
            stop = min(count, start + step)
            bits = unpack(packed[start // 64 : -(-stop // 64)], stop - start)
            cells = np.full((stop - start, 2 * self._n), ord(","), np.uint8)
            cells[:, ::2] = bits
            cells[:, ::2] += ord("0")
            cells[:, -1:] = ord("\n")
            self._out.write(cells.tobytes() if self._n else b"\n" * (stop - start))

    def close(self, info: dict[str, Any]) -> None:
        self._out.flush()


def csv_lines(rows: Iterable[Iterable[Any]]) -> bytes:
    """Lines of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def as_text(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: ' before a text that begins like one."""
    begins = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{cell}" if begins else cell


# -------------------------------------------------------------------------------------------- npz


class NpzWriter:
    """Bit-sliced words, `(ceil(count/64), n)` uint64, as the sampler holds them.

    The shape stands at the head of an `.npy` member but is known only at the end. So the words go
    to a scratch file first and are copied from there into the archive. They are stored
    uncompressed, because random bits do not compress.
    """

    def __init__(
        self, out: BinaryIO, variables: Sequence[int], names: Sequence[str] | None = None
    ) -> None:
        self._out = out
        self._variables = np.asarray(variables, dtype=np.int64)
        self._names = {} if names is None else {"names": np.array(names, str)}
        self._scratch = tempfile.TemporaryFile()  # noqa: SIM115 - lives until close()
        self._tail = np.zeros(len(variables), dtype=np.uint64)
        self._count = 0

    def write(self, packed: np.ndarray, count: int) -> None:
        packed = _clear_tail(packed, count)
        used = self._count % 64
        if used and count:
            packed = _append_bits(self._tail, used, packed)
        self._count += count
        full = (used + count) // 64
        self._scratch.write(np.ascontiguousarray(packed[:full], dtype="<u8").data)
        if (used + count) % 64 and count:
            self._tail = packed[full].copy()

    def close(self, info: dict[str, Any]) -> None:
        if self._count % 64:
            self._scratch.write(np.ascontiguousarray(self._tail, dtype="<u8").data)
        self._scratch.seek(0)
        shape = (-(-self._count // 64), len(self._variables))
        small = {"variables": self._variables, "count": np.int64(self._count), **self._names}
        write_npz(
            self._out, "packed", np.dtype("<u8"), shape, self._scratch, small | info_array(info)
        )
        self._scratch.close()


def info_array(info: dict[str, Any]) -> dict[str, np.ndarray]:
    """What is known about the run, as an array of an archive: JSON text."""
    return {"info": np.array(json.dumps(info))}


def write_npz(
    out: BinaryIO,
    name: str,
    dtype: np.dtype,
    shape: tuple[int, ...],
    content: IO[bytes],
    small: dict[str, Any],
) -> None:
    """An archive of one large array, whose bytes are in an open file, and some small arrays."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            descr = np.lib.format.dtype_to_descr(dtype)
            header = {"descr": descr, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_2_0(member, header)
            shutil.copyfileobj(content, member, 1 << 20)
        for key, array in small.items():
            with archive.open(f"{key}.npy", "w") as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


# ---------------------------------------------------------------------------------------- parquet


class ParquetWriter:
    """One row per sample in one fixed-size binary column `x`, even for a million variables.

    The metadata of the schema holds `variables` and `info` as JSON. Back to Booleans:
    `np.unpackbits(rows, axis=1, count=n, bitorder="little")`, or `read`.
    """

    def __init__(
        self, out: BinaryIO, variables: Sequence[int], names: Sequence[str] | None = None
    ) -> None:
        pa, pq = load_pyarrow()
        kind = pa.binary(max(1, -(-len(variables) // 8)))
        meta = {"nelson.variables": json.dumps([int(v) for v in variables])}
        if names is not None:
            meta["nelson.names"] = json.dumps(list(names))
        schema = pa.schema([pa.field("x", kind, nullable=False)], metadata=meta)
        self._file = pq.ParquetWriter(out, schema, compression="none", use_dictionary=False)

    def write(self, packed: np.ndarray, count: int) -> None:
        for start in range(0, count, _ROWS_PER_GROUP):
            stop = min(count, start + _ROWS_PER_GROUP)
            words = packed[start // 64 : -(-stop // 64)]
            self._file.write_table(packed_table(words, stop - start, self._file.schema))

    def close(self, info: dict[str, Any]) -> None:
        self._file.add_key_value_metadata({"nelson.info": json.dumps(info)})
        self._file.close()


_WRITERS: dict[str, Any] = {
    "text": TextWriter,
    "csv": CsvWriter,
    "npz": NpzWriter,
    "parquet": ParquetWriter,
}
_READERS = {"text": text, "csv": delimited, "npz": npz, "parquet": parquet}


def make_writer(
    kind: str, out: BinaryIO, variables: Sequence[int], names: Sequence[str] | None = None
) -> Writer:
    """A writer of the named format (text, csv, npz, parquet) over an open binary file.

    names: of the variables, for a header of the file; text has none.
    """
    writer: Writer = _WRITERS[kind](out, variables, names)
    return writer


# ---------------------------------------------------------------------------------------- reading


def read(path: str | os.PathLike[str]) -> tuple[np.ndarray, tuple[int, ...], dict[str, Any]]:
    """Samples that `nelson sample` wrote: `(m, n)` bool, the variables of the columns, the info.

    Text has no info, and an empty text file has no variables.
    """
    path = os.fspath(path)
    table = _READERS[format_of(path)](path).table
    return table.x, table.variables or (), table.info or {}
