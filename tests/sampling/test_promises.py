"""What a sampler promises about its law holds, for every sampler of the registry; and twins that
break a promise are caught.
"""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.chains.problem import prepare, satisfying
from nelson.formula.checks import evidence_of
from nelson.kernels.core.bits import pack, tail_mask
from nelson.sampling.registry import describe, get, missing_modules
from tests.problems import (
    chi_square,
    exact_law,
    non_extremal,
    random_ksat,
    state_codes,
    weights,
)
from tests.sampling.contract import ALPHA, BEYOND, LAWS, SEED, assert_good, draw


def claims(name, worth):
    """(formula, theta) for the problems where a sampler claims `worth`."""
    for problem, formula in LAWS.items():
        if problem in BEYOND.get(name, ()):
            continue
        if get(name).guarantee(prepare(formula), 0) == worth:
            for theta in (None, weights(formula))[: 1 + get(name).weighted]:
                print(f"{name}, {problem}, {'uniform' if theta is None else 'weighted'}", end=": ")
                yield formula, theta


@pytest.mark.slow
def test_what_claims_to_be_exact_is(name):
    """And the twin: the same samples against weights that are off by 0.2 each are rejected."""
    for formula, theta in claims(name, "exact"):
        s = draw(name, formula, theta, 20_000)
        p = chi_square(s.to_numpy(), exact_law(formula, theta))
        print(f"p = {p:.3g}")
        assert s.guarantee == "exact" and len(s) == 20_000
        assert p > ALPHA
        off = np.full(formula.n_vars, 0.2) + (0 if theta is None else theta)
        assert chi_square(s.to_numpy(), exact_law(formula, off)) < ALPHA


def within_factor(s, law, epsilon, sigmas=6):
    """Is every state's frequency within a factor 1 + epsilon of its probability, up to noise? The
    band is 6 sigma of a binomial: a false alarm a state has probability below 1e-8."""
    states, p = law
    place = {code: i for i, code in enumerate(state_codes(states))}
    count = np.zeros(len(p))
    for code in state_codes(s.to_numpy()):
        count[place[code]] += 1
    high, low = np.minimum(1, p * (1 + epsilon)), p / (1 + epsilon)
    m = len(s)
    above = count <= m * high + sigmas * np.sqrt(m * high * (1 - high) + 1)
    below = count >= m * low - sigmas * np.sqrt(m * low * (1 - low) + 1)
    return bool((above & below).all())


def test_what_claims_to_be_approximate_is(name):
    for formula, theta in claims(name, "approximate"):
        s = draw(name, formula, theta, 1000)
        assert s.guarantee == "approximate" and len(s) == 1000
        assert within_factor(s, exact_law(formula, theta), s.info["epsilon"])


def test_and_one_that_is_too_far_off_is_not():
    formula = LAWS["complete4"]
    s = draw("enumerate", formula, np.full(6, 1.0), 2000)
    assert within_factor(s, exact_law(formula, np.full(6, 1.0)), 0.0)
    assert not within_factor(s, exact_law(formula), 1.0)


def biased(problem, theta, count, seed, budget):
    """Uniform whatever theta says."""
    states, _ = exact_law(problem.formula)
    return states[np.random.default_rng(seed).integers(0, len(states), count)]


def lying(problem, theta, count, seed, budget):
    """Half of what it says is wrong."""
    rows = biased(problem, theta, count, seed, budget)
    rows[::2] = False
    return rows


def test_a_biased_sampler_is_rejected_by_the_same_test(fake):
    formula = LAWS["complete4"]
    s = draw(fake(biased), formula, weights(formula), 20_000)
    assert s.guarantee == "exact"  # it says so
    assert chi_square(s.to_numpy(), exact_law(formula, weights(formula))) < ALPHA
    assert chi_square(s.to_numpy(), exact_law(formula)) > ALPHA


@pytest.mark.process
def test_a_real_heuristic_is_rejected_by_the_same_test():
    if missing_modules(get("cmsgen")):
        pytest.skip("needs pycmsgen")
    formula = LAWS["random 3-SAT"]
    s = draw("cmsgen", formula, None, 20_000)
    assert s.guarantee == "heuristic"
    assert chi_square(s.to_numpy(), exact_law(formula)) < ALPHA


def test_a_sampler_that_lies_is_caught(fake):
    """Never promised, still checked: what is invalid is dropped, and the guarantee with it."""
    formula = LAWS["complete4"]
    s = draw(fake(lying), formula, None, 100)
    assert len(s) == 50 and s.status == "budget" and formula.satisfied(s.to_numpy()).all()
    assert s.info["invalid"] == 50 and s.info["drawn"] == 100
    assert s.guarantee == "heuristic"


def test_a_missing_package_names_the_extra(fake):
    method = fake(biased, modules=("no_such_package",), needs="samplers")
    with pytest.raises(nelson.NelsonError, match=r'no_such_package.*"nelson-mrf\[samplers'):
        draw(method, LAWS["complete4"])
    row = next(row for row in describe() if row.name == "fake")
    assert not row.installed


# --- samplers that may be invalid ---------------------------------------------------------------


def test_check_drops_what_is_invalid_and_draws_on(fake):
    method = fake(lying, may_be_invalid=True, guarantee=lambda problem, sweeps: "heuristic")
    formula = LAWS["complete4"]
    s = draw(method, formula, None, 100)
    assert_good(s, formula, 100)
    assert s.info["invalid"] > 90 and s.info["drawn"] >= 200
    assert s.info["validity"] == pytest.approx(0.5, abs=0.02)
    raw = draw(method, formula, None, 100, check=False)
    assert len(raw) == 100 and raw.status == "ok" and raw.guarantee == "heuristic"
    assert formula.satisfied(raw.to_numpy()).mean() == raw.info["validity"] == 0.5
    blocks = list(nelson.stream(formula, None, 150, block=64, method=method, seed=1))
    assert [len(block) for block in blocks] == [64, 64, 22]
    rows = np.zeros((2, 6))
    assert_good(draw(method, formula, rows, 70), formula, 70)


def test_what_is_never_valid_is_given_up(fake):
    def wrong(problem, theta, count, seed, budget):
        return np.zeros((count, 6), bool)

    formula = LAWS["complete4"]
    s = draw(fake(wrong, may_be_invalid=True), formula, None, 100)
    assert len(s) == 0 and s.status == "budget" and "none of" in s.info["reason"]
    assert "a solver says that solutions exist" in s.info["reason"]
    assert len(draw("fake", formula, None, 100, check=False)) == 100


# --- the plain oracles --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["rejection", "enumerate"])
def test_a_stream_is_the_sample_in_blocks(method):
    formula = non_extremal()["random 3-SAT"]
    rows = np.array([weights(formula, k) for k in range(2)])
    whole = draw(method, formula, rows, 1000).to_numpy()
    blocks = nelson.stream(formula, rows, 1000, block=192, method=method, seed=SEED)
    assert np.array_equal(np.concatenate([b.to_numpy() for b in blocks], axis=1), whole)
    fewer = draw(method, formula, rows, 100).to_numpy()
    assert np.array_equal(fewer, whole[:, :100])
    one = draw(method, formula, rows, 1000, threads=1).to_numpy()
    assert np.array_equal(one, whole)


def test_enumerate_says_what_is_too_large():
    s = draw("enumerate", random_ksat(60, 60, 5, 1), n=5)
    assert len(s) == 0 and "more than 262144 rows" in s.info["reason"]
    parts = [[3 * k + 1, 3 * k + 2, 3 * k + 3] for k in range(40)]  # 7^40 structures, 40 tables
    s = draw("enumerate", nelson.Formula(parts, n_vars=130), n=5)
    assert s.status == "ok" and s.info["log2_count"] == pytest.approx(40 * np.log2(7) + 10)


def test_rejection_counts_its_proposals_and_gives_up():
    formula = nelson.Formula([[v] for v in range(1, 3)] + [[3, 4], [3, -4]], n_vars=4)
    s = draw("rejection", formula, n=5000)
    assert len(s) == 5000 and s.info["resampled"] == pytest.approx(5000, rel=0.2)  # P(C) = 1/2
    hopeless = random_ksat(200, 800, 3, 1)
    s = draw("rejection", hopeless, n=1000)
    assert len(s) == 0 and s.status == "budget"
    assert 64_000 <= s.info["resampled"] < 10**6
    few = draw("rejection", nelson.Formula([[1], [2, 3]]), [0, -9.0, -9.0], n=100, max_rounds=10)
    assert few.status == "budget" and "within 10 rounds" in few.info["reason"]


def test_evidence_reaches_the_check():
    """Rows that ignore the evidence are not handed out, whoever drew them."""
    formula = LAWS["complete4"]
    problem = prepare(formula, evidence_of(formula, [2]))
    states, _ = exact_law(formula)
    lanes = satisfying(problem, pack(states), tail_mask(len(states)))
    assert np.bitwise_count(lanes).sum() == states[:, 1].sum()
