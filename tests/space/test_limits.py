"""Rules are written within the time of the call that needs them, and shares that were out of reach
still give rows. No test waits for a clock."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import nelson
from nelson.budget import Budget, TimeUp
from nelson.errors import BudgetExceeded, FormulaError
from nelson.kernels.core.deadline import check_time
from nelson.space import distinct
from nelson.space import plan as plan_module
from nelson.space.clauses import encode, gates


@pytest.fixture(autouse=True)
def _a_hundred_times_shorter(monkeypatch):
    few = replace(encode.DEFAULT.space, clauses_at_once=256)
    monkeypatch.setattr(encode, "DEFAULT", replace(encode.DEFAULT, space=few))


def long_rule(fields: int = 12) -> nelson.Space:
    """All different: more clauses than are written when a rule is stated."""
    space = nelson.Space()
    made = [space.integer(f"x{k}", 0, 63) for k in range(fields)]
    space.require(made[0] < made[1])
    space.require(distinct(*made))
    space.require(made[2] < made[3])
    return space


def test_a_long_rule_and_what_follows_wait_for_the_first_question():
    space = long_rule()
    assert [len(group) > 0 for group in space.encoding.groups] == [True, False, False]
    assert space.formula.n_clauses > 256
    assert all(space.encoding.groups)


def test_a_short_rule_is_written_when_it_is_stated():
    space = long_rule(fields=4)
    assert all(space.encoding.groups)
    wide = nelson.Space()
    x = wide.integer("x", 0, 2**3000)
    with pytest.raises(FormulaError, match="bits"):
        wide.require(x * x > 3)


def test_the_clauses_do_not_depend_on_when_they_are_written(monkeypatch):
    waiting = long_rule().formula
    monkeypatch.setattr(gates.Gates, "_look", lambda self: None)  # no rule is long
    at_once = long_rule()
    assert all(at_once.encoding.groups)
    assert at_once.formula == waiting


def test_time_up_leaves_nothing_and_the_next_question_is_answered(monkeypatch):
    whole, space = long_rule().formula, long_rule()
    before = space.encoding.gates.n_gates, len(space.encoding.gates.clauses)
    looks = 0

    def late() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise TimeUp("the time was up")

    monkeypatch.setattr(gates, "check_time", late)
    with pytest.raises(TimeUp):
        _ = space.formula
    assert (space.encoding.gates.n_gates, len(space.encoding.gates.clauses)) == before
    monkeypatch.setattr(gates, "check_time", check_time)
    assert space.formula == whole


def test_a_call_whose_time_is_up_while_rules_are_written_returns_no_row(monkeypatch):
    space = long_rule()

    def late() -> None:
        raise TimeUp("the time was up while writing the rules as clauses")

    monkeypatch.setattr(gates, "check_time", late)
    rows = space.sample(10, seconds=600.0)
    assert (len(rows), rows.guarantee, rows.status) == (0, "heuristic", "budget")
    assert "writing the rules" in rows.info["reason"]
    with pytest.raises(BudgetExceeded):
        space.sample(10, seconds=600.0, strict=True)
    [block] = space.stream(10, seconds=600.0)
    assert (len(block), block.status) == (0, "budget")
    with pytest.raises(BudgetExceeded):
        space.count(seconds=600.0)


def test_a_copy_writes_the_rules_that_wait():
    space = long_rule()
    assert pickle.loads(pickle.dumps(space)).formula.n_clauses == space.formula.n_clauses


def test_encoding_looks_at_the_deadline():
    space = long_rule()
    with Budget(deadline=-1e9).enforced(), pytest.raises(TimeUp):
        _ = space.formula


# --- shares ---------------------------------------------------------------------------------------


@pytest.fixture
def space() -> nelson.Space:
    space = nelson.Space()
    x, y = space.integer("x", 0, 9), space.choice("y", ["a", "b", "c"])
    space.require((x > 5).implies(y != "a"))
    return space


def out_of_reach(monkeypatch) -> None:
    def law(space, given=None, weights=None, shares=None, first=None, seed=None, budget=None):
        if shares is not None:
            raise TimeUp("the time was up while fitting with samples")
        return true_law(space, given, weights, shares, first, seed, budget)

    true_law = plan_module.law_of
    monkeypatch.setattr(plan_module, "law_of", law)


@pytest.mark.process
def test_shares_out_of_reach_give_rows_of_the_law_without_them(space, monkeypatch):
    out_of_reach(monkeypatch)
    rows = space.sample(20_000, shares={"y": {"a": 0.9}}, given="x < 9", seed=1, seconds=600.0)
    assert (len(rows), rows.guarantee, rows.status) == (20_000, "heuristic", "ok")
    assert rows.info["shares_missed"] and "without these shares" in rows.info["shares_why"]
    assert "fitting with samples" in rows.info["shares_why"]
    [(name, share)] = rows.info["shares"].items()
    assert name == "y == 'a'" and share == pytest.approx(np.mean(rows["y"] == "a"))
    # The law without shares: 6 of 24 rows have "a". A band of 5 sigma, false alarms 6e-7.
    assert abs(share - 6 / 24) < 5 * np.sqrt(0.25 * 0.75 / 20_000)


def test_shares_of_0_and_1_are_kept_as_conditions(space, monkeypatch):
    out_of_reach(monkeypatch)
    rows = space.sample(500, shares={"y": {"a": 0.0, "b": 0.9}}, seed=1, seconds=600.0)
    assert not (rows["y"] == "a").any() and (rows["y"] == "c").any()


@pytest.mark.process
def test_shares_in_reach_are_reached(space):
    rows = space.sample(20_000, shares={"y": {"a": 0.9}}, seed=1, seconds=600.0)
    assert rows.guarantee == "exact" and not rows.info["shares_missed"]
    assert abs(np.mean(rows["y"] == "a") - 0.9) < 5 * np.sqrt(0.09 / 20_000)


def test_other_questions_are_not_answered_for_another_law(space, monkeypatch):
    """Marginals of the law without shares would be wrong, not heuristic."""
    from nelson.space import answers

    def late(*args):
        raise TimeUp("the time was up")

    monkeypatch.setattr(answers, "with_shares", late)
    with pytest.raises(BudgetExceeded):
        space.marginals(shares={"y": {"a": 0.9}}, seconds=600.0)
