"""The content of a job's folder: Parquet files of one schema, and nothing else.

    _nelson.parquet                 no row; its metadata hold the request and the decisions
    part-000000000000000.parquet    the samples from number 0 on
    part-000000000065536.parquet    those from number 65,536 on, and so on

So every tool that opens a folder of Parquet files opens this one, at any moment. A part is a
function of the job and its first sample: drawn twice, it is the same bytes under the same name (for
one version of pyarrow, which each file names). If it holds fewer samples than it should, or has a
weaker guarantee than the job, its name says so: part-000000000065536.65530-heuristic.parquet. One
listing therefore tells all there is to know about a folder.

| layout  | columns                                                                             |
|---------|-------------------------------------------------------------------------------------|
| packed  | x: ceil(n / 8) bytes; bit v % 8 (the lowest is bit 0) of byte v // 8 is variable v    |
| columns | one Boolean column for each variable                                                |
| rows    | the columns of a space, with their types                                            |

A file carries its own checksum, the `nelson.seal` in its metadata: the CRC-32 of all its bytes,
where the eight digits of the seal are zeros.
"""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from nelson.chains.guarantee import GUARANTEES
from nelson.cluster.store import Store
from nelson.errors import NelsonError
from nelson.io.arrow import load_pyarrow
from nelson.kernels.cpu.rows import to_rows
from nelson.sampling.samples import Samples
from nelson.space.clauses.decode import rows_of_samples
from nelson.space.rows import Rows

JOB = "_nelson.parquet"
FORMAT, VERSION = "nelson samples", 2
LAYOUTS = ("packed", "columns", "rows")

_NAME = re.compile(rf"part-(\d{{15}})(?:\.(\d{{1,15}})-({'|'.join(GUARANTEES)}))?\.parquet")
_SEAL, _DIGITS = b"nelson.seal", b"0" * 8


class Part(NamedTuple):
    """A part, as a listing describes it."""

    name: str
    first: int
    asked: int
    rows: int
    guarantee: str
    bytes: int


def named(first: int, count: int, guarantee: str, job: Mapping[str, Any]) -> str:
    """The name of a part."""
    usual = (count, guarantee) == (_asked(first, job), job["guarantee"])
    return f"part-{first:015d}{'' if usual else f'.{count}-{guarantee}'}.parquet"


def listed(sizes: Mapping[str, int], job: Mapping[str, Any], where: str) -> dict[int, Part]:
    """The parts in a listing, by their first sample, in order. Raises NelsonError for a file that
    is none, and for a part that is there twice: tools that read the folder would read both.
    """
    found: dict[int, Part] = {}
    for name in sorted(sizes):
        if name == JOB or not name.endswith(".parquet"):
            continue
        match = _NAME.fullmatch(name)
        first = int(match[1]) if match else -1
        asked = _asked(first, job)
        count = int(match[2] or asked) if match else 0
        if match is None or asked <= 0 or first % job["part_rows"] or count > asked:
            raise NelsonError(f"{where}: {name} is not a part of the job; remove it")
        if first in found:
            raise NelsonError(
                f"{where}: samples from {first:,} on are there twice, in {found[first].name} and "
                f"{name}; remove one"
            )
        found[first] = Part(name, first, asked, count, match[3] or job["guarantee"], sizes[name])
    return found


def _asked(first: int, job: Mapping[str, Any]) -> int:
    return int(min(job["part_rows"], job["n"] - first))


# ---------------------------------------------------------------------------------------- columns


def schema_of(job: Mapping[str, Any], space: Any = None) -> Any:
    """The schema of all files of the job. space: of a job whose layout is "rows"."""
    pa, _ = load_pyarrow()
    variables, names = job["variables"], job["names"]
    if job["layout"] == "rows":
        return Rows.empty(space.fields).to_arrow().schema
    if job["layout"] == "packed":
        kind = pa.binary(max(1, -(-len(variables) // 8)))
        return pa.schema([pa.field("x", kind, nullable=False)])
    return pa.schema(
        [pa.field(name, pa.bool_(), False) for name in names or [f"x{v}" for v in variables]]
    )


def table_of(samples: Samples, schema: Any, layout: str, space: Any = None) -> Any:
    """Samples as an Arrow table of that schema."""
    pa, _ = load_pyarrow()
    count = len(samples)
    if layout == "rows":
        return rows_of_samples(space, samples, {}).to_arrow()
    if layout == "packed":
        octets = to_rows(samples.packed, count)[None]
    else:  # Arrow packs Booleans as we do: the bits of a column side by side, the lowest first
        octets = np.ascontiguousarray(samples.packed.T)
    columns = [
        pa.Array.from_buffers(kind, count, [None, pa.py_buffer(bits)])
        for kind, bits in zip(schema.types, octets, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


# ------------------------------------------------------------------------------------------ bytes


def job_file(job: Mapping[str, Any], space: Any = None) -> bytes:
    """A file of no row, whose metadata hold the job."""
    return bytes(encoded(schema_of(job, space), (), lambda: {"job": json.dumps(job)}, packed=True))


def encoded(
    schema: Any, tables: Iterable[Any], metadata: Callable[[], Mapping[str, Any]], packed: bool
) -> memoryview:
    """A Parquet file in memory, sealed. metadata() is called after the last table."""
    _, pq = load_pyarrow()
    out = io.BytesIO()
    # Packed bits are as good as random: there is nothing to compress.
    how: Any = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    writer = pq.ParquetWriter(out, schema, **(how if packed else {"compression": "zstd"}))
    for table in tables:
        writer.write_table(table, row_group_size=max(1, len(table)))
    told = {
        f"nelson.{key}": value if isinstance(value, str) else json.dumps(value)
        for key, value in metadata().items()
    }
    writer.add_key_value_metadata(told | {_SEAL.decode(): _DIGITS.decode()})
    writer.close()
    data = out.getbuffer()
    seal(data)
    return data


def seal(data: Any) -> None:
    """Set the seal of bytes that can be changed."""
    if (at := _seal_at(data)) >= 0:
        data[at : at + len(_DIGITS)] = _DIGITS
        data[at : at + len(_DIGITS)] = b"%08x" % zlib.crc32(data)


def intact(data: bytes) -> bool:
    """Are these the bytes that `encoded` made? Any changed byte is seen."""
    at = _seal_at(data)
    if at < 0:
        return False
    view, end = memoryview(data), at + len(_DIGITS)
    found = zlib.crc32(view[end:], zlib.crc32(_DIGITS, zlib.crc32(view[:at])))
    return bytes(view[at:end]) == b"%08x" % found


def _seal_at(data: Any) -> int:
    """Where the digits of the seal begin, or -1. The footer is at the end, its length before the
    last four bytes; after a key of the metadata come two bytes: type and length of the value.
    """
    view = memoryview(data)
    footer = 8 + int.from_bytes(view[-8:-4], "little")
    if len(view) < 12 or footer > len(view):
        return -1
    found = bytes(view[-footer:]).rfind(_SEAL)
    at = len(view) - footer + found + len(_SEAL) + 2
    return at if found >= 0 and at + len(_DIGITS) <= len(view) else -1


def fault(data: bytes, part: Part, job: Mapping[str, Any]) -> str | None:
    """What is wrong with the bytes of a part, or None."""
    if not intact(data):
        return "is damaged: its checksum does not match"
    try:
        told = metadata_of(data)
    except ValueError as error:
        return f"is damaged: {error}"
    expected = {"first": part.first, "count": part.rows, "guarantee": part.guarantee}
    for key, value in (expected | {key: job[key] for key in ("formula", "law", "seed")}).items():
        if told.get(key) != str(value):
            return f"is no part of this job: its {key} is {told.get(key)}, not {value}"
    return None


def metadata_of(data: bytes) -> dict[str, str]:
    """The entries `nelson.*` of a Parquet file. Raises ValueError if its footer cannot be read.

    Matching checksums do not exclude that: whoever changes a file can compute them, too.
    """
    _, pq = load_pyarrow()
    try:
        found = pq.read_metadata(io.BytesIO(data)).metadata or {}
        return {
            key.decode()[len("nelson.") :]: value.decode()
            for key, value in found.items()
            if key.startswith(b"nelson.")
        }
    except Exception as error:  # pyarrow raises several kinds
        raise ValueError(f"its footer cannot be read ({error})") from None


def read_job(store: Store) -> dict[str, Any] | None:
    """The job of a folder; None: there is none. Raises NelsonError if it is damaged."""
    if (data := store.read(JOB, first=True)) is None:
        return None
    try:
        job = json.loads(metadata_of(data)["job"]) if intact(data) else None
    except Exception as error:  # pyarrow raises several kinds
        raise NelsonError(f"{store}/{JOB} is damaged ({error})") from None
    if not isinstance(job, dict):
        raise NelsonError(f"{store}/{JOB} is damaged: its checksum does not match")
    return job
