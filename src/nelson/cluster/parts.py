"""The files of a job: Parquet parts, one small manifest each, and what the whole is.

    job.json                        what was asked for and decided; written before anything is drawn
    part-000000000000000.parquet    samples from number 0 on, one row a sample
    part-000000000000000.json       its manifest: written after it, so a part with one is complete
    manifest.json                   all manifests in one, written when the last part is there

A row is one fixed-size binary value x of ceil(n / 8) bytes: bit v % 8 of byte v // 8 is column v,
as in every `.parquet` file that nelson writes, so any part can be read alone. The metadata of the
schema holds variables, names, digest of the formula, seed, method, guarantee, first sample and
count. JSON files carry a CRC-32 of the rest of their content, manifests that of the part's bytes.

A part is a function of the job and its first sample: written twice it is the same bytes, under the
same name. Memory: one block of rows.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from nelson.cluster.part_files import Store
from nelson.errors import NelsonError
from nelson.sampling.guarantee import weakest
from nelson.sampling.samples import Samples

FORMAT, VERSION = "nelson samples", 1
JOB, MANIFEST = "job.json", "manifest.json"
#: What a manifest says of a part, in numbers.
FIELDS = ("first", "asked", "count", "bytes", "crc32")

Manifest = dict[str, Any]


def part_name(first: int) -> str:
    return f"part-{first:015d}.parquet"


def manifest_name(first: int) -> str:
    return f"part-{first:015d}.json"


def write_part(
    store: Store, job: Mapping[str, Any], first: int, asked: int, blocks: Iterable[Samples]
) -> Manifest:
    """Draw and write one part, then its manifest; -> the manifest."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from nelson.kernels.cpu.rows import to_rows

    kind = pa.binary(max(1, -(-len(job["variables"]) // 8)))
    schema = pa.schema([pa.field("x", kind, nullable=False)], metadata=_metadata(job, first, asked))
    total = _Total()
    with store.writing(part_name(first)) as sink:
        writer = pq.ParquetWriter(
            sink, schema, compression="none", use_dictionary=False, write_statistics=False
        )
        for samples in blocks:
            rows = to_rows(samples.packed, len(samples))
            column = pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(rows)])
            writer.write_batch(pa.record_batch([column], schema=schema), row_group_size=len(rows))
            total.add(samples)
        writer.add_key_value_metadata(
            {
                "nelson.count": str(total.count),
                "nelson.guarantee": total.guarantee,
                "nelson.info": json.dumps(total.info(job)),
            }
        )
        writer.close()
        size = {"bytes": sink.bytes, "crc32": sink.crc32}
    manifest = {"first": first, "asked": asked, "count": total.count, **size, **total.told()}
    write_json(store, manifest_name(first), manifest)
    return manifest


class _Total:
    """What is known of all blocks of a part."""

    def __init__(self) -> None:
        self.count = self.rounds = self.resampled = 0
        self.seen: list[str] = []

    def add(self, samples: Samples) -> None:
        self.count += len(samples)
        self.rounds = max(self.rounds, int(samples.info.get("rounds") or 0))
        self.resampled += int(samples.info.get("resampled") or 0)
        if samples.guarantee not in self.seen:
            self.seen.append(samples.guarantee)

    @property
    def guarantee(self) -> str:
        return weakest(self.seen)

    def told(self) -> dict[str, Any]:
        return {
            "guarantee": self.guarantee,
            "rounds": self.rounds,
            "resampled": self.resampled,
        }

    def info(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """As other `.parquet` files of nelson have it."""
        known = {key: job[key] for key in ("method", "sweeps", "seed", "why")}
        return {"samples": self.count, **known, **self.told()}


def _metadata(job: Mapping[str, Any], first: int, asked: int) -> dict[str, str]:
    told = {
        "variables": json.dumps(job["variables"]),
        "formula": job["formula"],
        "seed": str(job["seed"]),
        "method": job["method"],
        "first": str(first),
        "asked": str(asked),
    }
    if job["names"] is not None:
        told["names"] = json.dumps(job["names"])
    return {f"nelson.{key}": value for key, value in told.items()}


# ------------------------------------------------------------------------------------------- JSON


def write_json(store: Store, name: str, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, separators=(",", ":"))
    with store.writing(name) as sink:
        sink.write(f'{{"crc32":{zlib.crc32(text.encode())},"content":{text}}}\n'.encode())


def read_json(store: Store, name: str) -> dict[str, Any]:
    """Raises NelsonError if it is not what was written."""
    with store.open(name) as file:
        data = file.read()
    try:
        whole = json.loads(data)
        text = json.dumps(whole["content"], separators=(",", ":"))
        if zlib.crc32(text.encode()) != whole["crc32"]:
            raise ValueError("its checksum does not fit")
        content = whole["content"]
        if not isinstance(content, dict):
            raise ValueError("no object")
    except (ValueError, KeyError, TypeError) as error:
        raise NelsonError(f"{store}/{name} is damaged ({error})") from None
    return content


# -------------------------------------------------------------------------------------- the whole


def write_manifest(store: Store, job: Mapping[str, Any], parts: Iterable[Manifest]) -> None:
    """All parts are there: one file that says so."""
    parts = sorted(parts, key=lambda part: part["first"])
    whole = {
        "job": job["digest"],
        "count": sum(part["count"] for part in parts),
        "guarantee": weakest([job["guarantee"], *(part["guarantee"] for part in parts)]),
        "rounds": max((part["rounds"] for part in parts), default=0),
        "resampled": sum(part["resampled"] for part in parts),
        "parts": {key: [part[key] for part in parts] for key in FIELDS},
    }
    write_json(store, MANIFEST, whole)


def finished_parts(store: Store, sizes: Mapping[str, int]) -> dict[int, Manifest]:
    """By first sample: the parts whose manifest is there and whose file has the size it states."""
    found = {}
    for name in sizes:
        if not (name.startswith("part-") and name.endswith(".json")):
            continue
        try:
            part = read_json(store, name)
        except NelsonError:
            continue
        first = part["first"]
        if manifest_name(first) == name and sizes.get(part_name(first)) == part["bytes"]:
            found[first] = part
    return found
