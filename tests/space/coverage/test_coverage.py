"""Coverage and covering tables, against all legal rows by brute force."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import nelson
from nelson.errors import BudgetExceeded, FormulaError, Unsatisfiable
from nelson.policy import CoverPolicy, Policy
from nelson.space import Space
from nelson.space.coverage.legal_tuples import LegalTuples
from nelson.space.coverage.tuples import Tuples
from tests.space.random_spaces import legal_rows, random_space

SEEDS = [*range(8), *(pytest.param(k, marks=pytest.mark.slow) for k in range(8, 40))]


def tuples_of(space: Space, rows: list[tuple], t: int) -> set[frozenset]:
    """All t-tuples of rows, each a set of (field, value)."""
    names = list(space.fields)
    return {
        frozenset(chosen)
        for row in rows
        for chosen in itertools.combinations(zip(names, row, strict=True), t)
    }


def as_rows(space: Space, rows: nelson.space.Rows) -> list[tuple]:
    return [tuple(row[name] for name in space.fields) for row in rows]


def as_sets(tuples) -> set[frozenset]:
    return {frozenset(found.items()) for found in tuples}


def all_tuples(space: Space, t: int) -> int:
    sizes = [field.size for field in space.fields.values()]
    return sum(math.prod(chosen) for chosen in itertools.combinations(sizes, t))


def bus() -> Space:
    space = Space()
    addr = space.integer("addr", 0, 0xFFFF)
    length = space.integer("len", 1, 15)
    burst = space.choice("burst", ["FIXED", "INCR", "WRAP"])
    space.flag("write")
    space.require(addr + length <= 0xFFFF)
    space.require((burst == "WRAP").implies(length.isin([2, 4, 8])))
    space.require(addr % 4 == 0)
    return space


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("t", [1, 2, 3])
def test_legal_tuples_are_those_of_all_legal_rows(seed, t):
    """Coverage of nothing: what is missing is all that is legal. And of half of the legal rows."""
    space = random_space(seed)
    if len(space.fields) < t:
        with pytest.raises(FormulaError, match=f"t = {t} with 2 fields"):
            space.coverage({name: [] for name in space.fields}, t)
        return
    rows = legal_rows(space)
    table = dict(zip(space.fields, zip(*rows[::2], strict=True), strict=True)) if rows else {}
    if not rows:
        with pytest.raises(Unsatisfiable):
            space.coverage({name: [] for name in space.fields}, t)
        return
    legal = tuples_of(space, rows, t)
    for given, done in (
        ({name: [] for name in space.fields}, set()),
        (
            table,
            tuples_of(space, rows[::2], t),
        ),
    ):
        found = space.coverage(given, t)
        assert as_sets(found.missing) == legal - done
        assert (found.legal, found.covered) == (len(legal), len(done))
        assert found.illegal == all_tuples(space, t) - len(legal)
        assert len(found.missing) == len(legal) - len(done)
        assert found.share == len(done) / len(legal)
        assert sum(a for a, _ in found.crosses.values()) == found.covered
        assert sum(b for _, b in found.crosses.values()) == found.legal


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("t", [1, 2])
def test_cover_has_every_legal_tuple_only_legal_rows_and_none_to_spare(seed, t):
    space = random_space(seed)
    rows = legal_rows(space)
    if not rows:
        with pytest.raises(Unsatisfiable, match="cannot hold"):
            space.cover(t)
        return
    made = as_rows(space, space.cover(t, seed=seed))
    assert set(made) <= set(rows)
    legal = tuples_of(space, rows, t)
    assert tuples_of(space, made, t) == legal
    times = Counter(found for row in made for found in tuples_of(space, [row], t))
    for row in made:  # each row has a tuple that no other row has
        assert any(times[found] == 1 for found in tuples_of(space, [row], t))
    assert as_rows(space, space.cover(t, seed=seed)) == made


@pytest.mark.parametrize("seed", range(12))
def test_triples_under_a_condition(seed):
    space = random_space(100 + seed)
    rows = legal_rows(space)
    if len(space.fields) < 3 or not rows:
        return
    name = next(iter(space.fields))
    value = rows[len(rows) // 2][0]
    kept = [row for row in rows if row[0] == value]
    made = as_rows(space, space.cover(3, given={name: value}, seed=0))
    assert set(made) <= set(kept)
    assert tuples_of(space, made, 3) == tuples_of(space, kept, 3)


def test_the_same_table_from_spaces_made_twice():
    first, second = bus().cover(seed=5), bus().cover(seed=5)
    assert first.to_list() == second.to_list()
    assert first.to_list() != bus().cover(seed=6).to_list()


@pytest.mark.slow
def test_without_rows_drawn_at_random_the_answer_is_the_same(monkeypatch):
    """Drawn rows only save calls of the solver."""
    space = Space()
    columns = [space.choice(f"f{k}", [f"v{j}" for j in range(20)]) for k in range(4)]
    space.require(~((columns[0] == "v3") & (columns[1] == "v4")))
    nothing = {name: [] for name in space.fields}
    asked = {0: 0, 1: 0}
    answers = []
    for drawn in (0, 1):

        class Counted(LegalTuples):
            def _drawn(self, tuples, legal, undecided, draw, drawn=drawn):
                left = super()._drawn(tuples, legal, undecided, draw)
                asked[drawn] = len(left)
                return left

        monkeypatch.setattr("nelson.space.coverage.coverage.LegalTuples", Counted)
        policy = Policy(cover=CoverPolicy(undecided=10 if drawn else 10**9))
        answers.append(space.coverage(nothing, policy=policy))
    assert asked[1] < 100 < asked[0]
    assert as_sets(answers[0].missing) == as_sets(answers[1].missing)
    assert answers[0].legal == 6 * 400 - 1


@pytest.mark.parametrize("t", [1, 2, 3])
def test_places_of_tuples_there_and_back(t):
    tuples = Tuples([3, 2, 4, 1, 5], t)
    every = np.arange(1, tuples.total)
    assert (tuples.encode(*tuples.decode(every)) == every).all()
    rows = np.array(list(itertools.product(range(3), range(2), range(4), range(1), range(5))))
    assert set(tuples.places(rows).ravel().tolist()) == set(every.tolist())


@pytest.mark.parametrize("t", [1, 2, 3])
def test_many_rows_are_marked_as_one_by_one(t, monkeypatch):
    """The bit sets of `mark` against plain marking; rows whose number is no multiple of 64."""
    from nelson.space.coverage import tuples as module
    from nelson.space.coverage.bins import OUTSIDE

    rng = np.random.default_rng(3)
    sizes = [7, 2, 9, 3]
    rows = np.stack([rng.integers(0, s, 333) for s in sizes], axis=1)
    rows[rng.random(rows.shape) < 0.1] = OUTSIDE
    tuples = Tuples(sizes, t)
    plain = np.zeros(tuples.total, bool)
    plain[tuples.places(rows).ravel()] = True
    plain[0] = False
    monkeypatch.setattr(module, "BLOCK", 40)
    seen = np.zeros(tuples.total, bool)
    tuples.mark(seen, list(rows.T))
    assert (seen == plain).all()
    assert not plain[1:].all() or t == 1


# --- wide fields ----------------------------------------------------------------------------------


def test_wide_fields_are_left_out_and_named():
    space = bus()
    found = space.coverage(space.sample(200, seed=0))
    assert found.left_out == ["addr"]
    assert "left out: addr" in repr(found)
    assert space.cover(seed=0).info["left_out"] == ["addr"]


@pytest.mark.slow
def test_ranges_of_a_wide_integer():
    space = bus()
    rows = space.cover(fields={"addr": 16}, seed=0)
    found = space.coverage(rows, fields={"addr": 16})
    assert found.left_out == []
    assert found.share == 1.0
    assert space.satisfied(rows).all()
    assert set(zip((rows["addr"] // 4096).tolist(), rows["burst"].tolist(), strict=True)) == set(
        itertools.product(range(16), ["FIXED", "INCR", "WRAP"])
    )
    assert found.crosses["addr", "len"] == (16 * 15, 16 * 15)


def test_a_wide_integer_that_is_named_gets_its_legal_ends():
    """addr % 4 == 0 and addr + len <= 0xFFFF: from 0 to 0xFFFC."""
    space = bus()
    rows = space.cover(fields=["addr", "burst"], seed=0)
    ends = {(int(a), b) for a, b in zip(rows["addr"], rows["burst"], strict=True)}
    assert {(a, b) for a in (0, 0xFFFC) for b in ("FIXED", "INCR", "WRAP")} <= ends
    assert len(rows) == 10 * 3
    found = space.coverage({k: v[:0] for k, v in rows.codes.items()}, fields=["addr", "burst"])
    labels = {found["addr"] for found in found.missing}
    assert len(labels) == 10
    assert {0, 0xFFFC} <= labels


@pytest.mark.parametrize("low", [-1000, 0, 5, -70, 2**70, -(2**66)])
def test_legal_ends_of_integers_of_all_signs_and_widths(low):
    space = Space()
    x = space.integer("x", low, low + 999)
    space.flag("b")
    space.require(x % 7 == 3)
    legal = [v for v in range(low, low + 1000) if v % 7 == 3]
    labels = {m["x"] for m in space.coverage({"x": [], "b": []}, 1, fields=["x"]).missing}
    assert {v for v in labels if not isinstance(v, range)} == {legal[0], legal[-1]}
    inner = sorted((v for v in labels if isinstance(v, range)), key=lambda r: r.start)
    assert inner[0].start == legal[0] + 1
    assert inner[-1].stop == legal[-1]
    assert all(a.stop == b.start for a, b in itertools.pairwise(inner))
    assert space.coverage(space.cover(2, ["x", "b"], seed=0), 2, ["x", "b"]).share == 1.0


def test_bins_of_ones_own():
    space = bus()
    bins = {"addr": [0, range(4, 256), range(0x8000, 0x10000)], "len": [[1, 2], [3, 5, 9]]}
    rows = space.cover(fields=bins, seed=0)
    found = space.coverage(rows, fields=bins)
    assert found.share == 1.0
    assert found.crosses["addr", "len"] == (6, 6)
    assert found.crosses["len", "burst"] == (5, 5)  # no WRAP with 3, 5, 9
    assert found.illegal == 1


def test_values_in_no_bin_are_in_no_tuple():
    space = bus()
    rows = {"addr": [8, 0], "len": [1, 1], "burst": ["INCR", "INCR"], "write": [True, False]}
    found = space.coverage(rows, 1, fields=[("addr", [0, 4])])
    assert (found.covered, found.legal) == (1, 2)
    assert list(found.missing) == [{"addr": 4}]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_random_bins_with_gaps(seed):
    """Bins of one or several values; about a third of all values are in none."""
    space = random_space(seed)
    rows = legal_rows(space)
    if not rows:
        return
    rng = np.random.default_rng(seed)
    bins, bin_of = {}, []
    for name, field in space.fields.items():
        codes = rng.permutation(field.size)[: max(1, 2 * field.size // 3)].tolist()
        cut = int(rng.integers(len(codes)))
        groups = [codes[cut:], *([code] for code in codes[:cut])]
        values = [tuple(field.value(code) for code in group) for group in groups]
        bins[name] = [list(group) for group in values]
        bin_of.append({value: group for group in values for value in group})

    def binned(table: list[tuple]) -> set[frozenset]:
        kept = [[of.get(v) for of, v in zip(bin_of, row, strict=True)] for row in table]
        return {found for found in tuples_of(space, kept, 2) if None not in dict(found).values()}

    made = as_rows(space, space.cover(2, bins, seed=seed))
    assert set(made) <= set(rows)
    assert binned(made) == binned(rows)
    nothing = {name: [] for name in space.fields}
    assert as_sets(space.coverage(nothing, 2, bins).missing) == binned(rows)
    table = dict(zip(space.fields, zip(*made, strict=True), strict=True))
    if made:
        assert space.coverage(table, 2, bins).share == 1.0


def test_a_set_of_flags_is_its_members():
    space = Space()
    space.flag("brakes", ["abs", "esp"])
    space.integer("x", 0, 10**6)
    assert space.coverage({"brakes.abs": [], "brakes.esp": [], "x": []}, 2, ["brakes"]).legal == 4


# --- words ----------------------------------------------------------------------------------------


def test_illegal_rows_are_ignored_and_said():
    space = bus()
    rows = {
        "addr": [8, 9, 8, 8],
        "len": [1, 1, 99, 1],
        "burst": ["INCR", "INCR", "INCR", "WRAP"],
        "write": [True, True, True, True],
    }
    found = space.coverage(rows)
    assert (found.ignored, found.covered) == (3, 3)
    assert "ignored: 3 rows that are not legal" in repr(found)


def test_what_is_printed():
    space = Space()
    a, b = space.choice("a", ["x", "y"]), space.flag("b")
    space.require((a == "x").implies(b))
    found = space.coverage({"a": ["x"], "b": [True]})
    assert repr(found) == (
        "1 of 3 legal pairs covered: 33.3% (1 are illegal)\n"
        "missing:\n  a = 'y', b = False\n  a = 'y', b = True"
    )
    assert found.missing[-1] == {"a": "y", "b": True}
    assert repr(found.missing[:1]) == "a = 'y', b = False"


def test_a_share_just_below_one_is_not_called_100_percent():
    space = Space()
    space.flag("a")
    found = space.coverage({"a": [True, False]}, 1)
    assert ": 100% (" in repr(found)
    assert ": 99.9% (" in repr(replace(found, covered=99_999, legal=100_000))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"t": 0}, "t = 0"),
        ({"t": 1.5}, "t = 1.5"),
        ({"t": 4}, "t = 4 with 3 fields; left out: addr"),
        ({"fields": ["adr"]}, "no field is called 'adr'"),
        ({"fields": "addr"}, "fields = 'addr'"),
        ({"fields": {"addr": 0}}, "0 ranges of addr"),
        ({"fields": {"burst": 2}}, "burst, which is no integer"),
        ({"fields": {"addr": [0, range(9)]}}, "share a value"),
        ({"fields": {"addr": [70_000]}}, "addr = 70000"),
        ({"fields": {"addr": []}}, "0 bins of addr"),
        ({"fields": {"burst": ["WARP"]}}, "burst has no value 'WARP'"),
        ({"fields": {"burst": [range(3)]}}, "of burst"),
        ({"fields": {"addr": 5000, "len": None}, "t": 3, "seconds": -1}, "seconds"),
    ],
)
def test_bad_questions(arguments, message):
    with pytest.raises(FormulaError, match=message):
        bus().cover(**arguments)


def test_too_many_tuples():
    space = Space()
    for k in range(200):
        space.choice(f"f{k}", list("abcdefgh"))
    with pytest.raises(FormulaError, match="672,460,800 combinations of 3 values in 200 fields"):
        space.cover(3)


def test_a_contradiction_names_its_rules():
    space = bus()
    space.require(space["len"] > 8, name="long")
    with pytest.raises(Unsatisfiable, match=r"(?s)cannot hold together.*long: len > 8.*WRAP"):
        space.cover(given={"burst": "WRAP"})


def test_no_time_left():
    with pytest.raises(BudgetExceeded):
        bus().cover(seconds=0)


# --- how small ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(
    ("t", "sizes", "known"),
    [
        (2, [3] * 4, 9),  # an orthogonal array
        (2, [3] * 13, 15),
        (2, [2] * 20, 8),
        (2, [5, *[3] * 8, 2, 2], 15),
        (2, [*[4] * 15, *[3] * 17, *[2] * 29], 29),  # PICT: 37
        (2, [4, *[3] * 39, *[2] * 35], 21),  # PICT: 27
        (3, [3] * 6, 33),
    ],
)
def test_tables_are_about_as_small_as_the_best_known(t, sizes, known):
    """Within a tenth of the smallest known tables without rules."""
    space = Space()
    for k, size in enumerate(sizes):
        space.choice(f"f{k}", [f"v{j}" for j in range(size)])
    rows = space.cover(t, seed=0)
    assert space.coverage(rows, t).share == 1.0
    assert known <= len(rows) <= known * 1.1


def test_without_time_the_rows_so_far_come_and_say_what_is_missing(monkeypatch):
    usual = nelson.space.coverage.cover._RowSearch._next

    def late(search, uncovered):
        if len(search.rows) == 3:
            raise BudgetExceeded("the time ran out")
        return usual(search, uncovered)

    monkeypatch.setattr("nelson.space.coverage.cover._RowSearch._next", late)
    space = bus()
    rows = space.cover(seed=0)
    assert (len(rows), rows.status) == (3, "budget")
    assert as_sets(rows.info["missing"]) == as_sets(space.coverage(rows).missing)
    assert "are not covered: the time ran out" in rows.info["reason"]
