"""Sampling on Ray: how it scales on one machine, and how fast samples are written to the disk.

    python -m lab cluster            takes minutes, and 13 GB of disk while it runs
    python -m lab cluster --quick    a hundredth of the samples

Temporary files are in the folder that the environment variable TMPDIR names. Either command writes
its figures to `cluster-figures.json`, from which `python -m lab.cluster_plan` plans larger
jobs. All rows use one local Ray cluster, so no figure includes its start. The formula is the one
with 1000 variables that ships with the package.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nelson
from lab.common import Row, ksat
from nelson import Formula, cluster
from nelson.cluster import ray_cluster
from nelson.kernels.core.threads import usable_cores
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan

FIGURES = Path("cluster-figures.json")
#: Bytes of one sample in a Parquet file: 1000 bits, and a little more.
SAMPLE_BYTES = 126
NO_SWEEPS: dict[str, Any] = {"method": "lovasz", "sweeps": 0}


class Sizes(NamedTuple):
    """The sizes of one run of this benchmark."""

    small: int  # samples of a job that shows the memory of a worker at the beginning
    scaling: int  # samples of each job that compares one worker with two
    large: int  # samples of the job that is written to the disk
    shard: int  # samples per shard, small enough for two workers to end at the same time
    disk_bytes: int  # bytes written to measure the disk itself
    repetitions: int  # comparisons of one worker with two


FULL = Sizes(2_000_000, 4_000_000, 100_000_000, 262_144, 4 << 30, 5)
QUICK = Sizes(250_000, 500_000, 1_000_000, 32_768, 256 << 20, 2)


def sizes() -> Sizes:
    return QUICK if "--quick" in sys.argv else FULL


def formula() -> Formula:
    return Formula.from_dimacs(str(resources.files("nelson_paper.tasks") / "data/ksat-1000.cnf"))


def disk_speed(folder: Path, size: int) -> float:
    """MB/s of one sequential write of random bytes, fsync included."""
    block = np.random.default_rng(0).bytes(16 << 20)
    path = folder / "disk"
    started = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(size // len(block)):
            file.write(block)
        os.fsync(file.fileno())
    took = time.perf_counter() - started
    path.unlink()
    return size / took / 1e6


def job(f: Formula, n: int, folder: Path, workers: int, **options: Any) -> Any:
    """Run one job into a new folder, delete the folder, and return the job's report."""
    out = folder / "job"
    shard = sizes().shard
    report = cluster.sample(f, None, n, out, seed=1, workers=workers, shard=shard, **options)
    assert len(report) == n and report.complete
    shutil.rmtree(out)
    return report


def two_workers_against_one(f: Formula, n: int, repetitions: int) -> tuple[float, float, float]:
    """(speed-up, seconds of one worker, seconds of two): medians of runs in turns.

    Files are written to memory if /dev/shm exists: two workers have two cores but only one disk.
    """
    memory = Path("/dev/shm")
    fits = memory.is_dir() and shutil.disk_usage(memory).free > 2 * SAMPLE_BYTES * n
    with tempfile.TemporaryDirectory(dir=memory if fits else None) as name:
        pairs = []
        for _ in range(repetitions):
            one = job(f, n, Path(name), 1).info["seconds"]
            two = job(f, n, Path(name), 2).info["seconds"]
            pairs.append((one / two, one, two))
    ratio, one, two = (statistics.median(pair[k] for pair in pairs) for k in range(3))
    return ratio, one, two


def decide_seconds() -> float:
    """Seconds that `auto` needs to choose a method for a new formula: the median of five."""

    def once(seed: int) -> float:
        fresh, theta = ksat(1000, seed=seed)
        started = time.perf_counter()
        Plan(fresh, theta, Options(seed=0, threads=1)).drawing(1 << 20)
        return time.perf_counter() - started

    once(99)
    return statistics.median(once(seed) for seed in range(100, 105))


def rows() -> Iterator[Row]:
    size = sizes()
    f, cores = formula(), usable_cores()
    figures: dict[str, Any] = {
        "quick": size is QUICK,
        "cores": cores,
        "nelson": nelson.__version__,
    }
    with (
        tempfile.TemporaryDirectory() as name,
        ray_cluster.connected(None, workers=max(2, cores)),
    ):
        folder = Path(name)
        needed = size.large * SAMPLE_BYTES
        if shutil.disk_usage(folder).free < 1.3 * needed:
            raise SystemExit(
                f"{folder} has no room for {needed / 1e9:.0f} GB: set TMPDIR to another folder"
            )
        # After this job every worker has compiled its kernels, and `auto` has chosen a method.
        job(f, size.small, folder, max(2, cores))

        speedup, one, two = two_workers_against_one(f, size.scaling, size.repetitions)
        note = f"{size.scaling:,} samples to memory, auto: {one:.1f} s and {two:.1f} s; "
        note += f"{cores} cores"
        yield Row("cluster: 2 workers against 1", speedup, 1.7, 1.9, note=note)

        disk = [disk_speed(folder, size.disk_bytes)]
        for label, options, key, guarantee in (
            ("auto", {}, "rate", "guarantee"),
            ("lovasz, no sweeps", NO_SWEEPS, "plain", "plain_guarantee"),
        ):
            small = job(f, size.small, folder, cores, **options)
            large = job(f, size.large, folder, cores, **options)
            disk.append(disk_speed(folder, size.disk_bytes))
            written, took = large.info["bytes"], large.info["seconds"]
            figures[key] = size.large / took / cores
            figures["bytes"] = written / size.large
            figures[guarantee] = large.guarantee
            speed, disk_alone = written / took / 1e6, statistics.median(disk[-2:])
            note = f"{speed:.0f} MB/s, the disk alone {disk_alone:.0f} MB/s; "
            note += f"{size.large / took:,.0f} samples/s, {took:.0f} s, {written / 1e9:.1f} GB, "
            note += f"{large.guarantee}; no goal"
            title = f"  {size.large:,} samples to Parquet ({label}): speed against the disk"
            yield Row(title, speed / disk_alone, None, None, note=note)
            before, after = small.info["peak_mb"], large.info["peak_mb"]
            note = f"{after:.0f} MB, and {before:.0f} MB for {size.small:,} samples"
            title = "    memory of a worker against a small job"
            yield Row(title, after / before, 1.1, 1.02, "x", True, note)
        overhead = statistics.median(job(f, 64, folder, cores).info["seconds"] for _ in range(3))
        figures |= {
            "disk_mb_s": statistics.median(disk),
            "scaling": speedup,
            "decide": decide_seconds(),
            "job": overhead,
        }
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    note = f"a job of 64 samples takes {figures['job']:.2f} s; figures written to {FIGURES}"
    name = "  time in which auto chooses a method for a new formula"
    yield Row(name, figures["decide"], 10, 10, "s", True, note)
