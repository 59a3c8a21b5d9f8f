"""log Z is exact wherever samples are, under theta and evidence; every exact route gives the same
value, for log-odds of any size.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from nelson import BudgetExceeded, Unsatisfiable, log_z, sample
from nelson.chains.moves.joint import LOST
from tests.exact.test_law import SOLVED_BY_INPUTS, models_of, xor_gates
from tests.problems import exact_law, random_ksat

METHODS = ("enumerate", "tables", "circuit", "auto")


def log_sum(models: np.ndarray, theta: np.ndarray) -> float:
    """log of the sum of exp(theta . x), without loss: the weights are added from small to large."""
    score = models @ theta
    return float(score.max() + math.log(math.fsum(np.exp(np.sort(score - score.max())))))


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVED_BY_INPUTS)
def test_log_z_is_exact_where_samples_are(name: str) -> None:
    """XOR chains, gates and XOR constraints of few inputs: with theta, evidence, a projection."""
    shared, inputs, shown = SOLVED_BY_INPUTS[name]
    formula = shared.replace()  # laws are kept with a formula
    models = models_of(formula, inputs)[:, : formula.n_vars]
    random = np.random.default_rng(1)
    theta = random.normal(size=formula.n_vars) * random.choice([0.1, 3.0, 30.0], formula.n_vars)
    assert sample(formula, theta, 64, seed=1).guarantee == "exact"
    z = log_z(formula, theta)
    assert z.exact and z.value == pytest.approx(log_sum(models, theta), rel=1e-12)
    given = [int(v + 1 if models[0, v] else -v - 1) for v in (0, formula.n_vars - 1)]
    agree = (models[:, np.abs(given) - 1] == (np.array(given) > 0)).all(axis=1)
    z = log_z(formula, theta, given=given)
    assert z.exact and z.value == pytest.approx(log_sum(models[agree], theta), rel=1e-12)
    # A projection says which columns samples have. It does not change the law, nor log Z.
    asked = formula.replace(projection=tuple(shown))
    assert sample(asked, theta, 64, seed=1).guarantee == "exact"
    assert log_z(asked, theta).value == pytest.approx(log_sum(models, theta), rel=1e-12)


@pytest.mark.slow
def test_two_thousand_variables_over_fourteen_inputs() -> None:
    """XOR chains that `nelson count` used to give up on after a minute."""
    formula = xor_gates(14, 2000, 8)
    theta = np.random.default_rng(2).normal(size=2000)
    z = log_z(formula, theta, seconds=60)
    models = sample(formula, None, 20_000, seed=1, unique=True).to_numpy()  # all of them
    assert z.exact and f"a sum over all {len(models)} structures" in z.why
    assert z.value == pytest.approx(log_sum(models, theta), rel=1e-12)


@pytest.mark.process
def test_every_exact_route_agrees_with_brute_force() -> None:
    """Random formulas and log-odds from -300 to 300; a value is right, or it is refused."""
    answered, refused = dict.fromkeys(METHODS, 0), []
    for seed in range(60):
        random = np.random.default_rng(seed)
        n, k = int(random.integers(3, 11)), int(random.integers(2, 4))
        formula = random_ksat(n, int(random.integers(1, 3 * n)), k, seed=seed)
        theta = random.uniform(-1, 1, n) * float(random.choice([1.0, 30.0, 300.0]))
        try:
            models, _ = exact_law(formula, np.zeros(n))
        except Unsatisfiable:
            models = np.zeros((0, n), bool)
        for method in METHODS:
            if not len(models):
                with pytest.raises(Unsatisfiable):
                    log_z(formula, theta, method=method)
                continue
            try:
                z = log_z(formula, theta, method=method)
            except BudgetExceeded as error:
                refused.append((method, str(error)))
                continue
            truth = log_sum(models, theta)
            assert z.exact and z.value == pytest.approx(truth, rel=1e-12, abs=1e-12), (seed, method)
            answered[method] += 1
    assert all(method == "tables" and LOST in why for method, why in refused)
    print(answered)
    assert min(answered.values()) > 30 and answered["auto"] == answered["enumerate"]
