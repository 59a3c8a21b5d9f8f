"""Mixtures of laws over one formula, and pair terms from a network, against enumeration.

The chi-square test rejects a right sampler with probability ALPHA = 1e-6; its twin judges the
samples against the mixture with the weights exchanged.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import nelson  # noqa: E402
from nelson.distribution import mixture  # noqa: E402
from nelson.formula.polynomial import lift  # noqa: E402
from tests.distribution.models import ALPHA, SMALL, logits  # noqa: E402
from tests.problems import chi_square, exact_law, random_ksat  # noqa: E402

FORMULA = SMALL["random 3-SAT"]
K = 3


def made(batch=(2,), seed=0, requires_grad=False):
    theta = 2 * logits(FORMULA, *batch, K, seed=seed)
    mix = torch.randn(*batch, K, generator=torch.Generator().manual_seed(seed), dtype=theta.dtype)
    theta, mix = theta.requires_grad_(requires_grad), mix.requires_grad_(requires_grad)
    return theta, mix, nelson.ConstrainedMRF(FORMULA, logits=theta, mix=mix)


def enumerated(theta, mix):
    """P of all structures, (b, m), as a torch function of theta (b, K, n) and mix (b, K)."""
    states = torch.from_numpy(exact_law(FORMULA)[0]).double()
    each = torch.log_softmax(theta @ states.T, -1)  # (b, K, m)
    return states, (each + torch.log_softmax(mix, -1)[..., None]).logsumexp(-2)


def test_numbers_and_gradients_are_those_of_enumeration():
    theta, mix, law = made(requires_grad=True)
    states, want = enumerated(theta, mix)
    assert law.batch_shape == (2,) and law.event_shape == (8,) and "3 components" in repr(law)
    got = law.log_prob(states[:, None])
    torch.testing.assert_close(got, want.T)
    torch.testing.assert_close(got.exp().sum(0), torch.ones(2, dtype=torch.double))
    mean = want.exp() @ states
    torch.testing.assert_close(law.mean, mean)
    torch.testing.assert_close(law.variance, mean * (1 - mean))
    torch.testing.assert_close(law.enumerate_support()[:, 0].sum(0), states.sum(0))
    weight = torch.randn(got.shape, generator=torch.Generator().manual_seed(1), dtype=got.dtype)
    for ours, theirs in ((got * weight, want.T * weight), (law.mean**2, mean**2)):
        for a, b in zip(
            torch.autograd.grad(ours.sum(), (theta, mix), retain_graph=True),
            torch.autograd.grad(theirs.sum(), (theta, mix), retain_graph=True),
            strict=True,
        ):
            torch.testing.assert_close(a, b, atol=1e-8, rtol=1e-6)
            assert a.abs().max() > 1e-3
    torch.testing.assert_close(
        law.responsibilities(states[0].expand(2, -1)).sum(-1), torch.ones(2, dtype=torch.double)
    )


def test_one_component_is_the_plain_law():
    theta = logits(FORMULA, 2, 1)
    plain = nelson.ConstrainedMRF(FORMULA, theta[:, 0])
    law = nelson.ConstrainedMRF(FORMULA, theta, mix=torch.zeros(2, 1))
    x = plain.enumerate_support()
    torch.testing.assert_close(law.log_prob(x), plain.log_prob(x))
    assert torch.equal(law.mode, plain.mode)
    assert isinstance(plain, nelson.ConstrainedMRF)


def test_two_components_say_both_or_none():
    """Correlation 1 between two variables, which no log-odds of single variables can say."""
    formula = nelson.Formula([[1, 2, 3]], n_vars=3)
    theta = torch.tensor([[30.0, 30.0, 0.0], [-30.0, -30.0, 0.0]])
    law = nelson.ConstrainedMRF(formula, theta, mix=torch.zeros(2))
    torch.manual_seed(0)
    x = law.sample((200,))
    assert torch.equal(x[:, 0], x[:, 1]) and 0 < x[:, 0].mean() < 1
    single = nelson.ConstrainedMRF(formula, torch.zeros(3)).sample((200,))
    assert not torch.equal(single[:, 0], single[:, 1])


def test_samples_follow_the_law():
    theta, mix, law = made()
    torch.manual_seed(2)
    x = law.sample((4_000,))
    assert x.shape == (4_000, 2, 8)
    for b in range(2):
        for weights, right in ((mix[b], True), (mix[b].flip(0), False)):
            states, p = enumerated(theta[b : b + 1], weights[None])
            law_of_row = (states.numpy(), p[0].exp().numpy())
            assert (chi_square(x[:, b].numpy(), law_of_row) > ALPHA) is right


@pytest.mark.parametrize("listed", [True, False])
def test_the_mode_is_the_best_or_has_a_bound(listed, monkeypatch):
    if not listed:
        monkeypatch.setattr(mixture, "structures", lambda *_: None)
    theta, mix, law = made((12,), seed=3)
    _, want = enumerated(theta, mix)
    best = want.max(1).values
    found = law.log_prob(law.mode)
    assert law.support.check(law.mode).all()
    reports = law.info["mode"]
    for row, report in enumerate(reports):
        assert report["log_prob"] == pytest.approx(found[row].item(), abs=1e-9)
        assert report["bound"] >= best[row] - 1e-9
        if report["exact"]:
            assert found[row] == pytest.approx(best[row].item(), abs=1e-9)
    if listed:
        assert all(report["exact"] for report in reports)
    else:
        assert not all(report["exact"] for report in reports)  # the bound is not the value
        single = nelson.ConstrainedMRF(FORMULA, theta[:, 0]).mode  # twin: a component's mode
        assert (law.log_prob(single) < best - 1e-6).any()
        assert (found > best - 1e-9).sum() >= 10


def test_hard_evidence_and_weight_zero():
    theta, mix, _ = made((1,))
    theta[0, 0, 0], theta[0, 1, 0] = math.inf, -math.inf
    mix[0, 2] = -math.inf
    law = nelson.ConstrainedMRF(FORMULA, theta, mix=mix)
    p = law.log_prob(law.enumerate_support()).exp()
    assert p.sum().item() == pytest.approx(1)
    assert law.mean[0, 0].item() == pytest.approx(torch.softmax(mix, -1)[0, 0].item())
    assert law.log_prob(law.mode).item() == pytest.approx(p.max().log().item())
    only = nelson.ConstrainedMRF(FORMULA, theta[:, :1], mix=mix[:, :1]).enumerate_support()
    gone = only[only[:, 0, 0] == 0][:1]
    one = nelson.ConstrainedMRF(FORMULA, theta[:, :1].requires_grad_(), mix=mix[:, :1])
    assert one.log_prob(gone).item() == -math.inf


def test_arguments_of_a_mixture():
    theta = torch.zeros(2, K, 8)
    for mix, message in (
        (torch.zeros(2), r"mix of shape \(2,\) for logits \(2, 3, 8\).*mix \(..., K\)"),
        (torch.zeros(2, 4), "mix of shape"),
        (torch.full((2, K), math.nan), "mix with NaN"),
    ):
        with pytest.raises(nelson.FormulaError, match=message):
            nelson.ConstrainedMRF(FORMULA, theta, mix=mix)


def test_pair_terms_from_a_network():
    """theta . x + sum over pairs of c x_i x_j: the lifted formula compiles, gradients included."""
    formula = random_ksat(6, 6, 3, seed=4)
    pairs = [(1, 2), (3, 5)]
    lifted = lift(formula, dict.fromkeys(pairs, 1.0))
    assert lifted.monomials == tuple(pairs)
    theta = logits(formula, 2, seed=5).requires_grad_()
    strength = torch.tensor([[1.5, -2.0], [0.0, 3.0]], dtype=torch.double, requires_grad=True)
    law = nelson.ConstrainedMRF(lifted.formula, torch.cat([theta, strength], -1))
    states = exact_law(formula)[0]
    x = torch.from_numpy(lifted.complete(states)).double()
    assert law.support.check(x).all()
    score = x @ torch.cat([theta, strength], -1).T
    want = torch.log_softmax(score, 0)
    torch.testing.assert_close(law.log_prob(x[:, None]), want)
    grads = torch.autograd.grad(law.log_prob(x[3]).sum(), (theta, strength))
    right = torch.autograd.grad(want[3].sum(), (theta, strength))
    for a, b in zip(grads, right, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
