"""log Z from the share of valid proposals, and independent estimates added up."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from nelson import BudgetExceeded, Formula
from nelson.log_z import estimates, log_partition
from nelson.log_z.estimate import Estimate, added
from nelson.log_z.estimates import Estimator
from nelson.log_z.parts import reduce
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
        found = log_partition(f, theta, method="rejection", seed=seed, half_width=0.1, threads=1)
        assert found.info["guarantee"] == "exact" and found.info["reached"]
        assert found.method == "rejection" and "proposals were valid" in found.why
        errors.append(found.value - truth)
        half.append(found.half_width)
    off, wide = np.array(errors), np.array(half)
    assert covers(off, wide)
    assert not covers(off, 0.6 * wide) and not covers(off + wide, wide)


def test_every_formula() -> None:
    """Within 3 half widths (5.9 sigma): a right estimate fails in 1e-8 of cases."""
    for name, f in (extremal() | non_extremal() | encoded()).items():
        theta = weights(f)
        found = log_partition(f, theta, method="rejection", seed=2, half_width=0.1)
        assert abs(found.value - exact_log_z(f, theta)) <= 3 * max(found.half_width, 1e-12), name


def test_too_few_valid_proposals() -> None:
    with pytest.raises(BudgetExceeded, match="proposals are valid"):
        log_partition(random_ksat(300, 900, 3), method="rejection", seed=1)


def test_a_product_is_a_gate() -> None:
    """x1 or x2, and a term on both: Z = 2 + e."""
    found = log_partition(Formula([[1, 2]]), terms={(1, 2): 1.0}, method="rejection", seed=1)
    assert abs(found.value - math.log(2 + math.e)) <= 3 * found.half_width <= 0.15


def test_estimates_of_parts_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parts by proposals and one, for which they are too seldom valid, by a bridge."""
    easy, hard = random_ksat(30, 30, 5, seed=1), random_ksat(44, 132, 3, seed=2)
    clauses, n = [], 0
    for f in (easy, hard, easy):
        clauses += [[v + int(np.sign(v)) * n for v in clause] for clause in f.clauses()]
        n += f.n_vars
    parts = reduce(Formula(clauses, n_vars=n), None).parts
    parts = [part for part in parts if part.n > 10]
    assert len(parts) == 3
    truth = sum(log_partition(f, method="tables").value for f in (easy, hard, easy))
    product = n * math.log(2)
    monkeypatch.setattr(estimates, "WORK", 1 << 24)
    how = Estimator(0.1, 1, 1, time.monotonic() + 60)
    found = how.run(parts, "auto")
    assert found is not None and how.used == {"rejection": 2, "bridge": 1}
    assert found.info["reached"] and found.half_width <= 0.1
    assert abs(found.log_p - (truth - product)) <= 3 * found.half_width


def estimate(log_p: float, noise: float, guarantee: str, **info: object) -> Estimate:
    every = {"samples": 10, "noise": noise, "bias": 0.1, "rounding": 0.0, "guarantee": guarantee}
    return Estimate(log_p, noise + 0.1, every | info, f"log P = {log_p}")


def test_sums_of_estimates() -> None:
    one, two = estimate(-1.0, 0.3, "exact"), estimate(-2.0, 0.4, "asymptotic", bounds=(-3.0, -1.5))
    both = added([one, two], 1.0)
    assert both.log_p == -3.0 and both.info["noise"] == pytest.approx(0.5)
    assert both.half_width == pytest.approx(0.7) and both.info["reached"] and both.trusted
    assert both.info["samples"] == 20 and both.told == "log P = -1.0; log P = -2.0"
    poor = added([one, estimate(-2.0, 0.4, "heuristic", bounds=(-5.0, -1.0))], 1.0)
    low, high = poor.info["bounds"]
    assert not poor.trusted and low < -6.0 and high > -2.0
    assert poor.half_width == pytest.approx(max(-3.0 - low, high + 3.0))


def test_a_poor_bridge_is_followed_by_a_telescope(monkeypatch: pytest.MonkeyPatch) -> None:
    part = reduce(random_ksat(40, 40, 5, seed=3), None).parts[-1]
    wide = estimate(-9.0, 0.1, "heuristic", bounds=(-99.0, 0.0), reason="a test")
    wide = Estimate(wide.log_p, 90.0, wide.info)
    monkeypatch.setattr(estimates, "bridge", lambda *_: wide)
    monkeypatch.setattr(estimates, "WORK", 0)
    how = Estimator(0.2, 1, 1, time.monotonic() + 60)
    assert how.run([part], "auto").half_width <= 0.2 and how.used == {"telescope": 1}
    assert how.tried["bridge"] == "a test" and "proposals" in how.tried["rejection"]

    def refuse(*_: object) -> Estimate:
        raise BudgetExceeded("another test")

    monkeypatch.setattr(estimates, "telescope", refuse)
    how = Estimator(0.2, 1, 1, time.monotonic() + 60)
    assert how.run([part], "auto").half_width == 90.0 and how.used == {"bridge": 1}
    monkeypatch.setattr(estimates, "bridge", refuse)
    how = Estimator(0.2, 1, 1, time.monotonic() + 60)
    assert how.run([part], "auto") is None and how.tried["telescope"] == "another test"
