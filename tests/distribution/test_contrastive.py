"""The contrastive loss: gradients against enumeration, chains against their law, and bad input.

A gradient test asks each component to lie within SIGMAS standard errors of the truth, 2e-7 each,
about 30 of them; a chi-square test rejects a right chain with probability ALPHA = 1e-6. Twins fail.
"""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import nelson  # noqa: E402
from nelson.distribution import contrastive, target_chains  # noqa: E402
from nelson.distribution.target_chains import TargetChains, rows_of  # noqa: E402
from tests.distribution.models import ALPHA, ENCODED, SIGMAS, SMALL, logits  # noqa: E402
from tests.problems import chi_square, exact_law  # noqa: E402

#: Long cardinalities and parities hide in auxiliary variables; the chains see them as they are.
HIDDEN = (
    nelson.Formula([[1, 2, 3], [-4, 5]], n_vars=8)
    .linear([3, 1, 2, 1, 1, 4, 2, 1], range(1, 9), "<=", 9)
    .xor(range(1, 9))
)


@pytest.fixture
def by_chains(monkeypatch):
    """The loss as if the formula had no law and no plan."""

    class NoPlan:
        guarantee = "heuristic"

    monkeypatch.setattr(contrastive.LovaszLayer, "plan", lambda *_: NoPlan)


def target_of(formula, count, seed=0):
    states = exact_law(formula)[0]
    return torch.from_numpy(states[np.random.default_rng(seed).integers(0, len(states), count)])


@pytest.mark.parametrize("way", ["plan", "chains"])
def test_the_gradient_is_that_of_the_likelihood(way, request):
    """x - E[x] by enumeration; 1,000 contexts with the same theta, 8 samples each."""
    if way == "chains":
        request.getfixturevalue("by_chains")
    formula = SMALL["path"]
    theta = logits(formula, seed=1).expand(1000, -1).clone().requires_grad_()
    y = target_of(formula, 1000)
    states, p = exact_law(formula, theta[0].detach().numpy())
    loss = nelson.ContrastiveLoss(formula, 8, proposals=100, reduction="sum")
    torch.manual_seed(0)
    loss(theta, y, torch.arange(1000)).backward()
    model = theta.grad.numpy() + y.numpy()  # means of 8 samples
    error = np.maximum(model.std(0, ddof=1), 1e-9) / math.sqrt(1000)
    assert (np.abs(model.mean(0) - p @ states) < SIGMAS * error).all()
    assert (np.abs(model.mean(0) - states.mean(0)) > SIGMAS * error).any()  # twin: theta = 0
    assert loss.guarantee == {"plan": "exact", "chains": "heuristic"}[way]
    (row,) = loss.history
    # The noise in the history is the standard error of the gradient of the mean.
    assert row["noise"] == pytest.approx(np.sqrt((error**2).sum() / 1), rel=0.3)
    assert row["gradient"] == pytest.approx(np.linalg.norm(theta.grad / 1000), rel=1e-6)


@pytest.mark.parametrize("name", ["path", "random 3-SAT", "encoded", "hidden"])
def test_chains_have_the_law(name):
    """2,000 chains from one structure; the twin judges them before they have moved."""
    formula = {**SMALL, "encoded": ENCODED, "hidden": HIDDEN}[name]
    theta = logits(formula, seed=2).numpy()
    states, p = exact_law(formula, theta)
    start = states[:1].astype(bool)
    chains = TargetChains(formula, 2000, 200)
    x = chains.draw(theta[None], start, ["a"], 0)
    assert x.shape == (1, 2000, formula.n_vars) and formula.satisfied(x[0]).all()
    assert chi_square(x[0], (states, p)) > ALPHA
    assert 0 < chains.accepted < 1
    short = TargetChains(formula, 2000, 1).draw(theta[None], start, ["a"], 0)
    assert formula.satisfied(short[0]).all() and chi_square(short[0], (states, p)) < ALPHA


def test_chains_go_on_from_their_states(monkeypatch):
    formula, theta = SMALL["path"], np.zeros((2, 5))
    y = target_of(formula, 2).numpy().astype(bool)
    chains = TargetChains(formula, 4, 50)
    first = chains.draw(theta, y, [1, 2], 0)
    monkeypatch.setattr(target_chains, "exchange", lambda *_: 0)
    assert (chains.draw(theta[::-1], y[::-1], [2, 1], 5) == first[::-1]).all()
    fresh = chains.draw(theta, y, [3, 4], 5)
    assert (fresh[:, ::2] == y[:, None]).all()  # every second chain begins at its target
    monkeypatch.setattr(target_chains, "_ROOM", 8)
    chains.draw(theta, y, [5, 6], 0)
    assert list(chains.states) == [5, 6]


def test_constraints_as_sums():
    """A structure satisfies the formula exactly if all sums are within their bounds."""
    rows = rows_of(HIDDEN)
    x = (np.arange(256)[:, None] >> np.arange(8) & 1).astype(np.uint8)
    sums = TargetChains(HIDDEN, 2, 1)._sums(x)
    good = np.where(rows.odd >= 0, sums % 2 == rows.odd, (rows.low <= sums) & (sums <= rows.high))
    np.testing.assert_array_equal(good.all(1), HIDDEN.satisfied(x))
    assert 0 < good.all(1).sum() < 256


def test_a_network_learns_by_the_loss(by_chains):
    """Two contexts with different structures: the mode becomes the target, log P rises."""
    formula = HIDDEN
    y = target_of(formula, 2, seed=3)
    torch.manual_seed(0)
    net = torch.nn.Linear(2, 8)
    loss = nelson.ContrastiveLoss(formula, 8, proposals=200)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.2)
    for _ in range(40):
        optimiser.zero_grad()
        loss(net(torch.eye(2)), y).backward()
        optimiser.step()
    law = nelson.ConstrainedMRF(formula, net(torch.eye(2)))
    assert torch.equal(law.mode, y.float()) and law.log_prob(y).exp().min() > 0.5
    assert loss.history[-1]["gradient"] < 0.3 * loss.history[0]["gradient"]
    assert {"accepted", "memory", "noise", "seconds"} <= set(loss.history[-1])
    assert "chains from the targets" in loss.why


def test_reductions_copies_and_evidence():
    formula = SMALL["complete4"]
    theta = logits(formula, 3, 2).float()
    theta[0, 0, 0] = math.inf
    y = target_of(formula, 6).reshape(3, 2, 6)
    y[0, 0] = torch.from_numpy(exact_law(formula)[0][-1])
    theta = theta.requires_grad_()
    values = {}
    for reduction in ("mean", "sum", "none"):
        torch.manual_seed(4)
        values[reduction] = nelson.ContrastiveLoss(formula, reduction=reduction)(theta, y)
    assert values["none"].shape == (3, 2)
    torch.testing.assert_close(values["mean"] * 6, values["sum"])
    torch.testing.assert_close(values["none"].sum(), values["sum"])
    values["sum"].backward()
    assert torch.isfinite(theta.grad).all() and theta.grad[0, 0, 0] == 0
    loss = nelson.ContrastiveLoss(formula)
    loss(theta, y)
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        other(theta, y)
        assert len(other.history) == 2 and "samples=8" in repr(other)


@pytest.mark.parametrize(
    ("theta", "y", "message"),
    [
        (torch.zeros(2, 4), torch.zeros(2, 5), r"logits of shape \(2, 4\); expected .*\(..., 5\)"),
        (torch.zeros(2, 5), torch.zeros(5), r"targets of shape \(5,\).*logits, \(2, 5\)"),
        (torch.full((2, 5), math.nan), torch.ones(2, 5), r"logits with 10 NaN.*variable 1 in row"),
        (torch.zeros(2, 5).long(), torch.ones(2, 5), r"logits of torch.int64.*floating"),
        (torch.zeros(2, 5), torch.full((2, 5), 0.5), r"target 0 has the value 0.5 for variable 1"),
        (
            torch.zeros(2, 5),
            torch.tensor([[1, 1, 1, 1, 1], [1, 0, 0, 1, 1]]),
            r"1 of 2 targets violate the formula.*target 1: it breaks clause 2 \(2 3\)",
        ),
        (
            torch.tensor([[-math.inf, 0, 0, 0, 0]]),
            torch.ones(1, 5),
            r"target 0 has the value 1 for variable 1, but its logit is -inf",
        ),
        (torch.zeros(2, 5), torch.ones(2, 5, device="meta"), r"targets on meta for logits on cpu"),
    ],
)
def test_bad_input_is_named(theta, y, message):
    with pytest.raises(nelson.FormulaError, match=message):
        nelson.ContrastiveLoss(SMALL["path"])(theta, y)


def test_bad_input_of_the_others():
    formula, broken = SMALL["path"], torch.tensor([0.0, 0, math.nan, 0, 0])
    for use in (nelson.LovaszLayer(formula), lambda t: nelson.ConstrainedMRF(formula, t)):
        with pytest.raises(nelson.FormulaError, match=r"logits with 1 NaN.*variable 3"):
            use(broken)
    even = torch.tensor([[0, 0, 1, 0, 1, 0, 0, 0]])  # the sum is within 9, the parity is not odd
    with pytest.raises(nelson.FormulaError, match="it breaks constraint 2"):
        nelson.ContrastiveLoss(HIDDEN)(torch.zeros(1, 8), even)
    for wrong in ({"samples": 3}, {"reduction": "median"}, {"proposals": 0}):
        with pytest.raises(nelson.FormulaError, match=next(iter(wrong))):
            nelson.ContrastiveLoss(formula, **wrong)
    by_number = nelson.ContrastiveLoss(HIDDEN)
    by_number._source = TargetChains(HIDDEN, 8, 5)
    with pytest.raises(nelson.FormulaError, match=r"an index of 1 numbers; expected 2"):
        by_number(torch.zeros(2, 8), target_of(HIDDEN, 2), [0])
    law = nelson.ConstrainedMRF(formula, torch.zeros(5))
    with pytest.raises(nelson.FormulaError, match="x on meta for logits on cpu"):
        law.log_prob(torch.ones(5, device="meta"))


def test_a_law_without_log_z_says_so(monkeypatch):
    """`seconds` ends it, and the message says what to use instead; so does `answers`."""
    formula, theta = SMALL["path"], torch.zeros(2, 5)
    exact = nelson.ConstrainedMRF(formula, theta, seconds=10.0).answers()
    assert set(exact) == {"log_prob", "mean", "sample", "mode"}
    assert all(text.startswith("exact") for text in exact.values())
    reason = nelson.distribution.mrf.Reason("too wide")
    monkeypatch.setattr(nelson.distribution.mrf, "law", lambda *_, **__: reason)
    answers = nelson.ConstrainedMRF(formula, theta, seconds=10.0).answers()
    assert "estimated" in answers["log_prob"] and "too wide" in answers["log_prob"]
    assert "nelson.ContrastiveLoss" in answers["log_prob"]
    with pytest.warns(UserWarning, match=r"log Z of 2 contexts is estimated.*ContrastiveLoss"):
        nelson.ConstrainedMRF(formula, theta).log_prob(torch.ones(5))

    def late(*_, **options):
        assert options or 0.4 < _[3]["seconds"] <= 0.5
        raise nelson.BudgetExceeded("no log Z in time")

    monkeypatch.setattr(nelson.distribution.mrf, "log_z_rows", late)
    with pytest.raises(nelson.BudgetExceeded, match=r"no log Z in time; .*ContrastiveLoss"):
        nelson.ConstrainedMRF(formula, theta, seconds=0.5).log_prob(torch.ones(5))


def test_a_plan_that_takes_too_long_makes_room_for_chains(monkeypatch):
    """On a busy machine `seconds` may end before there is a plan."""

    def late(*_):
        raise nelson.BudgetExceeded("the time was up while preparing the formula")

    monkeypatch.setattr(contrastive.LovaszLayer, "plan", late)
    formula = SMALL["example1"]
    loss = nelson.ContrastiveLoss(formula)
    theta = torch.zeros(4, formula.n_vars, requires_grad=True)
    loss(theta, target_of(formula, 4)).backward()
    assert loss.guarantee == "heuristic" and "chains from the targets" in loss.why
