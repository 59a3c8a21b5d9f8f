"""Hypothesis draws, shrinks and replays legal rows only. Seeds are fixed.

Chi-square tests reject a right law with probability 1e-6.
"""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.internal.conjecture.providers import HypothesisProvider
from scipy.stats import chisquare

import nelson
from nelson.space import count
from nelson.space.walk import Walk
from nelson.strategies import bind, cover, legal, minimal, rows
from tests.space.random_spaces import legal_rows, random_space


def bus() -> nelson.Space:
    space = nelson.Space()
    burst = space.choice("burst", ["FIXED", "INCR", "WRAP"])
    length = space.integer("len", 1, 15)
    addr = space.integer("addr", 0, 0xFFFF)
    space.require((burst == "WRAP").implies(length.isin([2, 4, 8])))
    space.require(addr % 4 == 0)
    space.require((burst == "INCR").implies(addr + 4 * length <= 0xFFFF))
    return space


def wide() -> nelson.Space:
    """Fields that are steered: 2^33 values, and sums of them."""
    space = nelson.Space()
    a, b = space.integer("a", -5, 2**33), space.bits("b", 40)
    space.require(b >= 100)
    space.require((a % 8 == 3) & (a >= 1000))
    space.require(b < 2**39)
    return space


SMALL = nelson.Space()
SMALL.choice("burst", ["FIXED", "INCR", "WRAP"])
SMALL.integer("len", 1, 15)
SMALL.require("(burst == 'WRAP').implies(len.isin([2, 4, 8]))")


# --- what a test sees -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_thousand_examples_without_filter_or_health_check():
    """With Hypothesis' own settings, in which every health check is on."""
    space, seen = bus(), []

    @settings(max_examples=1000, database=None, suppress_health_check=[])
    @given(rows(space))
    def collected(row):
        seen.append(row)

    collected()
    assert len(seen) >= 1000
    assert not space.violations(table(seen))
    assert {row["burst"] for row in seen} == {"FIXED", "INCR", "WRAP"}


def table(seen: list[dict]) -> dict:
    return {name: [row[name] for row in seen] for name in seen[0]}


@pytest.mark.slow
def test_shrinking_sees_legal_rows_only_and_ends_at_the_least_one():
    """A bound on one field of 20 random spaces; `legal_rows` is in lexicographic order."""
    ends = []
    for seed in range(34):
        space = random_space(seed)
        all_rows = legal_rows(space)
        if len(all_rows) < 2:
            continue
        chosen = random.Random(seed)
        k, row = chosen.randrange(len(space.fields)), chosen.choice(all_rows)
        field = list(space.fields.values())[k]
        bound, seen = field.code(row[k]), set()

        def fails(row, field=field, bound=bound, seen=seen):
            seen.add(tuple(row.values()))
            return field.code(row[field.name]) >= bound

        found = minimal(space, fails)
        assert seen <= set(all_rows), seed
        assert tuple(minimal(space).values()) == all_rows[0], seed
        least = next(r for r in all_rows if field.code(r[k]) >= bound)
        ends.append(tuple(found.values()) == least)
    assert len(ends) > 15
    assert all(ends)


def test_an_implication_shrinks_to_the_least_row():
    space = bus()
    assert minimal(space) == {"burst": "FIXED", "len": 1, "addr": 0}
    assert minimal(space, given={"burst": "WRAP"}) == {"burst": "WRAP", "len": 2, "addr": 0}
    found = minimal(space, lambda row: row["burst"] == "INCR" and row["addr"] + row["len"] > 5000)
    assert found == {"burst": "INCR", "len": 1, "addr": 5000}
    with pytest.raises(NoSuchExample):
        minimal(SMALL, lambda row: row["len"] > 15)


@pytest.mark.slow
def test_wide_fields_are_legal_and_shrink_to_the_least_row():
    space, seen = wide(), []
    assert minimal(space) == {"a": 1003, "b": 100}

    def fails(row):
        seen.append(row)
        return row["a"] > 10**9 and row["b"] > 12345

    assert minimal(space, fails) == {"a": 10**9 + 3, "b": 12346}
    assert not space.violations(table(seen))


@pytest.mark.slow
@pytest.mark.parametrize("visits", [1, 200_000])
def test_choices_of_many_values(visits, monkeypatch):
    """Their values are in no order; in large circuits more than 16 values are steered."""
    monkeypatch.setattr("nelson.space.walk.MOST_VISITS", visits)
    space, seen = nelson.Space(), []
    word = space.choice("word", [f"w{k}" for k in range(300)])
    number = space.choice("number", [(7 * k) % 293 - 100 for k in range(293)])
    space.require((word == "w17").implies(number > 150))
    space.require((number % 2 == 0) | (word != "w299"))
    space.require(number != -100)

    def fails(row):
        seen.append(row)
        return int(row["word"][1:]) >= 17

    assert minimal(space) == {"word": "w0", "number": -93}
    assert minimal(space, fails) == {"word": "w17", "number": 152}
    assert not space.violations(table(seen))


def test_a_small_space_is_tried_whole():
    """Each row is one sequence of choices, so that Hypothesis knows when it has seen them all."""
    seen = []

    @settings(max_examples=1000, database=None)
    @given(rows(SMALL))
    def collected(row):
        seen.append(tuple(row.values()))

    collected()
    assert set(seen) == set(legal_rows(SMALL))
    assert len(seen) < 2 * SMALL.count()


def test_a_list_of_rows():
    @settings(max_examples=50, database=None)
    @given(st.lists(rows(SMALL, given="len > 3"), max_size=4), st.data())
    def collected(found, data):
        found.append(data.draw(rows(SMALL, given={"len": 4})))
        assert not found or SMALL.satisfied(table(found)).all()
        assert all(row["len"] > 3 for row in found)

    collected()


# --- the law --------------------------------------------------------------------------------------


class Even(HypothesisProvider):
    """Hypothesis' own generator without its list of special integers."""

    def _maybe_draw_constant(self, *_, **__):
        return None


def drawn(strategy, n, provider=Even):
    generator = random.Random(20)
    for _ in range(n):
        yield ConjectureData(random=generator, prefix=(), provider=provider).draw(strategy)


def p_value(strategy, law: dict[tuple, float], n: int = 6000) -> float:
    found = dict.fromkeys(law, 0)
    for row in drawn(strategy, n):
        found[tuple(row.values())] += 1
    return chisquare(list(found.values()), [n * p for p in law.values()]).pvalue


@pytest.mark.slow
def test_draws_follow_the_law(monkeypatch):
    uniform = dict.fromkeys(legal_rows(SMALL), 1 / SMALL.count())
    weights = {"burst": {"WRAP": 5.0}, "len": {4: 3.0}}
    factor = {row: (5 if row[0] == "WRAP" else 1) * (3 if row[1] == 4 else 1) for row in uniform}
    weighted = {row: x / sum(factor.values()) for row, x in factor.items()}
    assert p_value(rows(SMALL), uniform) > 1e-6
    assert p_value(rows(SMALL, weights=weights), weighted) > 1e-6
    assert p_value(rows(SMALL, weights=weights), uniform) < 1e-6  # the twins
    monkeypatch.setattr(legal, "_integer", lambda data, a, b, _: data.draw_integer(a, b))
    assert p_value(rows(SMALL), uniform) < 1e-6


@pytest.mark.slow
def test_steered_fields_follow_the_law():
    """x + y <= 4095: the share of x is 4096 - x of 4096 * 4097 / 2."""
    space = nelson.Space()
    x, y = space.integer("x", 0, 4095), space.integer("y", 0, 4095)
    space.require(x + y <= 4095)
    n, width = 1500, 512
    law = [
        sum(4096 - v for v in range(k, k + width)) / (4096 * 4097 / 2) for k in range(0, 4096, 512)
    ]
    found = [0] * len(law)
    for row in drawn(rows(space), n):
        found[row["x"] // width] += 1
        assert row["x"] + row["y"] <= 4095
    assert chisquare(found, [n * p for p in law]).pvalue > 1e-6
    assert chisquare(found, [n / len(law)] * len(law)).pvalue < 1e-6


# --- dataclasses, examples, errors ----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Burst:
    burst: str
    len: int
    note: str = ""


def test_rows_as_a_dataclass():
    found = find(rows(SMALL, into=Burst), lambda b: b.len > 3, settings=settings(database=None))
    assert found == Burst("FIXED", 4)
    assert repr(rows(SMALL, given="len > 3", into=Burst)) == (
        "rows('space', given='len > 3', into=Burst)"
    )


def test_a_bound_dataclass_is_drawn_by_its_type():
    cls = bind(SMALL, weights={"burst": {"FIXED": 0}})(
        dataclasses.make_dataclass("Other", ["burst", "len"])
    )

    @settings(max_examples=50, database=None)
    @given(st.lists(st.from_type(cls), max_size=3))
    def collected(found):
        assert all(isinstance(each, cls) and each.burst != "FIXED" for each in found)

    collected()


def test_rows_of_a_covering_table_are_explicit_examples():
    seen = []

    @settings(phases=[Phase.explicit], database=None)
    @given(row=rows(SMALL))
    @cover(SMALL, t=2, name="row")
    def collected(row):
        seen.append(row)

    collected()
    assert seen == list(SMALL.cover(2, seed=0))
    assert len({tuple(row.values()) for row in seen}) == SMALL.count()  # of two fields: all pairs


def test_wrong_arguments_are_told_at_once():
    with pytest.raises(nelson.FormulaError, match="has no len"):
        rows(SMALL, into=dataclasses.make_dataclass("Half", ["burst"]))
    with pytest.raises(nelson.FormulaError, match="asks for more, no field of the space"):
        bind(SMALL)(dataclasses.make_dataclass("More", ["burst", "len", "more"]))
    with pytest.raises(nelson.Unsatisfiable, match="cannot hold"):
        rows(SMALL, given="(burst == 'WRAP') & (len == 3)").validate()


def test_a_space_that_does_not_compile_is_named(monkeypatch):
    monkeypatch.setattr("nelson.space.walk.circuit_of", lambda *_: None)
    with pytest.raises(nelson.BudgetExceeded, match=r"no circuit of .*given=") as caught:
        rows(SMALL).validate()
    assert "\n" not in str(caught.value)


def test_shares_are_zero_exactly_where_no_row_is():
    """Weights of e^-600 do not lose a value, and no illegal one is found."""
    space = nelson.Space()
    flags = [space.flag(f"f{k}") for k in range(40)]
    space.require(count(flags) == 3)
    walk = Walk(space, None, {flag: math.exp(-30) for flag in flags[:20]})
    prefix = ()
    for k in range(40):
        left = 3 - sum(prefix)
        wanted = [c for c in (0, 1) if 0 <= left - c <= 39 - k]
        assert [part[0] for part in walk.shares(prefix, range(2))] == wanted
        prefix += (wanted[-1],)


def test_health_checks_would_be_seen():
    """The twin of the first test: rejecting illegal rows fails it."""
    space = bus()

    @settings(max_examples=100, database=None)
    @given(st.integers(0, 0xFFFF), st.integers(1, 15))
    def filtered(addr, length):
        from hypothesis import assume

        assume(addr % 4 == 0 and addr % 64 == 60 and space.fields and length > 14)

    with pytest.raises(Exception, match="filter"):
        filtered()
    assert HealthCheck.filter_too_much in HealthCheck
