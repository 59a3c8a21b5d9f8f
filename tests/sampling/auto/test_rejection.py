"""Rejection, of assignments and of the inputs of gates: the law, and when `auto` takes it."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.chains.problem import prepare
from nelson.exact.routes import Reason
from nelson.policy import DEFAULT, Policy, RejectionPolicy
from nelson.sampling.auto.decision import FormulaPart
from nelson.sampling.auto.steps.rejection import Rejection
from nelson.sampling.methods import rejection
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


def test_seldom_valid_inputs_are_not_drawn():
    policy = Policy(rejection=RejectionPolicy(work=1 << 12))
    f = circuits.random_circuit(40, 200, 20, seed=1)
    part = FormulaPart(np.arange(f.n_vars), np.zeros((1, f.n_vars)), f)
    answer = Rejection().applies(part, Budget(threads=1), policy)
    assert isinstance(answer, Reason) and "random values of the inputs are valid" in answer
    many = np.random.default_rng(0).normal(size=(9, CIRCUIT.n_vars))
    part = FormulaPart(np.arange(CIRCUIT.n_vars), many, CIRCUIT)
    answer = Rejection().applies(part, Budget(threads=1), policy)
    assert isinstance(answer, Reason) and "contexts" in answer


@pytest.mark.slow
def test_assignments_that_are_often_valid_are_drawn_before_all_else():
    """Chi-square of 20,000 samples, rate ALPHA. The twin draws without the weights."""
    f = random_ksat(18, 18, 5, seed=1)
    theta = weights(f, 1)
    s = nelson.sample(f, theta, 20_000, seed=1)
    assert (s.info["method"], s.guarantee) == ("rejection", "exact")
    law = exact_law(f, theta)
    assert chi_square(s.to_numpy(), law) > ALPHA
    assert chi_square(nelson.sample(f, None, 20_000, seed=1).to_numpy(), law) < 1e-9


@pytest.mark.slow
def test_assignments_that_are_seldom_valid_are_not_drawn():
    """Nor those of small formulas, of long lists of contexts, or where most variables are free."""

    def verdict(formula, contexts=1):
        theta = np.zeros((contexts, formula.n_vars))
        part = FormulaPart(np.arange(formula.n_vars), theta, formula)
        return Rejection().whole(part, Budget(threads=1), DEFAULT)

    f = random_ksat(50, 50, 5, seed=1)
    assert 0.15 < verdict(f).more["accepted"] < 0.25  # 0.20 of 1,024: four sigma are 0.05
    assert verdict(random_ksat(50, 150, 5, seed=1)) is None  # one in 120
    assert verdict(random_ksat(200, 200, 5, seed=1)) is None  # not even tried: one in 500
    assert verdict(random_ksat(16, 16, 5, seed=1)) is None
    assert verdict(f, contexts=9) is None
    left_out = nelson.sample(f, None, 10, seed=1, policy=Policy().without("rejection"))
    assert left_out.info["method"] != "rejection"
    assert verdict(nelson.Formula([[1, 2, 3]], n_vars=100)) is None
