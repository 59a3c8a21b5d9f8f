"""The layer: valid outputs, and gradients against the enumerated d E[f] / d theta = Cov(f, x).

A gradient test averages 4,000 independent estimates and asks each component to lie within SIGMAS
standard errors of the truth: 2e-7 a component, about 60 components, 2e-5 in all. Its twins fail it.
"""

from __future__ import annotations

import math
import runpy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import nelson  # noqa: E402
from nelson.chains.diagnosis import diagnose as diagnosis  # noqa: E402
from nelson.distribution.layer import LovaszLayer  # noqa: E402
from tests import ROOT  # noqa: E402
from tests.distribution.models import SIGMAS  # noqa: E402
from tests.problems import (  # noqa: E402
    exact_law,
    extremal,
    hubs_and_leaves,
    non_extremal,
    random_ksat,
)

ROWS = 4_000
EXTREMAL, OTHER = extremal(), non_extremal()
CASES = {name: EXTREMAL[name] for name in ("complete4", "bowtie")} | {"path": OTHER["path"]}


def theta_of(formula, seed=0):
    return np.random.default_rng([seed, 3]).normal(size=formula.n_vars)


def enumerated_gradient(formula, theta, f):
    """Cov(f(x), x) as a sum over all structures."""
    states, p = exact_law(formula, theta)
    values = f(torch.from_numpy(states).double()).detach().numpy()
    return (p * (values - p @ values)) @ states


def z_scores(formula, theta, estimate, right, seed=17):
    """How many standard errors the mean of ROWS estimates is from `right`, a component each.

    A component that never varies (an estimate that is exact, or a variable that is fixed) counts
    as infinitely far off unless it is right.
    """
    torch.manual_seed(seed)
    logits = torch.from_numpy(theta).expand(ROWS, -1).clone().requires_grad_()
    estimate(logits).sum().backward()
    rows = logits.grad.numpy()
    error = rows.std(axis=0, ddof=1) / math.sqrt(ROWS)
    gap = np.abs(rows.mean(axis=0) - right)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(gap < 1e-9, 0.0, gap / error)
    print(f"seed={seed} z={z.round(1)}")
    return z


def count_of_three(x):
    """No derivative anywhere, and far from linear."""
    return 3.0 * (x.sum(-1) == 3) + x[..., 0] * x[..., 1] * (1 - x[..., 2])


def curved(x):
    """Smooth, but of every order."""
    return x.sum(-1).exp()


def quadratic(x):
    n = x.shape[-1]
    a = torch.linspace(-1, 1, n * n, dtype=x.dtype).reshape(n, n).sin()
    return ((x @ a) * x).sum(-1) + x[..., 0]


# --- the estimator --------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [2, 8])
@pytest.mark.parametrize("name", CASES)
def test_expectation_has_the_enumerated_gradient(name, samples):
    formula, theta = CASES[name], theta_of(CASES[name])
    layer = LovaszLayer(formula, samples)
    right = enumerated_gradient(formula, theta, count_of_three)
    z = z_scores(formula, theta, lambda t: layer.expectation(count_of_three, t), right)
    assert (z < SIGMAS).all()
    assert (
        z_scores(formula, theta, lambda t: layer.expectation(count_of_three, t), -right) > SIGMAS
    ).any()


@pytest.mark.parametrize("name", CASES)
def test_straight_through_is_biased_and_the_test_sees_it(name):
    formula, theta = CASES[name], theta_of(CASES[name])
    layer = LovaszLayer(formula, 8, gradient="straight-through")
    for f in (curved, quadratic):
        right = enumerated_gradient(formula, theta, f)
        assert (
            z_scores(formula, theta, lambda t, f=f: layer.expectation(f, t), right) > SIGMAS
        ).any()
        through = z_scores(formula, theta, lambda t, f=f: f(layer(t)).mean(-1), right)
        assert (through > SIGMAS).any()


@pytest.mark.parametrize("name", CASES)
def test_backward_of_the_samples_is_unbiased_up_to_quadratic_losses(name):
    formula, theta = CASES[name], theta_of(CASES[name])
    layer = LovaszLayer(formula, 4)
    right = enumerated_gradient(formula, theta, quadratic)
    assert (z_scores(formula, theta, lambda t: quadratic(layer(t)).mean(-1), right) < SIGMAS).all()
    # Not beyond: then `expectation` is what to use, and the test sees the difference.
    right = enumerated_gradient(formula, theta, curved)
    assert (z_scores(formula, theta, lambda t: curved(layer(t)).mean(-1), right) > SIGMAS).any()
    assert (z_scores(formula, theta, lambda t: layer.expectation(curved, t), right) < SIGMAS).all()


def test_for_a_quadratic_loss_the_two_ways_agree_to_the_last_digits():
    formula = EXTREMAL["complete4"]
    layer = LovaszLayer(formula, 16)
    logits = torch.from_numpy(np.stack([theta_of(formula, k) for k in range(3)])).requires_grad_()
    torch.manual_seed(1)
    (a,) = torch.autograd.grad(quadratic(layer(logits)).mean(-1).sum(), logits)
    torch.manual_seed(1)
    (b,) = torch.autograd.grad(layer.expectation(quadratic, logits).sum(), logits)
    np.testing.assert_allclose(a, b, atol=1e-12)
    torch.manual_seed(1)
    (c,) = torch.autograd.grad(layer.expectation(curved, logits).sum(), logits)
    torch.manual_seed(1)
    (d,) = torch.autograd.grad(curved(layer(logits)).mean(-1).sum(), logits)
    assert not np.allclose(c, d)


def test_the_estimate_is_the_sample_covariance():
    formula = EXTREMAL["bowtie"]
    layer = LovaszLayer(formula, 16)
    logits = torch.from_numpy(theta_of(formula))[None].requires_grad_()
    x = layer.sample(logits)
    values = count_of_three(x)
    mean = layer.score(values, x, logits)
    assert torch.allclose(mean, values.mean(-1))
    (got,) = torch.autograd.grad(mean.sum(), logits)
    both = np.cov(np.concatenate([values[0, :, None], x[0]], 1).T)
    np.testing.assert_allclose(got[0], both[0, 1:], atol=1e-12)
    # Leave-one-out, written out.
    others = (values.sum() - values) / 15
    np.testing.assert_allclose(got[0], ((values - others) @ x[0])[0] / 16, atol=1e-12)


def test_smooth_function_of_the_mean():
    """A loss of the samples' mean: d h(E[x]) = Cov(x) h', right as m grows."""
    formula, theta = EXTREMAL["complete4"], theta_of(EXTREMAL["complete4"])
    states, p = exact_law(formula, theta)
    mean = p @ states
    slope = np.exp(mean)
    centred = states - mean
    right = (centred.T * p) @ centred @ slope
    logits = torch.from_numpy(theta).requires_grad_()
    torch.manual_seed(2)
    LovaszLayer(formula, 200_000)(logits).mean(0).exp().sum().backward()
    # A sample covariance of m draws: each entry has a standard error below 0.5 / sqrt(m).
    bound = SIGMAS * 0.5 / math.sqrt(200_000) * np.abs(slope).sum()
    assert (np.abs(logits.grad.numpy() - right) < bound).all()
    assert (np.abs(-logits.grad.numpy() - right) > bound).any()


def test_vectors_and_parameters_inside_f():
    formula = EXTREMAL["complete4"]
    layer = LovaszLayer(formula, 8)
    head = torch.nn.Linear(6, 2).double()
    logits = torch.from_numpy(theta_of(formula)).expand(5, 6).clone().requires_grad_()
    torch.manual_seed(0)
    out = layer.expectation(lambda x: torch.tanh(head(x)), logits)
    assert out.shape == (5, 2)
    out.square().sum().backward()
    assert head.weight.grad.abs().sum() > 0 and logits.grad.abs().sum() > 0
    torch.manual_seed(0)
    x = layer.sample(logits)
    values = torch.tanh(head(x)).detach()
    cov = torch.einsum("bmk,bmn->bkn", values - values.mean(1, True), x - x.mean(1, True)) / 7
    want = torch.einsum("bk,bkn->bn", 2 * values.mean(1), cov)
    np.testing.assert_allclose(logits.grad, want, atol=1e-12)


# --- what comes out -------------------------------------------------------------------------------


@pytest.mark.parametrize("gradient", ["score", "straight-through"])
@pytest.mark.parametrize("name", [*EXTREMAL, *OTHER])
def test_every_output_is_valid(name, gradient):
    formula = {**EXTREMAL, **OTHER}[name]
    layer = LovaszLayer(formula, 33, gradient=gradient)
    logits = torch.randn(3, formula.n_vars, generator=torch.Generator().manual_seed(0)) * 4
    x = layer(logits)
    assert x.shape == (3, 33, formula.n_vars) and x.dtype == logits.dtype
    assert formula.satisfied(x.numpy()).all()
    assert layer(logits[0]).shape == (33, formula.n_vars)
    assert layer(logits.double()[None]).dtype == torch.float64
    assert list(layer.parameters()) == [] and "samples=33" in repr(layer)


def test_manual_seed_repeats_and_calls_differ():
    formula = OTHER["random 5-SAT"]
    layer, logits = LovaszLayer(formula, 64), torch.zeros(2, 10)
    torch.manual_seed(0)
    a, b = layer(logits), layer(logits)
    layer._calls = 0
    torch.manual_seed(0)
    assert torch.equal(layer(logits), a) and not torch.equal(a, b)


def counted_diagnoses(monkeypatch):
    """A list that grows by one with each diagnosis."""
    made, diagnose = [], diagnosis.diagnose_chains

    def counted(*given, **more):
        made.append(1)
        return diagnose(*given, **more)

    monkeypatch.setattr(diagnosis, "diagnose_chains", counted)
    return made


def test_chains_are_diagnosed_once_in_a_while(monkeypatch):
    """Logits that move the law by less than 0.5 nats keep the diagnosis. One logit may move by 0.1,
    or all by 0.01; all by 0.1 are 0.9 nats, though each moves as little as the one did.
    """
    made = counted_diagnoses(monkeypatch)
    layer = LovaszLayer(random_ksat(300, 400, 5, seed=1), 64)  # no circuit
    zero = torch.zeros(2, 300)
    one = zero.clone()
    one[:, 7] = 0.1
    layer(zero)
    first = layer.info
    assert first["guarantee"] == "diagnosed" and first["sweeps"] > 0 and len(made) == 1
    for logits in (zero, one, zero + 0.01):
        layer(logits)
        for key in ("guarantee", "sweeps", "why"):
            assert layer.info[key] == first[key]
    with pytest.warns(match="has moved"):  # the diagnosis was for another law
        layer(zero + 0.1)
    assert layer.info["guarantee"] == "heuristic" and "nats" in layer.info["why"]
    layer(zero)
    assert layer.info["guarantee"] == "diagnosed" and len(made) == 1
    small = LovaszLayer(OTHER["random 5-SAT"], 8)
    for shift in (0.0, 0.1):
        small(torch.zeros(2, 10) + shift)
        assert small.info["guarantee"] == "exact"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:samples of an unknown distribution")
def test_chains_of_a_law_that_moves_are_looked_at_again(monkeypatch):
    """Logits rise by 0.1 at each call. After 20 calls the chains are diagnosed again, at the logits
    they have now; the calls before were heuristic as soon as the law had moved.
    """
    made = counted_diagnoses(monkeypatch)
    layer = LovaszLayer(random_ksat(300, 400, 5, seed=1), 8)
    labels = []
    for call in range(22):
        layer(torch.full((1, 300), 0.02 * call))
        labels.append(layer.info["guarantee"])
    assert labels == ["diagnosed", *["heuristic"] * 19, "diagnosed", "heuristic"]
    assert len(made) == 2


@pytest.mark.slow
def test_a_heuristic_layer_stays_heuristic(monkeypatch):
    """Every call says so, not only the first."""
    monkeypatch.setattr(
        "nelson.sampling.auto.steps.circuit.Compilation.promising", lambda self, parts: []
    )
    monkeypatch.setattr("nelson.sampling.auto.chains.no_joint_moves", lambda *_: "left out")
    formula, theta = hubs_and_leaves()
    layer, logits = LovaszLayer(formula, 8), torch.tensor(theta)
    for _ in range(3):
        with pytest.warns(match="not from P_theta"):
            layer(logits)
        assert layer.info["guarantee"] == "heuristic"


def test_logits_against_the_constraints_do_not_stop_it():
    """All log-odds at -15 where something must be true: resampling alone would take e^15 rounds."""
    formula = nelson.Formula([[1, 2], [-1, 2], [1, -2]], n_vars=2)
    layer = LovaszLayer(formula, 8)
    logits = torch.full((2, 2), -15.0, requires_grad=True)
    for _ in range(2):
        assert (layer(logits) == 1).all() and layer.info["guarantee"] == "exact"
    with pytest.raises(nelson.BudgetExceeded):
        LovaszLayer(formula, 8, method="lovasz", sweeps=0)(logits)


def test_infinite_logits_fix_and_have_no_gradient():
    formula = EXTREMAL["complete4"]
    logits = torch.zeros(1, 6)
    logits[0, 0] = math.inf
    logits.requires_grad_()
    layer = LovaszLayer(formula, 16)
    x = layer(logits)
    assert (x[..., 0] == 1).all()
    loss = x.sum() + layer.expectation(lambda x: x.sum(-1), logits).sum()
    loss.backward()
    assert torch.isfinite(logits.grad).all() and logits.grad[0, 0] == 0


def test_arguments():
    formula = EXTREMAL["complete4"]
    for wrong in ({"samples": 1}, {"gradient": "reinforce"}):
        with pytest.raises(nelson.FormulaError):
            LovaszLayer(formula, **wrong)
    layer = LovaszLayer(formula, 4)
    with pytest.raises(nelson.FormulaError, match="logits"):
        layer(torch.zeros(2, 5))
    with pytest.raises(nelson.FormulaError, match="one value for each sample"):
        layer.expectation(lambda x: x.sum(), torch.zeros(2, 6))


# --- a network ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_network_learns_through_it():
    """Two contexts, two opposite wishes: the loss falls to what the constraints allow."""
    formula = EXTREMAL["complete4"]
    context = torch.eye(2)
    torch.manual_seed(0)
    net = torch.nn.Linear(2, 6)
    layer = LovaszLayer(formula, 32)
    states = torch.from_numpy(exact_law(formula)[0]).float()
    wish = torch.stack([torch.ones(6), -torch.ones(6)])
    best = (states @ wish.T).max(0).values  # the constraints forbid six trues, or none
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    for _ in range(150):
        value = layer.expectation(lambda x: torch.einsum("bmn,bn->bm", x, wish), net(context))
        optimizer.zero_grad()
        (-value.sum()).backward()
        optimizer.step()
    with torch.no_grad():
        x = LovaszLayer(formula, 2_000)(net(context))
        reached = torch.einsum("bmn,bn->b", x, wish) / 2_000
    print(reached, best)
    assert (reached > best - 0.2).all()


@pytest.mark.slow
def test_the_example_runs(capsys):
    """examples/learn_streets.py, shortened: plans are all valid and already far better."""
    path = ROOT / "examples" / "learn_streets.py"
    result = runpy.run_path(str(path))["main"](steps=15, seed=0)
    print(capsys.readouterr().out)
    assert result["valid"] == 1.0
    assert result["bound"] < result["train"] < 0.6 * result["random"]
    assert result["unseen"] < 0.8 * result["random"]
