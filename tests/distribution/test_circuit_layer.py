"""`CircuitLayer`: torch operations against enumeration and against the kernels of circuits."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson import CircuitLayer, ConstrainedMRF, Formula
from nelson.exact.circuit import build
from nelson.exact.compiled import compiled
from tests.problems import random_ksat

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(build.missing("d4") is not None, reason="D4 is not installed")

#: Random clauses; a hierarchy with a free variable; parities with auxiliary variables.
FORMULAS = {
    "3-CNF": random_ksat(9, 14, 3, seed=1),
    "hierarchy": Formula([[-2, 1], [-3, 1], [-4, 2], [-5, 2], [-6, 3]], n_vars=8),
    "parity": Formula([[1, 2, 3]], n_vars=6).xor([1, 2, 3, 4, 5, 6], True).at_most([1, 2, 3, 4], 2),
}


@pytest.fixture(params=FORMULAS)
def formula(request):
    return FORMULAS[request.param]


def logits_of(formula, *batch, scale=2.0):
    generator = torch.Generator().manual_seed(0)
    return scale * torch.randn(*batch, formula.n_vars, generator=generator, dtype=torch.float64)


def listed(formula, theta):
    """All structures, and the log P of each under each row."""
    states = ConstrainedMRF(formula, theta[0]).enumerate_support()
    score = theta @ states.T
    return states, score - score.logsumexp(-1, keepdim=True)


def test_log_prob_and_moments_are_those_of_enumeration(formula):
    theta = logits_of(formula, 5).requires_grad_()
    layer = CircuitLayer(formula)
    states, log_p = listed(formula, theta.detach())
    for k in (0, len(states) // 2, -1):
        x = states[k].expand(5, -1)
        value = layer(theta, x)
        torch.testing.assert_close(value.detach(), log_p[:, k])
        (gradient,) = torch.autograd.grad(value.sum(), theta)
        torch.testing.assert_close(gradient, x - log_p.exp() @ states)
    torch.testing.assert_close(layer.mean(theta), log_p.exp() @ states)
    torch.testing.assert_close(layer.mode(theta), states[log_p.argmax(-1)])


def test_it_agrees_with_the_kernels_with_evidence(formula):
    theta = logits_of(formula, 2, 3)
    states, _ = listed(formula, theta[0])
    theta[0, 1, :2] = torch.where(states[0, :2] > 0, torch.inf, -torch.inf)
    layer, law = CircuitLayer(formula), ConstrainedMRF(formula, theta)
    torch.testing.assert_close(layer.log_partition(theta), law.log_partition("circuit"))
    rows = theta.reshape(6, -1).numpy()
    torch.testing.assert_close(
        layer.mean(theta).reshape(6, -1), torch.from_numpy(compiled(formula).mean(rows))
    )
    torch.testing.assert_close(layer.mode(theta), law.mode)
    free = theta.clone().requires_grad_()
    x = states[0].expand(2, 3, -1)
    (gradient,) = torch.autograd.grad(layer(free, x).sum(), free)
    again = theta.clone().requires_grad_()
    law = ConstrainedMRF(formula, again)
    (expected,) = torch.autograd.grad(law.log_prob(x).sum(), again)
    torch.testing.assert_close(gradient, expected)


def test_samples_have_the_law_and_others_would_be_seen(formula):
    """Chi-square of all structures for two rows, seed 0: a right sampler fails once in 10,000."""
    from scipy.stats import chisquare

    torch.manual_seed(0)
    theta = logits_of(formula, 2, scale=0.7)
    layer, count = CircuitLayer(formula), 20_000
    x = layer.sample(theta, count)
    assert x.shape == (count, 2, formula.n_vars)
    assert layer.valid(x).all()
    states, log_p = listed(formula, theta)
    powers = 2.0 ** torch.arange(formula.n_vars, dtype=torch.float64)
    for row, wrong in ((0, 1), (1, 0)):
        seen = (x[:, row] @ powers)[:, None] == states @ powers
        times = seen.sum(0).double().numpy()
        assert times.sum() == count
        assert chisquare(times, count * log_p[row].exp().numpy()).pvalue > 1e-4
        assert chisquare(times, count * log_p[wrong].exp().numpy()).pvalue < 1e-4


def test_a_mixture_is_that_of_enumeration(formula):
    torch.manual_seed(1)
    theta, mix = logits_of(formula, 6, 3).requires_grad_(), torch.randn(6, 3).double()
    layer, law = CircuitLayer(formula), ConstrainedMRF(formula, theta, mix=mix)
    states = listed(formula, theta[0].detach())[0]
    log_p = torch.stack([law.log_prob(x.expand(6, -1)) for x in states], -1)
    for k in (0, -1):
        x = states[k].expand(6, -1)
        torch.testing.assert_close(layer(theta, x, mix), log_p[:, k])
        ours, theirs = (
            torch.autograd.grad(f.sum(), theta) for f in (layer(theta, x, mix), law.log_prob(x))
        )
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(layer.mean(theta, mix), law.mean)
    made = layer.mode(theta, mix)
    assert layer.valid(made).all()
    short = log_p.max(-1).values - law.log_prob(made)
    assert short.min() > -1e-9 and (short < 1e-9).sum() >= 4  # the ascent may end elsewhere
    peaks = layer.mode(theta)
    assert (law.log_prob(made) >= law.log_prob(peaks[:, 0]) - 1e-9).all()


def test_samples_of_a_mixture_have_its_law(formula):
    """Chi-square, seed 0: a right sampler fails once in 10,000. The twin has other weights."""
    from scipy.stats import chisquare

    torch.manual_seed(0)
    theta, mix = logits_of(formula, 2), torch.tensor([0.0, 1.5]).double()
    layer, count = CircuitLayer(formula), 20_000
    x = layer.sample(theta, count, mix)
    assert x.shape == (count, formula.n_vars)
    states = listed(formula, theta)[0]
    powers = 2.0 ** torch.arange(formula.n_vars, dtype=torch.float64)
    times = ((x @ powers)[:, None] == states @ powers).sum(0).double().numpy()
    for weights, right in ((mix, True), (mix.flip(0), False)):
        law = ConstrainedMRF(formula, theta, mix=weights)
        p = law.log_prob(states).exp().numpy()
        often = count * p >= 5  # rare structures count together
        seen = [*times[often], times[~often].sum()]
        expected = [*(count * p[often]), max(1e-9, count * p[~often].sum())]
        assert (chisquare(seen, expected).pvalue > 1e-4) == right


def test_invalid_structures_have_no_probability(formula):
    layer = CircuitLayer(formula)
    every = torch.from_numpy(
        np.array(np.meshgrid(*[[0.0, 1.0]] * formula.n_vars)).reshape(formula.n_vars, -1).T.copy()
    )
    valid = torch.from_numpy(np.asarray(formula.satisfied(every.numpy() > 0)))
    assert torch.equal(layer.valid(every), valid)
    theta = logits_of(formula).expand(len(every), -1)
    assert torch.equal(layer.log_prob(theta, every) > -torch.inf, valid)
    theta = theta.clone()
    theta[:, 0] = torch.inf
    assert torch.equal(layer.log_prob(theta, every) > -torch.inf, valid & (every[:, 0] > 0))


def test_half_precision_is_the_users_choice_and_shapes_are_checked(formula):
    layer = CircuitLayer(formula)
    theta = logits_of(formula, 4)
    assert layer.log_partition(theta.float()).dtype == torch.float32
    torch.testing.assert_close(
        layer.log_partition(theta.float()), layer.log_partition(theta).float(), rtol=1e-5, atol=1e-5
    )
    with pytest.raises(nelson.FormulaError, match="logits of shape"):
        layer.log_partition(theta[:, 1:])


NAN = torch.full((2, 3), torch.nan)


@pytest.mark.parametrize(
    ("logits", "x", "mix", "words"),
    [
        (NAN, torch.ones(2, 3), None, "logits with 6 NaN, the first of variable 1 in row"),
        (torch.zeros(2, 3), torch.zeros(2, 3), None, r"target 0: it breaks clause 1 \(1 2\)"),
        (torch.zeros(2, 3), torch.full((2, 3), 0.5), None, "the value 0.5 for variable 1"),
        (torch.zeros(2, 3), torch.ones(2, 4), None, r"targets of shape \(2, 4\)"),
        (torch.zeros(2, 4), torch.ones(2, 3), None, r"logits of shape \(2, 4\)"),
        (torch.zeros(2, 3).long(), torch.ones(2, 3), None, "logits of torch.int64"),
        (np.zeros((2, 3)), torch.ones(2, 3), None, "logits of type ndarray; expected a tensor"),
        (torch.zeros(2, 3, device="meta"), torch.ones(2, 3), None, "targets on cpu for logits on"),
        (torch.zeros(2, 5, 3), torch.ones(2, 3), torch.zeros(2, 4), r"mix of shape \(2, 4\)"),
    ],
)
def test_bad_input_of_a_training_step_is_one_sentence(logits, x, mix, words):
    layer = CircuitLayer(Formula([[1, 2], [-1, 3]]))
    with pytest.raises(nelson.FormulaError, match=words) as caught:
        layer(logits, x, mix)
    assert "\n" not in str(caught.value)


def test_log_prob_of_a_structure_that_is_not_valid_is_no_error():
    layer = CircuitLayer(Formula([[1, 2], [-1, 3]]))
    assert layer.log_prob(torch.zeros(3), torch.zeros(3)) == -torch.inf
    assert layer.log_prob(NAN, torch.ones(2, 3)).isnan().all()


def test_a_formula_that_does_not_compile_says_why(monkeypatch):
    monkeypatch.setattr("nelson.distribution.circuit_layer.compiled", lambda *_: None)
    with pytest.raises(nelson.BudgetExceeded, match="not compiled to a circuit"):
        CircuitLayer(Formula([[1, 2]]))
