"""The estimate of log Z: intervals that cover, samplers that are needed, the same seed twice."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, chi2

from nelson import Formula
from nelson.log_z import log_partition, stages, telescope
from nelson.log_z.parts import reduce
from tests.problems import (
    encoded,
    exact_log_z,
    extremal,
    non_extremal,
    random_ksat,
    sink_free,
    weights,
)

FORMULAS = extremal() | non_extremal() | encoded()


def errors(prs: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """Errors and half widths of 100 estimates: 5-SAT, n = L = 20, theta ~ N(0, 1)."""
    if not prs:
        monkeypatch.setattr(stages, "TRIAL_ROUNDS", 0)
    off, half = [], []
    for seed in range(100):
        f = random_ksat(20, 20, 5, seed=seed)
        theta = weights(f, seed)
        found = log_partition(f, theta, method="telescope", seed=seed, threads=1, half_width=0.03)
        assert found.info["reached"] and not found.exact and found.half_width <= 0.03
        assert found.info["guarantee"] == "exact" if prs else True
        off.append(found.value - log_partition(f, theta, method="enumerate").value)
        half.append(found.half_width)
    return np.array(off), np.array(half)


def honest(off: np.ndarray, half: np.ndarray) -> bool:
    """Coverage within the band of Binomial(m, 0.95), and errors of the size claimed.

    Each of the three tails has a false-alarm rate of 5e-4 (less for the lower chi-square tail,
    since half widths include an allowance for bias).
    """
    covered = int((np.abs(off) <= half).sum())
    size = float(((off / (half / 1.96)) ** 2).sum())
    low, high = chi2.ppf([5e-4, 1 - 5e-4], len(off))
    return bool(covered >= binom.ppf(5e-4, len(off), 0.95) and low <= size <= high)


@pytest.mark.slow
@pytest.mark.parametrize("prs", [True, False])
def test_intervals_cover(prs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    off, half = errors(prs, monkeypatch)
    print(f"seeds 0..99: {(np.abs(off) <= half).sum()} of {len(off)} covered")
    assert honest(off, half)
    assert not honest(off, 0.6 * half)  # too narrow
    assert not honest(off, 1.7 * half)  # too wide
    assert not honest(off + half / 2, half)  # biased by a standard deviation


@pytest.mark.slow
def test_estimates_of_weighted_and_encoded_formulas() -> None:
    """Within 3 half widths (5.9 sigma): a right one fails in 1e-8 of cases."""
    for name, f in ({"petersen": petersen()} | FORMULAS).items():
        theta = weights(f)
        found = log_partition(f, theta, method="telescope", seed=11, half_width=0.05, seconds=20)
        assert abs(found.value - exact_log_z(f, theta)) <= 3 * max(found.half_width, 1e-12), name


def petersen() -> Formula:
    outer = [(i, (i + 1) % 5) for i in range(5)]
    return sink_free(
        [*outer, *((i, i + 5) for i in range(5)), *((i + 5, (i + 2) % 5 + 5) for i in range(5))]
    )


@pytest.mark.slow
def test_sweeps_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most one of 12 is false: resampling without sweeps is far off, with them it is not.

    Within 2 half widths (3.9 sigma): a right one fails in 1e-4 of cases.
    """
    f = Formula([[i, j] for i in range(1, 13) for j in range(1, i)])
    theta, choose = weights(f), stages.choose
    monkeypatch.setattr(stages, "TRIAL_ROUNDS", 0)
    options = {"method": "telescope", "seed": 2, "half_width": 0.02, "threads": 1}
    right = log_partition(f, theta, **options)
    assert right.info["guarantee"] == "asymptotic" and right.info["bias"] > 0
    assert abs(right.value - exact_log_z(f, theta)) <= 2 * right.half_width

    def hasty(*arguments):
        return replace(choose(*arguments), sweeps=0, lag=0)

    monkeypatch.setattr(telescope, "choose", hasty)
    wrong = log_partition(f, theta, **options)
    assert abs(wrong.value - exact_log_z(f, theta)) > 10 * right.half_width
    assert wrong.info["guarantee"] == "heuristic" and "no 95% interval" in wrong.why


def test_the_second_run_tells_of_bias() -> None:
    """held/drawn after 3 lags and after 1: their difference, and noise, widen the interval."""
    how = stages.StageSampler("lovasz", 3, "asymptotic", lag=1, rho=0.5)
    same = stages.Stage(0, 1, how, 0.5, 1.0, 1.0, 50_000, 100_000, 50_000, 100_000)
    apart = replace(same, held_early=60_000)
    assert same.bias()[0] == 0.0 and same.bias()[1] > 0
    assert apart.bias()[0] == pytest.approx(math.log(1.2) / 3, rel=1e-3)  # rho^2 / (1 - rho^2)
    assert replace(apart, drawn_early=0).bias() == (0.0, 0.0)


@pytest.mark.slow
def test_same_seed_same_estimate_on_any_number_of_threads() -> None:
    f = random_ksat(120, 120, 5, seed=9)
    theta = weights(f)
    options = {"method": "telescope", "half_width": 0.1}
    one = log_partition(f, theta, seed=4, threads=1, **options)
    two = log_partition(f, theta, seed=4, threads=2, **options)
    other = log_partition(f, theta, seed=5, threads=1, **options)
    assert one.value == two.value and one.half_width == two.half_width
    assert one.value != other.value
    low, high = one.interval
    assert low < one.value < high and "telescope" in str(one)


def test_groups_partition_the_clauses() -> None:
    f = random_ksat(200, 200, 5, seed=10)
    found = log_partition(f, weights(f), method="telescope", seed=1, half_width=0.2)
    part = reduce(f, weights(f)).parts[0]
    _, known, base = telescope.ordered(part)
    assert known + sum(stage["clauses"] for stage in found.info["stages"]) == f.n_clauses
    *full, last = [stage["ratio"] for stage in found.info["stages"]]
    assert base < 0 and all(0.2 < ratio < 0.5 for ratio in full)
    assert 0.2 < last < 1  # the clauses that are left, however few


def test_surviving_counts_by_packed_words() -> None:
    """Against booleans, for sample counts that do not fill the last word."""
    part = reduce(random_ksat(30, 60, 3, seed=12), None).parts[-1]
    given = stages.Conditional.of(part, 20, 40)
    for count in (1, 64, 1000):
        drawn = stages.draw(given, stages.StageSampler("lovasz", 0, "heuristic"), count, 3, 1, 60.0)
        bits = (
            drawn.rows[:, np.arange(count) // 64] >> (np.arange(count) % 64).astype(np.uint64) & 1
        )
        x, alive = bits.T.astype(bool), np.ones(count, bool)
        for j, clause in enumerate(np.split(given.literals, given.offsets[1:-1])):
            alive &= (x[:, np.abs(clause) - 1] == (clause > 0)).any(axis=1)
            assert stages.surviving(given, drawn)[j] == alive.sum()
