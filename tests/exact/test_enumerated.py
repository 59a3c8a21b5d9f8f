"""The law of a small formula: `law` and `Enumerated` against the plain enumeration of the tests."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.errors import FormulaError, Unsatisfiable
from nelson.exact.enumerated import enumerated, law
from tests.problems import exact_law, extremal, non_extremal, weights

ENCODED = nelson.Formula([[1, 2, -3]], 7).exactly(range(1, 8), 3).xor([1, 3, 5, 7])
FORMULAS = extremal() | non_extremal() | {"encoded": ENCODED}


@pytest.mark.parametrize("name", FORMULAS)
def test_law_and_moments_against_plain_enumeration(name):
    formula = FORMULAS[name]
    for theta in (None, 2 * weights(formula)):
        states, p = law(formula, theta)
        expected, probability = exact_law(formula, theta)
        np.testing.assert_array_equal(states, expected)
        np.testing.assert_allclose(p, probability, rtol=1e-12)
    rows = np.stack([theta, np.zeros(formula.n_vars)])
    sums = enumerated(formula)
    np.testing.assert_array_equal(sums.states, states)
    np.testing.assert_allclose(sums.mean(rows)[0], p @ states, atol=1e-13)
    centred = states - p @ states
    covariance = (centred * p[:, None]).T @ centred
    np.testing.assert_allclose(sums.covariance(rows)[0], covariance, atol=1e-13)
    np.testing.assert_allclose(sums.pull(rows, rows)[0], covariance @ theta, atol=1e-12)
    assert sums.log_z(rows)[1] == pytest.approx(np.log(len(states)))
    x = sums.draw(rows, 50, seed=1)
    assert x.shape == (2, 50, formula.n_vars) and formula.satisfied(x).all()


def test_what_has_no_law():
    with pytest.raises(Unsatisfiable):
        law(nelson.Formula([[1], [-1]]))
    with pytest.raises(FormulaError, match="21 variables"):
        law(nelson.Formula([], n_vars=21))
    with pytest.raises(Unsatisfiable, match="log-odds"):
        enumerated(nelson.Formula([[1, 2]])).mean(np.full((1, 2), -np.inf))
