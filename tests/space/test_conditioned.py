"""Rules in `given` without a circuit of their own: the law, the rows of a seed, exceptions."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from scipy.stats import chisquare

import nelson
from nelson.errors import Unsatisfiable

DRAWN = 20_000


def pair(high: int = 20) -> nelson.Space:
    space = nelson.Space()
    x, y = space.integer("x", 1, high), space.integer("y", 1, high)
    space.require(x + y >= 8)
    return space


def p_value(rows, obeys, weight=lambda x, y: 1.0) -> float:
    """Of the chi-square test against all legal rows that obey the condition."""
    cells = [
        (x, y) for x, y in itertools.product(range(1, 21), repeat=2) if x + y >= 8 and obeys(x, y)
    ]
    seen = Counter((row["x"], row["y"]) for row in rows)
    assert set(seen) <= set(cells)
    total = sum(weight(*cell) for cell in cells)
    expected = [len(rows) * weight(*cell) / total for cell in cells]
    return float(chisquare([seen[cell] for cell in cells], expected).pvalue)


def test_rows_given_a_rule_have_the_law_and_need_no_circuit(compilations):
    """False alarms: 0.1% for each p-value; the seeds are fixed."""
    space = pair()
    weights = {"x": {range(1, 11): 3.0}}
    space.sample(1)
    space.sample(1, weights=weights)
    before = len(compilations)
    rows = space.sample(DRAWN, given="x * y % 3 == 1", seed=1)
    assert rows.guarantee == "exact" and 0 < rows.tv_bound < 1e-6
    assert p_value(rows, lambda x, y: x * y % 3 == 1) > 0.001
    heavy = space.sample(DRAWN, given=["x > y"], weights=weights, seed=1)
    factor = lambda x, y: 3.0 if x <= 10 else 1.0  # noqa: E731
    assert p_value(heavy, lambda x, y: x > y, factor) > 0.001
    assert p_value(heavy, lambda x, y: x > y) < 1e-9  # the twin: it would see another law
    assert len(compilations) == before
    space.sample(1, given="x * y == 91")  # two rows of 379 are too rare: the twin of the count
    assert len(compilations) == before + 1


def test_the_bound_covers_the_share_of_the_rule():
    space = pair()
    alone, given = space.sample(10, seed=1), space.sample(10, seed=1, given="x == y")
    assert given.tv_bound >= 2 * alone.tv_bound / given.info["condition_share"]


def test_row_i_of_a_seed_is_the_same_in_all_ways():
    space, rule = pair(), "x + 2 * y == 2 or x > 12"
    many = space.sample(3000, given=rule, seed=7).to_list()
    assert space.sample(1, given=rule, seed=7).to_list() == many[:1]
    assert space.sample(130, given=rule, seed=7).to_list() == many[:130]
    plan = space.plan(given=rule)
    assert plan._condition is not None and "are kept" in plan.why
    assert list(itertools.islice(plan.rows(seed=7), 3000)) == many
    for block in (1, 100, 5000):
        blocks = list(space.stream(3000, block=block, given=rule, seed=7))
        assert [row for rows in blocks for row in rows] == many
        assert {len(rows) for rows in blocks[:-1]} <= {block}
    assert plan.sample(10, seed=8).to_list() != many[:10]
    assert space.plan(given=rule, seed=7).sample(10).to_list() == many[:10]
    assert len(plan.sample(0)) == 0


@pytest.mark.parametrize("rule", ["x == 1 and y == 20", "x * y == 91"])
def test_a_rare_rule_becomes_clauses(rule):
    plan = pair().plan(given=rule)
    assert plan._condition is None
    assert all(row["x"] * row["y"] in (20, 91) for row in plan.sample(20, seed=1))


@pytest.mark.parametrize(
    ("rule", "values"),
    [("x == 7", {"x": 7}), ("f", {"f": True}), ("not f", {"f": False}), ("c == 'b'", {"c": "b"})],
)
def test_a_rule_that_is_a_value_is_evidence(rule, values, compilations):
    space = pair()
    space.flag("f")
    space.choice("c", ["a", "b"])
    expected = space.sample(20, given=values, seed=3).to_list()
    before = len(compilations)
    assert space.sample(20, given=rule, seed=3).to_list() == expected
    assert len(compilations) == before
    both = space.sample(200, given=[rule, "x + y > 12"], seed=3).to_list()
    assert all(row["x"] + row["y"] > 12 and values.items() <= row.items() for row in both)
    with pytest.raises(Unsatisfiable):
        space.sample(1, given=["x == 7", "x == 8", "x + y > 12"])
    with pytest.raises(Unsatisfiable):
        space.sample(1, given="x == 21")


def test_a_rule_that_never_holds_is_told():
    with pytest.raises(Unsatisfiable, match="cannot hold together"):
        pair().sample(1, given="x + y == 3")


def test_what_a_condition_is_not_applied_to():
    """Shares are shares of the rows that obey it; `unique` and time limits plan otherwise."""
    space, rule = pair(), "x > y"
    for how in ({"shares": {"x": {20: 0.5}}}, {"first": ["x"]}, {"unique": True}, {"seconds": 60}):
        plan = space.plan(given=rule, **how)
        assert plan._condition is None
        assert all(row["x"] > row["y"] for row in plan.sample(20, seed=1))
