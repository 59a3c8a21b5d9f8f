"""The same samples by one process, by `xargs`, and on Ray: rows, time, memory, bytes.

    python -m lab cluster            2 10^8 samples, five times; 3 GB of disk while it runs
    python -m lab cluster --quick    a tenth of the samples; 1.2 GB

Temporary files are in the folder that the environment variable TMPDIR names. The command writes its
figures to `cluster-figures.json`, from which `python -m lab page cluster` plans larger jobs. The
Ray cluster is started before its rows are measured; their time includes the connection, their CPU
time and memory are those of its workers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import nelson
from lab.common import Row, ksat
from nelson.cluster import parts
from nelson.kernels.core.threads import usable_cores
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from tests.cluster import ray_head

FIGURES = Path("cluster-figures.json")
VARIABLES, SHARES = 64, 8


def disk_speed(folder: Path, size: int = 1 << 30) -> float:
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


def decide_seconds() -> float:
    """Seconds that `auto` needs to choose a method for a new formula: the median of five."""

    def once(seed: int) -> float:
        fresh, theta = ksat(1000, seed=seed)
        started = time.perf_counter()
        Plan(fresh, theta, Options(seed=0, threads=1)).drawing(1 << 20)
        return time.perf_counter() - started

    once(99)
    return statistics.median(once(seed) for seed in range(100, 105))


def digest(folder: Path) -> tuple[str, int]:
    """A digest of all parts, and their bytes."""
    total, size = hashlib.sha256(), 0
    for path in sorted(folder.glob("part-*")):
        data = path.read_bytes()
        total.update(data)
        size += len(data)
    return total.hexdigest(), size


def children() -> tuple[float, float]:
    """(CPU seconds of all child processes that have ended, MB of the largest)."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def wide(folder: Path) -> dict[str, float]:
    """1,000 variables: samples per CPU second of one thread, their bytes; parts of 10^12 samples,
    and CPU seconds for the bookkeeping of a part.
    """
    formula, _ = ksat(1000)
    nelson.sample(formula, n=64, seed=1, threads=1)
    started = time.process_time()
    run = nelson.cluster.sample(formula, None, 1 << 20, folder, seed=1, threads=1)
    rate = len(run) / (time.process_time() - started)
    bytes_each = run.info["bytes"] / len(run)
    run = nelson.cluster.sample(formula, None, 10**12, folder / "plan", seed=1, seconds=0)
    job = run.job
    names = [parts.named(k * job["part_rows"], job["part_rows"], job["guarantee"], job)
             for k in range(200_000)]  # fmt: skip
    started = time.process_time()
    nelson.cluster.Folder(run.store, job, parts.listed(dict.fromkeys(names, 1), job, "").values())
    each = (time.process_time() - started) / len(names)
    rows = job["part_rows"]
    return {"wide_rate": rate, "wide_bytes": bytes_each, "wide_rows": rows, "wide_part": each}


class Workers:
    """CPU seconds and memory of the workers of a Ray cluster, looked at five times a second."""

    def __init__(self, head: ray_head.Head) -> None:
        self._head, self._used, self._first, self.mb = head, {}, {}, 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Workers:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    @property
    def cpu(self) -> float:
        return sum(used - self._first[pid] for pid, used in self._used.items())

    def _watch(self) -> None:
        while not self._end.wait(0.2):
            for process in self._head.workers("ray::"):
                with contextlib.suppress(psutil.Error):
                    times, drawing = process.cpu_times(), process.cmdline()[0] == "ray::draw"
                    self._used[process.pid] = times.user + times.system
                    self._first.setdefault(process.pid, self._used[process.pid])
                    self.mb = max(self.mb, process.memory_info().rss / 2**20 * drawing)


def rows() -> Iterator[Row]:
    quick = "--quick" in sys.argv
    n = 20_000_000 if quick else 200_000_000
    figures: dict[str, Any] = {"quick": quick, "cores": usable_cores(), "n": n}
    figures |= {"nelson": nelson.__version__, "variables": VARIABLES, "engines": []}
    with tempfile.TemporaryDirectory() as name, ray_head.running(usable_cores()) as head:
        home = Path(name)
        os.environ.update(head.environment)  # before Ray is imported
        formula, _ = ksat(VARIABLES)
        formula.to_dimacs(home / "f.cnf")
        nelson.sample(formula, n=1 << 18, seed=1)  # kernels are compiled
        command = [sys.executable, "-m", "nelson.cli", "sample", str(home / "f.cnf"), "-q"]
        command += ["-n", str(n), "--seed", "1", "--part-rows", str(1 << 20), "-o", f"{home}/out/"]
        share = shlex.join([*command, "--threads", "1", "--shard"])
        xargs = f"seq {SHARES} | xargs -P {{}} -I%K% {share} %K%/{SHARES}"
        engines: list[tuple[str, list[str] | int]] = [
            ("one process, one thread", [*command, "--threads", "1"]),
            (f"one process, {usable_cores()} threads", command),
            (f"--shard K/{SHARES}, xargs -P 2", ["sh", "-c", xargs.format(2)]),
            ("Ray, one worker", 1),
            ("Ray, two workers", 2),
        ]
        reference = ""
        for label, words in engines:
            before, started = children()[0], time.perf_counter()
            if isinstance(words, int):
                on_ray: Any = {"address": head.address, "workers": words, "part_rows": 1 << 20}
                with Workers(head) as watched:
                    nelson.cluster.sample(formula, None, n, home / "out", seed=1, **on_ray)
                took, cpu, peak = time.perf_counter() - started, watched.cpu, watched.mb
            else:
                subprocess.run(words, check=True)
                took, (now, peak) = time.perf_counter() - started, children()
                cpu = now - before
            found, size = digest(home / "out")
            reference = reference or found
            assert found == reference, f"{label}: other rows"
            folder = nelson.read(home / "out")
            assert len(folder) == n
            engine: dict[str, Any] = {"engine": label, "seconds": took, "cpu": cpu, "mb": peak}
            figures["engines"].append(engine | {"bytes": size, "parts": folder.info["parts"]})
            figures |= {"method": folder.info["method"], "guarantee": folder.guarantee}
            note = f"{took:.1f} s, {cpu:.0f} CPU s, {peak:.0f} MB, {size / 1e9:.2f} GB, rows equal"
            title = f"cluster: {n:,} samples, {label}"
            yield Row(title, n / took / 1e6, None, None, "M/s", note=note)
            shutil.rmtree(home / "out")
        one = figures["engines"][0]
        figures |= {"rate": n / one["cpu"], "bytes": one["bytes"] / n, "decide": decide_seconds()}
        figures["disk_mb_s"] = statistics.median(disk_speed(home) for _ in range(3))
        started = time.perf_counter()
        for _ in range(3):
            nelson.cluster.sample(formula, None, 64, home / "small", seed=1)
            shutil.rmtree(home / "small")
        figures["job"] = (time.perf_counter() - started) / 3
        nelson.cluster.sample(formula, None, 64, home / "small", seed=1)
        before = children()[0]
        subprocess.run([*command[:5], "-q", "-o", f"{home}/small/", "-n", "64"], check=True)
        figures["start"] = children()[0] - before
        figures |= wide(home / "wide")
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
