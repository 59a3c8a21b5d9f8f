"""Learning products of variables: a planted model, the exact law, model folders."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import nelson
from nelson.cli import app
from nelson.learning import terms
from nelson.learning.metrics import evaluate
from tests.problems import random_ksat

N, SEED = 5_000, 7
FORMULA = random_ksat(8, 8, 4, 5)
TERMS = {(1, 2): 1.5, (3, 4, 5): -2.0}
THETA = np.array([0.5, -0.4, 0.3, 0.2, 0.1, -0.3, 0.0, 0.6])


def law(theta: np.ndarray, terms) -> tuple[np.ndarray, np.ndarray]:
    states = (np.arange(256)[:, None] >> np.arange(8) & 1).astype(bool)
    states = states[FORMULA.satisfied(states)]
    phi = states @ theta + nelson.Polynomial(terms)(states)
    weight = np.exp(phi - phi.max())
    return states, weight / weight.sum()


def divergence(theta: np.ndarray, terms) -> float:
    """KL(planted, learned), by enumeration."""
    true, model = law(THETA, TERMS)[1], law(theta, terms)[1]
    return float((true * np.log(true / model)).sum())


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    states, probability = law(THETA, TERMS)
    random = np.random.default_rng(SEED)
    return states[random.choice(len(states), N, p=probability)]


@pytest.fixture(scope="module")
def fit(data):
    return nelson.learn(FORMULA, data, terms=TERMS, seed=SEED)


@pytest.mark.slow
def test_planted_products_are_found(fit, data):
    """Ten parameters: 2 N KL is about chi-square with 10 degrees of freedom, whose 1 - 1e-6
    quantile is 45; sampling and sweeps add a little. Without the terms it is far above."""
    assert fit.converged, fit.why
    assert set(fit.terms) == set(TERMS)
    assert 2 * N * divergence(fit.theta, fit.terms) < 60
    plain = nelson.learn(FORMULA, data, seed=SEED)
    assert plain.terms is None
    assert 2 * N * divergence(plain.theta, {}) > 150


@pytest.mark.slow
def test_new_samples_follow_the_learned_law(fit):
    s = fit.sample(100_000, seed=1)
    assert s.guarantee == "exact"
    assert FORMULA.satisfied(s.to_numpy()).all()
    states, probability = law(fit.theta, fit.terms)
    both = (s.to_numpy()[:, 0] & s.to_numpy()[:, 1]).mean()
    exact = probability @ (states[:, 0] & states[:, 1])
    # 5 sigma: false alarm 6e-7; the law without terms is off by more than that.
    sigma = np.sqrt(exact * (1 - exact) / len(s))
    assert abs(both - exact) < 5 * sigma
    states, probability = law(fit.theta, {})
    assert abs(both - probability @ (states[:, 0] & states[:, 1])) > 5 * sigma


@pytest.mark.slow
def test_a_model_with_terms_is_a_folder(fit, data, tmp_path):
    fit.save(tmp_path / "model")
    loaded = nelson.load(tmp_path / "model")
    assert loaded.terms == fit.terms
    assert np.array_equal(loaded.theta, fit.theta)
    same = [m.sample(100, seed=3, sweeps=4).packed for m in (fit, loaded)]
    assert np.array_equal(*same)
    assert "1 2 are all true" in (tmp_path / "model" / "README.md").read_text()
    report = evaluate(FORMULA, fit.theta, data[:5000], terms=fit.terms, samples=20_000)
    states, probability = law(fit.theta, fit.terms)
    index = {state.tobytes(): p for state, p in zip(states, probability, strict=True)}
    exact = np.mean([np.log(index[row.tobytes()]) for row in data[:5000]])
    assert report["log_likelihood"]["value"] == pytest.approx(exact, abs=1e-9)
    assert report["validity"] == 1.0
    mrf = fit.mrf
    assert mrf.event_shape == (10,)


@pytest.mark.slow
def test_the_command_line_generates_from_it(fit, tmp_path):
    fit.save(tmp_path / "model")
    command = ["sample", str(tmp_path / "model"), "-n", "50"]
    run = CliRunner().invoke(app, [*command, "--seed", "1"])
    assert run.exit_code == 0
    rows = np.array([[int(t) > 0 for t in line.split()[:-1]] for line in run.stdout.splitlines()])
    assert rows.shape == (50, 8)
    assert FORMULA.satisfied(rows).all()
    wrong = CliRunner().invoke(app, [*command, "--method", "prs"])
    assert wrong.exit_code == 1
    assert "terms with method='prs'" in wrong.stderr


@pytest.mark.parametrize("terms", [[(1,)], [(1, 9)], [], [(0, 1)]])
def test_bad_terms_are_named(terms, data):
    with pytest.raises(nelson.FormulaError, match="term"):
        nelson.learn(FORMULA, data, terms=terms)


def test_terms_stand_alone(data):
    with pytest.raises(nelson.FormulaError, match="terms"):
        nelson.learn(FORMULA, data, terms=[(1, 2)], method="prs")


@pytest.mark.slow
def test_a_valid_space_in_pieces_is_said_to_be_one(monkeypatch):
    """Single flips do not connect the solutions of this one: the samples of chains are biased, and
    so is what is learned from them; the fit says so. With a circuit the samples are exact."""
    tight = random_ksat(8, 12, 3, 5)
    data = nelson.sample(tight, THETA, 500, method="prs", seed=SEED)
    assert nelson.learn(tight, data, terms=[(1, 2)], seed=SEED).guarantee == "exact"
    monkeypatch.setattr(terms, "exact_source", lambda formula, budget=None: None)
    fit = nelson.learn(tight, data, terms=[(1, 2)], seed=SEED)
    assert fit.guarantee == "heuristic"
    assert "heuristic" in fit.why
