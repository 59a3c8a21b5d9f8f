"""Sampling on Ray: how it scales on one machine, and how fast samples get to the disk.

`python -m benchmarks cluster` takes minutes and 13 GB of disk for a while (in the folder that
TMPDIR says); `python -m benchmarks cluster --quick` has a hundredth of the samples. Either leaves
its figures in `cluster-figures.json`, from which `python -m benchmarks.cluster_plan` plans larger
jobs. One embedded cluster serves all rows, so that no start-up is in any figure; the formula is the
1000-variable one that ships with the package.
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
from typing import Any

import numpy as np

import nelson
from benchmarks.common import Row, ksat
from nelson import Formula, cluster
from nelson.cluster import ray_cluster
from nelson.kernels.core.threads import usable_cores
from nelson.sampling.options import Options
from nelson.sampling.plan import make_plan

FIGURES = Path("cluster-figures.json")
#: Samples: of one run of the scaling row, of the large job, of a small one before it.
SIZES = {False: (4_000_000, 100_000_000, 2_000_000), True: (500_000, 1_000_000, 250_000)}
#: Samples a shard: enough shards for two workers to end together (33 MB; quick: 4 MB).
SHARD = {False: 262_144, True: 32_768}
REPETITIONS = 5
#: Bytes written to measure the disk.
DISK = {False: 4 << 30, True: 256 << 20}
PLAIN: dict[str, Any] = {"method": "lovasz", "sweeps": 0}


def formula() -> Formula:
    return Formula.from_dimacs(str(resources.files("nelson.tasks") / "data" / "ksat-1000.cnf"))


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
    """One job into a fresh folder, which is gone afterwards; -> what it says of itself."""
    out = folder / "job"
    shard = SHARD["--quick" in sys.argv]
    found = cluster.sample(f, None, n, out, seed=1, workers=workers, shard=shard, **options)
    assert len(found) == n and found.complete
    shutil.rmtree(out)
    return found


def workers_against_one(f: Formula, n: int, repetitions: int) -> tuple[float, float, float]:
    """(ratio, seconds of one worker, of two), in turns; medians. Files go to memory where there is
    such a folder: what is to be doubled is cores, and there is one disk.
    """
    memory = Path("/dev/shm")
    there = memory.is_dir() and shutil.disk_usage(memory).free > 2 * 126 * n
    with tempfile.TemporaryDirectory(dir=memory if there else None) as name:
        pairs = []
        for _ in range(repetitions):
            one = job(f, n, Path(name), 1).info["seconds"]
            two = job(f, n, Path(name), 2).info["seconds"]
            pairs.append((one / two, one, two))
    ratio, one, two = (statistics.median(pair[k] for pair in pairs) for k in range(3))
    return ratio, one, two


def decide_seconds() -> float:
    """What `auto` takes for a formula that it has not seen: the median of five."""

    def once(seed: int) -> float:
        fresh, theta = ksat(1000, seed=seed)
        started = time.perf_counter()
        make_plan(fresh, theta, 1 << 20, Options(seed=0, threads=1))
        return time.perf_counter() - started

    once(99)
    return statistics.median(once(seed) for seed in range(100, 105))


def rows() -> Iterator[Row]:
    quick = "--quick" in sys.argv
    some, many, few = SIZES[quick]
    f, cores = formula(), usable_cores()
    figures: dict[str, Any] = {"quick": quick, "cores": cores, "nelson": nelson.__version__}
    with (
        tempfile.TemporaryDirectory() as name,
        ray_cluster.connected(None, workers=max(2, cores)),
    ):
        folder = Path(name)
        if shutil.disk_usage(folder).free < 1.3 * many * 126:
            raise SystemExit(f"{folder} has no room for {many * 126 / 1e9:.0f} GB: set TMPDIR")
        job(f, few, folder, max(2, cores))  # every worker has its kernels, `auto` has decided

        scaling, one, two = workers_against_one(f, some, 2 if quick else REPETITIONS)
        note = f"{some:,} samples to memory, auto: {one:.1f} s and {two:.1f} s; {cores} cores"
        yield Row("cluster: 2 workers against 1", scaling, 1.7, 1.9, note=note)

        disk = [disk_speed(folder, DISK[quick])]
        for label, options, key in (("auto", {}, "rate"), ("lovasz, no sweeps", PLAIN, "plain")):
            small = job(f, few, folder, cores, **options)
            large = job(f, many, folder, cores, **options)
            disk.append(disk_speed(folder, DISK[quick]))
            size, took = large.info["bytes"], large.info["seconds"]
            figures[key] = many / took / cores
            figures["bytes"] = size / many
            figures["guarantee" if key == "rate" else "plain_guarantee"] = large.guarantee
            speed, own = size / took / 1e6, statistics.median(disk[-2:])
            told = f"{speed:.0f} MB/s, the disk {own:.0f}; {many / took:,.0f} samples/s"
            note = f"{told}, {took:.0f} s, {size / 1e9:.1f} GB, {large.guarantee}; not asked for"
            yield Row(
                f"  {many:,} samples to Parquet ({label})", speed / own, None, None, note=note
            )
            growth = large.info["peak_mb"] / small.info["peak_mb"]
            note = f"{small.info['peak_mb']:.0f} MB for {few:,}, {large.info['peak_mb']:.0f} MB"
            yield Row(
                "    memory of a worker against a small job", growth, 1.1, 1.02, "x", True, note
            )
        overhead = statistics.median(job(f, 64, folder, cores).info["seconds"] for _ in range(3))
        figures |= {
            "disk_mb_s": statistics.median(disk),
            "scaling": scaling,
            "decide": decide_seconds(),
            "job": overhead,
        }
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    note = f"a job of 64 samples {figures['job']:.2f} s; figures in {FIGURES}"
    yield Row("  auto on a formula not seen before", figures["decide"], 10, 10, "s", True, note)
