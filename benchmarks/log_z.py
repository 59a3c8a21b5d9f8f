"""log Z of random 5-SAT, L = n, theta ~ N(0, 1): time, and coverage of the 95% intervals; and log Z
of a batch over one cardinality constraint.

The exact values come from the counter ganak, which takes a few minutes for all formulas.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.common import Row, ksat
from nelson import Formula
from nelson.log_z import log_partition
from nelson.log_z.moments import moments_of

FORMULAS = 100


def coverage(method: str, formulas: int = FORMULAS) -> Iterator[Row]:
    """Of 100 intervals at 95%, 90 to 99 should contain the exact value.

    If each contains it with probability 0.95, that happens with probability 98%.
    """
    errors, half_widths, spent = [], [], 0.0
    for k in range(formulas):
        formula, theta = ksat(50, seed=1000 + k)
        exact = log_partition(formula, theta, method="count", seconds=120)
        estimate = log_partition(formula, theta, method=method, seed=k, threads=1)
        errors.append(estimate.value - exact.value)
        half_widths.append(estimate.half_width)
        spent += estimate.seconds
    covered = 100 * float((np.abs(errors) <= half_widths).mean())
    note = (
        f"{covered:.0f}% of {formulas} intervals cover it, mean half-width "
        f"{np.mean(half_widths):.3f}, mean error {np.mean(errors):+.4f}, "
        f"{spent / formulas:.3f} s each"
    )
    name = f"log Z, n=50, {method}: |coverage - 94.5%|; 90% to 99% is right"
    yield Row(name, abs(covered - 94.5), 4.5, 2.5, "%", at_most=True, note=note)


def speed() -> Iterator[Row]:
    """A bridge and a telescope in turns, three seeds each."""
    formula, theta = ksat(1000)
    runs: dict[str, list[float]] = {"telescope": [], "bridge": []}
    for method in runs:
        log_partition(*ksat(300), method=method, seed=1, threads=1)  # compiles the kernels
    notes = {}
    for seed in range(3):
        for method, times in runs.items():
            started = time.perf_counter()
            estimate = log_partition(formula, theta, method=method, seed=seed, threads=1)
            times.append(time.perf_counter() - started)
            if not estimate.info["reached"]:
                times[-1] = float("inf")
            samples = f"{estimate.info['samples']:,} samples"
            notes[method] = f"{estimate.value:.3f} ± {estimate.half_width:.3f}; {samples}"
    median = {method: float(np.median(times)) for method, times in runs.items()}
    name = "log Z, n=L=1000, half-width 0.05, one core"
    for method, seconds in median.items():
        yield Row(f"{name}, {method}", seconds, 60, 15, "s", at_most=True, note=notes[method])
    ratio = median["bridge"] / median["telescope"]
    yield Row(f"{name}, bridge / telescope", ratio, 1, 0.5, at_most=True)


def batch() -> Iterator[Row]:
    """Exactly 5 of 30, 128 rows of theta: 142,506 structures, or a small circuit."""
    formula = Formula([], 30).exactly(range(1, 31), 5)
    theta = np.random.default_rng(1).normal(size=(128, 30))
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        source = moments_of(formula, len(theta))
        if source is not None:
            source.log_z(theta)
        seconds.append(time.perf_counter() - started)
    note = f"first call {seconds[0]:.3f} s; {source.why if source else 'no exact source'}"
    name = "log Z, exactly 5 of 30, 128 rows, second call"
    yield Row(name, 1000 * seconds[1], 50, 10, "ms", at_most=True, note=note)


def rows() -> Iterator[Row]:
    yield from speed()
    yield from batch()
    yield from coverage("telescope")
    yield from coverage("bridge")
