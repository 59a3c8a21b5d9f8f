"""The bridge: intervals that cover, chains of joint moves, chains that miss a region."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from nelson import BudgetExceeded, Formula
from nelson.budget import Budget
from nelson.formula.polynomial import lift
from nelson.log_z import LogPartition, compute, log_z, sums
from nelson.log_z.bridge import bridge
from nelson.log_z.bridge_draws import Bridge, PartSampler
from nelson.log_z.method import LogProbability
from nelson.log_z.parts import merge, reduce
from nelson.policy import AutoPolicy, LogZPolicy, Policy
from tests.log_z.test_bounds import bipartite, grid
from tests.problems import random_ksat, weights
from tests.structured import small_suite, suite

#: Steps of `auto` that would draw a small formula exactly.
EXACT = frozenset({"enumerate", "circuit", "cftp", "rejection"})
#: The same, and all moves but single flips.
SINGLE = EXACT | {"joint", "fields"}


def bridged(
    f: Formula,
    theta: np.ndarray | None,
    seed: int,
    skip: frozenset[str] = EXACT,
    half_width: float = 0.2,
) -> LogProbability:
    """log Z (not log P) of all parts together."""
    reduced = reduce(f, theta)
    policy = Policy(auto=AutoPolicy(without=tuple(sorted(skip))))
    budget = Budget.of(60.0, threads=1)
    found = bridge(merge(reduced.parts), half_width, seed, budget, policy)
    info = dict(found.info)
    if "bounds" in info:
        info["bounds"] = tuple(reduced.constant + end for end in info["bounds"])
    return replace(found, log_p=found.log_p + reduced.constant, info=info)


def covers(errors: np.ndarray, half: np.ndarray) -> bool:
    """As many intervals cover as Binomial(m, 0.95) allows, but for a chance of 1e-3; and errors are
    of the size that is stated: the mean square of m of them is within 1 +- 4.5 sqrt(2 / m).
    """
    m = len(errors)
    square = float(np.mean((errors / (half / 1.96)) ** 2))
    return bool(
        (np.abs(errors) <= half).sum() >= binom.ppf(1e-3, m, 0.95)
        and abs(square - 1) <= 4.5 * math.sqrt(2 / m)
    )


@pytest.mark.slow
def test_a_bridge_between_known_laws() -> None:
    """W on 30 values with Z = e^3, Q another law: 300 bridges of 2,000 + 4,000 draws."""
    rng = np.random.default_rng(1)
    w, q = rng.exponential(size=30), rng.exponential(size=30)
    w, q = w / w.sum() * math.exp(3.0), q / q.sum()
    w[:4] = 0.0  # draws of Q that are impossible under W
    truth, ratio = math.log(w.sum()), np.log(np.maximum(w, 1e-300)) - np.log(q)
    ratio[:4] = -np.inf
    found = [
        Bridge.between(ratio[rng.choice(30, 2000, p=w / w.sum())], ratio[rng.choice(30, 4000, p=q)])
        for _ in range(300)
    ]
    errors = np.array([one.value for one in found]) - truth
    half = 1.96 * np.sqrt([one.variance for one in found])
    assert covers(errors, half)
    assert not covers(errors, 0.6 * half) and not covers(errors + half, half)  # twins


def test_laws_that_do_not_overlap() -> None:
    none = Bridge.between(np.full(9, 2.0), np.full(9, -np.inf))
    assert none.overlap == 0.0 and none.variance == math.inf
    far = Bridge.between(np.full(999, 60.0), np.full(999, -60.0))
    assert far.overlap < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exact samples", "chains"])
def test_intervals_cover(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 seeds. Narrow tables, so that 33 and 25 units are held."""
    skip = EXACT if name == "chains" else frozenset({"enumerate", "circuit"})
    if name == "chains":
        f, theta, truth = grid(7, 1.0, 0.0)
    else:
        f = random_ksat(60, 60, 5, seed=3)
        theta = weights(f)
        truth = log_z(f, theta, method="count").value
    monkeypatch.setattr(sums, "_WIDTHS", (0,) if name == "chains" else (3,))
    found = [bridged(f, theta, seed, skip) for seed in range(60)]
    errors = np.array([one.log_p for one in found]) - truth
    half = np.array([one.half_width for one in found])
    print(f"seeds 0..59: {(np.abs(errors) <= half).sum()} of 60 covered")
    expected = "diagnosed" if name == "chains" else "exact"
    assert {one.info["guarantee"] for one in found} == {expected}
    assert covers(errors, half) and (half < 0.1).all()
    assert not covers(errors, 0.6 * half) and not covers(errors + half, half)  # twins


@pytest.mark.parametrize(
    ("name", "moves"),
    [
        ("planar 4-colourings of 6 x 6", "joint"),
        ("product line of 300", "jumps"),
        ("Kconfig of 250", "jumps"),
    ],
)
@pytest.mark.slow
def test_joint_moves_give_an_interval_where_single_flips_give_bounds(
    name: str, moves: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On real-like formulas single flips freeze, and there are only bounds. Within 3 half
    widths (5.9 sigma): a right estimate fails in 1e-8 of cases.
    """
    entries = {entry.name: entry for entry in [*suite(), *small_suite()]}
    f, theta = entries[name].make()
    truth = log_z(f, theta, method="tables").value
    monkeypatch.setattr(sums, "_WIDTHS", (5,))
    found = bridged(f, theta, 1)
    assert found.trusted and found.half_width < 0.1 and found.info["held"] > 5
    assert moves in found.info["moves"]
    assert abs(found.log_p - truth) <= 3 * found.half_width
    single = bridged(f, theta, 1, SINGLE)  # the twin: the same bridge without joint moves
    assert not single.trusted and single.half_width > 10
    low, high = single.info["bounds"]
    assert low - 1e-9 <= truth <= high + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("field", [-0.1, 0.1, 1.0])
def test_a_grid_below_its_transition(field: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent sets of the 7 x 7 grid at theta = 2.5: two ordered phases, and single flips.
    Bounds always cover, an interval in 3 half widths but for 1e-8 of cases.
    """
    f, theta, truth = grid(7, 2.5, field)
    monkeypatch.setattr(sums, "_WIDTHS", (0,))
    for seed in range(2):
        result = bridged(f, theta, seed, SINGLE)
        far = 3 if result.trusted else 1
        assert abs(result.log_p - truth) <= far * result.half_width + 1e-9


def test_samples_that_miss_a_region_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent sets of K(4, 14): independent samples, but all of the left side, as if chains had
    never left it. Solvers know the other side, which weighs more.
    """
    monkeypatch.setattr(sums, "_WIDTHS", (0,))
    f, theta, truth = bipartite(4, 14, 4.0, 2.0)
    right = bridged(f, theta, 3)
    assert right.trusted and abs(right.log_p - truth) <= 3 * right.half_width

    def left_side(self: PartSampler, count: int, seed: int, early: bool = False) -> np.ndarray:
        self.guarantee = "diagnosed"
        x = np.random.default_rng(seed).random((count, 18)) < 1 / (1 + math.exp(-4.0))
        x[:, 4:] = False
        return x

    monkeypatch.setattr(PartSampler, "draw", left_side)
    wrong = bridged(f, theta, 3)
    assert not wrong.trusted and "known solutions weigh more" in wrong.info["reason"]
    low, high = wrong.info["bounds"]
    assert low - 1e-9 <= truth <= high and abs(wrong.log_p - truth) <= wrong.half_width + 1e-9


def model_with_terms() -> tuple[Formula, dict[tuple[int, int], float]]:
    """The feature model of 100 features with 50 random pairs, c ~ N(0, 0.5)."""
    f, _ = next(entry for entry in suite() if entry.name == "feature model of 100").make()
    rng = np.random.default_rng(1)
    pairs = np.sort(rng.choice(f.n_vars, (50, 2)) + 1, axis=1)
    return f, {(int(a), int(b)): float(rng.normal() * 0.7) for a, b in pairs if a != b}


@pytest.mark.slow
def test_terms_become_variables() -> None:
    """Chains of joint moves on the law with products as variables. Within 3 half widths."""
    f, terms = model_with_terms()
    truth = log_z(f, terms=terms, method="tables")
    assert truth.exact and truth.method == "tables"
    lifted = lift(f, terms, np.zeros(f.n_vars))
    found = bridged(lifted.formula, lifted.theta, 1)
    assert found.trusted and found.info["moves"] == "jumps" and found.half_width < 0.05
    assert abs(found.log_p + lifted.constant - truth.value) <= 3 * found.half_width
    assert abs(found.log_p + lifted.constant - log_z(f).value) > 3 * found.half_width


@pytest.mark.slow
def test_a_path_that_is_not_trusted_is_followed_by_a_bridge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f, terms = model_with_terms()
    truth = log_z(f, terms=terms).value
    info = {"points": 64, "lanes": 9, "base": "a test", "guarantee": "heuristic", "reason": "one"}
    info |= {"bounds": (0.0, 99.0), "reached": False}

    def poor(*_: object) -> LogPartition:
        return LogPartition(9.0, 99.0, "anneal", "asked for; not trusted (one)", 0.0, False, info)

    monkeypatch.setattr(compute, "annealed", poor)
    monkeypatch.setattr(compute, "EXACT", ())
    found = log_z(f, terms={**terms, (): 2.0}, seed=1)
    assert found.method == "bridge" and abs(found.value - truth - 2.0) <= 3 * found.half_width
    assert "a bridge between" in found.why and "not trusted (one)" in found.why
    path = log_z(f, terms=terms, method="anneal", seed=1)  # that one was asked for
    assert path.method == "anneal" and path.half_width == 99.0 and "asked for" in path.why


@pytest.mark.slow
def test_same_seed_same_estimate_on_any_number_of_threads() -> None:
    f = random_ksat(300, 300, 5, seed=9)
    theta = weights(f)
    one, two, other = (
        log_z(f, theta, method="bridge", seed=seed, threads=threads)
        for seed, threads in ((4, 1), (4, 2), (5, 2))
    )
    assert one.value == two.value and one.half_width == two.half_width
    assert one.value != other.value and one.method == "bridge"
    assert "a bridge between" in one.why and one.info["reached"]


@pytest.mark.slow
def test_budgets() -> None:
    f = random_ksat(300, 300, 5, seed=9)
    once = Policy(log_z=LogZPolicy(bridge_rounds=1))  # as if the time were up then
    found = log_z(f, method="bridge", seed=1, half_width=1e-5, policy=once)
    assert not found.info["reached"] and found.half_width > 1e-5 and "not reached" in found.why
    with pytest.raises(BudgetExceeded):
        log_z(f, method="bridge", seed=1, seconds=1e-3)
    with pytest.raises(BudgetExceeded, match="variables are fixed"):
        log_z(random_ksat(9000, 9000, 5), method="bridge", seconds=20.0)
    with pytest.raises(BudgetExceeded, match="rounding"):
        log_z(f, np.full(300, 25.0), method="bridge", seconds=20.0)


def test_chains_of_one_lag_widen_the_interval() -> None:
    """`shift` is the difference of log P, and bias rho^2 / (1 - rho^2) of it."""
    rng = np.random.default_rng(2)
    samples, draws = rng.normal(0.1, 0.3, 4000), rng.normal(0.0, 0.3, 8000)
    found = Bridge.between(samples, draws)
    same, noise = found.shift(samples, draws, len(samples))
    assert same == pytest.approx(0.0, abs=1e-12) and noise > 0
    apart, _ = found.shift(samples - 0.5, draws, len(samples))
    moved = Bridge.between(samples - 0.5, draws)
    assert apart > 0.05 and found.value - moved.value > 0.05
