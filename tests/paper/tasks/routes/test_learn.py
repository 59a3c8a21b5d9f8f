"""Examples of routes, learning from them, and comparison of generated with held-out routes."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from nelson.errors import FormulaError
from nelson_paper.tasks.routes import Routes, examples
from nelson_paper.tasks.routes.compare import alike, ks
from nelson_paper.tasks.routes.convert import summed, to_vector
from nelson_paper.tasks.routes.learn import Prior
from tests.paper.tasks.routes.cases import SEED, P, first

#: Half the default sweeps; the autocorrelation time is about 20.
BRIEF = {"n": 800, "anneal": 50, "sweeps": 100}


@pytest.mark.slow
def test_examples_are_valid_varied_and_keep_the_preference():
    task = Routes()
    district = examples.districts(task.places)
    assert district[0] == -1 and set(np.bincount(district[1:])) == {7}
    disliked = ~examples.liked(district)

    def broken(routes):
        return disliked[routes, np.roll(routes, -1, axis=1)].sum(axis=1).mean()

    blind = task.to_routes(task.sample(None, 300, seed=SEED).x)
    means = {}
    for kind in Routes.KINDS:
        x = task.examples(300, seed=SEED, kind=kind)
        routes = task.to_routes(x)
        assert task.valid(x).all() and len(np.unique(routes, axis=0)) > 250
        assert (task.examples(20, seed=SEED, kind=kind) == x[:20]).all()
        assert task.lengths(x).mean() < 0.7 * summed(task.distances, blind).mean()
        means[kind] = broken(routes)
    assert max(means["districts"], means["planted"]) < 1 < 5 < min(means["short"], broken(blind))
    with pytest.raises(FormulaError, match="kind"):
        task.examples(3, kind="paper")


def test_two_opt_leaves_no_improving_move():
    """Against a slow search over all reversals and insertions, edges summed from scratch."""
    task = first(7)
    worth = examples.worth(task.distances, examples.districts(task.places))
    for route in examples.local_optima(worth, 30, noise=0.0, seed=SEED).tolist():
        value = sum(worth[a, b] for a, b in zip(route, route[1:] + route[:1], strict=True))
        for i, j in combinations(range(8), 2):
            turned = route[:i] + route[i:j][::-1] + route[j:]
            rest = route[:i] + route[j:]
            others = [rest[:k] + route[i:j] + rest[k:] for k in range(len(rest)) if j - i <= 3]
            for other in [turned, *others]:
                edges = zip(other, other[1:] + other[:1], strict=True)
                assert sum(worth[a, b] for a, b in edges) < value + 1e-6


@pytest.fixture(scope="module")
def learned():
    """29 locations, 800 routes; 800 more held out."""
    task = Routes()
    train, held_out = task.examples(800, seed=SEED), task.examples(800, seed=SEED + 1)
    fit = task.learn(train, seed=SEED, iterations=120, chains=800)
    return task, train, held_out, fit


@pytest.mark.slow
def test_learning_converges(learned):
    """The gap falls from that of uniform routes to the noise of the chains, and stays there."""
    _, _, _, fit = learned
    gaps = [row["gap_l1"] for row in fit.history]
    assert gaps[0] > 30 and max(gaps[-20:]) < 1.5 * fit.history[-1]["floor"] < 4
    assert fit.converged and fit.guarantee == "diagnosed" and "fresh chains" in fit.why
    assert np.isfinite(fit.theta).all() and np.abs(fit.theta).max() < 20


@pytest.mark.slow
def test_new_routes_are_valid_and_like_held_out_ones(learned):
    """Edge frequencies within the noise that two halves of the data show, lengths by KS."""
    task, train, held_out, fit = learned
    told = task.evaluate(fit.theta, held_out, train=train, seed=SEED, **BRIEF)
    assert told["validity"] == 1.0 and told["guarantee"] == "diagnosed"
    assert told["edge_correlation"] > 0.99
    assert told["edge_gap"] == pytest.approx(told["moment_gap"]["l1"])
    assert told["edge_gap"] < 1.3 * told["edge_noise"]
    assert told["length_p"] > P
    assert told["distinct"] > 700  # new ones, not copies of a few
    for q, held in told["length_quantiles"]["held_out"].items():
        assert abs(told["length_quantiles"]["model"][q] / held - 1) < 0.03


@pytest.mark.slow
def test_wrong_models_fail_the_same_tests(learned):
    """Uniform routes; the right weights driven the wrong way round; weights half as strong."""
    task, train, held_out, fit = learned
    blind = task.sample(None, 800, seed=SEED)
    told = alike(task.to_routes(held_out), task.to_routes(blind.x), task.distances, len(train))
    assert told["length_p"] < 1e-12 and told["edge_gap"] > 5 * told["edge_noise"]
    assert told["edge_correlation"] < 0.2
    backwards = to_vector(task.matrix(fit.theta).T)
    told = task.evaluate(backwards, held_out, train=train, seed=SEED, **BRIEF)
    assert told["validity"] == 1.0 and told["edge_gap"] > 5 * told["edge_noise"]
    told = task.evaluate(0.5 * fit.theta, held_out, train=train, seed=SEED, **BRIEF)
    assert told["length_p"] < 1e-12 and told["edge_gap"] > 3 * told["edge_noise"]
    assert told["uniform_length_p"] < 1e-12


@pytest.mark.slow
def test_learned_weights_against_enumeration():
    """Nine locations, 2,000 routes drawn from theta*: at the learned theta the exact gradient is
    within noise of 0 (and not at theta = 0), and held-out routes are as likely as under theta*.
    """
    task = Routes.small()
    assert task.n == 9 and task.locations[0] == "1"
    train = task.examples(2000, seed=SEED, kind="planted")
    held_out = task.examples(2000, seed=SEED + 1, kind="planted")
    fit = task.learn(train, seed=SEED, iterations=200)
    routes, law = task.law(fit.theta)
    exact = law @ task.to_x(routes)
    prior = Prior(task.n_vars, 1 / (2000 * 3.0**2), to_vector(task.distances))
    gap = train.mean(axis=0) - exact - prior.pull(fit.theta)
    # The mean of theta over 50 iterations of 1,000 chains, by its noise at 5 sigma.
    assert np.abs(gap).max() < 5 * math.sqrt(0.25 / 5000)
    assert abs(gap @ to_vector(task.distances)) < 0.01 * (train @ to_vector(task.distances)).mean()
    blind = task.law()[1] @ task.to_x(routes)
    assert np.abs(train.mean(axis=0) - blind).max() > 0.3
    star, found, nothing = (
        task.log_likelihood(t, held_out)["value"]
        for t in (task.planted_theta(), fit.theta, np.zeros(72))
    )
    assert star - 0.05 < found < star + 0.02 and nothing < star - 3
    told = task.evaluate(fit.theta, held_out, train=train, n=500)
    assert told["log_likelihood"]["value"] == pytest.approx(found)
    assert told["log_likelihood"]["half_width"] > 0
    seen = told["train_log_likelihood"]  # another sample, and the one that theta was fitted to
    assert abs(seen["value"] - found) < 5 * seen["half_width"]


def test_prior_leaves_free_directions_alone():
    free = np.array([[1.0, 2.0, 2.0]])
    prior = Prior(3, 0.5, free)
    assert np.allclose(prior.pull(3 * free[0]), 0)
    assert np.allclose(prior.pull(np.array([2.0, -1.0, 0.0])), [1.0, -0.5, 0.0])
    assert np.allclose(Prior(3, 0.5).pull(free[0]), 0.5 * free[0])
    with pytest.raises(FormulaError, match="free directions"):
        Prior(3, 0.5, np.ones((2, 4)))


def test_ks_against_scipy():
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(SEED)
    a, b = random.standard_normal(300), random.standard_normal(200) + 0.15
    d, p = ks(a, b)
    reference = stats.ks_2samp(a, b, method="asymp")
    assert d == pytest.approx(reference.statistic) and p == pytest.approx(
        reference.pvalue, rel=0.15
    )
    assert ks(a, a) == (0.0, 1.0) and ks(a, a + 100)[1] < 1e-12


def test_learn_refuses_what_it_cannot_use():
    task = first(5)
    with pytest.raises(FormulaError, match="invalid"):
        task.learn(np.zeros((3, 20), bool))
    with pytest.raises(FormulaError, match="no examples"):
        task.learn(np.zeros((0, 20), bool))
    with pytest.raises(FormulaError, match="prior"):
        task.learn(task.examples(5), prior=0)
