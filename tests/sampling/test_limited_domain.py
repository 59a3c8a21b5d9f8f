"""The contract of a sampler that refuses some formulas: a right law, or a reason."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from tests.problems import chi_square, exact_law, random_ksat, weights
from tests.sampling import implications, test_promises, test_samplers
from tests.sampling.contract import ALPHA, draw

CHAIN = nelson.Formula([[-v, v + 1] for v in range(1, 9)])
CONTRACT = [
    test_samplers.test_seeds,
    test_samplers.test_given_and_project,
    test_samplers.test_infinite_weights_are_evidence_for_uniform_samplers_too,
    test_samplers.test_contexts,
    test_samplers.test_unsatisfiable_is_proved,
    test_samplers.test_streams,
    test_samplers.test_unique,
    test_samplers.test_weights_or_an_error,
    test_promises.test_what_claims_to_be_exact_is,
]


@pytest.fixture
def toy(fake):
    return fake(implications.draw, refuses=implications.refuses)


@pytest.mark.parametrize("test", CONTRACT, ids=lambda test: test.__name__)
def test_the_contract_ends_where_the_sampler_refuses(test, toy):
    with pytest.raises(pytest.skip.Exception, match="no chain of implications"):
        test(toy)


def test_it_draws_what_it_takes(toy):
    """Chi-square of 20,000 samples, rate ALPHA. The twin has other weights."""
    theta = weights(CHAIN)
    x = draw(toy, CHAIN, theta, 20_000).to_numpy()
    assert chi_square(x, exact_law(CHAIN, theta)) > ALPHA
    assert chi_square(x, exact_law(CHAIN, theta + 0.2)) < ALPHA
    blocks = [b.to_numpy() for b in nelson.stream(CHAIN, None, 150, block=64, method=toy, seed=3)]
    assert CHAIN.satisfied(np.concatenate(blocks)).all()


def test_a_refusal_names_method_and_reason(toy):
    with pytest.raises(nelson.FormulaError, match=r"'fake' cannot draw .*: no chain of impl.*auto"):
        nelson.sample(random_ksat(12, 14, 4, 1), method=toy)


def test_another_error_is_no_refusal(fake):
    """The twin: an error of a sampler without a limited domain fails its test."""

    def broken(problem, theta, count, seed, deadline):
        raise nelson.FormulaError("cannot draw from this formula: it is broken")

    with pytest.raises(nelson.FormulaError, match="it is broken"):
        test_samplers.test_seeds(fake(broken))
