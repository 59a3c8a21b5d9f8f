"""Decisions are kept with the formula: which calls they serve, and which they do not."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.chains.problem import prepare
from nelson.policy import AutoPolicy, Policy
from nelson.sampling import auto
from nelson.sampling.auto import ladder
from nelson.sampling.auto.steps.solver import SolverChains
from tests.problems import example1, random_ksat, weights
from tests.sampling.auto.decisions import mixed


@pytest.fixture
def decisions(monkeypatch):
    """A list that grows by one each time `auto` decides."""
    made, decide = [], ladder.decide

    def counted(*arguments):
        made.append(arguments)
        return decide(*arguments)

    monkeypatch.setattr(ladder, "decide", counted)
    return made


@pytest.mark.parametrize("make", [mixed, example1, lambda: random_ksat(30, 30, 5, seed=1)])
def test_a_second_call_does_not_decide_again(make, decisions):
    """Whatever the seed, the number of samples, the threads; and its samples are those of a new
    formula.
    """
    f = make()
    theta = weights(f)
    nelson.sample(f, theta, 5000, seed=1)
    for n, options in ((5000, {"seed": 2}), (6000, {"seed": 1}), (5000, {"threads": 1})):
        s = nelson.sample(f, theta, n, **({"seed": 3} | options))
        assert len(decisions) == 1
        new = nelson.sample(make(), theta, n, seed=s.info["seed"])
        assert np.array_equal(s.packed, new.packed) and s.guarantee == new.guarantee
        decisions.pop()
    nelson.sample(f, theta, 5000, seconds=60.0)  # it had no limit: it serves any call
    next(nelson.stream(f, theta))
    assert len(decisions) == 1


def test_what_a_decision_depends_on(decisions):
    f = mixed()
    theta = weights(f)
    nelson.sample(f, theta, 5000)
    for changed in ({"given": [3]}, {"max_rounds": 999}, {"theta": theta + 0.1}):
        before = len(decisions)
        arguments = {"theta": theta, "n": 5000} | changed
        for _ in range(2):
            nelson.sample(f, **arguments)
        assert len(decisions) == before + 1, changed
    before = len(decisions)
    nelson.sample(f, theta, 1)  # the number of samples decides nothing
    assert len(decisions) == before


def limited(seconds: float | None) -> Budget:
    deadline = None if seconds is None else time.monotonic() + 60
    return Budget(deadline, threads=1, seconds=seconds)


@pytest.fixture
def decide(monkeypatch):
    """decide(guarantee, seconds, starts): what `auto` decides if that is what its ladder says."""
    f = mixed()
    problem, theta = prepare(f), np.zeros((1, f.n_vars))

    def decided(guarantee: str, seconds: float | None, starts: int = 1) -> auto.Decision:
        group = auto.ComponentGroup(
            SolverChains(), 0, guarantee, "", problem, np.arange(f.n_vars), theta, []
        )
        group = replace(group, starts=[np.zeros((1, f.n_total), bool)] * starts)
        monkeypatch.setattr(ladder, "decide", lambda *arguments: auto.Decision([group], None))
        return auto.decide(problem, theta, limited(seconds))

    return decided


@pytest.mark.parametrize(
    ("guarantee", "made_with", "asked_with", "served"),
    [
        ("heuristic", 5.0, 5.0, True),
        ("heuristic", 5.0, 4.0, True),
        ("heuristic", 5.0, 6.0, False),  # more time may give more
        ("heuristic", 5.0, None, False),
        ("heuristic", None, 1.0, True),
        ("exact", 5.0, 6.0, True),  # no time gives more
        ("exact", 5.0, None, False),  # a call without a limit must not depend on clocks
        ("exact", None, None, True),
    ],
)
def test_the_clock_of_one_call_does_not_decide_for_another(
    guarantee, made_with, asked_with, served, decide
):
    made = decide(guarantee, made_with)
    assert (decide("exact", asked_with) is made) == served


def test_a_solver_that_found_nothing_is_asked_again(decide):
    decide("heuristic", None, starts=0)
    assert decide("diagnosed", None).guarantee == "diagnosed"


def test_callers_cannot_change_a_decision():
    f = mixed()
    first = nelson.sample(f, None, 64, seed=1)
    told = [dict(part) for part in first.info["auto"]]
    first.info["auto"][0]["method"] = "changed"
    first.info["preprocessing"].clear()
    second = nelson.sample(f, None, 64, seed=1)
    assert second.info["auto"] == told and second.info["preprocessing"]


def test_reuse_and_limits_without_seconds_are_not_kept(decisions):
    """`nelson.learn` draws under another theta in each iteration: none would be used again."""
    f = mixed()
    problem, theta = prepare(f), np.zeros((1, f.n_vars))
    reuse = Policy(AutoPolicy(reuse=True))
    for budget, policy in ((limited(None), reuse), (Budget(math.inf), Policy())):
        before = len(decisions)
        for _ in range(2):
            auto.decide(problem, theta, budget, policy)
        assert len(decisions) == before + 2
