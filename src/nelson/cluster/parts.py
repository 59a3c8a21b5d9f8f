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
| rows    | the columns of a space or a table, with their types                                 |

A file carries its own checksum, the `nelson.seal` in its metadata: the CRC-32 of all its bytes,
where the eight digits of the seal are zeros.
"""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from nelson.chains.guarantee import GUARANTEES, weakest
from nelson.cluster.store import Store
from nelson.errors import NelsonError
from nelson.io.arrow import load_pyarrow
from nelson.io.boolean_table import checked_variables

JOB = "_nelson.parquet"
FORMAT, VERSION = "nelson samples", 2

_NAME = re.compile(rf"part-(\d{{15}})(?:\.(\d{{1,15}})-({'|'.join(GUARANTEES)}))?\.parquet")
_SEAL, _ZEROS = b"nelson.seal", b"0" * 8
#: What a part says of its job, and that which is compared when it is read.
_TOLD, _COMPARED = ("method", "why", "names"), ("formula", "law", "seed")
#: Entries of a job that are read back, and their types: anybody may have changed a file.
_TYPES: dict[str, type] = dict.fromkeys(("n", "max_rounds", "part_rows"), int)
_TYPES |= dict.fromkeys(("method", "why", "law", "formula", "begun", "layout", "guarantee"), str)
_TYPES["variables"] = list


class Part(NamedTuple):
    """A part, as a listing describes it."""

    name: str
    first: int
    rows: int
    guarantee: str
    bytes: int


def size_at(first: int, job: Mapping[str, Any]) -> int:
    """Samples that the part from `first` on should have."""
    return int(min(job["part_rows"], job["n"] - first))


def named(first: int, count: int, guarantee: str, job: Mapping[str, Any]) -> str:
    """The name of a part."""
    usual = (count, guarantee) == (size_at(first, job), job["guarantee"])
    return f"part-{first:015d}{'' if usual else f'.{count}-{guarantee}'}.parquet"


def listed(sizes: Mapping[str, int], job: Mapping[str, Any], where: str) -> dict[int, Part]:
    """The parts in a listing, by their first sample, in order. Raises NelsonError for a file that
    is none, and for a part that is there twice: tools that read the folder would read both.
    """
    by_first: dict[int, Part] = {}
    for name in sorted(sizes):
        if name == JOB or not name.endswith(".parquet"):
            continue
        match = _NAME.fullmatch(name)
        first = int(match[1]) if match else -1
        most = size_at(first, job)
        count = int(match[2] or most) if match else 0
        if match is None or most <= 0 or first % job["part_rows"] or count > most:
            raise NelsonError(f"{where}: {name} is not a part of the job; remove it")
        if first in by_first:
            twice = f"{by_first[first].name} and {name}"
            raise NelsonError(f"{where}: samples from {first:,} on are there twice, in {twice}")
        by_first[first] = Part(name, first, count, match[3] or job["guarantee"], sizes[name])
    return by_first


def job_file(job: Mapping[str, Any], schema: Any) -> bytes:
    """A file of no row, whose metadata hold the job."""
    return _encoded(schema, (), {"job": json.dumps(job), "guarantee": job["guarantee"]}, True)[0]


def part_file(
    job: Mapping[str, Any], schema: Any, tables: Iterable[tuple[Any, str]], first: int
) -> tuple[Part, bytes]:
    """A part and its bytes, from Arrow tables and their guarantees."""
    entries = {key: job[key] for key in _TOLD + _COMPARED} | {"first": first}
    entries["info"] = {key: job[key] for key in ("method", "why", "seed", "sweeps")}
    if packed := job["layout"] == "packed":
        entries["variables"] = job["variables"]
    entries["guarantee"] = job["guarantee"]
    data, count, guarantee = _encoded(schema, tables, entries, packed)
    name = named(first, count, guarantee, job)
    return Part(name, first, count, guarantee, len(data)), data


def _encoded(
    schema: Any, tables: Iterable[tuple[Any, str]], entries: dict[str, Any], packed: bool
) -> tuple[bytes, int, str]:
    """The bytes of a sealed Parquet file, the number of its rows, and their guarantee."""
    _, pq = load_pyarrow()
    out, count, guarantee = io.BytesIO(), 0, entries["guarantee"]
    # Packed bits are as good as random: there is nothing to compress.
    how: Any = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    with pq.ParquetWriter(out, schema, **(how if packed else {"compression": "zstd"})) as writer:
        for table, of_table in tables:
            writer.write_table(table, row_group_size=max(1, len(table)))
            count, guarantee = count + len(table), weakest([guarantee, of_table])
        entries |= {"count": count, "guarantee": guarantee}
        entries["info"] = entries.get("info", {}) | {"guarantee": guarantee}
        texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in entries.items()}
        metadata = {f"nelson.{key}": text for key, text in texts.items()}
        writer.add_key_value_metadata(metadata | {_SEAL.decode(): _ZEROS.decode()})
    return sealed(out.getvalue()), count, guarantee


# ------------------------------------------------------------------------------------------ checks


def sealed(data: bytes) -> bytes:
    """A file with the right seal."""
    at, seal = _seal(data)
    return b"".join((data[: at.start], seal, data[at.stop :]))


def intact(data: bytes) -> bool:
    """Are these the bytes that `sealed` made? Any changed byte is seen."""
    at, seal = _seal(data)
    return data[at] == seal


def _seal(data: bytes) -> tuple[slice, bytes]:
    """Where the digits are, and what they should be. Between them and their key are two bytes: the
    type and the length of a value.
    """
    start = data.rfind(_SEAL) + len(_SEAL) + 2
    end, view = start + len(_ZEROS), memoryview(data)
    checksum = zlib.crc32(view[end:], zlib.crc32(_ZEROS, zlib.crc32(view[:start])))
    return slice(start, end), b"%08x" % checksum


def fault(data: bytes, part: Part, job: Mapping[str, Any]) -> str | None:
    """What is wrong with the bytes of a part, or None."""
    try:
        entries = metadata_of(data)
    except ValueError as error:
        return f"is damaged: {error}"
    expected = {"first": part.first, "count": part.rows, "guarantee": part.guarantee}
    for key, value in (expected | {key: job[key] for key in _COMPARED}).items():
        if entries.get(key) != str(value):
            return f"is no part of this job: its {key} is {entries.get(key)}, not {value}"
    return None


def metadata_of(data: bytes) -> dict[str, str]:
    """The entries `nelson.*` of a Parquet file. Raises ValueError if the file is damaged.

    A checksum that matches excludes no damage: whoever changes a file can compute it, too.
    """
    if not intact(data):
        raise ValueError("its checksum does not match")
    _, pq = load_pyarrow()
    try:
        footer = pq.read_metadata(io.BytesIO(data)).metadata or {}
        entries = {key.decode(errors="replace"): value for key, value in footer.items()}
        return {k[7:]: v.decode() for k, v in entries.items() if k.startswith("nelson.")}
    except Exception as error:  # pyarrow raises several kinds
        raise ValueError(f"its footer cannot be read ({error})") from None


def read_job(store: Store) -> dict[str, Any] | None:
    """The job of a folder; None: there is none. Raises NelsonError if it is damaged."""
    if (data := store.read(JOB)) is None:
        return None
    try:
        job = json.loads(metadata_of(data)["job"])
        if (job["format"], job["version"]) != (FORMAT, VERSION):
            raise ValueError("another format or version")
        names, counts = job["names"], [job[key] for key, kind in _TYPES.items() if kind is int]
        good = all(type(job[key]) is kind for key, kind in _TYPES.items())
        good &= all(0 <= count < 2**62 for count in counts) and job["part_rows"] > 0
        good &= job["guarantee"] in GUARANTEES and {"seed", "sweeps", "keyed"} <= job.keys()
        good &= all(isinstance(name, str) for name in names or ())
        if not good:
            raise ValueError("an entry of another type or value")
        bits = job["variables"] if job["layout"] == "rows" or names is None else names
        checked_variables(job["variables"], len(bits), None)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise NelsonError(f"{store}/{JOB} is damaged ({error})") from None
    return dict(job)
