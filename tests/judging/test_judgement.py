"""Which test decides, what a verdict says, and which arguments are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.errors import FormulaError, Unsatisfiable
from nelson.exact.law import law
from nelson.exact.routes import Reason
from nelson.formula import Formula
from nelson.judging import Verdict, judgement, marginals
from nelson.policy import DEFAULT, ExactPolicy, JudgingPolicy, Policy
from tests.judging.known_laws import DELTA, LARGE, SEED, SMALL, judge, parity, simulated
from tests.problems import exact_law, exact_marginals, weights

# --- where nothing counts -------------------------------------------------------------------------


@pytest.fixture
def nothing_counts(monkeypatch):
    """As on a formula that neither compiles nor can be counted."""
    nothing = Reason("nothing counts here")
    monkeypatch.setattr(judgement, "_moments", lambda case: nothing)
    monkeypatch.setattr(judgement, "_support", lambda case: nothing)


@pytest.mark.slow
def test_where_nothing_counts_samples_are_rejected_or_undecided(nothing_counts):
    right = nelson.sample(LARGE, None, 20_000, method="lovasz", sweeps=60, seed=SEED)
    verdict = judge(LARGE, right)
    assert verdict.accept is None and verdict.test == "conditionals"
    assert verdict.evidence["skipped"]["marginals"] == "nothing counts here"
    wrong = nelson.sample(LARGE, None, 20_000, method="lovasz", sweeps=0, seed=SEED)
    verdict = judge(LARGE, wrong)
    assert verdict.accept is False and verdict.evidence["p_value"] < 1e-30


@pytest.mark.slow
def test_where_nothing_counts_samplers_are_tested_by_pairs(nothing_counts):
    verdict = judge(SMALL, simulated(), seed=SEED)
    assert verdict.accept is True and verdict.test == "barbarik"
    assert set(verdict.evidence["skipped"]) == {"chi-square", "marginals", "conditionals"}
    assert verdict.evidence["delta"] == DELTA / 2  # the other half was for the conditionals
    verdict = judge(SMALL, simulated(parity(1.0, 0.03)), seed=SEED)
    assert verdict.accept is False


@pytest.mark.process
def test_counts_of_ganak_give_marginals(monkeypatch):
    pytest.importorskip("pyganak")
    theta = weights(SMALL)
    found = marginals.counted_means(SMALL, theta, 0, Budget.of(60.0))
    assert sorted(found.variables) == list(range(8))
    np.testing.assert_allclose(
        found.mean, exact_marginals(SMALL, theta)[found.variables], atol=1e-9
    )
    monkeypatch.setattr(judgement, "_moments", lambda case: found)
    for name, accept in (("prs", True), ("lovasz", False)):
        verdict = judge(SMALL, name, theta, test="marginals", seed=SEED)
        assert verdict.accept is accept and "ganak" in verdict.evidence["compared_with"]


@pytest.mark.process
def test_circuits_and_lists_give_the_same_moments():
    pytest.importorskip("py_d4")
    theta, every = weights(SMALL), np.arange(8)
    circuits = Policy(exact=ExactPolicy(few_cells=0, inputs=0))
    a, b = (marginals.exact_moments(law(SMALL, policy=how), theta) for how in (DEFAULT, circuits))
    assert a.how != b.how
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-12)
    np.testing.assert_allclose(a.joint(every), b.joint(every), atol=1e-12)
    assert a.variance(theta) == pytest.approx(b.variance(theta), rel=1e-6)


# --- the interface --------------------------------------------------------------------------------


def test_same_seed_same_verdict():
    a, b = (judge(SMALL, "prs", seed=SEED).to_dict() for _ in range(2))
    for verdict in (a, b):
        del verdict["evidence"]["seconds"]
    assert a == b


def test_a_verdict_prints_and_travels():
    verdict = judge(SMALL, "prs", weights(SMALL), seed=SEED)
    assert isinstance(verdict, Verdict)
    text = str(verdict)
    assert text.startswith("ACCEPT") and "chi-square" in text and "theta from" in text
    told = json.loads(json.dumps(verdict.to_dict(), allow_nan=False))
    assert told["verdict"] == "accept" and 0 < told["evidence"]["p_value"] <= 1
    assert told["evidence"]["samples"] == 20_000
    assert verdict.shows in text and "sampler " in text
    rejected = judge(SMALL, nelson.sample(SMALL, None, 4000, method="lovasz", seed=SEED))
    text = str(rejected)  # what acceptance would have shown is not said
    assert text.startswith("REJECT") and rejected.shows not in text and "samples from " in text


@pytest.mark.process
def test_samples_that_were_dropped_or_projected_are_told():
    verdict = judge(SMALL, "quicksampler", n=500, seed=SEED)
    dropped = nelson.sample(SMALL, None, 500, method="quicksampler", seed=SEED).info["invalid"]
    assert verdict.evidence["invalid_dropped"] == dropped > 0
    x = nelson.sample(SMALL, None, 4000, method="prs", project=[2, 5], seed=SEED)
    assert judge(SMALL, x).evidence["variables"] == f"2 of {SMALL.n_vars}"


@pytest.mark.process
def test_only_the_kernels_of_the_sampler_are_compiled(monkeypatch):
    """Each takes seconds on a new machine: the tests of CMSGen need none of resampling."""
    asked = []
    monkeypatch.setattr("nelson.chains.compiling._ready", asked.append)
    few_pairs = {"epsilon": 0.0, "eta": 2.0, "delta": 0.1}
    for test in ("auto", "barbarik"):
        judge(SMALL, "cmsgen", test=test, n=200, seed=SEED, seconds=30, **few_pairs)
    assert not asked
    judge(SMALL, "prs", n=200, seed=SEED)
    assert asked


def test_every_structure_equally_often_is_told_apart_from_chance():
    states, _ = exact_law(SMALL)
    verdict = judge(SMALL, np.repeat(states, 100, axis=0))
    assert verdict.test == "chi-square"
    assert verdict.accept is None and "not independent" in verdict.reason
    assert judge(SMALL, "prs", seed=SEED).accept is True


def test_few_samples_decide_nothing_but_validity():
    x = nelson.sample(SMALL, None, 20, method="prs", seed=SEED)
    verdict = judge(SMALL, x)
    assert verdict.accept is None and "too few" in verdict.reason
    # 100 samples of 37 structures: too few for cells, enough for marginals.
    x = nelson.sample(SMALL, None, 100, method="prs", seed=SEED)
    assert judge(SMALL, x).test == "marginals"


def test_one_structure_is_one_structure():
    formula = Formula([[1], [-2]], n_vars=2)
    assert judge(formula, "prs", seed=SEED).accept is True


def test_unsatisfiable_is_raised():
    formula = Formula([[1, 2], [-1, 2], [1, -2], [-1, -2]])
    with pytest.raises(Unsatisfiable):
        judge(formula, "prs")
    assert judge(formula, np.ones((100, 2), bool)).test == "validity"


@pytest.mark.parametrize(
    "options",
    [
        {"test": "guess"},
        {"epsilon": 1.0},
        {"delta": 0.0},
        {"n": 0},
        {"seconds": 0},
        {"theta": np.zeros((2, 8))},
        {"theta": [1.0]},
        {"test": "barbarik", "eta": 0.1},
    ],
)
def test_wrong_arguments_are_refused(options):
    with pytest.raises(FormulaError):
        judge(SMALL, "prs", **options)


def test_wrong_samples_are_refused():
    for wrong in ("no-such-file", np.ones((3, 5), bool), np.full((3, 8), 2), lambda *_: np.ones(3)):
        with pytest.raises(FormulaError):
            judge(SMALL, wrong)


# --- arguments that every question about a formula has --------------------------------------------


def test_given_is_the_law_given_these_literals():
    """The twin: the same samples against the law without them."""
    theta = weights(SMALL)
    right = nelson.sample(SMALL, theta, 20_000, given=[2], seed=SEED)
    for given in ([2], {2: True}):
        verdict = judge(SMALL, right, theta, given=given)
        assert verdict.accept is True and "given 1 literal" in verdict.law
    assert judge(SMALL, "prs", theta, given=[2], seed=SEED).accept is True
    assert judge(SMALL, right, theta).accept is False
    assert judge(SMALL, right, theta, given=[-2]).test == "validity"


def test_a_policy_chooses_the_test():
    few = Policy(judging=JudgingPolicy(structures=10, fewest_samples=2000))
    verdict = judge(SMALL, "prs", policy=few, seed=SEED)
    assert verdict.accept is True and verdict.test == "marginals"
    assert verdict.evidence["samples"] == 2000
