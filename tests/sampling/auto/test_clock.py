"""Without `seconds=` no clock chooses: the same call gives the same method, guarantee and bits."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

import nelson
from nelson import budget
from nelson.budget import Budget
from nelson.chains import engine, request
from nelson.chains.diagnosis.solver import Finder
from nelson.chains.problem import prepare
from nelson.errors import BudgetExceeded
from nelson.exact import listing, mode
from nelson.exact.circuit import attempts, build
from nelson.exact.compiled import compiled
from nelson.exact.listing import structures
from nelson.exact.preprocess import pipeline, preprocess
from nelson.formula.random_ksat import random_ksat
from nelson.policy import DEFAULT, CircuitPolicy, Policy
from nelson.sampling.auto.steps import solver as starts
from nelson.sampling.methods.scripts import cmsgen as script
from tests.structured.features import feature_model
from tests.structured.graphs import random_colouring

SAFETY = "safety limit"


def easy():
    return feature_model(60, 10, seed=1)


def middling():
    """D4 needs one unit of effort: as many as it has here."""
    return random_ksat(60, 150, 3, seed=1)


def hard():
    """D4 needs more than 40 units."""
    return random_ksat(70, 140, 3, seed=1)


def frozen():
    """Resampling does not converge, and D4 is left out: chains from a solver."""
    return random_colouring(40, 90, 4, seed=1)


def drawn(make, **options):
    """Method, guarantee, reasons and bits of a call on a new formula: nothing is remembered."""
    samples = nelson.sample(make(), n=128, seed=3, **options)
    parts = [(p["method"], p["sweeps"], p["guarantee"]) for p in samples.info["auto"]]
    assert SAFETY not in samples.info
    return samples.info["method"], samples.guarantee, parts, samples.packed.tobytes()


def effort_of(effort: float) -> Policy:
    return Policy(circuit=CircuitPolicy(effort=effort))


def fast_clock():
    """A clock that runs 10,000 times too fast."""
    begin, real = time.monotonic(), time.monotonic

    class Fast:
        monotonic = staticmethod(lambda: begin + 1e4 * (real() - begin))

    return Fast


@pytest.mark.process
@pytest.mark.slow
def test_load_and_cache_change_nothing(monkeypatch, tmp_path):
    pytest.importorskip("py_d4")
    one = effort_of(1.0)
    makers = easy, middling, hard
    monkeypatch.setenv("NELSON_CACHE_DIR", str(tmp_path / "a"))
    cold = [drawn(make, policy=one) for make in makers]
    assert [one[1] for one in cold[:2]] == ["exact", "exact"] and cold[2][1] != "exact"
    warm = [drawn(make, policy=one) for make in makers]
    # A circuit that took more effort does not turn up in a call that has less.
    assert compiled(middling(), effort=16.0) is not None
    half = effort_of(0.5)
    less = drawn(middling, policy=half)
    monkeypatch.setenv("NELSON_CACHE_DIR", str(tmp_path / "b"))
    assert drawn(middling, policy=half) == less and less[1] != "exact"
    spin = "while True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2)]
    try:
        loaded = [drawn(make, policy=one) for make in makers]
    finally:
        for child in busy:
            child.kill()
            child.wait()
    assert cold == warm == loaded


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("make", [middling, hard, frozen])
def test_a_clock_that_runs_fast_changes_nothing(monkeypatch, make):
    pytest.importorskip("py_d4")
    policy = effort_of(0.5 if make is frozen else 1.0)
    monkeypatch.setattr(attempts, "FIRST_EFFORTS", (0.0, 0.5))
    before = drawn(make, policy=policy)
    fast = fast_clock()
    for module in (build, engine, budget, request):
        monkeypatch.setattr(module, "time", fast)
    monkeypatch.setattr(pipeline, "SAFETY_SECONDS", 1e9)
    assert drawn(make, policy=policy) == before


@pytest.mark.process
def test_a_safety_limit_that_cuts_in_is_said(monkeypatch):
    pytest.importorskip("py_d4")
    monkeypatch.setattr(attempts, "SAFETY", 0.0)
    monkeypatch.setattr(attempts, "SAFETY_PER_EFFORT", 0.0)
    with pytest.warns(UserWarning, match="a faster or slower machine may draw otherwise.*CPU time"):
        samples = nelson.sample(random_ksat(40, 80, 3, seed=2), n=64, seed=0)
    assert "safety limit of 0 s of CPU time" in samples.info[SAFETY]
    assert samples.info["method"] != "circuit"


@pytest.mark.slow
def test_preprocessing_says_that_a_clock_ended_it(monkeypatch):
    formula = feature_model(60, 10, seed=1)
    theta = np.zeros((1, formula.n_vars))
    assert "ended" not in " ".join(preprocess(formula, theta).steps)
    monkeypatch.setattr(pipeline, "SAFETY_SECONDS", -1.0)
    assert preprocess(formula, theta).steps[-1] == "ended by the safety limit of -1 s"
    with pytest.warns(UserWarning, match="safety limit of -1 s"):
        samples = nelson.sample(easy(), n=64, seed=0)
    assert samples.info[SAFETY] == "ended by the safety limit of -1 s"
    with warnings.catch_warnings():  # a caller who sets a limit has asked for the clock
        warnings.simplefilter("error")
        assert SAFETY not in nelson.sample(easy(), n=64, seed=0, seconds=60.0).info


@pytest.mark.slow
def test_a_call_with_seconds_says_how_to_repeat_it():
    formula = random_ksat(200, 280, 5, seed=1)
    timed = nelson.sample(formula, n=128, seed=4, seconds=60.0)
    again = nelson.sample(random_ksat(200, 280, 5, seed=1), n=128, **timed.info["repeat"])
    assert timed.info["repeat"]["method"] == "lovasz" and "sweeps" in timed.info["repeat"]
    assert np.array_equal(timed.packed, again.packed)
    assert "repeat" not in nelson.sample(formula, n=128, seed=4).info
    parts = nelson.sample(easy(), n=128, seed=4, seconds=60.0)
    assert "leave out seconds=" in parts.info["repeat"]


@pytest.mark.process
@pytest.mark.parametrize("solver", ["CMSGen", "PySAT"])
def test_starts_are_counted(monkeypatch, solver):
    if solver == "CMSGen":
        pytest.importorskip("pycmsgen")
    else:
        monkeypatch.setattr(starts, "missing_modules", lambda sampler: ["pycmsgen"])
    problem = prepare(random_ksat(80, 240, 3, seed=1))
    how = problem, np.zeros(80), 20, 7, Budget()
    rows, name, cut = starts.find(*how)
    assert len(rows) == 20 and name == solver and not cut
    assert np.array_equal(starts.find(*how)[0], rows)
    assert np.array_equal(starts.find(*how, literals=0, few=3)[0], rows[:3])


@pytest.mark.process
def test_conflicts_end_the_search_of_pysat(monkeypatch):
    monkeypatch.setattr(starts, "missing_modules", lambda sampler: ["pycmsgen"])
    how = prepare(random_ksat(150, 600, 3, seed=1)), np.zeros(150), 20, 7, Budget()
    rows, few = starts.find(*how)[0], starts.find(*how, 400)[0]
    assert len(rows) == 20 and 0 < len(few) < 20 and np.array_equal(few, rows[: len(few)])


def test_conflicts_end_the_search_of_cmsgen():
    """A solver that takes 3,000 conflicts for each solution: limits of 500, 1,000, 2,000 fail."""

    class Slow:
        asked: ClassVar[list[int]] = []

        def solve(self, confl_limit=None):
            self.asked.append(confl_limit)
            enough = confl_limit is None or confl_limit >= 3000
            return (True, (None, True)) if enough else (None, None)

    assert script.solved(Slow(), None) == (True, (None, True), 0)
    assert script.solved(Slow(), 10_000) == (True, (None, True), 3500)
    assert script.solved(Slow(), 3000)[::2] == (None, 3500)
    assert Slow.asked == [None, 500, 1000, 2000, 4000, 500, 1000, 2000]
    assert len(list(script.rows(Slow(), (None, True), 20, 10_000))) == 3
    assert len(list(script.rows(Slow(), (None, True), 20, None))) == 20


@pytest.mark.process
def test_starts_that_a_clock_ended_are_said(monkeypatch):
    none = replace(DEFAULT.chains, solver_seconds=0.0, seconds_per_literal=0.0)
    monkeypatch.setattr(starts, "DEFAULT", replace(DEFAULT, chains=none))
    _, _, cut = starts.find(prepare(middling()), np.zeros(60), 20, 7, Budget())
    assert "safety limit" in cut
    _, _, cut = starts.find(prepare(middling()), np.zeros(60), 20, 7, Budget(deadline=0.0))
    assert not cut


def test_a_solver_that_found_nothing_is_not_asked_again(monkeypatch):
    """Without a deadline: with one, each draw has time of its own."""
    asked = []

    def nothing(problem, theta, count, *args):
        asked.append(count)
        return np.zeros((0, problem.formula.n_total), bool), "", ""

    monkeypatch.setattr(starts, "find", nothing)
    others = Policy().without("circuit", "cftp", "rejection", "resampling")
    s = nelson.sample(middling(), n=5, seed=1, policy=others)
    assert (len(s), s.status, len(asked)) == (0, "budget", 1)
    assert "found no solution" in s.info["reason"]


def test_questions_of_a_diagnosis_are_counted():
    problem = prepare(random_ksat(150, 600, 3, seed=1))
    values = np.random.default_rng(0).random((8, 150)) < 0.5
    with Finder(problem) as finder:
        assert len(finder.solutions(values)) == 8
        spent = 200_000 - finder.left
    with Finder(problem, spent // 2) as finder:
        assert len(finder.solutions(values)) < 8
        assert finder.left <= 0 and finder.near(values[0]) is None


def test_conflicts_end_the_search_for_the_mode():
    formula = random_ksat(60, 180, 3, seed=1)
    theta = np.round(3 * np.random.default_rng(0).normal(size=60))
    found = mode.most_likely(formula, theta, None, 100_000)
    assert np.array_equal(found, mode.most_likely(formula, theta, None))
    with pytest.raises(BudgetExceeded, match="200 conflicts"):
        mode.most_likely(formula, theta, None, 200)


def test_work_ends_an_enumeration(monkeypatch):
    assert structures(random_ksat(30, 120, 3, seed=1)) is not None
    monkeypatch.setattr(listing, "_MAX_WORK", 100)
    assert structures(random_ksat(30, 120, 3, seed=1)) is None
