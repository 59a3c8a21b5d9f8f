"""Routes as clauses over positions and locations."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nelson
from nelson.errors import FormulaError
from tests.paper.tasks.routes.cases import SEED, P, first, normal_theta, p_value


def test_cnf_has_one_model_a_round_trip():
    task = first(5)
    made = task.cnf()
    assert made.formula.n_vars == 16 and made.names[1] == "2:2" and made.names[16] == "5:5"
    states = (np.arange(2**16)[:, None] >> np.arange(16) & 1).astype(bool)
    models = states[made.formula.satisfied(states)]
    assert len(models) == math.factorial(4)
    routes = made.to_routes(models)
    assert set(map(tuple, routes.tolist())) == set(map(tuple, task.law()[0].tolist()))
    assert (made.from_routes(routes) == models).all()
    assert task.valid(task.to_x(routes)).all()
    assert not made.formula.is_extremal
    with pytest.raises(FormulaError, match="violates"):
        made.to_routes(np.ones(16, bool))


def test_cnf_runs_through_nelson():
    """method="auto" on the clauses: uniform over 4! routes; twin: without one of two routes."""
    task = first(5)
    made = task.cnf()
    s = nelson.sample(made.formula, n=20_000, method="auto", seed=SEED)
    assert s.guarantee == "exact"
    routes, law = task.law()
    drawn = made.to_routes(s.to_numpy())
    assert p_value(drawn, routes, law) > P
    assert p_value(drawn[drawn[:, 1] != 1], routes, law) < 1e-12


def test_cnf_with_edges_carries_the_weights():
    task = first(5)
    made = task.cnf(edges=True)
    theta = normal_theta(task)
    s = nelson.sample(made.formula, made.weights(theta), 20_000, method="auto", seed=SEED)
    y = s.to_numpy()
    drawn = made.to_routes(y)
    assert (y[:, 16:] == task.to_x(drawn)).all() and (made.from_routes(drawn) == y).all()
    routes, law = task.law(theta)
    assert s.guarantee == "exact" and p_value(drawn, routes, law) > P
    assert p_value(drawn, routes, task.law(0.8 * theta)[1]) < 1e-12
    assert made.names.variable("2->4") == 17 + task.names.index("2->4")
    with pytest.raises(FormulaError, match="edges=True"):
        task.cnf().weights(theta)
