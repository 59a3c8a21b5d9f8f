"""log Z from the share of valid proposals, and independent estimates added up."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nelson import BudgetExceeded, Formula
from nelson.budget import Budget
from nelson.log_z import bounds, bridge, log_z
from nelson.log_z.method import LogProbability, LogZTask, added
from nelson.log_z.methods import ESTIMATES, Solved, solve
from nelson.log_z.parts import WeightedClauses, reduce
from nelson.policy import LogZPolicy, Policy
from tests.log_z.test_bridge import covers
from tests.problems import encoded, exact_log_z, extremal, non_extremal, random_ksat, weights


def circuit(seed: int, gates: int = 8) -> Formula:
    """x_k = x_i and x_j, with signs, above four inputs; the last gate is true."""
    rng = np.random.default_rng(seed)
    clauses = []
    for k in range(5, 5 + gates):
        i, j = rng.choice(np.arange(max(1, k - 5), k), 2, replace=False) * rng.choice([-1, 1], 2)
        clauses += [[-k, int(i)], [-k, int(j)], [k, -int(i), -int(j)]]
    return Formula([*clauses, [4 + gates, 3 + gates]])


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_cover(weighted: bool) -> None:
    """150 circuits; the weights of gates are met by coins. The twins are too narrow, or biased."""
    errors, half, seed = [], [], 0
    while len(errors) < 150:
        seed += 1
        f = circuit(seed)
        theta = weights(f, seed) if weighted else None
        truth = exact_log_z(f, theta)
        if not math.isfinite(truth) or not reduce(f, theta).parts:
            continue
        found = log_z(f, theta, method="rejection", seed=seed, half_width=0.1, threads=1)
        assert found.info["guarantee"] == "exact" and found.info["reached"]
        assert found.method == "rejection" and "proposals were valid" in found.why
        errors.append(found.value - truth)
        half.append(found.half_width)
    off, wide = np.array(errors), np.array(half)
    assert covers(off, wide)
    assert not covers(off, 0.6 * wide) and not covers(off + wide, wide)


@pytest.mark.slow
@pytest.mark.parametrize("half_width", [0.55, 0.8, 2.0])
def test_wide_intervals_cover_too(half_width: float) -> None:
    """60 seeds: 16 valid proposals are drawn, however wide an interval may be. Rates and twins as
    above.
    """
    f = random_ksat(14, 22, 3, seed=3)
    found = [log_z(f, method="rejection", seed=k, half_width=half_width) for k in range(60)]
    half = np.array([z.half_width for z in found])
    off = np.array([z.value for z in found]) - exact_log_z(f)
    assert covers(off, half) and (half <= half_width).all()
    assert not covers(off, 0.5 * half) and not covers(off + 1.5 * half, half)


def test_every_formula() -> None:
    """Within 3 half widths (5.9 sigma): a right estimate fails in 1e-8 of cases."""
    for name, f in (extremal() | non_extremal() | encoded()).items():
        theta = weights(f)
        found = log_z(f, theta, method="rejection", seed=2, half_width=0.1)
        assert abs(found.value - exact_log_z(f, theta)) <= 3 * max(found.half_width, 1e-12), name


@pytest.mark.slow
def test_too_few_valid_proposals() -> None:
    with pytest.raises(BudgetExceeded, match="proposals are valid"):
        log_z(random_ksat(300, 900, 3), method="rejection", seed=1)


def test_a_product_is_a_gate() -> None:
    """x1 or x2, and a term on both: Z = 2 + e."""
    found = log_z(Formula([[1, 2]]), terms={(1, 2): 1.0}, method="rejection", seed=1)
    assert abs(found.value - math.log(2 + math.e)) <= 3 * found.half_width <= 0.15


def estimated(parts: list[WeightedClauses], half_width: float, rejection_work: int) -> Solved:
    policy = Policy(log_z=LogZPolicy(rejection_work=rejection_work))
    budget = Budget.of(60.0, threads=1)
    task = LogZTask(Formula([]), None, "auto", half_width, 1, budget, policy)
    return solve(parts, task, ESTIMATES)


@pytest.mark.slow
def test_estimates_of_parts_add_up() -> None:
    """Two parts by proposals and one, for which they are too seldom valid, by a bridge."""
    easy, hard = random_ksat(30, 30, 5, seed=1), random_ksat(44, 132, 3, seed=2)
    clauses, n = [], 0
    for f in (easy, hard, easy):
        clauses += [[v + int(np.sign(v)) * n for v in clause] for clause in f.clauses()]
        n += f.n_vars
    parts = reduce(Formula(clauses, n_vars=n), None).parts
    parts = [part for part in parts if part.n > 10]
    assert len(parts) == 3
    truth = sum(log_z(f, method="tables").value for f in (easy, hard, easy))
    product = n * math.log(2)
    solved = estimated(parts, 0.1, 1 << 24)
    assert not solved.left
    found = added(solved.values, 0.1)
    assert solved.used == {"rejection": 2, "bridge": 1}
    assert found.info["reached"] and found.half_width <= 0.1
    assert abs(found.log_p - (truth - product)) <= 3 * found.half_width


def estimate(log_p: float, noise: float, guarantee: str, **info: object) -> LogProbability:
    every = {"samples": 10, "noise": noise, "bias": 0.1, "rounding": 0.0, "guarantee": guarantee}
    return LogProbability(log_p, noise + 0.1, every | info, f"log P = {log_p}")


def test_sums_of_estimates() -> None:
    one, two = estimate(-1.0, 0.3, "exact"), estimate(-2.0, 0.4, "diagnosed", bounds=(-3.0, -1.5))
    both = added([one, two], 1.0)
    assert both.log_p == -3.0 and both.info["noise"] == pytest.approx(0.5)
    assert both.half_width == pytest.approx(0.7) and both.info["reached"] and both.trusted
    assert both.info["samples"] == 20 and both.source == "log P = -1.0; log P = -2.0"
    poor = added([one, estimate(-2.0, 0.4, "heuristic", bounds=(-5.0, -1.0))], 1.0)
    low, high = poor.info["bounds"]
    assert not poor.trusted and low < -6.0 and high > -2.0
    assert poor.half_width == pytest.approx(max(-3.0 - low, high + 3.0))


def test_bounds_follow_where_there_is_no_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bridge that is not trusted is the answer, with its bounds; one that refuses is not."""
    part = reduce(random_ksat(40, 40, 5, seed=3), None).parts[-1]
    wide = estimate(-9.0, 0.1, "heuristic", bounds=(-99.0, 0.0), reason="a test")
    wide = LogProbability(wide.log_p, 90.0, wide.info)
    monkeypatch.setattr(bridge, "bridge", lambda *_: wide)
    solved = estimated([part], 0.2, 0)
    (found,) = solved.values
    assert found.half_width == 90.0 and solved.used == {"bridge": 1}
    assert solved.tried["bridge"] == "a test" and "proposals" in solved.tried["rejection"]

    def refuse(*_: object) -> LogProbability:
        raise BudgetExceeded("another test")

    monkeypatch.setattr(bridge, "bridge", refuse)
    solved = estimated([part], 0.2, 0)
    (found,) = solved.values
    assert not found.trusted and solved.used == {"bounds": 1}
    assert solved.tried["bridge"] == "another test"
    monkeypatch.setattr(bounds, "bounded", refuse)
    solved = estimated([part], 0.2, 0)
    assert solved.left and not solved.values and solved.tried["bounds"] == "another test"
