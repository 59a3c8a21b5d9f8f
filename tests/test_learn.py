"""Learning against exact answers: the enumerated maximum, the sign, presets, models, networks.

Seeds are fixed, so a failure repeats. Bands say their false-alarm rate.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import nelson
from nelson import Formula, FormulaError
from nelson.learning.draw import Draw, Drawer
from nelson.learning.learn import learn
from nelson.learning.model import Model, load
from nelson.learning.noise import chi2_quantile, curvature, judge
from nelson.learning.settings import PRESETS, settings_for
from tests.problems import (
    all_states,
    complete_edges,
    exact_law,
    exact_marginals,
    extremal,
    non_extremal,
    random_ksat,
    sink_free,
    weights,
)

SEED = 20230207


def mesh(edges: int) -> Formula:
    """Sink-free orientations of a small graph: extremal, with many solutions."""
    return sink_free(complete_edges({6: 4, 10: 5}[edges]) if edges != 5 else FIVE)


FIVE = [(0, 1), (1, 2), (2, 0), (0, 3), (3, 1)]


def draws(f: Formula, theta: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Exact draws from P_theta by enumeration: not by the sampler that learning uses."""
    states, p = exact_law(f, theta)
    return states[np.random.default_rng([SEED, seed]).choice(len(states), count, p=p)]


def log_likelihood(f: Formula, theta: np.ndarray, x: np.ndarray) -> float:
    states, _ = exact_law(f)
    phi = states @ theta
    return float((x @ theta).mean() - np.log(np.exp(phi - phi.max()).sum()) - phi.max())


def exact_kl(f: Formula, a: np.ndarray, b: np.ndarray) -> float:
    states, p = exact_law(f, a)
    y = states @ (b - a)
    return float(np.log(p @ np.exp(y - p @ y)))


def enumerated_maximum(f: Formula, mu: np.ndarray) -> np.ndarray:
    """argmax theta . mu - log Z(theta), by Newton's method on the enumerated law."""
    theta = np.zeros(f.n_vars)
    for _ in range(100):
        states, p = exact_law(f, theta)
        mean = p @ states
        covariance = (states * p[:, None]).T @ states - np.outer(mean, mean)
        step = np.linalg.lstsq(covariance + 1e-12 * np.eye(f.n_vars), mu - mean, rcond=None)[0]
        theta = theta + np.clip(step, -1, 1)
    return theta


# --- it climbs --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_held_out_likelihood_rises_on_every_seed(seed):
    f = mesh(10) if seed % 2 else random_ksat(12, 12, 5, seed=seed)
    theta = weights(f, seed)
    train, held_out = draws(f, theta, 400, seed), draws(f, theta, 400, 100 + seed)
    fit = learn(f, train, seed=seed)
    assert fit.converged, fit.why
    before = log_likelihood(f, np.zeros(f.n_vars), held_out)
    assert log_likelihood(f, fit.theta, held_out) > before
    # The twin: the opposite way, where the paper's sign points, is down.
    assert log_likelihood(f, -fit.theta, held_out) < before


def test_one_step_of_the_paper_goes_towards_the_data():
    f = Formula([[1, 2], [-1, 3]], n_vars=3)
    data = np.array([[0, 1, 0]] * 3 + [[1, 0, 1]])
    drawn = np.array([[1, 1, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1]], bool)
    fit = learn(f, data, preset="paper", iterations=1, sampler=lambda f, t, m, s: drawn)
    np.testing.assert_allclose(fit.theta, 0.1 * (data.mean(0) - drawn.mean(0)), rtol=1e-12)
    assert [row["phase"] for row in fit.history] == ["sgd"]


@pytest.mark.parametrize("name", ["complete4", "bowtie", "path", "random 5-SAT"])
def test_the_default_finds_the_enumerated_maximum(name):
    """2 M KL(maximum || fit) ~ chi^2_n, M the samples behind the answer; alarm in 1e-6 of cases."""
    f = {**extremal(), **non_extremal()}[name]
    data = draws(f, 0.7 * weights(f, 3), 1500, 5)
    fit = learn(f, data, prior=0.0, seed=SEED)
    best = enumerated_maximum(f, data.mean(0))
    behind = 8 * max(row["m"] for row in fit.history)
    bar = chi2_quantile(f.n_vars, 1 - 1e-6) / (2 * behind)
    # Not extremal: room for what the sweeps leave of the bias, as much as 20,000 samples' noise.
    bar += 0 if f.is_extremal else f.n_vars / (2 * 20_000)
    assert exact_kl(f, best, fit.theta) < bar, (fit.why, best, fit.theta)
    # The twin: fifty iterations of the paper's loop are not there.
    rough = learn(f, data, preset="paper", iterations=50, seed=SEED)
    assert exact_kl(f, best, rough.theta) > bar


def test_without_sweeps_theta_is_biased_and_the_fit_says_so():
    f = random_ksat(12, 48, 5, seed=4)
    theta = weights(f, 4)
    data = draws(f, theta, 20_000, 6)
    good = learn(f, data, seed=1)
    bad = learn(f, data, seed=1, sampler="lovasz", sweeps=0)
    assert good.guarantee == "exact"
    assert good.info["method"] == "enumerate"
    assert bad.guarantee == "heuristic"
    assert "bias" in bad.why
    assert exact_kl(f, theta, bad.theta) > 4 * exact_kl(f, theta, good.theta)


def test_first_order_presets_reach_it_too():
    f = mesh(10)
    theta = weights(f, 2)
    data = draws(f, theta, 2000, 7)
    start = exact_kl(f, theta, np.zeros(10))
    paper = learn(f, data, preset="paper", seed=1)
    adam = learn(f, data, preset="adam", seed=1)
    assert len(paper.history) == 1000
    assert {row["m"] for row in paper.history} == {200}
    assert exact_kl(f, theta, paper.theta) < 0.2 * start
    assert adam.converged, adam.why
    assert exact_kl(f, theta, adam.theta) < 0.05 * start


@pytest.mark.parametrize("sampler", [*nelson.samplers(), "auto"])
def test_samplers_are_exchangeable(sampler):
    pick = nelson.sampling.registry.get(sampler) if sampler != "auto" else None
    if pick is not None and (pick.needs or not pick.weighted or pick.may_be_invalid):
        pytest.skip(f"{sampler} is optional, unweighted or biased")
    f = mesh(6)
    theta = weights(f, 1)
    fit = learn(f, draws(f, theta, 3000, 8), sampler=sampler, seed=2)
    assert fit.converged, fit.why
    assert exact_kl(f, theta, fit.theta) < chi2_quantile(6, 1 - 1e-6) / (2 * 3000) * 1.2


def test_a_foreign_sampler_is_a_function():
    f = mesh(6)
    theta = weights(f, 1)
    calls = []

    def mine(formula, at, m, seed):
        calls.append(m)
        states, p = exact_law(formula, at)
        return states[np.random.default_rng(seed).choice(len(states), m, p=p)]

    fit = learn(f, draws(f, theta, 3000, 8), sampler=mine, seed=2)
    assert fit.converged
    assert len(calls) >= len(fit.history)
    with pytest.raises(FormulaError, match="returns shape"):
        learn(f, draws(f, theta, 30, 8), sampler=lambda *a: np.zeros((2, 3)))


def test_same_seed_same_bits_on_any_number_of_threads():
    f = random_ksat(30, 30, 5, seed=2)
    data = nelson.sample(f, weights(f), 500, seed=1)
    one, two, other = (learn(f, data, seed=s, threads=t).theta for s, t in ((5, 1), (5, 2), (6, 1)))
    assert one.tobytes() == two.tobytes() != other.tobytes()


# --- where the maximum is at infinity ---------------------------------------------------------


def test_constant_columns_give_a_finite_theta():
    f = mesh(6)
    data = draws(f, weights(f), 300, 9)
    data = data[data[:, 0]]  # the data say x1 = 1, always
    fit = learn(f, data, seed=1)
    count = len(data)
    assert fit.converged, fit.why
    assert np.isfinite(fit.theta).all()
    assert 1 < fit.theta[0] < np.log(40 * count)
    # One pseudo-example: P(not x1) is about that of one in N + 1.
    assert 0.1 / count < 1 - exact_marginals(f, fit.theta)[0] < 1 / count
    plain = learn(f, data, prior=0.0, bound=9.0, seed=1)
    assert plain.theta[0] == 9.0


def test_what_the_formula_fixes_is_left_alone():
    f = Formula([[1], [-2], [3, 4]], n_vars=5)
    data = draws(f, np.array([0.0, 0, 1, 0, -1]), 500, 3)
    fit = learn(f, data, seed=1)
    assert fit.theta[0] == fit.theta[1] == 0.0
    assert fit.converged


def test_odd_sizes():
    assert learn(Formula([], n_vars=1), np.array([[0], [1], [1]]), seed=0).converged
    assert learn(mesh(5), np.array([[1, 1, 1, 0, 0]]), seed=0).converged
    f = Formula([], n_vars=4).exactly([1, 2, 3, 4], 2)  # with auxiliary variables
    two = all_states(4)[all_states(4).sum(1) == 2]
    fit = learn(f, two, seed=0)
    assert fit.theta.shape == (4,)
    assert np.abs(fit.theta).max() < 0.3


def test_budgets_are_said_and_kept():
    f = random_ksat(40, 40, 5, seed=2)
    data = nelson.sample(f, weights(f), 500, seed=1)
    fit = learn(f, data, iterations=2, seed=1)
    assert len(fit.history) == 2
    assert not fit.converged
    assert "2 iterations" in fit.why
    cut = learn(f, data, seconds=0.0, seed=1)
    assert not cut.converged
    assert "time was up" in cut.why

    def stop(row):
        if row["iteration"] == 3:
            raise KeyboardInterrupt

    ended = learn(f, data, callback=stop, seed=1)
    assert ended.interrupted
    assert len(ended.history) == 3


# --- the stopping test --------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_the_gap_test_keeps_its_level(shift):
    """At the maximum 99% pass: of 300, fewer than 285 do with probability 1e-7. Shifted, few do."""
    f = Formula([[-i, i + 1] for i in range(1, 9)], n_vars=9)  # strongly correlated
    theta = weights(f, 5)
    mu = exact_marginals(f, theta)
    states, p = exact_law(f, theta + shift)
    rng = np.random.default_rng(SEED)
    passed = 0
    for _ in range(300):
        x = states[rng.choice(len(states), 1000, p=p)]
        from nelson.kernels.core.bits import pack

        draw = Draw(x.mean(0), pack(x), 1000, 0, 0.0, "exact")
        free = np.ones(9, bool)
        gap = judge(mu - draw.mean, mu * (1 - mu), 1 / 1000, curvature(draw, free).trace2, 0.01)
        passed += gap.within
    assert passed >= 285 if shift == 0 else passed < 60


def test_chi2_quantile_is_good_to_a_few_percent():
    from scipy.stats import chi2

    for nu in (3, 10, 60.5, 1000):
        for p, within in ((0.95, 0.02), (0.99, 0.02), (1 - 1e-6, 0.08)):
            assert chi2_quantile(nu, p) == pytest.approx(chi2.ppf(p, nu), rel=within)


def test_pair_counts_and_dot_are_those_of_unpacked_samples():
    from nelson.kernels.core.bits import pack
    from nelson.kernels.cpu.moments import dot, pair_counts

    for m in (1, 63, 64, 200):
        x = np.random.default_rng([SEED, m]).random((m, 7)) < 0.4
        w = np.random.default_rng([SEED, m, 1]).normal(size=7)
        np.testing.assert_array_equal(pair_counts(pack(x)), x.astype(int).T @ x.astype(int))
        np.testing.assert_allclose(dot(pack(x), m, w), x @ w, atol=1e-12)


# --- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"preset": "nope"},
        {"sampler": "nope"},
        {"m": 0},
        {"eta": -1.0},
        {"optimizer": "nope"},
        {"level": 2.0},
        {"theta0": [1, 2, 3]},
        {"checkpoint_every": 0},
        {"net": object()},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(FormulaError):
        learn(Formula([[1, 2]]), np.ones((3, 2)), **options)


def test_presets_are_what_the_paper_says():
    paper = PRESETS["paper"]
    assert (paper.optimizer, paper.m, paper.eta, paper.iterations) == ("sgd", 200, 0.1, 1000)
    assert (paper.batch, paper.decay, paper.prior, paper.sweeps) == (200, 0.0, 0.0, 0)
    assert settings_for("paper", eta=0.2).eta == 0.2


def test_sweeps_are_measured_where_they_are_needed_and_only_there():
    f = random_ksat(12, 24, 5, seed=1)
    for sampler in ("lovasz", "moser-tardos"):
        drawer = Drawer(f, sampler, None, 0)
        drawer.refresh(np.zeros(12))
        assert drawer.sweeps > 0
    listed = Drawer(f, "auto", None, 0)
    listed.refresh(np.zeros(12))
    assert (listed.method, listed.sweeps) == ("enumerate", None)
    large = Drawer(random_ksat(300, 300, 5, seed=1), "auto", None, 0)
    large.refresh(np.zeros(300))
    assert large.method == "lovasz"
    assert large.sweeps > 0
    easy = Drawer(mesh(5), "lovasz", None, 0)
    easy.refresh(np.zeros(5))
    assert easy.sweeps == 0
    asked = Drawer(f, "lovasz", 2, 0)
    asked.refresh(np.zeros(12))
    assert asked.sweeps == 2


# --- what is left behind -------------------------------------------------------------------------


def test_a_model_is_a_folder_that_loads(tmp_path):
    f = Formula([[1, 2, 3]], n_vars=4).exactly([1, 2, 3, 4], 2).xor([1, 4], False)
    data = exact_law(f, np.zeros(4))[0]
    fit = learn(f, np.tile(data, (50, 1)), seed=1)
    fit.save(tmp_path / "m")
    model = load(tmp_path / "m")
    assert model.formula == f
    assert model.theta.tobytes() == fit.theta.tobytes()
    assert model.metadata["why"] == fit.why
    assert (
        model.sample(100, seed=1).to_numpy().tolist() == fit.sample(100, seed=1).to_numpy().tolist()
    )
    assert "seed | 1" in (tmp_path / "m" / "README.md").read_text()
    assert not [p for p in (tmp_path / "m").iterdir() if p.suffix in (".pkl", ".pt", ".part")]
    fit.save(tmp_path / "m")  # a model may be replaced, other folders not
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(nelson.NelsonError, match="not written over"):
        fit.save(tmp_path / "other")


def test_broken_models_are_refused(tmp_path):
    with pytest.raises(FormulaError, match="no model here"):
        load(tmp_path)
    Model(Formula([[1, 2]]), np.zeros(2)).save(tmp_path / "m")
    whole = (tmp_path / "m" / "theta.safetensors").read_bytes()
    (tmp_path / "m" / "theta.safetensors").write_bytes(whole[:-3])
    with pytest.raises(nelson.NelsonError, match="not a whole model"):
        load(tmp_path / "m")


def test_the_history_is_a_table_a_file_and_a_picture(tmp_path):
    f = mesh(6)
    fit = learn(f, draws(f, weights(f), 200, 1), seed=1)
    first = fit.history[0]
    assert first["iteration"] == 1
    assert {"phase", "gap_l1", "chi2", "m", "rounds", "sampling", "update"} <= set(first)
    fit.history.to_csv(tmp_path / "h.csv")
    assert len((tmp_path / "h.csv").read_text().splitlines()) == len(fit.history) + 1
    pq = pytest.importorskip("pyarrow.parquet", reason="pip install nelson[parquet]")
    fit.history.to_parquet(tmp_path / "h.parquet")
    assert pq.read_table(tmp_path / "h.parquet").num_rows == len(fit.history)
    pytest.importorskip("matplotlib", reason="pip install nelson[plots]")
    fit.history.plot(tmp_path / "h.png")
    assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG")


def test_learning_needs_no_torch_and_import_loads_nothing():
    code = textwrap.dedent("""
        import sys, numpy as np, nelson
        assert "nelson.learning" not in sys.modules
        sys.modules["torch"] = None
        import nelson.learning.learn
        fit = nelson.learn(nelson.Formula([[1, 2]]), np.array([[0, 1], [1, 1]]), seed=0)
        assert fit.converged, fit.why
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr.decode()


# --- conditional models ---------------------------------------------------------------------------


def test_a_network_learns_theta_from_the_context(tmp_path):
    torch = pytest.importorskip("torch", reason="pip install nelson[torch]")
    f = mesh(6)
    rng = np.random.default_rng(SEED)
    contexts = rng.normal(size=(1500, 2)).astype(np.float32)
    true = 0.8 * rng.normal(size=(6, 2))
    states, _ = exact_law(f)
    log_p = (contexts @ true.T) @ states.T.astype(float)
    p = np.exp(log_p - log_p.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    x = np.array([states[rng.choice(len(states), p=row)] for row in p])
    torch.manual_seed(0)
    net = torch.nn.Linear(2, 6)

    def score(net) -> float:
        theta = net(torch.as_tensor(contexts)).detach().double().numpy()
        phi = theta @ states.T.astype(float)
        return float(((theta * x).sum(1) - np.log(np.exp(phi).sum(1))).mean())

    before = score(net)
    fit = learn(f, x, contexts=contexts, net=net, seed=1, iterations=400, eta=0.02)
    best = np.log((p * (states[None] == x[:, None]).all(2)).sum(1)).mean()
    assert score(net) > best - 0.03 > before  # nats an example; 18 weights cost 18 / 3000
    assert fit.converged, fit.why
    assert fit.theta is None
    np.testing.assert_allclose(net.weight.detach().numpy(), true, atol=0.3)
    fit.save(tmp_path / "m")
    again = load(tmp_path / "m", net=torch.nn.Linear(2, 6))
    np.testing.assert_array_equal(again.theta_for(contexts[:3]), fit.model.theta_for(contexts[:3]))
    drawn = again.sample(10, contexts=contexts[:3], seed=1)
    assert drawn.to_numpy().shape == (3, 10, 6)
    assert f.satisfied(drawn.to_numpy()).all()
    with pytest.raises(nelson.NelsonError, match="conditional"):
        again.sample(10)
    with pytest.raises(FormulaError, match="contexts"):
        learn(f, x, contexts=contexts[:-1], net=net)
    with pytest.raises(FormulaError, match="net that gives shape"):
        learn(f, x, contexts=contexts, net=torch.nn.Linear(2, 5))


def test_the_fit_is_a_torch_distribution():
    torch = pytest.importorskip("torch", reason="pip install nelson[torch]")
    f = mesh(6)
    fit = learn(f, draws(f, weights(f), 500, 1), seed=1)
    states, p = exact_law(f, fit.theta)
    got = fit.mrf.log_prob(torch.as_tensor(states)).exp().detach().numpy()
    np.testing.assert_allclose(got, p, rtol=1e-6)


def test_tensorboard_is_optional(tmp_path):
    f = mesh(6)
    data = draws(f, weights(f), 100, 1)
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        with pytest.raises(nelson.NelsonError, match="pip install tensorboard"):
            learn(f, data, seed=1, tensorboard=tmp_path)
        return
    learn(f, data, seed=1, tensorboard=tmp_path)
    assert any(name.startswith("events") for name in os.listdir(tmp_path))
