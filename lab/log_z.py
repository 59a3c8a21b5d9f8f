"""log Z of random 5-SAT, L = n, theta ~ N(0, 1): time, and coverage of the 95% intervals; of a
batch over one cardinality constraint; and of a law with terms, by a path and by a bridge.

The exact values come from the counter ganak, which takes a few minutes for all formulas.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from lab.common import Row, ksat
from nelson import BudgetExceeded, Formula
from nelson.log_z import log_z
from nelson.log_z.moments import moments_of

FORMULAS = 100


def coverage(method: str, formulas: int = FORMULAS) -> Iterator[Row]:
    """Of 100 intervals at 95%, 90 to 99 should contain the exact value.

    If each contains it with probability 0.95, that happens with probability 98%.
    """
    errors, half_widths, spent = [], [], 0.0
    for k in range(formulas):
        formula, theta = ksat(50, seed=1000 + k)
        exact = log_z(formula, theta, method="count", seconds=120)
        estimate = log_z(formula, theta, method=method, seed=k, threads=1)
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
    """A bridge, three seeds."""
    formula, theta = ksat(1000)
    log_z(*ksat(300), method="bridge", seed=1, threads=1)  # compiles the kernels
    times = []
    for seed in range(3):
        started = time.perf_counter()
        estimate = log_z(formula, theta, method="bridge", seed=seed, threads=1)
        times.append(time.perf_counter() - started if estimate.info["reached"] else float("inf"))
    note = f"{estimate.value:.3f} ± {estimate.half_width:.3f}; {estimate.info['samples']:,} samples"
    name = "log Z, n=L=1000, half-width 0.05, one core, bridge"
    yield Row(name, float(np.median(times)), 60, 15, "s", at_most=True, note=note)


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


def fields_with_pairs(seed: int = 1) -> tuple[Formula, dict[tuple[int, int], float]]:
    """20 fields of 4 values, of which one holds; a third of the pairs of values of two fields have
    a coefficient c ~ N(0, 0.3^2).
    """
    random, field = np.random.default_rng(seed), np.arange(80) // 4
    clauses = [list(range(4 * k + 1, 4 * k + 5)) for k in range(20)]
    clauses += [[-a - 1, -b - 1] for a, b in combinations(range(80), 2) if field[a] == field[b]]
    pairs = [(a + 1, b + 1) for a, b in combinations(range(80), 2) if field[a] != field[b]]
    chosen = np.flatnonzero(random.random(len(pairs)) < 1 / 3)
    return Formula(clauses), {pairs[k]: 0.3 * float(random.normal()) for k in chosen}


def terms() -> Iterator[Row]:
    """Is the path needed beside a bridge between samples of the law with products as variables?"""
    formula, pairs = fields_with_pairs()
    log_z(formula, terms=pairs, method="anneal", seed=1, threads=1)  # compiles the kernels
    path = log_z(formula, terms=pairs, method="anneal", seed=2, threads=1)
    try:
        bridge = log_z(formula, terms=pairs, method="bridge", seed=2, threads=1, seconds=60)
        other = f"a bridge: ± {bridge.half_width:.3g} in {bridge.seconds:.1f} s, {bridge.guarantee}"
    except BudgetExceeded as error:
        other = f"no bridge: {error}"
    note = f"± {path.half_width:.3f} in {path.seconds:.1f} s, {path.guarantee}; {other}"
    name = f"log Z, 20 fields of 4 values, {len(pairs)} pairs: half-width of the path"
    yield Row(name, path.half_width, 0.05, 0.02, "", at_most=True, note=note)


def rows() -> Iterator[Row]:
    yield from speed()
    yield from batch()
    yield from terms()
    yield from coverage("bridge")
