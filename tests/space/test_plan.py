"""`Space.plan`: decided once, drawn from at will; the members that `Space` shows; time limits."""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nelson.errors import BudgetExceeded, FormulaError
from nelson.space import Space
from nelson.space import plan as plans


def dice() -> Space:
    space = Space()
    space.integer("x", 1, 6)
    space.integer("y", 1, 6)
    space.require("x + y >= 8")
    return space


def test_a_plan_draws_the_rows_of_sample():
    space = dice()
    plan = space.plan(weights={"x": {6: 3}})
    expected = space.sample(100, weights={"x": {6: 3}}, seed=5)
    assert plan.guarantee == "exact" and plan.why
    assert plan.sample(100, seed=5).to_list() == expected.to_list()
    assert plan.sample(100, seed=6).to_list() != expected.to_list()
    blocks = plan.stream(100, block=64, seed=5)
    assert [row for rows in blocks for row in rows] == expected.to_list()


def test_rows_of_a_plan_are_dicts_without_end():
    rows = dice().plan(given={"x": 6}).rows(seed=0)
    first = list(itertools.islice(rows, 5000))  # more than one block
    assert len(first) == 5000 and all(row["x"] == 6 and row["y"] >= 2 for row in first)
    again = dice().plan(given={"x": 6}).rows(seed=0)
    assert first == list(itertools.islice(again, 5000))


def test_a_space_shows_at_most_30_members():
    members = [name for name in dir(Space) if not name.startswith("_")]
    assert len(members) <= 30, members


def test_writing_rules_as_clauses_ends_in_time():
    space = Space()
    for name in "abc":
        space.integer(name, 0, 2**40)
    weights = {space.rule("a * b * c > 12345"): 2.0}
    rows = space.sample(10, weights=weights, seconds=0.0)
    assert len(rows) == 0 and rows.status == "budget" and "clauses" in rows.info["reason"]
    assert rows.columns == ["a", "b", "c"]
    with pytest.raises(BudgetExceeded, match="clauses"):
        space.sample(10, weights=weights, seconds=0.0, strict=True)


def test_marginals_and_contradictions_end_in_time():
    space = Space()
    numbers = [space.integer(f"n{k}", 0, 2**20) for k in range(8)]
    space.require(sum(numbers) == 2**20)
    weights = {numbers[0] * numbers[1] % 7 == k: 1.0 + k for k in range(7)}
    with pytest.raises(BudgetExceeded):
        space.marginals(weights=weights, seconds=0.0)
    for a, b in itertools.pairwise(numbers):
        space.require(a < b)
    space.require(numbers[0] > numbers[-1])
    with pytest.raises(BudgetExceeded):
        space.contradiction(seconds=0.0)
    assert "cannot hold together" in str(space.contradiction(seconds=60.0))


def test_equal_samples_are_planned_once_and_changes_are_seen(monkeypatch):
    space = Space()
    x = space.integer("x", 0, 9)
    planned = []
    plan = plans.space_plan
    monkeypatch.setattr(plans, "space_plan", lambda *args: planned.append(1) or plan(*args))
    first, again = space.sample(50, seed=1), space.sample(50, seed=1)
    assert len(planned) == 1 and np.array_equal(first["x"], again["x"])
    assert space.sample(50, seed=2)["x"].tolist() != first["x"].tolist()
    assert len(planned) == 1
    assert set(space.sample(200, seed=1, weights={x: {3: 0}})["x"]) == set(range(10)) - {3}
    assert set(space.sample(9, seed=1, unique=True)["x"]) < set(range(10))
    space.require(x < 5)
    assert set(space.sample(200, seed=1)["x"]) == set(range(5))
    space.prefer(x > 2)
    assert set(space.sample(200, seed=1)["x"]) == {3, 4}
    assert len(planned) == 5


def instructions() -> Space:
    space = Space()
    space.choice("op", ["li", "add", "store"])
    for name in ("rd", "rs"):
        space.integer(name, 0, 3)
    for r in range(4):
        space.require(space.flag(f"written_{r}") | (space["op"] == "li") | (space["rs"] != r))
    return space


def test_rows_given_changing_evidence_are_independent_of_what_else_is_asked_for(compilations):
    space = instructions()
    space.sample(1)
    before = len(compilations)
    evidence = [{f"written_{r}": r == k for r in range(4)} for k in range(4)]
    plan = space.plan(seed=3)
    turns = [[plan.row(given) for given in evidence] for _ in range(300)]  # more than one block
    assert len(compilations) == before
    for k, given in enumerate(evidence):
        alone = space.plan(seed=3)
        rows = [alone.row(dict(reversed(given.items()))) for _ in range(300)]
        assert rows == [turn[k] for turn in turns]
        assert all(row["op"] == "li" or row["rs"] == k for row in rows)
        assert len({tuple(row.values()) for row in rows}) > 5
    other = space.plan(seed=4)
    assert [other.row(evidence[0]) for _ in range(20)] != [turn[0] for turn in turns[:20]]


def test_the_rows_that_wait_take_bounded_memory(monkeypatch):
    """A stream that was given up begins anew: no row is handed out twice because of that."""
    space = dice()
    plan = space.plan(seed=1)
    monkeypatch.setattr("nelson.space.plan.MEMORY", 100_000)
    plan.row({"x": 6})
    assert plan._ahead is not None and plan._ahead.most == 2
    for k in range(30):
        assert plan.row({"x": 3 + k % 3})["x"] == 3 + k % 3
        assert len(plan._ahead._streams) <= 2
    assert max(plan._ahead._begun.values()) == 10


def test_a_plan_with_evidence_of_its_own_adds_to_it():
    space = dice()
    plan = space.plan(given={"x": 6})
    assert {plan.row({"y": 2 + k % 5})["x"] for k in range(10)} == {6}
    assert plan.row()["x"] == 6
    ruled = space.plan(given="x == y")
    assert all((row := ruled.row())["x"] == row["y"] for _ in range(10))
    with pytest.raises(FormulaError, match="a rule in given"):
        ruled.row({"x": 5})


def test_threads_share_a_plan():
    """Draws give what they give alone; rows of one evidence are handed out once each."""
    space = instructions()
    plan, given = space.plan(seed=9), {"written_0": True}
    with ThreadPoolExecutor(8) as threads:
        drawn = list(threads.map(lambda seed: plan.sample(50, seed=seed).to_list(), range(24)))
        shared = list(threads.map(lambda _: tuple(plan.row(given).values()), range(1000)))
    assert drawn == [space.sample(50, seed=seed).to_list() for seed in range(24)]
    alone = space.plan(seed=9)
    assert Counter(shared) == Counter(tuple(alone.row(given).values()) for _ in range(1000))
