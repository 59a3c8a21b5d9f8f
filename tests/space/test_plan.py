"""`Space.plan`: decided once, drawn from at will; the members that `Space` shows; time limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nelson.errors import BudgetExceeded
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
