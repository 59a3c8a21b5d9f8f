"""Each public function says what it has when its time is up. TimeUp is raised by hand: no clock."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.budget import Budget, TimeUp
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.problem import prepare
from nelson.errors import BudgetExceeded
from nelson.exact import queries
from nelson.judging import judgement
from nelson.kernels.core import deadline
from nelson.kernels.core.deadline import check_time
from nelson.log_z import compute
from nelson.policy import DEFAULT
from nelson.sampling import marginals as marginals_module
from nelson.sampling import report as report_module
from nelson.sampling import terms_plan
from nelson.sampling.auto import ladder
from nelson.sampling.auto.steps.solver import SolverChains
from nelson.sampling.collect import until_late
from tests.problems import random_ksat

SECONDS = 600.0


def late(*args, **options):
    raise TimeUp("the time was up while looking for inputs and gates")


@pytest.fixture
def formula() -> nelson.Formula:
    return random_ksat(20, 40, 3, 1)


def test_a_judge_does_not_decide(formula, monkeypatch):
    monkeypatch.setattr(judgement, "_decide", late)
    verdict = nelson.judge(formula, "rejection", seconds=SECONDS)
    assert verdict.accept is None and "looking for inputs" in verdict.reason


def test_a_report_says_what_is_not_known(formula, monkeypatch):
    assert nelson.report(formula, seconds=SECONDS).choice is not None
    monkeypatch.setattr(report_module, "choose", late)
    report = nelson.report(formula, seconds=SECONDS)
    assert report.choice is None and "the time was up" in " ".join(report.notes)
    assert report.n_clauses == formula.n_clauses


def test_marginals_are_estimated_where_the_exact_law_took_too_long(formula, monkeypatch):
    exact = nelson.marginals(formula)
    monkeypatch.setattr(marginals_module, "law", late)
    means = nelson.marginals(formula, seconds=SECONDS)
    assert "the time was up" in means.why and means.error > 0
    # 65,536 samples, 20 variables: 6 sigma, false alarms below 4e-8.
    assert np.abs(means.mean - exact.mean).max() < 6 * means.error


@pytest.mark.parametrize(
    ("module", "name", "call"),
    [
        (queries, "law", lambda f: nelson.count(f, seconds=SECONDS)),
        (queries, "law", lambda f: nelson.mode(f, seconds=SECONDS)),
        (compute, "without_terms", lambda f: nelson.log_z(f, seconds=SECONDS)),
        (ladder, "StepSearch", lambda f: nelson.plan(f, seconds=SECONDS)),
    ],
)
def test_answers_that_must_be_whole_are_an_error(formula, monkeypatch, module, name, call):
    monkeypatch.setattr(module, name, late)
    if module is ladder:
        monkeypatch.setattr(ladder, "STEPS", [])
    with pytest.raises(BudgetExceeded, match="the time was up"):
        call(formula)


@pytest.mark.parametrize(
    ("module", "name", "call"),
    [
        (queries, "law", lambda f: nelson.count(f, seconds=SECONDS)),
        (queries, "law", lambda f: nelson.mode(f, seconds=SECONDS)),
        (compute, "without_terms", lambda f: nelson.log_z(f, seconds=SECONDS)),
        (marginals_module, "law", lambda f: nelson.marginals(f, seconds=SECONDS)),
        (judgement, "_decide", lambda f: nelson.judge(f, "rejection", seconds=SECONDS)),
        (report_module, "choose", lambda f: nelson.report(f, seconds=SECONDS)),
    ],
)
def test_the_deadline_is_enforced_in_each_of_them(formula, monkeypatch, module, name, call):
    """What runs inside sees a deadline: a check after it would raise."""
    seen = []

    def work(*args, **options):
        seen.append(deadline.DEADLINE.get()[0])
        raise TimeUp("the time was up")

    monkeypatch.setattr(module, name, work)
    try:
        call(formula)
    except BudgetExceeded:
        pass
    assert len(seen) == 1 and np.isfinite(seen[0])
    check_time()


def test_a_law_with_terms_and_no_solver_in_reserve_has_no_sample_then(formula, monkeypatch):
    monkeypatch.setattr(terms_plan.TermsPlan, "_reserve", lambda *_: None)
    asked = {"n": 5, "terms": {(1, 2): 1.0}, "seconds": SECONDS}
    assert len(nelson.sample(formula, **asked)) == 5
    monkeypatch.setattr(terms_plan, "law", late)
    s = nelson.sample(formula, **asked)
    assert (len(s), s.guarantee, s.status) == (0, "heuristic", "budget")
    assert "the time was up" in s.info["reason"]


class Takes(SolverChains):
    """All that is left, heuristic."""

    def take(self, search):
        for part in search.form.few():
            search.form.take(self, part, StepVerdict(0, "heuristic", "quick"))


class Late(SolverChains):
    take = staticmethod(late)


def test_a_decision_that_is_there_is_kept_when_a_later_step_has_no_time(formula, monkeypatch):
    asked = prepare(formula), np.zeros((1, 20)), Budget.of(SECONDS), DEFAULT
    monkeypatch.setattr(ladder, "STEPS", [Takes(), Late()])
    assert ladder.decide(*asked).guarantee == "heuristic"
    monkeypatch.setattr(ladder, "STEPS", [Late(), Takes()])
    with pytest.raises(TimeUp):
        ladder.decide(*asked)


def test_blocks_that_came_before_the_deadline_are_kept():
    def blocks(most):
        yield from range(most)
        raise TimeUp("the time was up")

    assert list(until_late(blocks(2), Budget.of(SECONDS))) == [0, 1]
    with pytest.raises(TimeUp):
        list(until_late(blocks(0), Budget.of(SECONDS)))


def test_only_drawing_is_under_the_deadline():
    def blocks():
        assert np.isfinite(deadline.DEADLINE.get()[0])
        yield "drawn in time"

    for _ in until_late(blocks(), Budget.of(SECONDS)):
        assert deadline.DEADLINE.get()[0] == np.inf
