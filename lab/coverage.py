"""Do 95% intervals of log Z cover? Each estimator that stays, 200 seeds of each case.

    python -m lab coverage

An interval that covers with probability 0.95 does so in fewer than 184 of 200 cases with
probability 2%; with 0.92 it is below 184 in half of them. Values are exact by tables or a counter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import nelson
from lab.common import Row
from nelson import Formula
from nelson.log_z import LogPartition
from nelson.policy import AutoPolicy, LogZPolicy, Policy

SEEDS = 200
#: The share of intervals that must cover, and that of a right one.
LEAST, RIGHT = 0.92, 0.95
#: Tables so small that a bridge holds some units.
NARROW = LogZPolicy(bridge_work=6000)
#: Steps that the samples of a bridge do not come from: chains are left.
CHAINS = AutoPolicy(without=("enumerate", "circuit", "cftp", "rejection"))

Ask = Callable[[int], LogPartition]


def cases() -> Iterator[tuple[str, float, Ask]]:
    """(name, log Z, the estimate of a seed)."""
    sat = nelson.random_ksat(45, 45, 5, seed=3)
    theta = np.random.default_rng(0).normal(size=45)
    truth = exactly(sat, theta)
    for half_width in (0.05, 0.3, 0.7, 1.5):
        yield (
            f"rejection, half width {half_width}",
            truth,
            asked(sat, theta, "rejection", half_width=half_width),
        )
    rare = nelson.random_ksat(40, 70, 3, seed=3)
    yield (
        "rejection, one in 10,000",
        exactly(rare),
        asked(rare, None, "rejection", half_width=0.6),
    )
    exact = Policy(log_z=NARROW).without("enumerate", "circuit")
    yield (
        "bridge, exact samples",
        truth,
        asked(sat, theta, "bridge", half_width=0.2, policy=exact),
    )
    grid = Formula(
        [[-(8 * r + c + 1), -(8 * r + c + 2)] for r in range(7) for c in range(7)]
        + [[-(8 * r + c + 1), -(8 * r + c + 9)] for r in range(6) for c in range(8)]
    )
    chains = replace(Policy(log_z=NARROW), auto=CHAINS)
    yield (
        "bridge, chains",
        exactly(grid),
        asked(grid, None, "bridge", half_width=0.2, policy=chains),
    )
    terms = {(1, 2): 0.7, (3, 4, 5): -0.5, (6, 7): 0.4}
    yield (
        "anneal",
        exactly(sat, theta, terms=terms),
        asked(sat, theta, "anneal", half_width=0.2, terms=terms),
    )


def exactly(formula: Formula, theta: np.ndarray | None = None, **options: Any) -> float:
    """log Z, by tables or by a counter."""
    if "terms" in options:
        found = nelson.log_z(formula, theta, **options)
    else:
        found = nelson.log_z(formula, theta, method="count")
    assert found.exact, found
    return found.value


def asked(formula: Formula, theta: np.ndarray | None, method: str, **options: Any) -> Ask:
    """log Z of a seed, within 60 s."""

    def ask(seed: int) -> LogPartition:
        return nelson.log_z(formula, theta, method=method, seed=seed, seconds=60.0, **options)

    return ask


def rows(seeds: int = SEEDS) -> Iterator[Row]:
    for name, truth, ask in cases():
        found = [ask(seed) for seed in range(seeds)]
        errors = np.array([z.value - truth for z in found])
        half = np.array([z.half_width for z in found])
        size = math.sqrt(float(np.mean((1.96 * errors / half) ** 2)))
        kinds = "/".join(sorted({z.guarantee for z in found}))
        note = f"{kinds}, half widths {half.min():.2g} to {half.max():.2g}, errors {size:.2g} sigma"
        covered = float((np.abs(errors) <= half).mean())
        yield Row(f"coverage: {name}", covered, LEAST, RIGHT, "of intervals", note=note)
