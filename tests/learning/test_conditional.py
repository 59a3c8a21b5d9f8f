"""Conditional models: theta = net(context)."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson import FormulaError
from nelson.learning import Network
from nelson.learning.learn import learn
from nelson.learning.model import load
from tests.learning.planted import SEED, mesh
from tests.problems import exact_law


@pytest.mark.slow
def test_a_network_learns_theta_from_the_context(tmp_path):
    torch = pytest.importorskip("torch", reason="pip install nelson-mrf[torch]")
    f = mesh(6)
    rng = np.random.default_rng(SEED)
    contexts = rng.normal(size=(1500, 2)).astype(np.float32)
    true = 0.8 * rng.normal(size=(6, 2))
    states, _ = exact_law(f)
    log_p = (contexts @ true.T) @ states.T.astype(float)
    p = np.exp(log_p - log_p.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    x = np.array([states[rng.choice(len(states), p=row)] for row in p])
    torch.manual_seed(0)
    net = torch.nn.Linear(2, 6)

    def score(net) -> float:
        theta = net(torch.as_tensor(contexts)).detach().double().numpy()
        phi = theta @ states.T.astype(float)
        return float(((theta * x).sum(1) - np.log(np.exp(phi).sum(1))).mean())

    before = score(net)
    fit = learn(
        f, x, contexts=contexts, net=net, seed=1, optimizer=Network(iterations=400, rate=0.02)
    )
    best = np.log((p * (states[None] == x[:, None]).all(2)).sum(1)).mean()
    assert score(net) > best - 0.03 > before  # nats an example; 18 weights cost 18 / 3000
    assert fit.converged, fit.why
    assert fit.theta is None
    np.testing.assert_allclose(net.weight.detach().numpy(), true, atol=0.3)
    fit.save(tmp_path / "m")
    again = load(tmp_path / "m", net=torch.nn.Linear(2, 6))
    np.testing.assert_array_equal(again.theta_for(contexts[:3]), fit.model.theta_for(contexts[:3]))
    drawn = again.sample(10, contexts=contexts[:3], seed=1)
    assert drawn.to_numpy().shape == (3, 10, 6)
    assert f.satisfied(drawn.to_numpy()).all()
    with pytest.raises(nelson.NelsonError, match="conditional"):
        again.sample(10)
    with pytest.raises(FormulaError, match="contexts"):
        learn(f, x, contexts=contexts[:-1], net=net)
    with pytest.raises(FormulaError, match="net that gives shape"):
        learn(f, x, contexts=contexts, net=torch.nn.Linear(2, 5))
