"""log Z, probabilities, moments and their gradients against enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import nelson  # noqa: E402
from nelson.distribution.mrf import ConstrainedMRF  # noqa: E402
from nelson.log_z import log_z  # noqa: E402
from tests.distribution.models import ALPHA, ENCODED, SIGMAS, SMALL, logits  # noqa: E402
from tests.problems import (  # noqa: E402
    all_states,
    chi_square,
    complete_edges,
    errata3,
    exact_law,
    exact_marginals,
    random_ksat,
    sink_free,
)


def enumerated_log_z(formula, theta):
    """log Z as torch sees it: a sum over all structures, differentiable as often as one likes."""
    states = torch.from_numpy(exact_law(formula)[0]).to(theta)
    return torch.logsumexp(theta @ states.T, -1)


@pytest.mark.parametrize("name", [*SMALL, "encoded"])
def test_probabilities_sum_to_one_over_the_support(name):
    formula = {**SMALL, "encoded": ENCODED}[name]
    theta = logits(formula, 3)
    mrf = ConstrainedMRF(formula, theta)
    support = mrf.enumerate_support()
    np.testing.assert_array_equal(support[:, 0].numpy() > 0, exact_law(formula)[0])
    np.testing.assert_allclose(mrf.log_prob(support).exp().sum(0), np.ones(3), rtol=1e-12)
    law = np.stack([exact_law(formula, row.numpy())[1] for row in theta], 1)
    np.testing.assert_allclose(mrf.log_prob(support).exp(), law, rtol=1e-10)
    everything = torch.from_numpy(all_states(formula.n_vars)).double()[:, None]
    lax = ConstrainedMRF(formula, theta, validate_args=False)
    np.testing.assert_allclose(lax.log_prob(everything).exp().sum(0), np.ones(3), rtol=1e-12)


@pytest.mark.parametrize(
    "method",
    [
        "auto",
        "enumerate",
        pytest.param("count", marks=pytest.mark.process),
        pytest.param("circuit", marks=pytest.mark.process),
    ],
)
@pytest.mark.parametrize("name", ["complete4", "horn", "random 3-SAT"])
def test_log_partition_and_its_derivatives(name, method):
    if method in ("count", "circuit"):
        pytest.importorskip({"count": "pyganak", "circuit": "py_d4"}[method])
    formula = SMALL[name]
    theta = logits(formula, 2, seed=3).requires_grad_()
    mrf = ConstrainedMRF(formula, theta)
    value, want = mrf.log_partition(method), enumerated_log_z(formula, theta)
    np.testing.assert_allclose(value.detach(), want.detach(), rtol=1e-12)
    assert all(one.exact and one.half_width == 0 for one in mrf.log_partition_info)
    if method != "auto" and method != "enumerate":
        assert {one.method for one in mrf.log_partition_info} <= {method, "enumerate"}
    (got,) = torch.autograd.grad(value.sum(), theta)
    (right,) = torch.autograd.grad(want.sum(), theta)
    np.testing.assert_allclose(got, right, atol=1e-12)
    np.testing.assert_allclose(
        got, [exact_marginals(formula, row) for row in theta.detach().numpy()], atol=1e-12
    )


@pytest.mark.slow
def test_gradcheck_first_and_second_order():
    formula = SMALL["random 3-SAT"]
    theta = logits(formula, 2).requires_grad_()
    x = ConstrainedMRF(formula, theta).enumerate_support()[3]
    q = ConstrainedMRF(formula, logits(formula, seed=1))
    for function in (
        lambda t: ConstrainedMRF(formula, t).log_partition(),
        lambda t: ConstrainedMRF(formula, t).log_prob(x),
        lambda t: ConstrainedMRF(formula, t).mean,
        lambda t: ConstrainedMRF(formula, t).entropy(),
        lambda t: torch.distributions.kl_divergence(ConstrainedMRF(formula, t), q),
        lambda t: torch.distributions.kl_divergence(q, ConstrainedMRF(formula, t)),
    ):
        assert torch.autograd.gradcheck(function, (theta,))
    assert torch.autograd.gradgradcheck(lambda t: ConstrainedMRF(formula, t).log_partition(), theta)


def test_log_prob_gradient_is_x_minus_mean():
    formula = SMALL["bowtie"]
    theta = logits(formula).requires_grad_()
    mrf = ConstrainedMRF(formula, theta)
    x = mrf.sample((5,))
    (got,) = torch.autograd.grad(mrf.log_prob(x).sum(), theta)
    np.testing.assert_allclose(got, (x - mrf.mean).sum(0).detach(), atol=1e-12)
    # The twin: the mean of another theta is not it.
    assert not np.allclose(got, (x - ConstrainedMRF(formula, theta * 0.9).mean).sum(0).detach())


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@forall(st.integers(0, 10_000), st.integers(2, 7), st.integers(0, 14))
def test_any_formula(seed, n, n_clauses):
    """Hypothesis: log Z, mean, covariance, entropy, mode against enumeration."""
    rng = np.random.default_rng(seed)
    formula = random_ksat(n, n_clauses, min(n, 3), seed=seed)
    theta = rng.normal(size=n) * rng.choice([0.1, 1.0, 10.0])
    theta[rng.random(n) < 0.1] = rng.choice([-np.inf, np.inf])
    states, p = exact_law(formula, theta)
    mrf = ConstrainedMRF(formula, torch.from_numpy(theta))
    if not len(states):
        with pytest.raises(nelson.Unsatisfiable):
            mrf.log_partition()
        with pytest.raises(nelson.Unsatisfiable):
            _ = mrf.mode
        return
    score = states @ np.where(np.isinf(theta), 0, theta)
    top = score.max()
    assert mrf.log_partition().item() == pytest.approx(top + math.log(np.exp(score - top).sum()))
    mean = p @ states
    np.testing.assert_allclose(mrf.mean, mean, atol=1e-10)
    centred = states - mean
    np.testing.assert_allclose(mrf.covariance(), centred.T * p @ centred, atol=1e-10)
    positive = p[p > 0]
    assert mrf.entropy().item() == pytest.approx(-(positive * np.log(positive)).sum(), abs=1e-8)
    mode = mrf.mode.numpy() > 0
    assert formula.satisfied(mode) and (mode[np.isinf(theta)] == (theta > 0)[np.isinf(theta)]).all()
    assert mode @ np.where(np.isinf(theta), 0, theta) == pytest.approx(top)


@pytest.mark.process
def test_beyond_enumeration_a_circuit_is_exact():
    pytest.importorskip("py_d4")
    formula = sink_free(complete_edges(9))  # 36 variables
    theta = logits(formula, 2).requires_grad_()
    mrf = ConstrainedMRF(formula, theta)
    value = mrf.log_partition()
    assert [one.method for one in mrf.log_partition_info] == ["circuit", "circuit"]
    (gradient,) = torch.autograd.grad(value.sum(), theta)
    assert "d-DNNF" in mrf.info["mean"]
    # The derivative that the values themselves have.
    step = torch.zeros_like(theta)
    step[:, 7] = 1e-5
    with torch.no_grad():
        up = ConstrainedMRF(formula, theta + step).log_partition()
        down = ConstrainedMRF(formula, theta - step).log_partition()
    np.testing.assert_allclose(gradient[:, 7], (up - down) / 2e-5, atol=1e-8)
    x = mrf.sample((100,))
    assert mrf.info["sample"]["method"] == "lovasz" and mrf.log_prob(x).shape == (100, 2)


@pytest.mark.process
@pytest.mark.parametrize("name", ["random 3-SAT", "random 5-SAT", "free variable", "encoded"])
def test_circuit_moments_and_draws(name):
    pytest.importorskip("py_d4")
    formula = {**SMALL, "encoded": ENCODED}[name]
    theta = logits(formula, 2, seed=5).numpy() * 2
    states, _ = exact_law(formula)
    theta[1, 0] = np.inf if states[0, 0] else -np.inf
    mrf = ConstrainedMRF(formula, torch.from_numpy(theta), method="circuit")
    circuit, listed = mrf.moments("circuit"), mrf.moments("enumerate")
    v = np.random.default_rng(0).normal(size=theta.shape)
    np.testing.assert_allclose(circuit.mean(theta), listed.mean(theta), atol=1e-12)
    np.testing.assert_allclose(circuit.pull(theta, v), listed.pull(theta, v), atol=1e-8)
    np.testing.assert_allclose(circuit.covariance(theta), listed.covariance(theta), atol=1e-8)
    torch.manual_seed(11)
    x = mrf.sample((50_000,)).numpy() > 0
    assert mrf.info["sample"]["method"] == "circuit"
    for b in range(2):
        assert chi_square(x[:, b], exact_law(formula, theta[b])) > ALPHA
    assert chi_square(x[:, 0], exact_law(formula, theta[0] * 0.8)) < ALPHA


@pytest.mark.process
def test_an_estimate_says_so():
    pytest.importorskip("pyganak")
    formula, theta = errata3(n=30)
    mrf = ConstrainedMRF(formula, torch.from_numpy(theta).requires_grad_())
    torch.manual_seed(1)
    value = mrf.log_partition("rejection", half_width=0.2)
    exact = log_z(formula, theta, method="count")
    [info] = mrf.log_partition_info
    assert info.method == "rejection" and not info.exact and info.half_width > 0
    print(info, exact)
    # 95% is 1.96 sigma; 5.2 sigma are 2.7 half widths.
    assert abs(value.item() - exact.value) < 2.7 * info.half_width
    again = mrf.log_partition("rejection", half_width=0.2)
    assert again.item() == value.item()  # kept, not estimated anew


# --- moments by samples ---------------------------------------------------------------------------


def test_sampled_moments_are_within_their_error():
    formula = SMALL["complete4"]
    theta = logits(formula, 2, seed=9)
    mrf = ConstrainedMRF(formula, theta)
    torch.manual_seed(4)
    count = 1 << 14
    sampled, exact = mrf.moments("samples", count), mrf.moments("enumerate")
    rows = theta.numpy()
    mean, cov = exact.mean(rows), exact.covariance(rows)
    error = np.sqrt(mean * (1 - mean) / count) + 1e-12
    assert (np.abs(sampled.mean(rows) - mean) < SIGMAS * error).all()
    # An entry of a covariance of bits has variance at most 1/4 (products of centred bits).
    got = mrf.covariance("samples", count).numpy()
    assert (np.abs(got - cov) < SIGMAS * 0.5 / math.sqrt(count)).all()
    v = np.random.default_rng(0).normal(size=rows.shape)
    np.testing.assert_allclose(sampled.pull(rows, v), (got @ v[..., None])[..., 0], atol=0.1)
    # Twin: the moments of other logits are outside.
    other = exact.mean(rows + 0.3)
    assert (np.abs(sampled.mean(rows) - other) > SIGMAS * error).any()


@pytest.mark.process
def test_estimated_gradient_of_log_z():
    """Without an exact method the gradient is a mean over samples, and a warning says so."""
    formula, theta = errata3(n=18)
    mrf = ConstrainedMRF(formula, torch.from_numpy(theta).requires_grad_())
    mrf._source = mrf.moments("samples", 1 << 14)
    torch.manual_seed(6)
    (got,) = torch.autograd.grad(mrf.log_partition(), mrf.logits)
    assert "samples" in mrf.info["mean"]
    right = exact_marginals(formula, theta)
    error = np.sqrt(right * (1 - right) / (1 << 14))
    assert (np.abs(got.numpy() - right) < SIGMAS * error + 2e-3).all()  # 2e-3: bias of the sweeps
    assert (np.abs(got.numpy() - exact_marginals(formula, theta * 0)) > SIGMAS * error).any()
