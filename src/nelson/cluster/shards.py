"""What a worker does: draws one shard and writes its part. Nothing here knows of Ray."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nelson._version import __version__
from nelson.cluster.part_files import Store
from nelson.cluster.parts import Manifest, write_part
from nelson.errors import NelsonError
from nelson.sampling import shards

#: Bits of a block of samples, and samples at most: what a worker holds at once, whatever n is.
_BITS, _SAMPLES = 1 << 28, 1 << 16


@dataclass(frozen=True)
class Work:
    """The whole job, as workers need it."""

    store: Store
    job: Mapping[str, Any]
    settled: shards.Settled

    def pickled(self) -> bytes:
        """As bytes: Ray would hand out arrays in shared memory as read-only, which are another
        type for Numba, and every kernel would be compiled again.
        """
        return pickle.dumps((__version__, self), protocol=5)


#: The job this process works on; laid out once, not for every shard.
_current: tuple[bytes, Work] | None = None


def _loaded(blob: bytes) -> Work:
    global _current
    key = hashlib.sha256(blob).digest()
    if _current is None or _current[0] != key:
        version, work = pickle.loads(blob)
        if version != __version__:
            raise NelsonError(f"a worker has nelson {__version__}, the job is of nelson {version}")
        _current = key, work
    return _current[1]


def block_for(variables: int) -> int:
    """Samples a block: a multiple of 64."""
    return 64 * max(1, min(_SAMPLES, _BITS // max(1, variables)) // 64)


def draw_shard(blob: bytes, shard: tuple[int, int]) -> tuple[Manifest, dict[str, float]]:
    """Draw samples first .. first + count - 1 into their part; -> its manifest, what it took."""
    started = time.monotonic()
    work, (first, count) = _loaded(blob), shard
    blocks = shards.blocks(work.settled, first, count, block_for(work.settled.plan.formula.n_total))
    manifest = write_part(work.store, work.job, first, count, blocks)
    return manifest, {"seconds": time.monotonic() - started, "peak_mb": peak_mb()}


def peak_mb() -> float:
    """Most memory that this process ever held; 0 where the system does not say."""
    try:
        with open("/proc/self/status") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    except (OSError, StopIteration, ValueError):
        return 0.0
