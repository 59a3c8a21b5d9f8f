"""Draw one part and write it, in any process that has the job; Ray is not used here."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from nelson._version import __version__
from nelson.chains.guarantee import weakest
from nelson.cluster import parts
from nelson.cluster.store import Store
from nelson.errors import NelsonError
from nelson.sampling import shards


@dataclass(frozen=True)
class Work:
    """All that is needed to draw any part of a job. space: of a job whose layout is "rows"."""

    store: Store
    job: Mapping[str, Any]
    settled: shards.Settled
    space: Any = None

    def pickled(self) -> bytes:
        """As bytes. Ray would hand out the arrays read-only, in shared memory. For Numba a
        read-only array is another type, and it would compile every kernel again.
        """
        return pickle.dumps((__version__, self), protocol=5)


@dataclass(frozen=True)
class Drawn:
    """What became of a part."""

    part: parts.Part
    kept: bool  # it was there already, and whole
    seconds: float  # of the processor
    peak_mb: float  # the most memory that the process ever held


def draw_part(work: Work, task: tuple[int, parts.Part | None]) -> Drawn:
    """task: the first sample, and the part that is there already. A part that is not what it should
    be is drawn again.
    """
    started, (first, held), job = time.process_time(), task, work.job
    if held is not None:
        data = work.store.read(held.name)
        if data is not None and parts.fault(data, held, job) is None:
            return Drawn(held, True, time.process_time() - started, peak_mb())
    asked = min(job["part_rows"], job["n"] - first)
    counts: list[int] = []
    guarantees = [job["guarantee"]]

    def tables() -> Iterator[Any]:
        block = _block(work.settled.drawing.formula.n_total)
        for samples in shards.blocks(work.settled, first, asked, block):
            counts.append(len(samples))
            guarantees.append(samples.guarantee)
            yield parts.table_of(samples, schema, job["layout"], work.space)

    def metadata() -> dict[str, Any]:
        told = {key: job[key] for key in ("formula", "law", "seed", "method", "why")}
        told |= {"first": first, "count": sum(counts), "guarantee": weakest(guarantees)}
        info = {"samples": sum(counts), "sweeps": job["sweeps"]}
        info |= {key: told[key] for key in ("method", "seed", "why", "guarantee")}
        if job["layout"] == "packed":
            told["variables"] = job["variables"]
        return told | {"info": info, "names": job["names"]}

    schema = parts.schema_of(job, work.space)
    new = parts.encoded(schema, tables(), metadata, packed=job["layout"] == "packed")
    count, guarantee = sum(counts), weakest(guarantees)
    name = parts.named(first, count, guarantee, job)
    part = parts.Part(name, first, asked, count, guarantee, len(new))
    if held is not None and held.name != part.name:
        work.store.remove(held.name)
    work.store.write(part.name, new)
    return Drawn(part, False, time.process_time() - started, peak_mb())


@lru_cache(maxsize=1)
def unpickled(blob: bytes) -> Work:
    """The work of `Work.pickled`: unpickled once for all parts that a process draws."""
    version, work = pickle.loads(blob)
    if version != __version__:
        raise NelsonError(
            f"a worker has nelson {__version__}, the job was started by nelson {version}; "
            "install the same version on all machines"
        )
    return work


def draw_pickled(blob: bytes, task: tuple[int, parts.Part | None]) -> Drawn:
    return draw_part(unpickled(blob), task)


def _block(variables: int, most: int = 1 << 16, most_bits: int = 1 << 28) -> int:
    """Samples drawn at a time: a multiple of 64, at most 32 MB."""
    return 64 * max(1, min(most, most_bits // max(1, variables)) // 64)


def peak_mb() -> float:
    """The most memory that this process ever held; 0 where the system does not tell."""
    try:
        with open("/proc/self/status") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    except (OSError, StopIteration, ValueError):
        return 0.0
