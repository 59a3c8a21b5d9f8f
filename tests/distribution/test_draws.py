"""Samples of the distribution: their law, shapes, seeds, dtype and device."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import nelson  # noqa: E402
from nelson.distribution.mrf import ConstrainedMRF  # noqa: E402
from tests.distribution.models import ALPHA, SMALL, logits  # noqa: E402
from tests.problems import chi_square, exact_law  # noqa: E402


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


def test_one_answer_has_one_limit(monkeypatch):
    """A mean decides, draws, and may draw again: `seconds` is for all of it. The twin has no law to
    look for, so that a draw has nearly everything."""
    from nelson.distribution import mrf as module
    from nelson.sampling.plan import Plan

    given: list[float] = []
    drawn = Plan.sample

    def sample(self, n, **options):
        given.append(options["seconds"])
        return drawn(self, n, **options)

    def slow(*_, **__):
        time.sleep(0.3)
        return module.Reason("no law")

    monkeypatch.setattr(Plan, "sample", sample)
    monkeypatch.setattr(module, "law", slow)
    for _ in range(2):
        _ = ConstrainedMRF(SMALL["path"], torch.zeros(5), seconds=60.0).mean
        monkeypatch.setattr(module, "law", lambda *_, **__: module.Reason("no law"))
    assert given[0] <= 59.7 < given[1] <= 60.0


def test_moments_take_the_samples_that_a_limit_left(monkeypatch):
    """A draw of samples is complete, or an error: the twin."""
    from nelson.distribution import mrf as module
    from nelson.sampling.plan import Plan

    drawn = Plan.sample

    def few(self, n, **options):
        samples = drawn(self, 1000, **options)
        if options["strict"]:
            raise nelson.BudgetExceeded("the time was up")
        info = {**samples.info, "reason": "the time was up", "requested": n}
        return replace(samples, status="budget", info=info)

    monkeypatch.setattr(Plan, "sample", few)
    monkeypatch.setattr(module, "law", lambda *_, **__: module.Reason("no law"))
    monkeypatch.setattr("nelson.distribution.planned_draws.moments_of", lambda *_, **__: None)
    exact = ConstrainedMRF(SMALL["path"], torch.zeros(5)).enumerate_support().mean(0)
    law = ConstrainedMRF(SMALL["path"], torch.zeros(2, 5), seconds=60.0)
    with pytest.warns(UserWarning, match="only (1000|500) samples: the time was up"):
        mean = law.mean
    assert (mean - exact).abs().max() < 5.5 * 0.5 / 500**0.5
    with pytest.raises(nelson.BudgetExceeded):
        law.sample((4000,))
