"""Laws over legal rows: uniform, weights, shares, order of choice, distinct rows.

A chi-square test rejects a right sampler with probability ALPHA; seeds are fixed.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

import nelson
from nelson.learning.match import match
from nelson.space import Space, count
from tests.space.random_spaces import legal_rows, random_space

ALPHA = 1e-6
DRAWS = 60_000


def p_value(space: Space, rows, law: dict[tuple, float]) -> float:
    """Chi-square of rows against {row: probability}; 0 if a row is not in the law."""
    found = dict.fromkeys(law, 0)
    for row in zip(*(rows[name].tolist() for name in space.fields), strict=True):
        if row not in found:
            return 0.0
        found[row] += 1
    if len(law) == 1:
        return 1.0
    p = np.array(list(law.values()))
    assert len(rows) * p.min() >= 5
    return float(chisquare(list(found.values()), len(rows) * p / p.sum()).pvalue)


def small() -> Space:
    """36 legal rows of 3 x 6 x 2 x ... combinations, with an auxiliary variable in every rule."""
    space = Space()
    mode = space.choice("mode", ["a", "b", "c"])
    x, y = space.integer("x", 0, 5), space.integer("y", -2, 30)
    on = space.flag("on")
    space.require(y == 3 * x + if_on(on))
    space.require((mode == "a").implies(x + y >= 8))
    space.require((mode == "c").implies(on | (x % 2 == 0)))
    return space


def if_on(on):
    return nelson.space.if_else(on, 2, -1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_rows_are_uniform(seed):
    space = random_space(seed) if seed else small()
    rows = legal_rows(space)
    if not rows or len(rows) > DRAWS // 20:
        return
    drawn = space.sample(DRAWS, seed=seed)
    assert drawn.guarantee == "exact"
    assert p_value(space, drawn, dict.fromkeys(rows, 1 / len(rows))) > ALPHA


@pytest.mark.slow
def test_a_skewed_sampler_is_rejected():
    """Twins: a law that misses one value by a tenth, and one that never draws a row."""
    space = small()
    rows = legal_rows(space)
    uniform = dict.fromkeys(rows, 1 / len(rows))
    skewed = space.sample(DRAWS, seed=1, weights={"mode": {"a": 1.1}})
    assert p_value(space, skewed, uniform) < ALPHA
    lost = dict(rows[0:0])
    lost.update(dict.fromkeys(rows[1:], 1 / (len(rows) - 1)))
    assert p_value(space, space.sample(DRAWS, seed=1), lost) < ALPHA


@pytest.mark.slow
def test_weights_multiply_likelihoods():
    space = small()
    factor = {"a": 5.0, "b": 0.5, "c": 2.0}
    weights = {"mode": factor, space["on"]: 3.0, "y": {range(5, 12): 4.0, 1: 0.0}}
    law = {}
    for mode, x, y, on in legal_rows(space):
        w = factor[mode] * (3.0 if on else 1.0) * (4.0 if y in range(5, 12) else 1.0)
        if y != 1:
            law[mode, x, y, on] = w
    total = sum(law.values())
    law = {row: w / total for row, w in law.items()}
    drawn = space.sample(DRAWS, seed=2, weights=weights)
    assert drawn.guarantee == "exact"
    assert p_value(space, drawn, law) > ALPHA
    assert p_value(space, space.sample(DRAWS, seed=2), law) < ALPHA  # twin: no weights
    marginals = space.marginals(weights=weights)
    assert marginals["mode"]["a"] == pytest.approx(sum(p for r, p in law.items() if r[0] == "a"))
    assert marginals.guarantee == "exact"


def test_shares_are_met_by_the_law_of_maximum_entropy():
    """The law found has the shares, and its log is a sum of a term for each asked rule: that is
    the maximum of entropy (the KKT conditions)."""
    space = small()
    shares = {"mode": {"a": 0.2, "b": 0.3, "c": 0.5}, space.rule("x >= 4"): 0.25}
    drawn = space.sample(DRAWS, seed=3, shares=shares)
    achieved = drawn.info["shares"]
    assert achieved["mode == 'a'"] == pytest.approx(0.2, abs=1e-8)
    assert achieved["x >= 4"] == pytest.approx(0.25, abs=1e-8)
    # By hand: iterative proportional fitting over the enumerated rows.
    rows = legal_rows(space)
    p = np.full(len(rows), 1 / len(rows))
    mode = np.array([r[0] for r in rows])
    high = np.array([r[1] >= 4 for r in rows])
    for _ in range(500):
        for name, share in shares["mode"].items():
            p[mode == name] *= share / p[mode == name].sum()
        p[high] *= 0.25 / p[high].sum()
        p[~high] *= 0.75 / p[~high].sum()
    law = dict(zip(rows, p.tolist(), strict=True))
    assert p_value(space, drawn, law) > ALPHA
    # Twin: the logs of the shares as weights are not the shares.
    wrong = space.sample(DRAWS, seed=3, weights={"mode": shares["mode"]})
    assert p_value(space, wrong, law) < ALPHA


def test_shares_compose_with_conditions_and_weights():
    space = small()
    drawn = space.sample(
        40_000, seed=4, given={"on": True}, weights={"x": {0: 9.0}}, shares={"mode": {"b": 0.6}}
    )
    assert drawn["on"].all()
    sigma = math.sqrt(0.24 / 40_000)
    assert abs(drawn.shares("mode")["b"] - 0.6) < 5 * sigma
    plain = space.sample(40_000, seed=4, given={"on": True}, shares={"mode": {"b": 0.6}})
    assert drawn.shares("x")[0] > 2 * plain.shares("x")[0]


@pytest.mark.slow
def test_impossible_shares_are_proved_in_the_words_of_the_rules():
    space = small()
    with pytest.raises(nelson.FormulaError, match="mode"):
        space.sample(10, shares={"mode": {"a": 0.5, "b": 0.6}})
    # No row of mode a has x = 0.
    with pytest.raises(nelson.ImpossibleShares) as caught:
        space.sample(10, shares={"mode": {"a": 0.7}, "x": {0: 0.5}})
    assert str(caught.value) == (
        "impossible shares: no legal row has both mode == 'a' and x == 0, but their shares add up "
        "to 0.7 + 0.5 = 1.2"
    )
    assert caught.value.asked > caught.value.highest
    with pytest.raises(nelson.ImpossibleShares, match="every legal row with mode == 'a' has"):
        space.sample(10, shares={"mode": {"a": 0.7}, "x": {2: 0.1, 3: 0.1, 4: 0.1, 5: 0.1}})
    twice = {"mode": {"a": 0.5, "b": 0.5}, "x": {0: 0.4}, space.rule("x + y > 9"): 0.8}
    with pytest.raises(nelson.ImpossibleShares, match="impossible shares"):
        space.sample(10, shares=twice)
    with pytest.raises(nelson.FormulaError, match="never holds"):
        space.sample(10, shares={space.rule("x + y == 1000"): 0.5, "on": 0.5})


@pytest.mark.slow
def test_fields_chosen_first_are_uniform_over_their_legal_values():
    space = small()
    rows = legal_rows(space)
    pairs = {(r[0], r[3]) for r in rows}
    law = {r: 1 / len(pairs) / sum((s[0], s[3]) == (r[0], r[3]) for s in rows) for r in rows}
    drawn = space.sample(DRAWS, seed=5, first=["mode", "on"])
    assert drawn.guarantee == "exact"
    assert p_value(space, drawn, law) > ALPHA
    assert p_value(space, space.sample(DRAWS, seed=5), law) < ALPHA
    one = space.sample(DRAWS, seed=6, first="x").shares("x")
    sigma = math.sqrt(1 / 6 * 5 / 6 / DRAWS)
    assert max(abs(share - 1 / 6) for share in one.values()) < 5.5 * sigma


def _rarely(flags: int) -> Space:
    """One value of `kind` fixes all flags: its share of the rows is 2^-flags or less."""
    space = Space()
    kind = space.choice("kind", ["plain", "other", "rare"])
    for k in range(flags):
        space.require((kind == "rare").implies(space.flag(f"f{k}")))
    return space


@pytest.mark.parametrize("flags", [30, 46, 80])  # shares with few digits, with none, and 0.0
def test_fields_chosen_first_have_values_that_are_rare_otherwise(flags):
    """As `solve ... before` is used. Twin: a share that is rounded to 0 would never be drawn."""
    rows = _rarely(flags).sample(6000, seed=1, first=["kind"])
    assert rows.guarantee == "exact" and rows.tv_bound < 1e-6
    sigma = math.sqrt(2 / 9 / 6000)
    shares = rows.shares("kind")
    assert max(abs(share - 1 / 3) for share in shares.values()) < 5.5 * sigma
    assert "rare" not in _rarely(flags).sample(6000, seed=1).shares("kind")  # twin


@pytest.mark.slow
def test_fields_chosen_first_under_weights_of_all_sizes():
    """P(a) of a value is then anything between 1e-300 and 1. No legal value may be lost."""
    for seed in range(40):
        rng, space = np.random.default_rng([seed, 100]), random_space(seed)
        legal = legal_rows(space)
        *others, name = space.fields
        weights = {
            each: {v: 10 ** rng.uniform(-100, 100) for v in {r[k] for r in legal}}
            for k, each in enumerate(others)
        }
        if not legal:
            continue
        values = {r[-1] for r in legal}
        rows = space.sample(2000, first=[name], weights=weights, seed=seed)
        p = 1 / len(values)
        for value in values:
            off = abs(rows[name].tolist().count(value) - 2000 * p)
            assert off <= 5.5 * math.sqrt(2000 * p * (1 - p)), (seed, value)


def test_weights_of_rules_that_no_row_or_every_row_obeys():
    space = small()
    never, always = space.rule("x + y > 1000"), space.rule("x + y < 1000")
    assert space.sample(10, seed=1, weights={never: 0.0}).guarantee == "exact"
    assert space.sample(10, seed=1, weights={never: 5.0, always: 3.0}).guarantee == "exact"
    with pytest.raises(nelson.Unsatisfiable):  # twin
        space.sample(10, seed=1, weights={always: 0.0})


def test_weights_of_a_field_that_is_chosen_first_are_refused():
    """They would change nothing. The twin: 0 excludes a value, and other fields have weights."""
    space = small()
    with pytest.raises(nelson.FormulaError, match="weights of mode, which is chosen first"):
        space.sample(10, first=["mode"], weights={"mode": {"a": 3}})
    rows = space.sample(200, seed=1, first=["mode"], weights={"mode": {"a": 0}, "x": {2: 5}})
    assert rows.guarantee == "exact" and "a" not in rows.shares("mode")


def test_distinct_rows_until_exhausted():
    space = small()
    rows = set(legal_rows(space))
    some = space.sample(len(rows) // 2, seed=7, unique=True)
    drawn = list(zip(*(some[name].tolist() for name in space.fields), strict=True))
    assert len(set(drawn)) == len(drawn) == len(rows) // 2 and some.guarantee == "exact"
    every = space.sample(10_000, seed=7, unique=True)
    drawn = list(zip(*(every[name].tolist() for name in space.fields), strict=True))
    assert set(drawn) == rows and len(drawn) == len(rows)
    assert every.status == "budget" and "only" in every.info["reason"]
    firsts = [space.sample(1, seed=s, unique=True)[0]["mode"] for s in range(60)]
    assert len(set(firsts)) == 3  # the order is random


def test_streams_hold_the_rows_of_one_draw():
    space = small()
    whole = space.sample(1000, seed=8)
    blocks = list(space.stream(1000, seed=8, block=256))
    assert [len(b) for b in blocks] == [256, 256, 256, 232]
    assert np.concatenate([b["y"] for b in blocks]).tolist() == whole["y"].tolist()
    distinct = list(space.stream(seed=8, block=64, unique=True))
    rows = [tuple(row.values()) for block in distinct for row in block]
    assert sorted(rows) == sorted(legal_rows(space))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_counts_and_marginals_under_conditions(seed):
    space = random_space(100 + seed)
    rows = legal_rows(space)
    names = list(space.fields)
    if not rows:
        assert space.count() == 0
        with pytest.raises(nelson.Unsatisfiable, match="cannot hold"):
            space.marginals()
        return
    assert space.count() == len(rows)
    marginals = space.marginals()
    for k, name in enumerate(names):
        for value, share in marginals[name].items():
            expected = sum(r[k] == value for r in rows) / len(rows)
            assert share == pytest.approx(expected, abs=1e-9)
    value = rows[len(rows) // 2][0]
    assert space.count(given={names[0]: value}) == sum(r[0] == value for r in rows)
    row = space.mode(given={names[0]: value})
    assert tuple(row.values()) in rows and row[names[0]] == value


@pytest.mark.slow
def test_conditions_may_be_rules():
    space = small()
    rows = legal_rows(space)
    assert space.count(given="x + y > 10 and on") == sum(r[1] + r[2] > 10 and r[3] for r in rows)
    drawn = space.sample(500, seed=9, given=space["x"] * 2 > space["y"])
    assert (2 * drawn["x"] > drawn["y"]).all()
    both = space.sample(500, seed=9, given=["x > 2", count(space["on"]) == 0])
    assert (both["x"] > 2).all() and not both["on"].any()


def test_the_most_likely_row_has_the_greatest_weight():
    space = small()
    weights = {"mode": {"a": 2.0, "c": 3.0}, "x": {4: 5.0, 1: 4.0}, "on": {True: 0.5}}
    row = space.mode(weights=weights)

    def weight(mode, x, y, on):
        w = {"a": 2.0, "c": 3.0}.get(mode, 1.0) * {4: 5.0, 1: 4.0}.get(x, 1.0)
        return w * (0.5 if on else 1.0)

    best = max(weight(*r) for r in legal_rows(space))
    assert weight(**row) == best


def test_wide_marginals_come_as_ranges():
    space = Space()
    x = space.integer("x", 0, 2**40 - 1)
    space.require(x % 3 == 0)
    shares = space.marginals()["x"]
    assert len(shares) == 16 and sum(shares.values()) == pytest.approx(1)
    low = next(iter(shares))
    assert low == range(2**36) and shares[low] == pytest.approx(
        len(range(0, 2**36, 3)) / len(range(0, 2**40, 3))
    )


def test_same_seed_same_rows():
    a, b = small().sample(300, seed=11), small().sample(300, seed=11, threads=1)
    assert a.to_list() == b.to_list()
    assert a.to_list() != small().sample(300, seed=12).to_list()


def test_without_a_solver_a_contradiction_is_still_said(monkeypatch):
    """PySAT names the rules; without it (as on a GPU machine) the error is the plain one."""

    def missing(*_):
        raise ModuleNotFoundError("No module named 'pysat'")

    space = small()
    space.require("x == 0", "mode == 'a'")
    monkeypatch.setattr("nelson.space.answers.conflict", missing)
    with pytest.raises(nelson.Unsatisfiable) as caught:
        space.sample(1)
    assert "these rules" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), [(-700, 901), (5, 1004), (0, 1023), (-1024, -1)])
def test_ranges_of_a_binary_number_have_their_shares(low, high):
    """The 16 ranges of a wide integer are cut into blocks of bits: exact also where they are not
    aligned, and under weights and conditions on the same field."""
    space = Space()
    x = space.integer("x", low, high)
    space.require(x % 5 != 2)
    weights = {"x": {range(low + 100, low + 300): 3.0}}
    found = space.marginals(given=x > low + 40, weights=weights)
    assert found.guarantee == "exact" and len(found["x"]) == 16
    law = {
        v: 3.0 if low + 100 <= v < low + 300 else 1.0
        for v in range(low + 41, high + 1)
        if v % 5 != 2
    }
    total = sum(law.values())
    for values, share in found["x"].items():
        assert share == pytest.approx(sum(law.get(v, 0.0) for v in values) / total, abs=1e-9)
    one = space.marginals(given={"x": low + 44 if (low + 44) % 5 != 2 else low + 45})["x"]
    assert sorted(one.values())[-2:] == [0.0, 1.0]


def test_shares_that_were_not_reached_weaken_the_guarantee(monkeypatch):
    """Rows are exact draws of the law that was found, but not of the law that was asked for."""
    space = small()
    asked = {"mode": {"a": 0.2, "b": 0.3, "c": 0.5}}
    assert space.sample(10, seed=0, shares=asked).guarantee == "exact"
    limits = []

    def stopped(*arguments, **options):
        limits.append(options["budget"].left)
        return replace(match(*arguments, **options), converged=False, why="the time was up")

    monkeypatch.setattr("nelson.space.shares.match", stopped)
    late = space.sample(10, seed=0, shares=asked, seconds=30)
    assert late.guarantee == "heuristic" and late.info["shares_missed"]
    assert late.info["shares_why"] == "the time was up" and 0 < limits[0] <= 15.0
