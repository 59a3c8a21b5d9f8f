"""Shared by the benchmarks: formulas, interleaved timing, and the table with goals beside figures.

Machines are noisy, so nothing is reported as bare seconds: two things are timed in turns in one
process, each repetition gives one ratio, and the median of those is the figure.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nelson import Formula

REPETITIONS = 7
#: Code for a child process: its peak resident memory, in MB, to `peak`. From the address space's
#: own mark, since getrusage gives a child the peak of the parent it was forked from.
PEAK_MB = """
peak = next(int(l.split()[1]) / 1024 for l in open("/proc/self/status") if l.startswith("VmHWM"))
"""


@dataclass
class Row:
    """One line of the table: `measured` must be at least (or at most) `must`, if that is given."""

    name: str
    measured: float
    must: float | None
    aim: float | None
    unit: str = "x"
    at_most: bool = False
    note: str = ""

    def __str__(self) -> str:
        digits = ",.0f" if abs(self.measured) >= 1000 else ".3g"
        return f"{self.measured:{digits}} {self.unit}"

    @property
    def verdict(self) -> str:
        if self.must is None or self.aim is None:
            return ""

        def reached(bar: float) -> bool:
            return self.measured <= bar if self.at_most else self.measured >= bar

        return "aim" if reached(self.aim) else "ok" if reached(self.must) else "MISSED"


def ksat(n: int, seed: int = 1, k: int = 5) -> tuple[Formula, np.ndarray]:
    """Random k-SAT with as many clauses as variables, and theta ~ N(0, 1)."""
    random = np.random.default_rng(seed)
    variables = random.integers(1, n + 1, size=(n, k))
    while len(bad := np.flatnonzero((np.diff(np.sort(variables, 1), axis=1) == 0).any(1))):
        variables[bad] = random.integers(1, n + 1, size=(len(bad), k))
    signs = 2 * random.integers(0, 2, size=(n, k)) - 1
    return Formula((variables * signs).astype(np.int32), n_vars=n), random.normal(size=n)


def seconds(job: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of CPU time (of all threads) that a job takes."""
    started = clock()
    job()
    return clock() - started


def ratio(
    ours: Callable[[], float], peer: Callable[[], float], repetitions: int = REPETITIONS
) -> tuple[float, float, float]:
    """(median of ours/peer, median ours, median peer), measured in turns after a warm-up."""
    ours(), peer()
    pairs = [(ours(), peer()) for _ in range(repetitions)]
    return (
        statistics.median(a / b for a, b in pairs),
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
    )
