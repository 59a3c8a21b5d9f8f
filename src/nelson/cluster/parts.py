"""The content of a job's files: Parquet parts, one small manifest for each, and one for the whole.

    job.json                        the request and the decisions; written before anything is drawn
    part-000000000000000.parquet    samples from number 0 on, one per row
    part-000000000000000.json       its manifest: written after it, so a part with one is complete
    manifest.json                   all manifests in one file, written after the last part

A row is one fixed-size binary value x of ceil(n / 8) bytes: bit v % 8 of byte v // 8 is column v,
as in every `.parquet` file that nelson writes, so any part can be read alone. The metadata of the
schema holds variables, names, digest of the formula, seed, method, guarantee, first sample and
count. A JSON file carries a CRC-32 of its content, a manifest also the CRC-32 of its part's bytes.

A part is a function of the job and its first sample: written twice, it is the same bytes under the
same name. Writing a part holds one block of rows in memory.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from nelson.chains.guarantee import GUARANTEES, weakest
from nelson.cluster.job_files import JobFiles
from nelson.errors import NelsonError
from nelson.kernels.cpu.rows import to_rows
from nelson.sampling.samples import Samples

FORMAT, VERSION = "nelson samples", 1
JOB, MANIFEST = "job.json", "manifest.json"
#: The numbers in a manifest.
FIELDS = ("first", "asked", "count", "bytes", "crc32")
#: Further numbers in a manifest, which are combined over all parts.
TOTALS = ("rounds", "resampled")

Manifest = dict[str, Any]


def part_name(first: int) -> str:
    return f"part-{first:015d}.parquet"


def manifest_name(first: int) -> str:
    return f"part-{first:015d}.json"


def write_part(
    files: JobFiles, job: Mapping[str, Any], first: int, asked: int, blocks: Iterable[Samples]
) -> Manifest:
    """Write the blocks of one part as they are drawn, then its manifest, which is returned."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.binary(max(1, -(-len(job["variables"]) // 8)))
    schema = pa.schema([pa.field("x", kind, nullable=False)], metadata=_metadata(job, first, asked))
    totals = _Totals()
    with files.writing(part_name(first)) as sink:
        writer = pq.ParquetWriter(
            sink, schema, compression="none", use_dictionary=False, write_statistics=False
        )
        for samples in blocks:
            rows = to_rows(samples.packed, len(samples))
            column = pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(rows)])
            writer.write_batch(pa.record_batch([column], schema=schema), row_group_size=len(rows))
            totals.add(samples)
        writer.add_key_value_metadata(
            {
                "nelson.count": str(totals.count),
                "nelson.guarantee": totals.guarantee,
                "nelson.info": json.dumps(totals.info(job)),
            }
        )
        writer.close()
        size = {"bytes": sink.bytes, "crc32": sink.crc32}
    manifest = {"first": first, "asked": asked, "count": totals.count, **size, **totals.to_dict()}
    write_json(files, manifest_name(first), manifest)
    return manifest


class _Totals:
    """Counts over all blocks of a part."""

    def __init__(self) -> None:
        self.count = self.rounds = self.resampled = 0
        self._guarantees: set[str] = set()

    def add(self, samples: Samples) -> None:
        self.count += len(samples)
        self.rounds = max(self.rounds, int(samples.info.get("rounds") or 0))
        self.resampled += int(samples.info.get("resampled") or 0)
        self._guarantees.add(samples.guarantee)

    @property
    def guarantee(self) -> str:
        return weakest(self._guarantees)

    def to_dict(self) -> dict[str, Any]:
        return {"guarantee": self.guarantee, "rounds": self.rounds, "resampled": self.resampled}

    def info(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """As in other `.parquet` files of nelson."""
        of_job = {key: job[key] for key in ("method", "sweeps", "seed", "why")}
        return {"samples": self.count, **of_job, **self.to_dict()}


def _metadata(job: Mapping[str, Any], first: int, asked: int) -> dict[str, str]:
    metadata = {
        "variables": json.dumps(job["variables"]),
        "formula": job["formula"],
        "seed": str(job["seed"]),
        "method": job["method"],
        "first": str(first),
        "asked": str(asked),
    }
    if job["names"] is not None:
        metadata["names"] = json.dumps(job["names"])
    return {f"nelson.{key}": value for key, value in metadata.items()}


# ------------------------------------------------------------------------------------------- JSON


def write_json(files: JobFiles, name: str, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, separators=(",", ":"))
    with files.writing(name) as sink:
        sink.write(f'{{"crc32":{zlib.crc32(text.encode())},"content":{text}}}\n'.encode())


def read_json(files: JobFiles, name: str) -> dict[str, Any]:
    """Raises NelsonError if the file is not as it was written."""
    with files.open(name) as file:
        data = file.read()
    try:
        whole = json.loads(data)
        text = json.dumps(whole["content"], separators=(",", ":"))
        if zlib.crc32(text.encode()) != whole["crc32"]:
            raise ValueError("its checksum does not match")
        content = whole["content"]
        if not isinstance(content, dict):
            raise ValueError("not a JSON object")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NelsonError(f"{files}/{name} is damaged ({error})") from None
    return content


# -------------------------------------------------------------------------------------- the whole


def combined(job: Mapping[str, Any], manifests: Iterable[Manifest]) -> dict[str, Any]:
    """The manifest of several parts, in the order of their samples."""
    ordered = sorted(manifests, key=lambda part: part["first"])
    return {
        "job": job["digest"],
        "count": sum(part["count"] for part in ordered),
        "guarantee": weakest([job["guarantee"], *(part["guarantee"] for part in ordered)]),
        "rounds": max((part["rounds"] for part in ordered), default=0),
        "resampled": sum(part["resampled"] for part in ordered),
        "parts": {key: [part[key] for part in ordered] for key in FIELDS},
    }


def whole(numbers: Any) -> bool:
    """A list of whole numbers, none of them negative, whose sum fits into 64 bits."""
    good = isinstance(numbers, list) and all(type(k) is int and k >= 0 for k in numbers)
    return good and sum(numbers) < 2**63


def finished_parts(files: JobFiles, sizes: Mapping[str, int]) -> dict[int, Manifest]:
    """Manifests by first sample, of the parts whose file has the size that the manifest states."""
    finished = {}
    for name in sizes:
        if not (name.startswith("part-") and name.endswith(".json")):
            continue
        try:
            part = read_json(files, name)
        except NelsonError:
            continue
        numbers = [part.get(field) for field in (*FIELDS, *TOTALS)]
        if not whole(numbers) or part.get("guarantee") not in GUARANTEES:
            continue
        first = part["first"]
        if manifest_name(first) == name and sizes.get(part_name(first)) == part["bytes"]:
            finished[first] = part
    return finished
