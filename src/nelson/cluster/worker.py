"""In a worker: draw one shard and write its part. This module does not use Ray."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nelson._version import __version__
from nelson.cluster.job_files import JobFiles
from nelson.cluster.parts import Manifest, write_part
from nelson.errors import NelsonError
from nelson.sampling import shards


@dataclass(frozen=True)
class WorkerJob:
    """All that workers need to draw any shard of a job."""

    files: JobFiles
    job: Mapping[str, Any]
    settled: shards.Settled

    def pickled(self) -> bytes:
        """As bytes. Ray would hand out the arrays read-only, in shared memory. For Numba a
        read-only array is another type, and it would compile every kernel again.
        """
        return pickle.dumps((__version__, self), protocol=5)


#: The digest and the content of the last work: unpickled once for all shards of a job.
_last: tuple[bytes, WorkerJob] | None = None


def _unpickled(blob: bytes) -> WorkerJob:
    global _last
    digest = hashlib.sha256(blob).digest()
    if _last is None or _last[0] != digest:
        version, work = pickle.loads(blob)
        if version != __version__:
            raise NelsonError(
                f"a worker has nelson {__version__}, the job was started by nelson {version}; "
                "install the same version on all machines"
            )
        _last = digest, work
    return _last[1]


def block_for(variables: int, most: int = 1 << 16, most_bits: int = 1 << 28) -> int:
    """Samples in the block that a worker holds: a multiple of 64, at most 32 MB."""
    return 64 * max(1, min(most, most_bits // max(1, variables)) // 64)


def draw_shard(blob: bytes, shard: tuple[int, int]) -> tuple[Manifest, dict[str, float]]:
    """Draw samples first .. first + count - 1 and write their part.

    Returns the part's manifest, and the seconds and the peak memory (MB) that it took.
    """
    started = time.monotonic()
    work, (first, count) = _unpickled(blob), shard
    blocks = shards.blocks(
        work.settled, first, count, block_for(work.settled.drawing.formula.n_total)
    )
    manifest = write_part(work.files, work.job, first, count, blocks)
    return manifest, {"seconds": time.monotonic() - started, "peak_mb": peak_mb()}


def peak_mb() -> float:
    """The most memory that this process ever held; 0 where the system does not tell."""
    try:
        with open("/proc/self/status") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    except (OSError, StopIteration, ValueError):
        return 0.0
