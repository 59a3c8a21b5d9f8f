"""Sweeps of fields in `auto` and in `nelson.sample`."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from tests.kernels.test_units import pairwise
from tests.problems import chi_square, exact_law, weights
from tests.sampling.auto.decisions import ALPHA, decided, drawn

STEPS = ("enumerate", "circuit", "cftp", "joint")


@pytest.mark.process
def test_fields_make_frozen_chains_diagnosed():
    """One-hot fields with rules between them: no single flip stays valid. Chi-square of 20,000
    samples, rate ALPHA. The twin without fields is heuristic.
    """
    f = pairwise(4, 4, True, [[-1, -5], [-6, -10], [-11, -15], [2, 7, 12]])
    theta = weights(f)
    steps = (*STEPS, "resampling")
    single = decided(f, *steps, "fields", theta=theta).choice
    assert single.guarantee == "heuristic"
    assert single.parts[0]["not taken"]["fields"] == "left out"
    decision = decided(f, *steps, theta=theta)
    assert decision.choice.guarantee == "diagnosed", decision.choice
    record = decision.choice.parts[0]
    assert record["moves"] == "fields" and record["fields"] == 4
    assert chi_square(drawn(f, decision, 20_000), exact_law(f, theta)) > ALPHA


def test_the_caller_asks_for_fields():
    f = pairwise(3, 3, True, [[-1, -4], [-5, -9]])
    theta = weights(f)
    options = {"method": "lovasz", "sweeps": 24, "moves": "fields", "seed": 2}
    s = nelson.sample(f, theta, 20_000, **options)
    assert s.info["moves"] == "fields" and s.info["fields"] == 3 and s.guarantee == "heuristic"
    assert chi_square(np.asarray(s), exact_law(f, theta)) > ALPHA
    parts = [np.asarray(part) for part in nelson.stream(f, theta, 20_000, block=4096, **options)]
    assert np.array_equal(np.concatenate(parts), np.asarray(s))
    given = np.asarray(nelson.sample(f, theta, 1000, given=[2], project=[2, 5, 6], **options))
    assert given[:, 0].all() and given[:, 1].any() and given[:, 2].any()
