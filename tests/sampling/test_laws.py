"""What is drawn is distributed as promised: chi-square against enumeration, and twins that must
fail.

Each accepting test rejects a right sampler with probability ALPHA; about 80 of them: 1e-4 in all.
Seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.sampling.method_choice import verdict_for
from tests.problems import (
    chi_square,
    errata3,
    exact_law,
    exact_marginals,
    extremal,
    non_extremal,
    weights,
)

ALPHA = 1e-6
DRAWS = 200_000
SEED = 20_260

EXTREMAL, OTHER = extremal(), non_extremal()


def p_value(formula, theta, method, sweeps=None, seed=SEED):
    s = nelson.sample(formula, theta, DRAWS, method=method, sweeps=sweeps, seed=seed)
    p = chi_square(s.to_numpy(), exact_law(formula, theta))
    print(f"{s!r} seed={seed} p={p:.3g}")
    return p, s


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["auto", "lovasz", "moser-tardos", "prs"])
@pytest.mark.parametrize("name", EXTREMAL)
def test_theorem_1(name, method, weighted):
    theta = weights(EXTREMAL[name]) if weighted else None
    p, s = p_value(EXTREMAL[name], theta, method)
    assert p > ALPHA
    assert s.guarantee == "exact" and s.status == "ok" and s.info["sweeps"] == 0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", OTHER)
def test_prs_is_exact_where_condition_1_fails(name, weighted):
    theta = weights(OTHER[name]) if weighted else None
    p, s = p_value(OTHER[name], theta, "prs")
    assert p > ALPHA and s.guarantee == "exact"


@pytest.mark.parametrize("method", ["lovasz", "moser-tardos"])
@pytest.mark.parametrize("name", OTHER)
def test_plain_resampling_is_biased_there_and_the_test_sees_it(name, method):
    p, s = p_value(OTHER[name], weights(OTHER[name]), method, sweeps=0)
    assert p < ALPHA and s.guarantee == "heuristic"


@pytest.mark.parametrize("name", OTHER)
def test_auto_removes_the_bias(name):
    theta = weights(OTHER[name])
    p, s = p_value(OTHER[name], theta, "auto")
    assert s.guarantee == "exact"
    assert p > ALPHA


@pytest.mark.parametrize("name", OTHER)
def test_measured_sweeps_remove_the_bias(name):
    theta = weights(OTHER[name])
    verdict = verdict_for(OTHER[name], theta)
    assert verdict.guarantee == "diagnosed", verdict.why
    p, s = p_value(OTHER[name], theta, "lovasz", verdict.sweeps)
    assert s.guarantee == "heuristic" and "diagnosed" in s.info["why"]  # sweeps by hand
    assert p > ALPHA


@pytest.mark.parametrize("method", ["auto", "prs"])
def test_a_wrong_theta_is_rejected(method):
    formula = EXTREMAL["cycle6"]
    s = nelson.sample(formula, weights(formula), DRAWS, method=method, seed=SEED)
    assert chi_square(s.to_numpy(), exact_law(formula, weights(formula) + 0.05)) < ALPHA


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_default_sweeps_reach_the_noise_floor(ratio, seed):
    """Random 5-SAT, n = 18: the L1 error of the marginals over 2 million draws is within twice
    its floor.

    The error of an exact sampler has mean `floor`; were the variables independent, its standard
    deviation would be 0.18 floor, so 2 floors is 5 sigma. On 36 formulas that had no part in
    choosing the rule it was at most 1.45. Without sweeps the same measure is above 5 floors.
    """
    formula, theta = errata3(ratio, seed)
    m = 2_000_000
    exact = exact_marginals(formula, theta)
    floor = np.sqrt(2 / np.pi * exact * (1 - exact) / m).sum()

    def error(**options):
        s = nelson.sample(formula, theta, m, seed=SEED, **options)
        return np.abs(s.mean() - exact).sum() / floor

    assert error() < 2
    assert error(method="lovasz", sweeps=0) > 5


def test_conditioning_draws_the_conditional_law():
    formula = EXTREMAL["complete4"]
    theta = weights(formula)
    theta[2] = np.inf
    s = nelson.sample(formula, theta, DRAWS, given={5: False}, seed=SEED)
    law = exact_law(formula.given({5: False}), theta)
    assert s.guarantee == "exact"
    assert chi_square(s.to_numpy(), law) > ALPHA
    assert chi_square(s.to_numpy(), exact_law(formula, theta)) < ALPHA


def test_contexts_follow_their_own_theta():
    formula = EXTREMAL["bowtie"]
    rows = np.array([weights(formula, k) for k in range(3)])
    rows[2, 0] = -np.inf
    s = nelson.sample(formula, rows, DRAWS, seed=SEED)
    x = s.to_numpy()
    assert x.shape == (3, DRAWS, formula.n_vars) and s.guarantee == "exact"
    for k in range(3):
        assert chi_square(x[k], exact_law(formula, rows[k])) > ALPHA
    assert chi_square(x[0], exact_law(formula, rows[1])) < ALPHA


def test_an_exact_law_survives_a_budget_of_rounds():
    """Lanes that are cut off say nothing about where the others ended: rounds are independent of
    the outcome.
    """
    formula = EXTREMAL["cycle6"]
    s = nelson.sample(formula, None, DRAWS, method="lovasz", max_rounds=5, seed=SEED)
    assert s.status == "budget" and 0.2 * DRAWS < len(s) < 0.9 * DRAWS
    assert chi_square(s.to_numpy(), exact_law(formula)) > ALPHA


def test_xor_and_cardinality_are_uniform_over_what_the_user_sees():
    for formula in (
        nelson.Formula([[1, 2, 3, 4]], n_vars=8).xor([1, 2, 3, 4, 5, 6, 7], True),
        nelson.Formula([[1, -2]], n_vars=8).linear([3, 1, 2, 2], range(1, 5), "<=", 4),
    ):
        assert formula.n_aux > 0
        s = nelson.sample(formula, None, 100_000, method="prs", seed=SEED, max_rounds=10_000)
        assert s.status == "ok"
        assert formula.satisfied(s.to_numpy()).all()
        assert s.to_numpy().shape[1] == 8
        assert chi_square(s.to_numpy(), exact_law(formula)) > ALPHA


@pytest.mark.parametrize("name", EXTREMAL)
def test_prs_is_lovasz_on_extremal_formulas(name):
    """Nothing is ever added to the resample set there: the same bits, not only the same law."""
    theta = weights(EXTREMAL[name])
    lovasz, prs = (
        nelson.sample(EXTREMAL[name], theta, 1000, method=method, seed=SEED)
        for method in ("lovasz", "prs")
    )
    assert np.array_equal(lovasz.packed, prs.packed)
    assert lovasz.info["resampled"] == prs.info["resampled"]


def test_prs_is_not_lovasz_elsewhere():
    s = [
        nelson.sample(OTHER["path"], None, 1000, method=method, seed=SEED, sweeps=0)
        for method in ("lovasz", "prs")
    ]
    assert not np.array_equal(s[0].packed, s[1].packed)
    assert s[0].info["resampled"] < s[1].info["resampled"]
