"""Soft rules: the largest set in order of priority, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.space.language.evaluate import evaluate
from tests.space.random_vectors import RandomVectors


def _expected(grid, hard, soft):
    """Rows that remain when soft rules are added one by one, the most important first."""
    n = len(next(iter(grid.values())))
    held = np.logical_and.reduce([np.broadcast_to(evaluate(r, grid), n) for r in hard])
    for rule in soft:
        more = held & np.broadcast_to(evaluate(rule, grid), n)
        held = more if more.any() else held
    return held


@pytest.mark.parametrize("seed", range(30))
def test_the_rows_are_those_of_the_largest_set_in_order(seed):
    made = RandomVectors(seed)
    hard, soft = [made.rule(2).node], [made.rule(2).node for _ in range(4)]
    made.space.require(*hard)
    for k, rule in enumerate(soft):
        made.space.prefer(rule, priority=k // 2)
    # Higher priority first; of equal priority the one stated last.
    held = _expected(made.grid(), hard, [soft[3], soft[2], soft[1], soft[0]])
    assert made.space.count() == held.sum()
    if held.any():
        rows = made.space.sample(2000, seed=1, unique=True)
        assert rows.guarantee == "exact"
        assert len(rows) == held.sum()


def test_the_order_decides():
    """The twin: in the other order another rule is dropped."""
    for first, second, legal in (("x < 3", "x > 8", {0, 1, 2}), ("x > 8", "x < 3", {9, 10, 11})):
        space = nelson.Space()
        space.integer("x", 0, 11)
        space.prefer(second)
        space.prefer(first)
        assert set(space.sample(100, seed=0)["x"].tolist()) == legal


def test_conditions_come_before_preferences():
    space = nelson.Space()
    space.integer("x", 0, 11)
    space.prefer("x < 3", priority=2)
    assert space.count(given={"x": 7}) == 1
    assert space.count() == 3
    plan = space.plan(given="x > 1")
    assert {row["x"] for row in plan.sample(50, seed=0)} == {2}
    with pytest.raises(nelson.Unsatisfiable):
        space.sample(1, given="x > 20")


def test_preferences_are_kept_in_files(tmp_path):
    space = nelson.Space()
    space.integer("x", 0, 11)
    space.prefer("x < 3", priority=2)
    space.prefer("x > 1")
    space.save(tmp_path / "soft.toml")
    again = nelson.Space.load(tmp_path / "soft.toml")
    assert again.count() == space.count() == 1
    assert repr(again) == repr(space)
