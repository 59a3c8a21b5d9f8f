"""Routes drawn uniformly by resampling, and weighted by chains; how well chains mix."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from nelson.errors import BudgetExceeded
from nelson_paper.tasks.routes import Routes
from nelson_paper.tasks.routes import resample as resampling
from nelson_paper.tasks.routes.moves import Chains
from nelson_paper.tasks.routes.resample import resample
from tests.paper.tasks.routes.cases import SEED, P, first, normal_theta, p_value


def test_resampled_routes_are_uniform():
    """All 5! orders and all 4! round trips, chi-square."""
    drawn = resample(5, 60_000, seed=SEED)
    orders = np.array(list(permutations(range(5))))
    assert p_value(drawn.orders, orders, np.full(120, 1 / 120)) > P
    routes, law = first(5).law()
    assert p_value(drawn.routes, routes, law) > P


def test_resampling_with_unequal_weights_is_biased():
    """A weight for each location: every order has the same product, yet they are not equally
    frequent. With a weight for each position and location the product law is missed as well.
    """
    orders = np.array(list(permutations(range(5))))
    weights = np.linspace(-0.5, 0.5, 5)
    drawn = resample(5, 60_000, seed=SEED, log_weights=weights)
    assert p_value(drawn.orders, orders, np.full(120, 1 / 120)) < 1e-12
    table = np.random.default_rng(SEED).normal(0, 0.5, (5, 5))
    law = np.exp(table[np.arange(5), orders].sum(axis=1))
    drawn = resample(5, 60_000, seed=SEED, log_weights=table)
    assert p_value(drawn.orders, orders, law / law.sum()) < 1e-12


def test_all_but_the_first_are_redrawn_or_it_does_not_end():
    """Errata 17: about 1.64 n rounds, where redrawing all ends for none of 50 routes."""
    drawn = resample(29, 2000, seed=SEED)
    assert drawn.finished.all()
    assert 40 < drawn.rounds.mean() < 50  # its standard error is below 1
    assert (np.sort(drawn.orders, axis=1) == np.arange(29)).all()
    assert drawn.redrawn.min() >= 0 and (drawn.redrawn >= drawn.rounds).all()
    stuck = resample(29, 50, seed=SEED, keep="none", max_rounds=2000)
    assert not stuck.finished.any() and len(stuck.routes) == 0


def test_uniform_sample_is_exact_and_says_how():
    drawn = Routes().sample(None, 500, seed=SEED)
    assert drawn.guarantee == "exact" and Routes().valid(drawn.x).all()
    assert drawn.info["method"] == "resampling"
    assert drawn.info["rounds"] >= drawn.info["mean_rounds"] > 10


def test_a_budget_that_is_too_small_raises(monkeypatch):
    monkeypatch.setattr(resampling, "MAX_ROUNDS", 3)
    with pytest.raises(BudgetExceeded):
        Routes().sample(None, 20)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mix", [(1.0, 1.0), (0.0, 1.0), (0.0, 0.0)], ids=["insert", "reverse", "swap"]
)
def test_each_move_alone_keeps_the_law(mix):
    """From exact draws, 3 sweeps of one kind of move leave the law as it is; with the directions
    of all edges turned round (reversals summed wrongly, say) they do not.
    """
    task = first(5)
    theta = task.matrix(normal_theta(task, 1.5))
    routes, law = task.law(theta)
    start = routes[np.random.default_rng(SEED).choice(len(law), 60_000, p=law)]

    def moved(weights):
        chains = Chains(5, len(start), seed=SEED, start=start)
        chains.advance(weights, np.ones(3), mix)
        assert (chains.rotated() != start).any(axis=1).mean() > 0.2
        return chains.rotated()

    assert p_value(moved(theta), routes, law) > P
    assert p_value(moved(theta.T), routes, law) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m"), [(3, 5_000), (4, 20_000), (8, 40_000), (9, 40_000)])
def test_weighted_routes_follow_the_enumerated_law(n, m):
    """Chi-square over (n - 1)! routes, rare ones together. Rejected: one sweep, and an acceptance
    at the wrong temperature.
    """
    task = first(n)
    theta = normal_theta(task)
    routes, law = task.law(theta)
    drawn = task.sample(theta, m, seed=SEED, anneal=10, sweeps=30)
    assert drawn.guarantee == "diagnosed" and task.valid(drawn.x).all()
    assert p_value(task.to_routes(drawn.x), routes, law) > P
    if n >= 8:
        hurried = task.sample(theta, m, seed=SEED, anneal=0, sweeps=1)
        assert p_value(task.to_routes(hurried.x), routes, law) < 1e-12
        warm = task.sample(0.8 * theta, m, seed=SEED, anneal=10, sweeps=30)
        assert p_value(task.to_routes(warm.x), routes, law) < 1e-12


@pytest.mark.slow
def test_chains_are_the_same_on_any_threads_and_in_any_batch():
    task = Routes()
    theta = task.planted_theta()
    a = task.sample(theta, 40, seed=SEED, threads=1, anneal=5, sweeps=5)
    b = task.sample(theta, 40, seed=SEED, threads=3, anneal=5, sweeps=5)
    c = task.sample(theta, 10, seed=SEED, anneal=5, sweeps=5)
    other = task.sample(theta, 40, seed=SEED + 1, anneal=5, sweeps=5)
    assert (a.x == b.x).all() and (a.x[:10] == c.x).all() and (a.x != other.x).any()
    matrix = task.matrix(theta)
    whole, parts = Chains(29, 20, seed=SEED), Chains(29, 20, seed=SEED)
    whole.advance(matrix, np.ones(6))
    for _ in range(3):
        parts.advance(matrix, np.ones(2))
    assert (whole.routes == parts.routes).all() and whole.steps == parts.steps == 6 * 29
    data = task.examples(40, seed=SEED, kind="planted")  # of one seed, but no shared randomness
    assert (task.sample(theta, 40, seed=SEED).x != data).any(axis=1).sum() > 35
    full = resample(29, 60, seed=SEED, threads=3)
    assert (full.orders[:7] == resample(29, 7, seed=SEED, threads=1).orders).all()
    assert (resample(29, 7, seed=SEED, context=1).orders != full.orders[:7]).any()


@pytest.mark.slow
def test_chains_mix_at_29_locations():
    """R-hat of potential, length, direction and the 40 most varying edges; chains that have just
    left their uniform starts are seen.
    """
    task = Routes()
    theta = task.planted_theta()
    told = task.diagnose(theta, seed=SEED, chains=16, length=200)
    assert told["rhat"] < 1.1 and told["ess"] > 200
    assert set(told["statistics"]) >= {"potential", "length", "direction"}
    early = task.diagnose(theta, seed=SEED, chains=16, length=40, thin=1, anneal=0, sweeps=0)
    assert early["rhat"] > 1.2
    assert task.sample(theta, 20, seed=SEED).guarantee == "diagnosed"


@pytest.mark.slow
def test_frozen_chains_are_called_heuristic():
    """Weights 30 times as large: each chain stays where annealing left it."""
    task = Routes()
    drawn = task.sample(30 * task.planted_theta(), 20, seed=SEED)
    assert drawn.guarantee == "heuristic" and drawn.info["rhat"] > 1.1
    # Too few sweeps for chains that would mix.
    assert task.sample(task.planted_theta(), 20, seed=SEED, sweeps=2).guarantee == "heuristic"
