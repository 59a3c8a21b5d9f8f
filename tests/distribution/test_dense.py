"""The paper's dense layer: Eqs. 8-15 as printed, and the same law and gradient as `LovaszLayer`.

Each chi-square test rejects a right layer with probability ALPHA = 1e-6; its twin judges the same
samples against another law. A gradient must lie within SIGMAS standard errors: 2e-7 a component.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import nelson  # noqa: E402
from nelson.distribution.dense import DenseLayer  # noqa: E402
from nelson.distribution.layer import LovaszLayer  # noqa: E402
from tests.distribution.models import ALPHA, SIGMAS  # noqa: E402
from tests.problems import (  # noqa: E402
    all_states,
    chi_square,
    exact_law,
    example1,
    extremal,
    non_extremal,
)


def test_example1_as_printed():
    layer = DenseLayer(example1())
    assert layer.W.tolist() == [[[1, 0, 0], [0, 1, 0]], [[-1, 0, 0], [0, 0, 1]]]
    assert layer.b.tolist() == [[0, 0], [1, 0]]
    assert layer.V.tolist() == [[1, 1, 0], [1, 0, 1]]
    x = torch.tensor([[0, 0, 1]])
    assert layer.literal_values(x)[0].tolist() == [[0, 0], [1, 1]]
    S = layer.violated(x)
    assert S[0].tolist() == [1, 0]
    assert layer.resampled(S)[0].tolist() == [1, 1, 0]


def test_dense_shapes_are_l_by_k():
    """Errata: the paper gives b as L x n. Clauses shorter than K are padded with false literals."""
    f = nelson.Formula([[1, -2, 3], [-4], [2, 5]], n_vars=6)
    layer = DenseLayer(f)
    assert layer.W.shape == (3, 3, 6)
    assert layer.b.shape == (3, 3)
    assert layer.V.shape == (3, 6)
    x = all_states(6)
    ok = ~layer.violated(torch.from_numpy(x)).bool().any(1).numpy()
    np.testing.assert_array_equal(ok, f.satisfied(x))
    assert not f.satisfied(x).all()


def test_resample_rule_by_hand(monkeypatch):
    """Eq. 15: keep x where A = 0, else 1[u > P]; P = 0 and P = 1 are never missed."""
    f = nelson.Formula([[3, 4], [-1, -2]], n_vars=4)
    layer = DenseLayer(f)
    rolls = iter([[0.1, 0.9, 0.1, 0.1], [0.9, 0.1, 0.9, 0.1]])  # x = 0100: the first clause fails
    monkeypatch.setattr(torch, "rand_like", lambda P: torch.tensor([next(rolls)]))
    x, valid, rounds = layer.draw(torch.full((1, 4), 0.5))
    assert x[0].tolist() == [False, True, True, False] and valid.all() and rounds == 2
    monkeypatch.setattr(torch, "rand_like", torch.zeros_like)
    assert layer.draw(torch.tensor([[0.0, 1.0, 0.0, 1.0]]))[0].tolist() == [[1, 0, 1, 0]]


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("name", ["example1", "complete4"])
def test_dense_algorithm_1_draws_the_law(name, compact):
    """Two rows of theta in one batch, and the law of `LovaszLayer`; the twin swaps the rows."""
    formula = extremal()[name]
    theta = np.random.default_rng(11).normal(size=(2, formula.n_vars))
    torch.manual_seed(3)
    layer = DenseLayer(formula, 6_000, compact=compact)
    x = layer(torch.from_numpy(theta))
    other = LovaszLayer(formula, 6_000)(torch.from_numpy(theta))
    assert x.shape == other.shape == (2, 6_000, formula.n_vars) and x.dtype == other.dtype
    assert layer.info["guarantee"] == "exact" and layer.info["rounds"] > 1
    for drawn in (x.numpy(), other.numpy()):
        assert formula.satisfied(drawn).all()
        for row in range(2):
            assert chi_square(drawn[row], exact_law(formula, theta[row])) > ALPHA
            assert chi_square(drawn[row], exact_law(formula, theta[1 - row])) < ALPHA


def test_the_gradient_is_that_of_the_covariance():
    """The same estimator as `LovaszLayer`: 4,000 rows of 4 samples against enumeration."""
    formula = extremal()["complete4"]
    theta = np.random.default_rng(5).normal(size=6)
    states, p = exact_law(formula, theta)

    def cubic(x):
        return x[..., 0] * x[..., 1] * x[..., 2] + x[..., 3]

    values = cubic(torch.from_numpy(states).double()).numpy()
    right = (p * (values - p @ values)) @ states
    torch.manual_seed(7)
    logits = torch.from_numpy(theta).expand(4_000, -1).clone().requires_grad_()
    DenseLayer(formula, 4).expectation(cubic, logits).sum().backward()
    rows = logits.grad.numpy()
    error = rows.std(axis=0, ddof=1) / math.sqrt(len(rows))
    assert (np.abs(rows.mean(0) - right) < SIGMAS * error).all()
    assert (np.abs(rows.mean(0) + right) > SIGMAS * error).any()
    # The plain backward is the trapezoid rule of `LovaszLayer`, to the last digit.
    x = torch.from_numpy(states[:8]).double()
    grads = []
    for kind in (DenseLayer, LovaszLayer):
        layer = kind(formula, 8)
        layer.sample = lambda logits: x.expand(1, 8, 6)
        logits = torch.from_numpy(theta)[None].clone().requires_grad_()
        cubic(layer(logits)).mean().backward()
        grads.append(logits.grad)
    assert torch.equal(*grads) and grads[0].any()


def test_buffers_dtypes_and_limits():
    formula = extremal()["complete4"]
    layer = DenseLayer(formula, 4)
    assert {name for name, _ in layer.named_buffers()} == {"W", "b", "V"}
    assert not list(layer.parameters()) and not layer.state_dict()
    for dtype in (torch.float64, torch.float16):
        x = layer.to(dtype)(torch.zeros(2, 3, 6, dtype=dtype))
        assert x.shape == (2, 3, 4, 6) and x.dtype == dtype
        assert formula.satisfied(x.float().numpy()).all()
    with pytest.raises(nelson.FormulaError, match=r"logits on meta for a layer on cpu.*layer.to"):
        layer(torch.zeros(6, device="meta"))
    with pytest.raises(nelson.BudgetExceeded, match="0 of 4 samples are valid after 3 rounds"):
        DenseLayer(nelson.Formula([[1], [2]]), 4, max_rounds=3)(torch.full((2,), -40.0))
    other = DenseLayer(non_extremal()["path"], 4)
    other(torch.zeros(other.formula.n_vars))
    assert other.info["guarantee"] == "heuristic"
    free = DenseLayer(nelson.Formula([], n_vars=3), 4)
    assert free(torch.zeros(3)).shape == (4, 3)
    never = DenseLayer(nelson.Formula([[]], n_vars=2), 4, max_rounds=2)
    with pytest.raises(nelson.BudgetExceeded, match="0 of 4"):
        never(torch.zeros(2))
