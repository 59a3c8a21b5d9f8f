"""log Z: are the intervals honest, and how long does one take. Random 5-SAT, L = n, theta ~ N(0,1).

Exact values come from ganak, so the first table row takes a few minutes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.common import Row, ksat
from nelson.log_z import log_partition

FORMULAS = 100


def coverage(formulas: int = FORMULAS) -> Iterator[Row]:
    """Of 100 intervals at 95%, 90 to 99 should hold the exact value: a right method has 98%."""
    off, half, spent = [], [], 0.0
    for k in range(formulas):
        formula, theta = ksat(50, seed=1000 + k)
        truth = log_partition(formula, theta, method="count", seconds=120)
        found = log_partition(formula, theta, method="telescope", seed=k, threads=1)
        off.append(found.value - truth.value)
        half.append(found.half_width)
        spent += found.seconds
    covered = 100 * float((np.abs(off) <= half).mean())
    note = (
        f"{covered:.0f}% of {formulas} covered, half width {np.mean(half):.3f}, "
        f"mean error {np.mean(off):+.4f}, {spent / formulas:.3f} s each"
    )
    name = "log Z, n=50: |coverage - 94.5%|, 90 to 99 asked"
    yield Row(name, abs(covered - 94.5), 4.5, 2.5, "%", at_most=True, note=note)


def speed() -> Iterator[Row]:
    formula, theta = ksat(1000)
    log_partition(*ksat(100), method="telescope", seed=1, threads=1)  # compiles
    runs = []
    for seed in range(3):
        started = time.perf_counter()
        found = log_partition(formula, theta, method="telescope", seed=seed, threads=1)
        runs.append(time.perf_counter() - started)
        if not found.info["reached"]:
            runs[-1] = float("inf")
    samples, stages = found.info["samples"], len(found.info["stages"])
    note = f"{found.value:.3f} +- {found.half_width:.3f}; {samples:,} samples, {stages} ratios"
    name = "log Z, n=L=1000, half width 0.05, one core"
    yield Row(name, float(np.median(runs)), 60, 15, "s", at_most=True, note=note)


def rows() -> Iterator[Row]:
    yield from speed()
    yield from coverage()
