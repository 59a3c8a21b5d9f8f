"""Few inputs decide all variables: exact samples of weighted formulas that do not compile."""

import numpy as np
import pytest

import nelson
from nelson.errors import Unsatisfiable
from tests.problems import xor_gates

#: Steps that are exact on such formulas, too, where they are small.
OTHERS = nelson.Policy().without("circuit", "rejection", "cftp", "extremal")


def gap(samples, mean):
    """The largest distance of a mean, in standard errors of the samples."""
    error = np.sqrt(np.maximum(mean * (1 - mean), 1e-12) / len(samples))
    return float((np.abs(samples.mean() - mean) / error).max())


@pytest.mark.slow
def test_a_weighted_formula_of_few_inputs_is_drawn_exactly():
    formula = xor_gates(9, 150, 1, [[150, 151, -152], [-153, 154]])
    theta = np.random.default_rng(2).normal(size=formula.n_vars) * 0.5
    s = nelson.sample(formula, theta, 20_000, seed=3, policy=OTHERS)
    assert (s.guarantee, s.info["method"], s.status) == ("exact", "enumerate", "ok")
    assert "inputs" in s.why and formula.satisfied(s.to_numpy()).all()
    mean = np.asarray(nelson.marginals(formula, theta))
    # 159 means of 20,000 samples: a false alarm with probability 159 x 5.7e-7 = 1e-4.
    assert gap(s, mean) < 5
    assert gap(nelson.sample(formula, 0.8 * theta, 20_000, seed=3, policy=OTHERS), mean) > 5
    by_name = nelson.sample(formula, theta, 20_000, seed=3, method="enumerate")
    assert np.array_equal(s.packed, by_name.packed)
    both = nelson.sample(formula, np.stack([theta, -theta]), 100, seed=3, policy=OTHERS)
    assert both.info["guarantees"] == ["exact", "exact"]


def test_evidence_and_contradictions():
    formula = xor_gates(9, 150, 1)
    theta = np.full(formula.n_vars, 0.1)
    s = nelson.sample(formula, theta, 2000, seed=3, given=[150, -140], policy=OTHERS)
    assert s.guarantee == "exact" and set(s.mean()[[149, 139]]) == {0.0, 1.0}
    gate = formula.clauses()[0]
    wrong = nelson.Formula(
        [*formula.clauses(), *([s1 * gate[0], s2 * gate[1]] for s1 in (1, -1) for s2 in (1, -1))]
    )
    with pytest.raises(Unsatisfiable):
        nelson.sample(wrong, np.full(wrong.n_vars, 0.1), 10, policy=OTHERS)
