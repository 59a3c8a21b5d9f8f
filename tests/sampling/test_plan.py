"""A plan that is kept: the samples of `nelson.sample`, decided once."""

import numpy as np
import pytest

import nelson
from nelson.sampling.auto import ladder
from nelson.sampling.drawing import Drawing

FORMULAS = {
    "extremal": nelson.Formula([[1, 2], [-1, 3]]),
    "few": nelson.Formula([[1, 2, 3], [2, 3, 4], [-1, 4, 5]]),
    "components": nelson.Formula([[1, 2, 3], [-1, -2], [2, 3], [5, 6], [-5, 7], [8, 9, -4]]),
}


def weights(formula, seed=0):
    return np.random.default_rng(seed).normal(size=formula.n_vars)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("method", ["auto", "lovasz", "enumerate", "gibbs"])
def test_the_samples_of_a_plan_are_those_of_sample(name, method):
    formula = FORMULAS[name]
    theta = weights(formula)
    plan = nelson.plan(formula, theta, [2], method)
    for seed in (3, 4):
        expected = nelson.sample(formula, theta, 300, given=[2], method=method, seed=seed)
        samples = plan.sample(300, seed=seed)
        assert np.array_equal(samples.packed, expected.packed)
        assert (samples.guarantee, samples.info["why"]) == (plan.guarantee, plan.why)
        assert samples.guarantee == expected.guarantee
    blocks = list(plan.stream(300, block=128, seed=4))
    assert np.array_equal(np.concatenate([b.to_numpy() for b in blocks]), samples.to_numpy())


def test_a_plan_has_the_options_of_sample():
    formula = FORMULAS["components"]
    plan = nelson.plan(formula, project=[3, 1], sweeps=2)
    expected = nelson.sample(formula, None, 100, project=[3, 1], sweeps=2, seed=1)
    assert np.array_equal(plan.sample(100, seed=1).packed, expected.packed)
    assert plan.sample(3, seed=1, unique=True).info["law"]
    with pytest.raises(nelson.BudgetExceeded):
        plan.sample(1000, seed=1, unique=True, strict=True)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_plan_decides_once(name, monkeypatch):
    formula = FORMULAS[name]
    plan = nelson.plan(formula)

    def decide(*args):
        raise AssertionError("decided again")

    monkeypatch.setattr(ladder, "decide", decide)
    assert len(plan.sample(100, seed=0)) == len(plan.sample(200, seed=1)) // 2 == 100


def test_an_exact_method_for_every_theta_is_not_chosen_anew(monkeypatch):
    """The extremal formula keeps its method at a new theta; the twin, an infinite theta, does
    not: it is other evidence."""
    formula = FORMULAS["extremal"]
    plan = nelson.plan(formula)
    theta = weights(formula, 7)
    expected = nelson.sample(formula, theta, 500, seed=2)
    calls, decide = [], ladder.decide
    monkeypatch.setattr(ladder, "decide", lambda *args: (calls.append(args), decide(*args))[1])
    assert np.array_equal(plan.sample(500, seed=2, theta=theta).packed, expected.packed)
    assert not calls
    assert plan.sample(500, seed=2, theta=[np.inf, 0, 0]).mean()[0] == 1
    assert calls


@pytest.mark.parametrize("name", FORMULAS)
def test_another_theta_gives_the_samples_of_that_theta(name):
    """Means against the enumerated law: 5 standard errors, false alarm below 1e-5 in all; the
    law of the plan's own theta is rejected."""
    formula = FORMULAS[name]
    theta = 3 * weights(formula, 5)
    plan, n = nelson.plan(formula), 20_000
    x = np.array(np.meshgrid(*[[0, 1]] * formula.n_vars)).reshape(formula.n_vars, -1).T == 1
    x = x[formula.satisfied(x)]
    law = np.exp(x @ theta)
    mean, uniform = (law / law.sum()) @ x, x.mean(0)
    error = np.sqrt(mean * (1 - mean) / n)
    drawn = plan.sample(n, seed=9, theta=theta).mean()
    assert (np.abs(drawn - mean) <= 5 * error + 1e-9).all()
    assert (np.abs(drawn - uniform) > 5 * error).any()


def test_a_plan_is_not_made_for_a_formula_without_solutions():
    with pytest.raises(nelson.Unsatisfiable):
        nelson.plan(nelson.Formula([[1], [-1]]))


def test_an_equal_call_is_decided_once(monkeypatch):
    formula = nelson.Formula([[1, 2], [-1, 3], [4, 5]])
    decisions = []
    decide = ladder.decide

    def counted(*args):
        decisions.append(args)
        return decide(*args)

    monkeypatch.setattr(ladder, "decide", counted)
    theta = weights(formula)
    first, again = (nelson.sample(formula, theta, 100, seed=1) for _ in range(2))
    assert len(decisions) == 1 and np.array_equal(first.packed, again.packed)
    first.info["auto"][0]["method"] = "overwritten by the caller"
    first.info["preprocessing"].append("overwritten by the caller")
    assert nelson.sample(formula, theta, 100, seed=1).info["auto"] == again.info["auto"]
    for other in ({"given": [4]}, {"policy": nelson.Policy().without("extremal")}):
        made = len(decisions)
        nelson.sample(formula, theta, 100, seed=1, **other)
        assert len(decisions) == made + 1, other
    # By project the columns differ, though the decision is the same.
    assert nelson.sample(formula, theta, 10, seed=1, project=[2]).variables == (2,)


def test_a_trial_that_failed_is_not_repeated_by_equal_calls(monkeypatch):
    """A cycle that hardly ever has no sink: resampling needs more rounds than it is given."""
    formula = nelson.Formula([[i + 1, -((i + 1) % 40 + 1)] for i in range(40)])
    trials = []
    look = Drawing.after_trial

    def counted(self, *args):
        trials.append(any(decision.on_trial for decision in self.decisions.values()))
        return look(self, *args)

    monkeypatch.setattr(Drawing, "after_trial", counted)
    first, again = (nelson.sample(formula, None, 500, seed=1, max_rounds=2) for _ in range(2))
    assert trials == [True, False, False]  # the second is the draw after the failed trial
    assert np.array_equal(first.packed, again.packed)


def test_a_moved_plan_has_a_bound_of_its_own():
    """The rounding of theta is part of the bound: it is not taken over from another theta."""
    formula = FORMULAS["extremal"]
    plan = nelson.plan(formula, [0.0, 0.0, 0.0])
    zero, moved = plan.sample(10, seed=0), plan.sample(10, seed=0, theta=[1.0, 2.0, 0.5])
    direct = nelson.sample(formula, [1.0, 2.0, 0.5], 10, seed=0)
    assert zero.tv_bound < moved.tv_bound == direct.tv_bound
