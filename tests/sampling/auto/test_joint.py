"""Joint moves in `auto`, in `nelson.sample`, in `nelson.learn` and in the layer."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.chains.moves import joint
from nelson.errors import FormulaError
from nelson.learning.optimizers import Newton
from nelson.sampling.auto.steps.circuit import Compilation
from nelson.sampling.method_choice import choose
from tests.kernels.test_joint import one_hot
from tests.problems import chi_square, exact_law, random_ksat, weights
from tests.sampling.auto.decisions import ALPHA, decided, drawn, xor3

EXACT_STEPS = ("enumerate", "circuit", "inputs")


@pytest.mark.process
@pytest.mark.parametrize("skip", [(), ("resampling",)])
def test_joint_moves_make_frozen_chains_diagnosed(skip, monkeypatch):
    """3-colourings of a path: no single flip stays valid. Tables of width 2 must hold vertices.
    Chi-square of 20,000 samples, rate ALPHA.
    """
    monkeypatch.setattr(joint, "_WIDTHS", (2,))
    f = one_hot(4, 3)
    single = decided(f, *EXACT_STEPS, *skip, "fields", "joint").choice
    assert single.guarantee == "heuristic"
    assert single.parts[0]["not taken"]["joint moves"] == "left out"
    decision = decided(one_hot(4, 3), *EXACT_STEPS, *skip, "fields")
    assert decision.choice.guarantee == "diagnosed", decision.choice
    assert not decision.choice.whole
    record = decision.choice.parts[0]
    assert record["moves"] == "joint" and record["width"] == 2 and record["held"] > 0
    assert chi_square(drawn(f, decision, 20_000), exact_law(f)) > ALPHA


@pytest.mark.process
def test_a_move_that_holds_nothing_is_exact():
    f = xor3()
    decision = decided(f, *EXACT_STEPS, theta=weights(f))
    assert decision.choice.guarantee == "exact"
    assert decision.choice.parts[0]["held"] == 0 and decision.choice.sweeps == 1
    assert chi_square(drawn(f, decision, 20_000), exact_law(f, weights(f))) > ALPHA


@pytest.mark.slow
def test_the_caller_asks_for_joint_moves():
    f = random_ksat(12, 20, 3, 1)
    theta = np.random.default_rng(1).normal(size=12)
    options = {"method": "lovasz", "sweeps": 12, "moves": "joint", "seed": 2}
    s = nelson.sample(f, theta, 20_000, **options)
    assert s.info["moves"] == "joint" and s.info["width"] == 18
    assert s.guarantee == "heuristic"
    assert chi_square(np.asarray(s), exact_law(f, theta)) > ALPHA
    parts = [np.asarray(part) for part in nelson.stream(f, theta, 20_000, block=4096, **options)]
    assert np.array_equal(np.concatenate(parts), np.asarray(s))
    given = nelson.sample(f, theta, 1000, given=[3, -5], project=[5, 3, 1], **options)
    assert (np.asarray(given)[:, :2] == [False, True]).all() and np.asarray(given)[:, 2].any()


@pytest.mark.parametrize(
    "options",
    [
        {"moves": "double"},
        {"moves": "joint"},
        {"moves": "joint", "sweeps": 3, "method": "prs"},
        {"moves": "joint", "sweeps": 3, "device": "cuda"},
    ],
)
def test_what_joint_moves_cannot_do_is_said(options):
    with pytest.raises(FormulaError, match="moves="):
        nelson.sample(random_ksat(12, 20, 3, 1), None, 10, **options)


@pytest.mark.process
@pytest.mark.slow
def test_learning_with_joint_moves(monkeypatch):
    """Without a compiler, `auto` takes joint moves for 24 vertices; the fit finds colour 1."""
    monkeypatch.setattr(Compilation, "promising", lambda self, parts: [])
    f = one_hot(24, 3)
    choice = choose(f, np.full(72, 0.1))
    assert choice.parts[0]["moves"] == "joint" and not choice.whole
    theta = np.zeros(72)
    theta[::3] = 0.7
    data = nelson.sample(f, theta, 400, method="lovasz", moves="joint", sweeps=1, seed=1)
    fit = nelson.learn(f, data, optimizer=Newton(iterations=12, m=256), seed=2)
    ones, others = fit.theta[::3].mean(), np.delete(fit.theta, np.s_[::3]).mean()
    assert ones - others > 0.35


@pytest.mark.process
@pytest.mark.slow
def test_a_layer_with_joint_moves(monkeypatch):
    """Its samples are valid and as often of each colour as those of a circuit: within 5 standard
    errors, which a right layer exceeds once in 24,000 times for these 72 marginals. The twin: the
    same samples against the marginals of other logits.
    """
    torch = pytest.importorskip("torch")
    from nelson.distribution.layer import LovaszLayer

    f, theta = one_hot(24, 3), np.full(72, 0.1)
    exact = nelson.sample(f, theta, 200_000, seed=3, method="circuit").mean()
    theta_of_twin = np.where(np.arange(72) % 3, 0.1, 0.4)
    other = nelson.sample(f, theta_of_twin, 200_000, seed=3, method="circuit").mean()
    monkeypatch.setattr(Compilation, "promising", lambda self, parts: [])
    layer = LovaszLayer(one_hot(24, 3), 4096)
    x = layer(torch.tensor(theta)[None]).numpy().reshape(-1, 72)
    assert "joint moves" in layer.info["why"] and layer.info["guarantee"] != "heuristic"
    assert f.satisfied(x > 0.5).all()
    error = np.sqrt(exact * (1 - exact) * (1 / len(x) + 1 / 200_000))
    assert (np.abs(x.mean(0) - exact) < 5 * error).all()
    assert not (np.abs(x.mean(0) - other) < 5 * error).all()
