"""Coupling from the past draws from P_theta(. | C): chi-square on a hundred formulas that are not
extremal, and twins that break its rules and are rejected.
"""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.chains.problem import prepare
from nelson.kernels.core import reference
from nelson.sampling.total_variation import MOST
from tests.problems import chi_square, exact_law, random_ksat

#: A right sampler is rejected with this probability by each test of a law. There are 102 such
#: tests, so 1e-4 in all. Seeds are fixed.
ALPHA = 1e-6
SEED = 17


def mixed(seed: int) -> tuple[nelson.Formula, np.ndarray]:
    """6 to 12 variables, clauses of 2 to 4 literals with random signs, theta ~ N(0, 1)."""
    random = np.random.default_rng([SEED, seed])
    n = int(random.integers(6, 13))
    clauses = []
    for _ in range(int(random.integers(n // 2, n + 1))):
        v = random.choice(n, size=int(random.integers(2, 5)), replace=False) + 1
        clauses.append((v * random.choice([-1, 1], len(v))).tolist())
    return nelson.Formula(clauses, n_vars=n), random.normal(size=n)


@pytest.mark.slow
def test_the_law_of_a_hundred_formulas_that_are_not_extremal():
    """Chains meet on most of those generated; the others end with their budget."""
    tried = 0
    p_values = []
    while len(p_values) < 100:
        tried += 1
        formula, theta = mixed(tried)
        if prepare(formula).extremal:
            continue
        s = nelson.sample(formula, theta, 20_000, method="cftp", seed=tried, max_rounds=512)
        if s.status == "ok":
            assert len(s) == 20_000 and s.info["rounds"] <= 512
            exact = s.info["tv_bound"] <= MOST  # runs of 512 sweeps had no room to be longer
            assert s.guarantee == ("exact" if exact else "heuristic")
            assert exact or s.info["rounds"] > 128
            p_values.append(chi_square(s.to_numpy(), exact_law(formula, theta)))
        else:
            assert len(s) == 0 and "did not meet" in s.info["reason"]
    print(f"tried {tried}, smallest p {min(p_values):.2g}")
    assert min(p_values) > ALPHA
    assert 30 < sum(p < 0.5 for p in p_values) < 70  # 4 sigma: p-values are uniform


# --- twins -------------------------------------------------------------------------------------

#: Half of the lanes meet within 4 sweeps, and how late depends on where they meet.
TWIN = nelson.Formula([[1, 2], [-2, 3], [-3, 4], [-4, 5], [5, 6]], n_vars=6)
COUNT = 20_000


def lanes_of(length: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A run of that length in plain NumPy. -> (samples, which lanes have met)"""
    problem = prepare(TWIN).sweeping_all()
    plain = reference.Reference(problem.program, problem.thresholds(np.zeros((1, 6)))[0])
    may = plain.bounds_after(seed, COUNT, length)
    return may[1][:, problem.program.place], ~(may[0] & may[1]).any(1)


def runs(seed_of) -> tuple[np.ndarray, np.ndarray]:
    """Runs of length 1, 2, 4, .. 128; each lane takes the first in which it has met.

    seed_of(length): the seed of the coins of a run. -> (samples, length of each lane's run)
    """
    x, taken = np.zeros((COUNT, 6), bool), np.zeros(COUNT, int)
    for length in 2 ** np.arange(8):
        drawn, met = lanes_of(int(length), seed_of(int(length)))
        new = met & (taken == 0)
        x[new], taken[new] = drawn[new], length
    assert taken.all()
    return x, taken


@pytest.fixture(scope="module")
def same_coins():
    return runs(lambda length: SEED)


def test_the_plain_runs_are_right_and_are_those_of_the_kernel(same_coins):
    x, _ = same_coins
    assert chi_square(x, exact_law(TWIN)) > ALPHA
    s = nelson.sample(TWIN, None, COUNT, method="cftp", seed=SEED)
    assert np.array_equal(s.to_numpy(), x)


@pytest.mark.slow
def test_coins_drawn_anew_for_each_run_are_rejected():
    """Fresh coins for old times: the lanes that meet early take part more often than they may."""
    x, _ = runs(lambda length: SEED + length)
    assert chi_square(x, exact_law(TWIN)) < ALPHA


def test_dropping_slow_lanes_is_rejected(same_coins):
    x, taken = same_coins
    assert 0.3 < (taken <= 4).mean() < 0.6
    assert chi_square(x[taken <= 4], exact_law(TWIN)) < ALPHA
    s = nelson.sample(TWIN, None, COUNT, method="cftp", seed=SEED, max_rounds=4)
    assert len(s) == 0 and s.status == "budget"  # what the sampler does instead


def test_a_stopped_draw_keeps_whole_tiles_only():
    """Whatever the clock says: every tile that began is there, complete."""
    options = {"method": "cftp", "seed": 1, "width": 1, "project": [1, 2, 3]}
    formula = random_ksat(200, 100, 4, 1)
    whole = nelson.sample(formula, None, 64, **options).to_numpy()
    s = nelson.sample(formula, None, 10**7, seconds=0.02, **options)
    assert len(s) % 64 == 0 and s.guarantee == "exact" and s.status == "budget"
    some = min(len(s), 64)  # threads take tiles in any order, but tile 0 comes first
    assert np.array_equal(s.to_numpy()[:some], whole[:some])
