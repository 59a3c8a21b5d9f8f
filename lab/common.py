"""Shared by all benchmarks: random formulas, timing in turns, and a table row with its goals.

Machines are noisy, so wherever there is a peer the figure is a ratio and not a time. We and the
peer run in turns in one process, each repetition gives one ratio, and the median is reported.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nelson import Formula

REPETITIONS = 7
#: Code that a child process runs: it stores the peak of its resident memory, in MB, in `peak`.
#: It reads /proc because `getrusage` starts a forked child with the peak of its parent.
PEAK_MEMORY_CODE = """
peak = next(int(l.split()[1]) / 1024 for l in open("/proc/self/status") if l.startswith("VmHWM"))
"""


@dataclass
class Row:
    """One line of the table: a measured figure beside the bound it must reach and the aim."""

    name: str
    measured: float
    must: float | None  # None: no goal was set
    aim: float | None
    unit: str = "x"
    at_most: bool = False  # are `must` and `aim` upper bounds? Otherwise lower bounds
    note: str = ""

    def __str__(self) -> str:
        digits = ",.0f" if abs(self.measured) >= 1000 else ".3g"
        return f"{self.measured:{digits}} {self.unit}"

    @property
    def verdict(self) -> str:
        if self.must is None or self.aim is None:
            return ""

        def reached(bound: float) -> bool:
            return self.measured <= bound if self.at_most else self.measured >= bound

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
    """Seconds that a job takes, by default CPU time of all threads together."""
    started = clock()
    job()
    return clock() - started


def ratio(
    ours: Callable[[], float], peer: Callable[[], float], repetitions: int = REPETITIONS
) -> tuple[float, float, float]:
    """(median of ours/peer, median of ours, median of peer); run in turns after one warm-up."""
    ours(), peer()
    pairs = [(ours(), peer()) for _ in range(repetitions)]
    return (
        statistics.median(a / b for a, b in pairs),
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
    )
