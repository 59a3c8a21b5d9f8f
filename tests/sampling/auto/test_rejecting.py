"""Rejection over the inputs of gates: the law, and when `auto` takes it."""

from __future__ import annotations

import numpy as np

import nelson
from nelson.sampling.auto import rejecting
from nelson.sampling.auto.decision import Limits, Part
from nelson.sampling.methods import rejection
from nelson.sampling.problem import prepare
from tests.problems import chi_square, exact_law, random_ksat, weights
from tests.sampling.auto.decisions import ALPHA, decided, drawn, joined
from tests.structured import circuits

#: A circuit of 5 inputs and 11 gates, two of them given: 16 variables.
CIRCUIT = circuits.random_circuit(5, 11, 2, seed=5)


def test_the_law_of_weighted_gates():
    """Chi-square of 20,000 samples, rate ALPHA. The twin ignores the weights of gates."""
    theta, law = weights(CIRCUIT, 1), exact_law(CIRCUIT, weights(CIRCUIT, 1))
    s = nelson.sample(CIRCUIT, theta, 20_000, method="rejection", seed=1)
    assert s.guarantee == "exact" and len(s) == 20_000
    assert chi_square(s.to_numpy(), law) > ALPHA
    found = rejection.gates_of(prepare(CIRCUIT))
    assert len(found.targets) >= 7
    unweighted = theta.copy()
    unweighted[found.targets] = 0.0
    wrong = nelson.sample(CIRCUIT, unweighted, 20_000, method="rejection", seed=1)
    assert chi_square(wrong.to_numpy(), law) < 1e-9


def test_blocks_change_no_sample():
    whole = nelson.sample(CIRCUIT, None, 500, method="rejection", seed=3, threads=2)
    blocks = nelson.stream(CIRCUIT, n=500, block=64, method="rejection", seed=3)
    assert np.array_equal(np.concatenate([b.to_numpy() for b in blocks]), whole.to_numpy())


def test_auto_draws_the_inputs_of_gates():
    """The formula keeps its gates; free variables and another component are drawn beside it."""
    f = joined(circuits.random_circuit(20, 60, 4, seed=2), random_ksat(12, 24, 3, seed=3))
    decision = decided(f, "circuit", "cftp", rejection=True)
    assert decision.guarantee == "exact"
    assert {"rejection", "enumerate"} <= {group.method for group in decision.groups}
    record = next(one for one in decision.choice.parts if one["method"] == "rejection")
    assert 0 < record["accepted"] < 1 and "functions of" in record["why"]
    x = drawn(f, decision, 200)
    assert len(x) == 200 and f.satisfied(x).all()


def test_auto_draws_the_right_law():
    theta = weights(CIRCUIT, 1)
    decision = decided(CIRCUIT, "enumerate", "circuit", "cftp", theta=theta, rejection=True)
    assert (decision.choice.method, decision.guarantee) == ("rejection", "exact")
    x = drawn(CIRCUIT, decision, 20_000)
    assert chi_square(x, exact_law(CIRCUIT, theta)) > ALPHA


def test_seldom_valid_inputs_are_not_drawn(monkeypatch):
    monkeypatch.setattr(rejecting, "_MOST_WORK", 1 << 12)
    f = circuits.random_circuit(40, 200, 20, seed=1)
    part = Part(np.arange(f.n_vars), np.zeros((1, f.n_vars)), f)
    assert rejecting.by_rejection(part, Limits()) is None
    assert "random values of the inputs are valid" in part.passed["rejection"]
    many = np.random.default_rng(0).normal(size=(9, CIRCUIT.n_vars))
    part = Part(np.arange(CIRCUIT.n_vars), many, CIRCUIT)
    assert rejecting.by_rejection(part, Limits()) is None
    assert "contexts" in part.passed["rejection"]
