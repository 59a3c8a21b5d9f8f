"""Mode, KL divergence, conditioning, arguments and names of the distribution; docs/mrf.md."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import nelson  # noqa: E402
from nelson.distribution.mrf import ConstrainedMRF, same_clauses  # noqa: E402
from tests import ROOT  # noqa: E402
from tests.distribution.models import ENCODED, SMALL, logits  # noqa: E402
from tests.problems import random_ksat, weights  # noqa: E402

DOCUMENT = ROOT / "docs" / "mrf.md"


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


@pytest.mark.slow
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
        with pytest.raises(ValueError, match=r"the support \(valid structures of <Formula"):
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
    """docs/mrf.md; `python -m tests.distribution.test_mrf` writes the real output into it."""
    from tests.test_readme import outputs

    text = DOCUMENT.read_text()
    pairs = outputs(text)
    assert len(pairs) == text.count("```python") == 6
    for said, printed in pairs:
        assert said == printed


if __name__ == "__main__":
    from tests.test_readme import EXAMPLE, outputs

    content = DOCUMENT.read_text()
    real = iter(outputs(content))
    DOCUMENT.write_text(
        EXAMPLE.sub(lambda m: f"```python\n{m[1]}```\n\n```text\n{next(real)[1]}```", content)
    )
