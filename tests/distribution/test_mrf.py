"""The distribution against enumeration: every number, every gradient, every shape.

Statistical tests reject a right model with probability ALPHA each; about 15 of them: 2e-5 in all.
Seeds are fixed.
"""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import nelson  # noqa: E402
from nelson.distribution.mrf import ConstrainedMRF, same_clauses  # noqa: E402
from nelson.log_z import log_partition  # noqa: E402
from tests import ROOT  # noqa: E402
from tests.problems import (  # noqa: E402
    all_states,
    chi_square,
    complete_edges,
    errata3,
    exact_law,
    exact_marginals,
    extremal,
    non_extremal,
    random_ksat,
    sink_free,
    weights,
)

DOCUMENT = ROOT / "docs" / "mrf.md"
ALPHA = 1e-6
SIGMAS = 5.2  # two-sided: 2e-7 a number
SMALL = {**extremal(), **non_extremal()}
ENCODED = nelson.Formula([[1, 2, 3]], n_vars=8).exactly(range(1, 9), 3).xor([1, 2, 3, 4, 5, 6])


def logits(formula, *batch, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*batch, formula.n_vars, generator=generator, dtype=dtype)


def enumerated_log_z(formula, theta):
    """log Z as torch sees it: a sum over all structures, differentiable as often as one likes."""
    states = torch.from_numpy(exact_law(formula)[0]).to(theta)
    return torch.logsumexp(theta @ states.T, -1)


# --- log Z, log_prob and their gradients ----------------------------------------------------------


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


@pytest.mark.parametrize("method", ["auto", "enumerate", "count", "circuit"])
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


def test_an_estimate_says_so():
    pytest.importorskip("pyganak")
    formula, theta = errata3(n=30)
    mrf = ConstrainedMRF(formula, torch.from_numpy(theta).requires_grad_())
    torch.manual_seed(1)
    value = mrf.log_partition("telescope", half_width=0.2)
    exact = log_partition(formula, theta, method="count")
    [info] = mrf.log_partition_info
    assert info.method == "telescope" and not info.exact and info.half_width > 0
    print(info, exact)
    # 95% is 1.96 sigma; 5.2 sigma are 2.7 half widths.
    assert abs(value.item() - exact.value) < 2.7 * info.half_width
    again = mrf.log_partition("telescope", half_width=0.2)
    assert again.item() == value.item()  # kept, not estimated anew


# --- sampling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["complete4", "path", "random 5-SAT"])
def test_samples_follow_the_law_of_their_row(name):
    formula = SMALL[name]
    theta = logits(formula, 2, 2, seed=7)
    mrf = ConstrainedMRF(formula, theta)
    torch.manual_seed(0)
    x = mrf.sample((50_000,)).numpy() > 0
    laws = [[exact_law(formula, theta[a, b].numpy()) for b in range(2)] for a in range(2)]
    for a in range(2):
        for b in range(2):
            assert chi_square(x[:, a, b], laws[a][b]) > ALPHA
    assert chi_square(x[:, 0, 1], laws[1][0]) < ALPHA  # rows mixed up would be seen


def test_shapes():
    formula = SMALL["example1"]
    for batch in ((), (2,), (3, 1, 2)):
        mrf = ConstrainedMRF(formula, logits(formula, *batch))
        assert mrf.batch_shape == batch and mrf.event_shape == (3,)
        for shape in ((), (4,), (2, 3)):
            x = mrf.sample(shape)
            assert x.shape == (*shape, *batch, 3) and mrf.support.check(x).all()
            assert mrf.log_prob(x).shape == (*shape, *batch)
        for one in (mrf.mean, mrf.variance, mrf.stddev, mrf.mode):
            assert one.shape == (*batch, 3)
        assert mrf.covariance().shape == (*batch, 3, 3)
        assert mrf.entropy().shape == mrf.log_partition().shape == batch
        assert mrf.enumerate_support().shape == (4, *batch, 3)
        assert mrf.enumerate_support(expand=False).shape == (4, *[1] * len(batch), 3)
    assert ConstrainedMRF(formula, logits(formula, 2)).sample((0,)).shape == (0, 2, 3)
    nobody = ConstrainedMRF(formula, logits(formula, 0), validate_args=False)
    assert nobody.sample((5,)).shape == (5, 0, 3) and nobody.log_partition().shape == (0,)


def test_expand_is_the_same_law():
    formula = SMALL["complete4"]
    mrf = ConstrainedMRF(formula, logits(formula, 1), names=list("abcdef"))
    wide = mrf.expand((4, 3))
    assert type(wide) is ConstrainedMRF and wide.batch_shape == (4, 3)
    np.testing.assert_allclose(wide.mean, mrf.mean.expand(4, 3, 6), atol=1e-12)
    x = wide.sample((2,))
    assert wide.log_prob(x).shape == (2, 4, 3) and wide.read(x[0, 0, 0]) is not None
    torch.manual_seed(3)
    x = wide.sample((5_000,)).reshape(-1, 6).numpy() > 0  # contexts differ from each other
    assert chi_square(x, exact_law(formula, mrf.logits[0].numpy())) > ALPHA


def test_manual_seed_repeats():
    formula = SMALL["path"]
    mrf = ConstrainedMRF(formula, logits(formula, 2))
    torch.manual_seed(5)
    first, second = mrf.sample((64,)), mrf.sample((64,))
    torch.manual_seed(5)
    assert torch.equal(mrf.sample((64,)), first) and not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtype_follows_the_logits(dtype):
    formula = SMALL["example1"]
    mrf = ConstrainedMRF(formula, logits(formula, 2).to(dtype))
    x = mrf.sample((3,))
    made = (x, mrf.log_prob(x), mrf.mean, mrf.mode, mrf.log_partition(), mrf.entropy())
    assert {one.dtype for one in (*made, mrf.covariance(), mrf.enumerate_support())} == {dtype}
    assert ConstrainedMRF(formula, [0, 1, 2]).logits.dtype == torch.get_default_dtype()


@pytest.mark.gpu
@pytest.mark.gpu
def test_device_follows_the_logits():
    if not torch.cuda.is_available():
        pytest.skip("no card")
    formula = SMALL["example1"]
    mrf = ConstrainedMRF(formula, logits(formula, 2).cuda().requires_grad_())
    x = mrf.sample((3,))
    made = [x, mrf.log_prob(x), mrf.mean, mrf.log_partition(), mrf.covariance(), mrf.entropy()]
    made += [mrf.enumerate_support(), mrf.given({1: True}).sample()]
    if importlib.util.find_spec("pysat") is not None:
        made.append(mrf.mode)
    assert {one.device.type for one in made} == {"cuda"}
    mrf.log_prob(x).sum().backward()
    assert mrf.logits.grad.device.type == "cuda"


def test_where_resampling_fails_an_exact_draw_steps_in():
    """The parity of 8 variables: resampling cannot finish or sweeps cannot move."""
    formula = nelson.Formula([], n_vars=8).exactly(range(1, 9), 3).xor(range(1, 9))
    theta = logits(formula).numpy()
    mrf = ConstrainedMRF(formula, torch.from_numpy(theta))
    torch.manual_seed(2)
    x = mrf.sample((20_000,)).numpy() > 0
    print(mrf.info["sample"])
    assert mrf.info["sample"]["guarantee"] == "exact"
    assert chi_square(x, exact_law(formula, theta)) > ALPHA
    hard = nelson.Formula([[1, 2], [-1, 2], [1, -2]], n_vars=2)
    extreme = torch.tensor([-15.0, -15.0])
    with pytest.raises(nelson.BudgetExceeded):  # but not if a method was asked for
        ConstrainedMRF(hard, extreme, method="lovasz").sample((10,))
    assert (ConstrainedMRF(hard, extreme).sample((10,)) == 1).all()


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


def test_estimated_gradient_of_log_z():
    """Where nothing exact is to be had, the gradient is a mean over samples, and says so."""
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


# --- mode, KL, conditioning -----------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SMALL, "encoded"])
def test_mode_is_the_maximum(name):
    formula = {**SMALL, "encoded": ENCODED}[name]
    theta = logits(formula, 4, seed=13)
    mrf = ConstrainedMRF(formula, theta)
    mode = mrf.mode
    assert mrf.support.check(mode).all()
    best = mrf.log_prob(mrf.enumerate_support()).max(0).values
    np.testing.assert_allclose(mrf.log_prob(mode), best, atol=1e-12)
    minimum = ConstrainedMRF(formula, -theta).mode  # twin: the sign matters
    assert (mrf.log_prob(minimum) < best - 1e-9).any()


def test_mode_is_exact_where_floats_are_close_and_ties_are_repeatable():
    formula = nelson.Formula([[-1, -2]], n_vars=2)
    close = [1.0, math.nextafter(1.0, 2.0)]
    assert ConstrainedMRF(formula, torch.tensor(close, dtype=torch.float64)).mode.tolist() == [0, 1]
    far = torch.tensor([1e-300, 1e300], dtype=torch.float64)
    assert ConstrainedMRF(formula, far).mode.tolist() == [0, 1]
    tie = ConstrainedMRF(formula, torch.ones(2))
    assert tie.mode.sum() == 1 and torch.equal(tie.mode, tie.mode)
    hard = ConstrainedMRF(formula, torch.tensor([math.inf, 5.0]))
    assert hard.mode.tolist() == [1, 0]
    both = ConstrainedMRF(formula, torch.tensor([math.inf, math.inf]))
    with pytest.raises(nelson.Unsatisfiable):
        _ = both.mode


def test_mode_has_a_budget():
    formula = random_ksat(200, 800, 3, seed=1)
    mrf = ConstrainedMRF(formula, logits(formula))
    with pytest.raises(nelson.BudgetExceeded):
        mrf.most_likely(seconds=0.2)


def test_kl():
    formula = SMALL["random 3-SAT"]
    p = ConstrainedMRF(formula, logits(formula, 3))
    q = ConstrainedMRF(formula.replace(theta=np.ones(8)), logits(formula, seed=1))  # same clauses
    support = p.enumerate_support()
    log_p, log_q = p.log_prob(support), q.log_prob(support)
    want = (log_p.exp() * (log_p - log_q)).sum(0)
    got = torch.distributions.kl_divergence(p, q)
    np.testing.assert_allclose(got, want, atol=1e-12)
    assert not np.allclose(torch.distributions.kl_divergence(q, p), want)
    assert torch.distributions.kl_divergence(p, p).abs().max() < 1e-12
    with pytest.raises(ValueError, match="one formula"):
        torch.distributions.kl_divergence(p, ConstrainedMRF(SMALL["path"], torch.zeros(5)))
    assert not same_clauses(SMALL["path"], formula)


def test_kl_and_log_prob_with_hard_evidence():
    formula = nelson.Formula([[1, 2]], n_vars=2)
    soft = ConstrainedMRF(formula, torch.zeros(2, dtype=torch.float64))
    hard = ConstrainedMRF(formula, torch.tensor([math.inf, 0.0], dtype=torch.float64))
    assert torch.distributions.kl_divergence(soft, hard).item() == math.inf
    assert torch.distributions.kl_divergence(hard, soft).item() == pytest.approx(math.log(3 / 2))
    x = soft.enumerate_support()
    np.testing.assert_allclose(hard.log_prob(x).exp(), [0, 0.5, 0.5])
    theta = torch.tensor([math.inf, 0.3], dtype=torch.float64, requires_grad=True)
    mrf = ConstrainedMRF(formula, theta)
    (gradient,) = torch.autograd.grad(mrf.log_prob(x[1]) + mrf.entropy(), theta)
    assert torch.isfinite(gradient).all() and gradient[0] == 0 and gradient[1] != 0


def test_given_is_the_conditional_law():
    formula = SMALL["complete4"]
    theta = logits(formula, 2)
    mrf = ConstrainedMRF(formula, theta, names=["ab", "ac", "ad", "bc", "bd", "cd"])
    some = mrf.given({"ab": False, "cd": True})
    assert torch.equal(some.mean, mrf.given([-1, 6]).mean)
    assert torch.equal(some.mean, mrf.given({1: False, 6: True}).mean)
    x = mrf.enumerate_support()
    fits = (x[:, 0, 0] == 0) & (x[:, 0, 5] == 1)
    joint = mrf.log_prob(x[fits])
    np.testing.assert_allclose(some.log_prob(x[fits]), joint - joint.logsumexp(0), atol=1e-12)
    drawn = some.sample((100,))
    assert (drawn[..., 0] == 0).all() and (drawn[..., 5] == 1).all()
    with pytest.raises(ValueError, match="within the support"):
        some.log_prob(x[~fits][:1])
    with pytest.raises(nelson.FormulaError, match="named"):
        mrf.given(["zz"])


# --- arguments, names -----------------------------------------------------------------------------


def test_arguments_are_checked_as_torch_does():
    formula = SMALL["example1"]
    with pytest.raises(ValueError, match="logits"):
        ConstrainedMRF(formula, torch.zeros(4))
    with pytest.raises(ValueError, match="logits"):
        ConstrainedMRF(formula, torch.tensor([0.0, math.nan, 0.0]))
    mrf = ConstrainedMRF(formula, torch.zeros(3))
    invalid, no_bit = torch.tensor([0.0, 0.0, 0.0]), torch.tensor([0.5, 1.0, 0.0])
    for x in (invalid, no_bit):
        with pytest.raises(ValueError, match="within the support"):
            mrf.log_prob(x)
        assert ConstrainedMRF(formula, torch.zeros(3), validate_args=False).log_prob(x) == -math.inf
    with pytest.raises(ValueError, match="shape"):
        mrf.log_prob(torch.zeros(4))
    with pytest.raises(nelson.FormulaError, match="method"):
        mrf.moments("magic")
    unsatisfiable = nelson.Formula([[1], [-1]], n_vars=1)
    for attempt in (lambda m: m.log_partition(), lambda m: m.sample(), lambda m: m.mode):
        with pytest.raises(nelson.Unsatisfiable):
            attempt(ConstrainedMRF(unsatisfiable, torch.zeros(1)))


def test_too_many_structures_to_list():
    formula = random_ksat(60, 60)
    mrf = ConstrainedMRF(formula, torch.zeros(60))
    for attempt in (mrf.enumerate_support, lambda: mrf.log_partition("enumerate")):
        with pytest.raises(nelson.BudgetExceeded):
            attempt()


def test_names_read_back():
    formula = SMALL["cycle3"]
    edges = [("a", "b"), ("b", "c"), ("c", "a")]
    mrf = ConstrainedMRF(formula, torch.tensor([9.0, 9.0, 9.0]), names=edges)
    assert mrf.read(mrf.mode) == edges
    assert mrf.read(torch.zeros(2, 1, 3)) == [[[]], [[]]]
    assert mrf.read([1, 0, 0], values=True) == {edges[0]: True, edges[1]: False, edges[2]: False}
    assert ConstrainedMRF(formula, torch.zeros(3)).read([0, 1, 1]) == ["x2", "x3"]
    assert ConstrainedMRF(formula, torch.zeros(3), names={2: "two"}).names[2] == "two"
    for wrong in (["a", "b"], ["a", "a", "b"], [1, 2, 3], {4: "d"}):
        with pytest.raises(nelson.FormulaError):
            ConstrainedMRF(formula, torch.zeros(3), names=wrong)
    with pytest.raises(nelson.FormulaError):
        mrf.read([1, 0])


def test_wider_use_in_torch():
    """Independent, and a mixture over contexts, take it as they take torch's own."""
    formula = SMALL["example1"]
    mrf = ConstrainedMRF(formula, logits(formula, 4))
    plates = torch.distributions.Independent(mrf, 1)
    x = plates.sample((3,))
    assert plates.log_prob(x).shape == (3,)
    np.testing.assert_allclose(plates.log_prob(x), mrf.log_prob(x).sum(-1))
    weights_of = torch.distributions.Categorical(torch.ones(4))
    mixture = torch.distributions.MixtureSameFamily(weights_of, mrf)
    total = mixture.log_prob(mrf.enumerate_support(expand=False)[:, 0]).exp().sum()
    assert total.item() == pytest.approx(1.0)


def test_weights_of_a_file_are_not_applied_by_themselves():
    formula = SMALL["example1"].replace(theta=weights(SMALL["example1"]))
    uniform = ConstrainedMRF(formula, torch.zeros(3))
    assert uniform.entropy().item() == pytest.approx(math.log(4))


def test_the_documentation_runs_and_prints_what_it_says():
    """docs/mrf.md; `python tests/test_mrf.py` writes the real output into it."""
    from tests.test_readme import outputs

    text = DOCUMENT.read_text()
    pairs = outputs(text)
    assert len(pairs) == text.count("```python") == 3
    for said, printed in pairs:
        assert said == printed


if __name__ == "__main__":
    from tests.test_readme import EXAMPLE, outputs

    content = DOCUMENT.read_text()
    real = iter(outputs(content))
    DOCUMENT.write_text(
        EXAMPLE.sub(lambda m: f"```python\n{m[1]}```\n\n```text\n{next(real)[1]}```", content)
    )
