"""Rows of a table's model: the same in blocks of any size, within a bound of their law."""

from __future__ import annotations

import numpy as np
import pytest

from nelson import Space
from nelson.budget import Budget
from nelson.space.tables import elimination
from nelson.space.tables import model as models


@pytest.fixture(scope="module")
def model():
    space = Space.from_toml(
        "rules = [\"implies(plan == 'free', not yearly)\"]\n[fields]\n"
        'plan = { choice = ["free", "pro"] }\nyearly = "flag"\nseats = { integer = [1, 3] }\n'
    )
    rows = space.sample(500, weights={"plan": {"pro": 4}}, seed=0)
    return space.learn({name: rows[name] for name in rows.columns}, pairs="auto")


@pytest.mark.parametrize("given", [None, {"yearly": True}])
@pytest.mark.parametrize("block", [1, 64, 100, 1000])
def test_rows_do_not_depend_on_blocks(model, given, block, monkeypatch):
    monkeypatch.setattr(elimination, "BLOCK", 128)  # blocks of draws, too, begin anywhere
    whole = model.rows(300, given=given, seed=1)
    pieces = list(model.stream(300, given=given, seed=1, block=block))
    for name in whole.columns:
        joined = np.concatenate([np.asarray(piece[name]) for piece in pieces])
        assert np.array_equal(joined, whole[name]), name
    # The twin: another seed gives other rows, so equality says something.
    other = model.rows(300, given=given, seed=2)
    assert any(not np.array_equal(other[name], whole[name]) for name in whole.columns)


def test_exact_rows_say_how_far_from_their_law(model):
    rows = model.rows(10, seed=1)
    assert rows.guarantee == "exact"
    assert 0 < rows.info["tv_bound"] < 1e-12  # five fields of a few values: rounding alone


def test_a_bound_that_is_too_large_is_not_exact(model, monkeypatch):
    monkeypatch.setattr(elimination.LevelLaw, "tv_bound", lambda law, theta: 1e-5)
    assert model.rows(10, seed=1).guarantee == "heuristic"


def test_a_limit_does_not_change_rows_and_ends_a_draw(model, monkeypatch):
    monkeypatch.setattr(elimination, "BLOCK", 64)
    monkeypatch.setattr(models, "BLOCK", 64)
    whole = model.rows(300, seed=1)
    limited = model.rows(300, seed=1, seconds=1000.0)
    assert all(np.array_equal(limited[name], whole[name]) for name in whole.columns)
    none = model.rows(300, seed=1, seconds=0.0)
    assert (len(none), none.status, none.guarantee) == (0, "budget", "heuristic")
    assert "0 of 300 rows" in none.info["reason"]
    looks = iter([False, False, True])  # two blocks, then the time is up
    monkeypatch.setattr(Budget, "spent", property(lambda budget: next(looks)))
    some = model.rows(300, seed=1, seconds=1000.0)
    assert (len(some), some.status, some.guarantee) == (128, "budget", "exact")
    assert all(np.array_equal(some[name], whole[name][:128]) for name in whole.columns)
