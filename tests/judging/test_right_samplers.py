"""Right samplers are accepted, and rejected no more often than delta allows."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.chains.problem import prepare
from nelson.formula import Formula
from nelson.judging import TESTS
from nelson.sampling.registry import get, missing_modules
from tests.judging.known_laws import SEED, SMALL, judge, simulated
from tests.problems import weights


def exact_samplers() -> list[str]:
    """Every registered sampler that promises the law itself on a formula that is not extremal, but
    `cftp`: on these short clauses its chains do not meet, and it returns nothing.
    """
    found = []
    for name in nelson.samplers():
        sampler = get(name)
        if (
            name != "cftp"
            and not missing_modules(sampler)
            and sampler.guarantee(prepare(SMALL), 0) == "exact"
        ):
            found.append(name)
    return found


@pytest.mark.process
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", exact_samplers())
def test_exact_samplers_are_accepted(name, weighted):
    if weighted and not get(name).weighted:
        pytest.skip("uniform only")
    theta = weights(SMALL) if weighted else None
    verdict = judge(SMALL, name, theta, seed=SEED)
    assert verdict.accept is True, str(verdict)
    assert verdict.test == "chi-square" and verdict.evidence["support"] == 37
    assert verdict.evidence["guarantee"] == "exact"


def test_prs_is_an_exact_sampler():
    assert "prs" in exact_samplers()


@pytest.mark.slow
def test_exact_samplers_are_accepted_by_every_test():
    """Where the whole law is right, every necessary condition holds."""
    theta = weights(SMALL)
    for test in TESTS:
        verdict = judge(SMALL, "prs", theta, test=test, seed=SEED)
        assert verdict.test == test
        if test == "conditionals":
            assert verdict.accept is None and "only reject" in verdict.reason
        else:
            assert verdict.accept is True, str(verdict)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "runs", "most"),
    [("chi-square", 200, 23), ("marginals", 100, 15), ("conditionals", 100, 15)],
)
def test_false_alarms_are_as_rare_as_stated(test, runs, most):
    """Right samplers at delta = 0.05: `runs` / 20 rejections expected at most, and a test with that
    level has more than `most` with probability 1e-4. Nor may there be too few: chi-square, which
    splits its level among no tests, has none or one with probability 4e-4.
    """
    count = 0
    for seed in range(runs):
        theta = weights(SMALL, seed) if seed % 2 else None
        options = {"test": test, "n": 400, "delta": 0.05, "seed": SEED + seed}
        count += judge(SMALL, simulated(), theta, **options).accept is False
    assert count <= most
    assert count >= 2 or test != "chi-square"


@pytest.mark.parametrize("clauses", [[], [[1]]])
def test_conditionals_have_nothing_against_a_single_variable(clauses):
    """No pairs, or no free variable at all: an empty family of tests must not count as p = 0."""
    verdict = judge(Formula(clauses, n_vars=1), "prs", test="conditionals", seed=SEED)
    assert verdict.accept is None, str(verdict)
    wrong = np.arange(2000)[:, None] % 4 > 0
    verdict = judge(Formula([], n_vars=1), wrong, test="conditionals")
    assert verdict.accept is False and verdict.evidence["p_value"] < 1e-30
