"""Routes: uniform by resampling, weighted by chains, learned, as clauses, from files, drawn.

Seeds are fixed. Accepting tests ask for a p-value above P = 1e-4 (chi-square, Kolmogorov-Smirnov)
or for less than 5 sigma; there are about 20 of them, so the chance that one fails if the random
numbers change is 2e-3. Next to each stands a wrong sampler that it rejects.
"""

from __future__ import annotations

import math
from itertools import combinations, permutations

import numpy as np
import pytest

import nelson
from nelson.errors import BudgetExceeded, FormulaError
from nelson.experiments.base import Cell
from nelson.experiments.routes import EXPERIMENT
from nelson.judging.tails import chi_square_tail
from nelson.tasks.routes import Routes, examples, tsplib
from nelson.tasks.routes import resample as resampling
from nelson.tasks.routes.check import chi_square, numbered
from nelson.tasks.routes.compare import alike, ks, lengths_of
from nelson.tasks.routes.convert import to_matrix, to_vector
from nelson.tasks.routes.data import BAYG29, euclidean, laid_out
from nelson.tasks.routes.diagnose import effective_size, split_rhat
from nelson.tasks.routes.learn import Prior, frequencies
from nelson.tasks.routes.moves import Chains
from nelson.tasks.routes.picture import centred
from nelson.tasks.routes.resample import resample

SEED = 20260301
P = 1e-4


def p_value(drawn, routes, law):
    return chi_square_tail(*chi_square(drawn, routes, law))


def first(n: int) -> Routes:
    """The first n locations of bayg29."""
    return Routes(BAYG29[:n])


def normal_theta(task: Routes, scale: float = 1.0, seed: int = SEED) -> np.ndarray:
    return scale * np.random.default_rng(seed).standard_normal(task.n_vars)


# ------------------------------------------------------------------------------------- conversions


def test_routes_edges_and_weights_convert():
    task = first(5)
    assert task.n_vars == 20 and task.names[:5] == ["1->2", "1->3", "1->4", "1->5", "2->1"]
    x = task.to_x([[2, 0, 4, 1, 3]])
    assert task.valid(x).all() and x.sum() == 5
    assert task.to_routes(x).tolist() == [[0, 4, 1, 3, 2]]
    assert task.readable(x) == [["1", "5", "2", "4", "3"]]
    assert [name for name, on in zip(task.names, x[0], strict=True) if on] == [
        "1->5", "2->4", "3->1", "4->3", "5->2",
    ]  # fmt: skip
    theta = normal_theta(task)
    matrix = task.matrix(theta)
    assert (task.vector(matrix) == theta).all() and (np.diag(matrix) == 0).all()
    assert matrix[1, 3] == theta[task.names.index("2->4")]
    assert math.isclose((x @ theta)[0], matrix[[0, 4, 1, 3, 2], [4, 1, 3, 2, 0]].sum())
    d = task.distances
    assert math.isclose(task.lengths(x)[0], d[0, 4] + d[4, 1] + d[1, 3] + d[3, 2] + d[2, 0])


def test_valid_means_one_round_through_all():
    task = first(6)
    all_routes, p = task.law()
    assert len(all_routes) == math.factorial(5) and math.isclose(p.sum(), 1)
    x = task.to_x(all_routes)
    assert task.valid(x).all() and len(np.unique(x, axis=0)) == len(x)
    assert (task.to_routes(x) == all_routes).all()

    def edges(*pairs):
        row = np.zeros(task.n_vars, bool)
        row[[task.names.index(pair) for pair in pairs]] = True
        return row

    two_rounds = edges("1->2", "2->3", "3->1", "4->5", "5->6", "6->4")
    short = edges("1->2", "2->3", "3->4", "4->5", "5->6")
    twice = edges("1->2", "2->3", "3->4", "4->5", "5->6", "6->1", "1->3")
    assert not task.valid([two_rounds, short, twice, np.zeros(30, bool)]).any()
    with pytest.raises(FormulaError, match="no round trip"):
        task.to_routes(two_rounds)


# ------------------------------------------------------------------------------ uniform, resampled


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


# ------------------------------------------------------------------------------------- weighted


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
        assert (chains.found() != start).any(axis=1).mean() > 0.2
        return chains.found()

    assert p_value(moved(theta), routes, law) > P
    assert p_value(moved(theta.T), routes, law) < 1e-12


@pytest.mark.parametrize(("n", "m"), [(3, 5_000), (4, 20_000), (8, 40_000), (9, 40_000)])
def test_weighted_routes_follow_the_enumerated_law(n, m):
    """Chi-square over (n - 1)! routes, rare ones together. Rejected: one sweep, and an acceptance
    at the wrong temperature.
    """
    task = first(n)
    theta = normal_theta(task)
    routes, law = task.law(theta)
    drawn = task.sample(theta, m, seed=SEED, anneal=10, sweeps=30)
    assert drawn.guarantee == "asymptotic" and task.valid(drawn.x).all()
    assert p_value(task.to_routes(drawn.x), routes, law) > P
    if n >= 8:
        hurried = task.sample(theta, m, seed=SEED, anneal=0, sweeps=1)
        assert p_value(task.to_routes(hurried.x), routes, law) < 1e-12
        warm = task.sample(0.8 * theta, m, seed=SEED, anneal=10, sweeps=30)
        assert p_value(task.to_routes(warm.x), routes, law) < 1e-12


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


# ------------------------------------------------------------------------------------- diagnostics


def autoregressive(rho: float, chains: int, length: int, seed: int = SEED) -> np.ndarray:
    """x_t = rho x_(t-1) + sqrt(1 - rho^2) e_t, started in its law N(0, 1)."""
    e = np.random.default_rng(seed).standard_normal((chains, length))
    x = e.copy()
    for t in range(1, length):
        x[:, t] = rho * x[:, t - 1] + math.sqrt(1 - rho**2) * e[:, t]
    return x


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, -0.3])
def test_effective_size_of_autoregressive_chains(rho):
    """Known: draws (1 - rho) / (1 + rho). The estimate has a relative error of some percent."""
    x = autoregressive(rho, 8, 8000)
    expected = x.size * (1 - rho) / (1 + rho)
    assert 0.85 * expected < effective_size(x) < 1.15 * expected
    assert abs(split_rhat(x) - 1) < 0.01
    if rho == 0.9:  # a reader that believes in independent draws is wrong by a factor of 19
        assert effective_size(x) < 0.07 * x.size


def test_rhat_sees_chains_that_disagree_or_drift():
    """Chains with means of variance b: R-hat is sqrt(1 + b), b estimated from 8 means."""
    x = autoregressive(0.0, 8, 2000)
    apart = x + np.linspace(-1, 1, 8)[:, None]
    b = np.repeat(np.linspace(-1, 1, 8), 2).var(ddof=1)
    assert abs(split_rhat(apart) - math.sqrt(1 + b)) < 0.02
    assert effective_size(apart) < 100
    drift = x + np.linspace(0, 3, 2000)
    assert split_rhat(x) < 1.01 < 1.15 < split_rhat(drift)
    assert split_rhat(np.ones((4, 10))) == 1 and math.isnan(effective_size(np.ones((4, 10))))
    assert split_rhat(np.repeat(np.arange(4.0), 10).reshape(4, 10)) == math.inf
    with pytest.raises(FormulaError, match="length at least 4"):
        split_rhat(np.ones((4, 3)))


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


# ---------------------------------------------------------------------------------------- examples


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
        assert task.lengths(x).mean() < 0.7 * lengths_of(blind, task.distances).mean()
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


# ---------------------------------------------------------------------------------------- learning


@pytest.fixture(scope="module")
def learned():
    """29 locations, 800 routes; 800 more held out."""
    task = Routes()
    train, held_out = task.examples(800, seed=SEED), task.examples(800, seed=SEED + 1)
    fit = task.learn(train, seed=SEED, iterations=240, chains=800)
    return task, train, held_out, fit


def test_learning_converges(learned):
    """The gap falls from that of uniform routes to the noise of the chains, and stays there."""
    _, _, _, fit = learned
    gaps = [row["gap_l1"] for row in fit.history]
    assert gaps[0] > 30 and max(gaps[-20:]) < 1.5 * fit.history[-1]["floor"] < 4
    assert fit.converged and fit.guarantee == "asymptotic" and "fresh chains" in fit.why
    assert np.isfinite(fit.theta).all() and np.abs(fit.theta).max() < 20


def test_new_routes_are_valid_and_like_held_out_ones(learned):
    """Edge frequencies within the noise that two halves of the data show, lengths by KS."""
    task, train, held_out, fit = learned
    told = task.evaluate(fit.theta, held_out, train=train, n=800, seed=SEED)
    assert told["validity"] == 1.0 and told["guarantee"] == "asymptotic"
    assert told["edge_correlation"] > 0.99
    assert told["edge_gap"] == pytest.approx(told["moment_gap"]["l1"])
    assert told["edge_gap"] < 1.3 * told["edge_noise"]
    assert told["length_p"] > P
    assert told["distinct"] > 700  # new ones, not copies of a few
    for q, held in told["length_quantiles"]["held_out"].items():
        assert abs(told["length_quantiles"]["model"][q] / held - 1) < 0.03


def test_wrong_models_fail_the_same_tests(learned):
    """Uniform routes; the right weights driven the wrong way round; weights half as strong."""
    task, train, held_out, fit = learned
    blind = task.sample(None, 800, seed=SEED)
    told = alike(task.to_routes(held_out), task.to_routes(blind.x), task.distances, len(train))
    assert told["length_p"] < 1e-12 and told["edge_gap"] > 5 * told["edge_noise"]
    assert told["edge_correlation"] < 0.2
    backwards = to_vector(task.matrix(fit.theta).T)
    told = task.evaluate(backwards, held_out, train=train, n=800, seed=SEED)
    assert told["validity"] == 1.0 and told["edge_gap"] > 5 * told["edge_noise"]
    told = task.evaluate(0.5 * fit.theta, held_out, train=train, n=800, seed=SEED)
    assert told["length_p"] < 1e-12 and told["edge_gap"] > 3 * told["edge_noise"]
    assert told["uniform_length_p"] < 1e-12


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
    asymptotic = stats.ks_2samp(a, b, method="asymp")
    assert d == pytest.approx(asymptotic.statistic) and p == pytest.approx(
        asymptotic.pvalue, rel=0.15
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


# ----------------------------------------------------------------------------------------- clauses


def test_cnf_has_one_model_a_round_trip():
    task = first(5)
    made = task.cnf()
    assert made.formula.n_vars == 16 and made.names[1] == "2:2" and made.names[16] == "5:5"
    states = (np.arange(2**16)[:, None] >> np.arange(16) & 1).astype(bool)
    models = states[made.formula.satisfied(states)]
    assert len(models) == math.factorial(4)
    routes = made.to_routes(models)
    assert set(map(tuple, routes.tolist())) == set(map(tuple, task.law()[0].tolist()))
    assert (made.from_routes(routes) == models).all()
    assert task.valid(task.to_x(routes)).all()
    assert not made.formula.is_extremal
    with pytest.raises(FormulaError, match="violates"):
        made.to_routes(np.ones(16, bool))


def test_cnf_runs_through_nelson():
    """method="auto" on the clauses: uniform over 4! routes; twin: without one of two routes."""
    task = first(5)
    made = task.cnf()
    s = nelson.sample(made.formula, n=20_000, method="auto", seed=SEED)
    assert s.guarantee == "exact"
    routes, law = task.law()
    drawn = made.to_routes(s.to_numpy())
    assert p_value(drawn, routes, law) > P
    assert p_value(drawn[drawn[:, 1] != 1], routes, law) < 1e-12


def test_cnf_with_edges_carries_the_weights():
    task = first(5)
    made = task.cnf(edges=True)
    theta = normal_theta(task)
    s = nelson.sample(made.formula, made.weights(theta), 20_000, method="auto", seed=SEED)
    y = s.to_numpy()
    drawn = made.to_routes(y)
    assert (y[:, 16:] == task.to_x(drawn)).all() and (made.from_routes(drawn) == y).all()
    routes, law = task.law(theta)
    assert s.guarantee == "exact" and p_value(drawn, routes, law) > P
    assert p_value(drawn, routes, task.law(0.8 * theta)[1]) < 1e-12
    assert made.names.variable("2->4") == 17 + task.names.index("2->4")
    with pytest.raises(FormulaError, match="edges=True"):
        task.cnf().weights(theta)


# ------------------------------------------------------------------------------------------- files

BURMA14 = """NAME: burma14
TYPE: TSP
COMMENT: 14-Staedte in Burma (Zaw Win)
DIMENSION: 14
EDGE_WEIGHT_TYPE: GEO
EDGE_WEIGHT_FORMAT: FUNCTION
DISPLAY_DATA_TYPE: COORD_DISPLAY
NODE_COORD_SECTION
   1  16.47       96.10
   2  16.47       94.44
   3  20.09       92.54
   4  22.39       93.37
   5  25.23       97.24
   6  22.00       96.05
   7  20.47       97.02
   8  17.20       96.29
   9  16.30       97.38
  10  14.05       98.12
  11  16.53       97.38
  12  21.52       95.59
  13  19.41       97.13
  14  20.09       94.55
EOF
"""


def test_burma14_has_the_published_optimum(tmp_path):
    """3323 (TSPLIB), by 2-opt from 300 starts: the GEO distances are right to the kilometre."""
    path = tmp_path / "burma14.tsp"
    path.write_text(BURMA14)
    task = Routes.from_tsplib(path)
    assert task.n == 14 and task.title == "burma14" and task.locations[13] == "14"
    found = examples.local_optima(-task.distances, 300, noise=0.0, seed=SEED)
    assert lengths_of(found, task.distances).min() == 3323
    assert (task.places[0] == (96.10, 16.47)).all()  # longitude goes right, latitude up


def tsp(kind: str, body: str, n: int = 3, extra: str = "") -> str:
    return f"NAME : t\nTYPE : TSP\nDIMENSION : {n}\nEDGE_WEIGHT_TYPE : {kind}\n{extra}{body}\nEOF\n"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("EUC_2D", (4, 25, 27)),  # 3.61, 25.08, 27.46
        ("CEIL_2D", (4, 26, 28)),
        ("MAN_2D", (5, 27, 32)),
        ("MAX_2D", (3, 25, 27)),
        ("ATT", (2, 8, 9)),  # 1.14, 7.93, 8.68
    ],
)
def test_distances_of_coordinates(kind, expected):
    body = "NODE_COORD_SECTION\n1 0 0\n2 2 3\n3 -25 -2"
    d = tsplib.parse(tsp(kind, body)).distances
    assert (d[0, 1], d[0, 2], d[1, 2]) == expected and (d == d.T).all()


def test_distances_in_three_dimensions():
    body = "NODE_COORD_SECTION\n1 0 0 0\n2 2 3 6\n3 1 1 1"
    assert tsplib.parse(tsp("EUC_3D", body)).distances[0, 1] == 7
    assert tsplib.parse(tsp("MAX_3D", body)).distances[0, 1] == 6
    assert tsplib.parse(tsp("MAN_3D", body)).distances[0, 1] == 11


@pytest.mark.parametrize(
    ("shape", "numbers"),
    [
        ("FULL_MATRIX", "9 1 2 3  1 9 4 5  2 4 9 6  3 5 6 9"),
        ("UPPER_ROW", "1 2 3  4 5  6"),
        ("LOWER_ROW", "1  2 4  3 5 6"),
        ("UPPER_DIAG_ROW", "0 1 2 3  0 4 5  0 6  0"),
        ("LOWER_DIAG_ROW", "0  1 0  2 4 0  3 5 6 0"),
        ("UPPER_COL", "1  2 4  3 5 6"),
        ("LOWER_COL", "1 2 3  4 5  6"),
        ("UPPER_DIAG_COL", "0  1 0  2 4 0  3 5 6 0"),
        ("LOWER_DIAG_COL", "0 1 2 3  0 4 5  0 6  0"),
    ],
)
def test_explicit_distances(shape, numbers):
    """The same matrix in every format, numbers broken over lines anyhow."""
    body = "EDGE_WEIGHT_SECTION\n" + numbers.replace("  ", "\n")
    found = tsplib.parse(tsp("EXPLICIT", body, 4, f"EDGE_WEIGHT_FORMAT: {shape}\n"))
    assert found.distances.tolist() == [[0, 1, 2, 3], [1, 0, 4, 5], [2, 4, 0, 6], [3, 5, 6, 0]]
    assert found.places.shape == (4, 2) and found.ids == ["1", "2", "3", "4"]


def test_matrix_with_display_data_and_one_way_streets():
    body = "EDGE_WEIGHT_SECTION\n0 1 2\n7 0 3\n5 6 0\nDISPLAY_DATA_SECTION\n1 0 0\n2 10 0\n3 5 5"
    text = tsp("EXPLICIT", body, 3, "EDGE_WEIGHT_FORMAT: FULL_MATRIX\n").replace("TSP", "ATSP", 1)
    found = tsplib.parse(text)
    assert found.distances[1, 0] == 7 and found.distances[0, 1] == 1
    assert found.places.tolist() == [[0, 0], [10, 0], [5, 5]]
    task = Routes(found.places, distances=found.distances)
    assert task.lengths(task.to_x([[0, 1, 2]]))[0] == 9
    assert task.lengths(task.to_x([[0, 2, 1]]))[0] == 15


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("   2  16.47       94.44", "   2  16.47"), ":10: 2 values; expected a node and 2"),
        (("   2  16.47", "   1  16.47"), ":10: node 1 again, first in line 9; expected each node"),
        (("96.29", "9b"), ":16: '9b'; expected a number"),
        (("96.29", "nan"), ":16: 'nan'; expected a finite number"),
        (("DIMENSION: 14", "DIMENSION: 15"), ":22: 14 nodes; expected 15"),
        (("DIMENSION: 14", "DIMENSION: 13"), ":22: more than 13 nodes"),
        (("DIMENSION: 14", "DIMENSION: 2"), ":4: DIMENSION 2; expected at least 3"),
        (("DIMENSION: 14", "DIMENSION: many"), ":4: DIMENSION MANY; expected a whole number"),
        (("DIMENSION: 14\n", ""), "no DIMENSION"),
        (("TYPE: GEO", "TYPE: XRAY1"), ":5: EDGE_WEIGHT_TYPE XRAY1; expected EUC_2D"),
        (("TYPE: TSP", "TYPE: HCP"), ":2: TYPE HCP; expected TSP"),
        (("NODE_COORD_SECTION", "FIXED_EDGES_SECTION"), ":8: FIXED_EDGES_SECTION"),
        (("NODE_COORD_SECTION\n", ""), ":8: '1  16.47       96.10'; expected KEYWORD"),
        (("NODE_COORD_SECTION", "DISPLAY_DATA_SECTION"), "GEO without coordinates"),
    ],
)
def test_tsplib_errors_name_file_and_line(tmp_path, change, message):
    path = tmp_path / "bad.tsp"
    path.write_text(BURMA14.replace(*change))
    with pytest.raises(FormulaError) as caught:
        Routes.from_tsplib(path)
    assert message in str(caught.value) and str(path) in str(caught.value)


def test_explicit_errors_name_the_line():
    head = "EDGE_WEIGHT_FORMAT: UPPER_ROW\n"
    for body, message in (
        ("EDGE_WEIGHT_SECTION\n1 2", ":7: 2 distances; expected 3 for 3 nodes, UPPER_ROW"),
        ("EDGE_WEIGHT_SECTION\n1 2\n3\n4 5", ":9: 5 distances; expected 3"),
        ("EDGE_WEIGHT_SECTION\n1 2\n-3", ":8: distance -3; expected no negative"),
        ("COMMENT: none", "EXPLICIT without distances"),
    ):
        with pytest.raises(FormulaError) as caught:
            tsplib.parse(tsp("EXPLICIT", body, 3, head), "f.tsp")
        assert message in str(caught.value)
    with pytest.raises(FormulaError, match="EDGE_WEIGHT_FORMAT SQUARE"):
        tsplib.parse(tsp("EXPLICIT", "EDGE_WEIGHT_SECTION\n1", 3, "EDGE_WEIGHT_FORMAT: SQUARE\n"))


def test_gzip_and_vehicle_files(tmp_path):
    import gzip

    path = tmp_path / "burma14.tsp.gz"
    path.write_bytes(gzip.compress(BURMA14.encode()))
    assert Routes.from_tsplib(path).n == 14
    text = tsp("EUC_2D", "NODE_COORD_SECTION\n1 0 0\n2 3 4\n3 6 8\nDEMAND_SECTION\n1 0\n2 5\n3 5")
    assert tsplib.parse(text.replace("TYPE : TSP", "TYPE : CVRP")).distances[0, 2] == 10


def test_tables_of_coordinates(tmp_path):
    pandas = pytest.importorskip("pandas")
    places = [[0.0, 1.0], [2.0, 3.5], [4.0, -1.0]]
    csv = tmp_path / "stops.csv"
    for text in (
        "name,x,y\ndepot,0,1\na,2,3.5\nb,4,-1\n",
        "Y;ID;X\n1;depot;0\n3.5;a;2\n-1;b;4\n",
        "depot,0,1\na,2,3.5\n\nb,4,-1\n",
    ):
        csv.write_text(text)
        task = Routes.from_table(csv)
        assert task.places.tolist() == places and task.locations == ["depot", "a", "b"]
    csv.write_text("0 1\n2 3.5\n4 -1\n")
    assert Routes.from_table(csv).locations == ["1", "2", "3"]
    frame = pandas.DataFrame(
        {"stop": ["depot", "a", "b"], "east": [0, 2, 4], "north": [1, 3.5, -1]}
    )
    assert Routes.from_table(frame).places.tolist() == places
    swapped = Routes.from_table(frame, x="north", y="east", name="stop")
    assert swapped.places[1].tolist() == [3.5, 2.0] and swapped.locations[0] == "depot"
    by_name = Routes.from_table({"depot": (0, 1), "a": (2, 3.5), "b": (4, -1)})
    assert by_name.locations == ["depot", "a", "b"] and by_name.places.tolist() == places
    assert Routes.from_table(np.array(places)).n == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,x,y\na,0,1\nb,2\n", ":3: 2 columns; expected 3"),
        ("name,x,y\na,0,1\nb,2,?\nc,1,1\n", ":3: coordinate '?'; expected a finite number"),
        ("name,x,y\na,0,1\nb,2,nan\nc,1,1\n", ":3: coordinate 'nan'"),
        ("name,x,y\na,0,1\nb,2,2\n", "2 locations; expected at least 3"),
        ("name,x,y\na,0,1\na,2,2\nb,3,3\n", "locations 1 and 2 are both called 'a'"),
        ("name,what\na,b\n", "no two columns of numbers"),
        ("", "empty table"),
    ],
)
def test_table_errors(tmp_path, text, message):
    path = tmp_path / "stops.csv"
    path.write_text(text)
    with pytest.raises(FormulaError) as caught:
        Routes.from_table(path)
    assert message in str(caught.value)


def test_errors_of_arrays():
    three = [(0, 0), (1, 0), (0, 1)]
    for arguments, message in (
        (((three[:2],), {}), "2 locations; expected at least 3"),
        ((([*three, (math.nan, 1)],), {}), "location 4 is at (nan, 1.0); expected finite"),
        (((np.zeros((4, 3)),), {}), "shape (4, 3); expected (n, 2)"),
        (((three,), {"names": ["a", "b", "a"]}), "locations 1 and 3 are both called 'a'"),
        (((three,), {"names": ["a"]}), "1 names for 3 locations"),
        (((three,), {"distances": np.zeros((4, 4))}), "distances between 4 locations; expected 3"),
        (((None,), {"distances": -np.ones((3, 3))}), "from location 1 to 2 is -1.0"),
    ):
        with pytest.raises(FormulaError) as caught:
            Routes(*arguments[0], **arguments[1])
        assert message in str(caught.value)
    task = Routes(three)
    for call, message in (
        (lambda: task.sample(np.zeros(5), 1), "6"),
        (lambda: task.sample([math.inf] + [0] * 5, 1), "not finite"),
        (lambda: task.sample(np.zeros(6), 1, sweeps=-1), "sweeps -1"),
        (lambda: task.to_x([[0, 1, 1]]), "each of 0..2 once"),
        (lambda: task.to_x([[0, 1]]), "shape (1, 2); expected (m, 3)"),
        (lambda: Routes().law(), "29 locations; expected at most 9"),
        (lambda: resample(3, 1, keep="last"), "keep 'last'"),
        (lambda: resample(3, 1, max_rounds=-1), "max_rounds -1"),
    ):
        with pytest.raises(FormulaError) as caught:
            call()
        assert message in str(caught.value)


def test_a_matrix_is_laid_out_by_its_distances():
    places = np.array(BAYG29, float)
    found = laid_out(euclidean(places))
    assert np.allclose(euclidean(found), euclidean(places))


# ---------------------------------------------------------------------------------------- pictures


def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    task = Routes.small()
    data = task.examples(50, seed=SEED)
    theta = normal_theta(task)
    generated = task.sample(theta, 50, seed=SEED, anneal=2, sweeps=2).x
    for name in ("all.png", "all.svg"):
        path = task.picture(data, theta, generated, tmp_path / name)
        assert path.stat().st_size > 10_000
    assert task.draw(data[0], tmp_path / "one.png").read_bytes()[:4] == b"\x89PNG"
    svg = task.draw(data[0], tmp_path / "one.svg", theta=theta, title="a <b>").read_text()
    assert svg.startswith("<?xml") and svg.rstrip().endswith("</svg>")
    with pytest.raises(FormulaError, match="picture"):
        task.draw(data[0], tmp_path / "one.doc")


def test_centring_changes_no_probability():
    task = first(6)
    theta = task.matrix(normal_theta(task))
    flat = centred(theta)
    off = ~np.eye(6, dtype=bool)
    assert np.allclose(flat.sum(axis=0, where=off), 0) and np.allclose(
        flat.sum(axis=1, where=off), 0
    )
    assert np.allclose(task.law(theta)[1], task.law(flat)[1])


# -------------------------------------------------------------------------------------- experiment


def test_experiment_runs_and_bears_missing_rows(monkeypatch):
    from nelson.experiments import run_cell
    from nelson.tasks import routes as package

    real = package.Routes.learn
    brief = lambda self, data, **o: real(self, data, **{**o, "iterations": 8, "chains": 50})  # noqa: E731
    monkeypatch.setattr(package.Routes, "learn", brief)
    keys = [
        {"part": "uniform", "n": 29, "batches": 5},
        {"part": "redraw", "n": 29, "rounds": 300},
        {"part": "bias", "n": 4, "spread": 0.5, "m": 2000},
        {"part": "enumerate", "n": 8, "m": 500},
        {"part": "learn", "n": 29, "examples": 40},
    ]
    rows = [row for key in keys for row in run_cell("routes", {**key, "seed": 0})]
    assert all(row["status"] == "ok" for row in rows)
    made = EXPERIMENT.tables(rows)
    assert len(made) == 7 and all(table.rows for table in made)
    assert made[0].rows[0][2] == "100%" and made[1].rows[1][2] == "0 of 100"
    assert set(EXPERIMENT.plots(rows)) == {"rounds", "seconds", "lengths"}
    late = [{"part": k["part"], "n": k["n"], "status": "T.O."} for k in keys]
    assert all("T.O." in table.rows[0] for table in EXPERIMENT.tables(late))
    assert EXPERIMENT.tables([]) == [] and EXPERIMENT.plots([]) == {}
    for full in (False, True):
        found = EXPERIMENT.cells(full)
        assert all(isinstance(cell, Cell) for cell in found) and len(set(found)) == len(found)
        assert {cell.key["part"] for cell in found} == {k["part"] for k in keys}


def test_experiment_plots_draw():
    figure = pytest.importorskip("matplotlib.figure")
    rows = [
        {"part": "uniform", "status": "ok", "n": 29, "rounds_mean": 44.0 + k, "rounds_max": 150 + k,
         "seconds": 1e-3 * (k + 1)} for k in range(5)
    ] + [{"part": "learn", "status": "ok", "row": "length", "quantile": "50%", "held_out": 2.0,
          "model": 2.1}]  # fmt: skip
    for draw in EXPERIMENT.plots(rows).values():
        ax = figure.Figure().subplots()
        draw(ax)
        assert ax.get_xlabel()


def test_chi_square_helper():
    """Rare routes share cells; impossible ones are infinitely bad; numbers tell routes apart."""
    routes, law = first(5).law()
    assert len(np.unique(numbered(routes))) == 24
    _, degrees = chi_square(routes, routes, law)  # one draw expected of each: cells of five
    assert degrees == 3
    law = law.copy()
    law[0], law[1] = 0, 2 / 24
    assert chi_square(routes, routes, law)[0] == math.inf
    assert frequencies(routes).sum() == pytest.approx(5)
    assert to_matrix(frequencies(routes), 5).sum(axis=1) == pytest.approx(np.ones(5))
