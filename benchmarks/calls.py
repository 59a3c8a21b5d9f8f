"""What one call costs on a tiny formula, and what many calls leave behind.

Times are medians of single calls, in microseconds: drawing takes less than one of them, so that
this is the cost of the way to the kernel and back. Growth is measured over 20,000 calls after a
warm-up, as resident bytes per call and as open file descriptors: a leak shows as a number that does
not shrink when the calls are doubled.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numpy as np
import psutil

import nelson
from benchmarks.common import Row
from nelson import Formula

CLAUSES = [[1, 3], [-1, 2, 4], [-2, 5], [-3, 6], [-4, -6, 7], [-5, -7]]
TIMED, WARM_UP, MANY = 400, 1000, 20_000
#: Resident bytes per call that count as noise: 20,000 calls may grow the heap by a megabyte or two.
NOISE_BYTES = 128.0


def rows() -> Iterator[Row]:
    for name, call in calls().items():
        middle, worst = microseconds(call)
        note = f"95% of {TIMED} calls took at most {worst:,.0f} us"
        yield Row(f"one call: {name}", middle, None, None, "us", at_most=True, note=note)
    for name, call in calls().items():
        held, files = growth(call)
        note = f"{held / 1e6:.1f} MB over {MANY:,} calls after {WARM_UP:,}"
        yield Row(
            f"memory per call: {name}", held / MANY, NOISE_BYTES, NOISE_BYTES, "bytes", True, note
        )
        yield Row(f"open files: {name}", files, 0, 0, "more", True, f"over {MANY:,} calls")


def calls() -> dict[str, Callable[[], object]]:
    formula, theta = Formula(CLAUSES), np.linspace(-1, 1, 7)
    samples = nelson.sample(formula, theta, 64, seed=1).to_numpy()
    seeds = iter(range(10**9))
    every: dict[str, Callable[[], object]] = {
        "sample, n = 1": lambda: nelson.sample(formula, theta, 1, seed=next(seeds)),
        "sample, n = 64": lambda: nelson.sample(formula, theta, 64, seed=next(seeds)),
        "sample, a new formula": lambda: nelson.sample(
            Formula(CLAUSES), theta, 64, seed=next(seeds)
        ),
        "satisfied, 64 rows": lambda: formula.satisfied(samples),
    }
    if find_spec("torch") is not None:
        import torch

        from nelson.distribution.mrf import ConstrainedMRF

        model = ConstrainedMRF(formula, torch.as_tensor(theta))
        every["ConstrainedMRF.sample, 64"] = lambda: model.sample((64,))
    return every


def microseconds(call: Callable[[], object]) -> tuple[float, float]:
    """Median and 95% quantile of the time of one call."""
    for _ in range(TIMED // 4):
        call()
    times = []
    for _ in range(TIMED):
        started = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - started))
    return statistics.median(times), statistics.quantiles(times, n=20)[-1]


def growth(call: Callable[[], object]) -> tuple[int, int]:
    """Resident bytes and open files that `MANY` calls add."""
    process = psutil.Process()
    for _ in range(WARM_UP):
        call()
    gc.collect()
    held, files = process.memory_info().rss, process.num_fds()
    for _ in range(MANY):
        call()
    gc.collect()
    return process.memory_info().rss - held, process.num_fds() - files
