"""Nobody leaves empty-handed: a solver's solutions, where all else came to nothing in time.

Where the decision of `auto` must fail it raises TimeUp at once, so that no test waits for a clock.
"""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.budget import Budget, TimeUp
from nelson.errors import Unsatisfiable
from nelson.formula import Formula
from nelson.policy import ReservePolicy
from nelson.sampling import plan as plan_module
from nelson.sampling.reserve import Reserve, Wanted
from tests.problems import random_ksat

pytest.importorskip("pysat")
#: Far more than a test takes.
SECONDS = 600.0


@pytest.fixture
def late(monkeypatch):
    """The decision of `auto` comes to nothing."""

    def decided(*args, **options):
        raise TimeUp("the time was up while diagnosing chains")

    monkeypatch.setattr(plan_module, "choose_sampler", decided)
    return decided


NOW = nelson.Policy(reserve=ReservePolicy(seconds=0.0))


@pytest.mark.process
def test_a_call_that_comes_to_nothing_returns_solutions(late):
    formula = random_ksat(60, 150, 3, 1)
    s = nelson.sample(formula, n=100, seconds=SECONDS, seed=1, policy=NOW)
    assert (len(s), s.guarantee, s.status) == (100, "heuristic", "ok")
    assert formula.satisfied(s.to_numpy()).all()
    assert "solutions of a CDCL solver" in s.why and "while diagnosing chains" in s.why
    assert 1 <= s.info["starts"] <= 64


@pytest.mark.process
def test_evidence_projection_contexts_and_distinct_rows_are_kept(late):
    formula = random_ksat(60, 150, 3, 1)
    theta = np.zeros((2, 60))
    theta[0, 4], theta[1, 4] = np.inf, -np.inf
    s = nelson.sample(formula, theta, 70, given=[3], project=[5, 3], seconds=SECONDS, policy=NOW)
    assert s.to_numpy().shape == (2, 70, 2) and s.variables == (5, 3)
    assert s.to_numpy()[0].all() and s.to_numpy()[:, :, 1].all()
    assert not s.to_numpy()[1, :, 0].any()
    once = nelson.sample(formula, n=10_000, unique=True, seconds=SECONDS, policy=NOW)
    rows = once.to_numpy()
    assert once.status == "budget" and len(np.unique(rows, axis=0)) == len(rows) > 0


@pytest.mark.process
def test_a_stream_begins_with_them(late):
    formula = random_ksat(60, 150, 3, 1)
    [block] = nelson.stream(formula, n=64, block=64, seconds=SECONDS, policy=NOW)
    assert len(block) == 64 and formula.satisfied(block.to_numpy()).all()


@pytest.mark.process
def test_a_proof_that_there_is_none_is_raised(late):
    with pytest.raises(Unsatisfiable):
        nelson.sample(Formula([[1, 2], [1, -2], [-1, 2], [-1, -2]]), seconds=SECONDS, policy=NOW)


def test_without_a_solver_there_is_no_sample_and_a_reason(late, monkeypatch):
    monkeypatch.setattr(plan_module, "installed", lambda: False)
    s = nelson.sample(random_ksat(60, 150, 3, 1), n=5, seconds=SECONDS)
    assert (len(s), s.guarantee, s.status) == (0, "heuristic", "budget")
    assert s.info["reason"] == "the time was up while diagnosing chains"
    [block] = nelson.stream(random_ksat(60, 150, 3, 1), n=5, block=64, seconds=SECONDS)
    assert len(block) == 0 and block.status == "budget"


def test_a_call_that_is_done_soon_starts_no_solver(monkeypatch):
    asked = []
    monkeypatch.setattr(Reserve, "_find", lambda *args: asked.append(args))
    s = nelson.sample(random_ksat(12, 30, 3, 1), n=100, seconds=SECONDS)
    assert (s.guarantee, s.status, asked) == ("exact", "ok", [])


def test_neither_effort_nor_a_named_method_has_a_reserve(monkeypatch):
    made = []
    monkeypatch.setattr(plan_module, "Reserve", lambda *args: made.append(args))
    formula = random_ksat(12, 30, 3, 1)
    nelson.sample(formula, n=10)
    nelson.sample(formula, n=10, method="lovasz", seconds=SECONDS)
    assert made == []


def test_a_wrong_solution_is_not_returned(monkeypatch):
    """The twin: rows of the solver are checked against the clauses as given."""
    formula = Formula([[1, 2], [-1, 3]])
    wanted = Wanted(formula, [()], np.arange(3), True, 5, False, 0)
    reserve = Reserve(wanted, Budget.of(SECONDS), ReservePolicy(share=1.0, seconds=1e6))
    reserve._rows = {(): np.array([[1, 0, 0]], np.uint8)}
    with pytest.raises(AssertionError, match="violates"):
        reserve.samples(0.0, "the time was up")
    right = Reserve(wanted, Budget.of(SECONDS), ReservePolicy(share=1.0, seconds=1e6))
    right._rows = {(): np.array([[1, 0, 1], [0, 1, 0]], np.uint8)}
    s = right.samples(0.0, "the time was up")
    assert s is not None and s.to_numpy().tolist() == [
        [True, False, True],
        [False, True, False],
    ] * 2 + [[True, False, True]]


def test_rows_are_repeated_no_more_often_than_memory_allows():
    formula = Formula([[1, 2]])
    wanted = Wanted(formula, [()], np.arange(2), True, 10**9, False, 0)
    rules = ReservePolicy(share=1.0, seconds=1e6, cells=2 * 100)
    reserve = Reserve(wanted, Budget.of(SECONDS), rules)
    reserve._rows = {(): np.array([[1, 0], [0, 1]], np.uint8)}
    s = reserve.samples(0.0, "the time was up")
    assert (
        s is not None
        and (len(s), s.status) == (100, "budget")
        and "2 solutions" in s.info["reason"]
    )
