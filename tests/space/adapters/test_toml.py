"""Spaces in TOML files: what they say, what is refused and on which line, and the way back."""

from __future__ import annotations

import gzip
import math
import os
import tomllib

import pytest

import nelson
from nelson.errors import FormulaError
from nelson.space import Space
from nelson.space.adapters.toml import MAX_CHARACTERS, to_toml, value_of
from nelson.space.adapters.toml_lines import lines_of
from nelson.space.answers import law_of
from nelson.space.declaration import Requirement
from nelson.space.language.fields import Bins
from tests import ROOT
from tests.space.random_spaces import legal_rows, random_space

BUS = (ROOT / "examples" / "bus.toml").read_text()


def texts(space: Space) -> list[str]:
    return [repr(requirement.rule) for requirement in space.rules]


def refused(text: str) -> FormulaError:
    with pytest.raises(FormulaError) as caught:
        Space.from_toml(text, "f.toml")
    assert caught.value.source == "f.toml"
    assert str(caught.value).startswith("f.toml")
    return caught.value


# --- what a file says ----------------------------------------------------------------------------


def test_the_example_is_the_space_of_the_same_calls():
    bus = Space.load(ROOT / "examples" / "bus.toml")
    same = Space("bus")
    addr, length = same.integer("addr", 0, 0xFFFF), same.integer("len", 1, 15)
    burst = same.choice("burst", ["FIXED", "INCR", "WRAP"])
    same.flag("write")
    same.require(addr + length <= 0xFFFF)
    same.require((burst == "WRAP").implies(length.isin([2, 4, 8])))
    same.require(addr % 4 == 0)
    assert bus.name == "bus"
    assert {n: f.domain for n, f in bus.fields.items()} == {
        n: f.domain for n, f in same.fields.items()
    }
    assert texts(bus) == texts(same)
    assert bus.formula == same.formula
    assert [r.line for r in bus.rules] == [4, 5, 6]
    assert all(str(r.source).endswith("bus.toml") for r in bus.rules)


@pytest.mark.parametrize("form", ["list", "table", "tables"])
def test_rules_have_three_forms(form):
    rules = {
        "list": 'rules = ["a < 3", """\n  a >\n  1"""]\n[fields]\na = { integer = [0, 9] }\n',
        "table": '[fields]\na.integer = [0, 9]\n[rules]\nlow = "a < 3"\n"not 1" = "a > 1"\n',
        "tables": '[fields.a]\ninteger = [0, 9]\n[[rules]]\nrule = "a < 3"\nname = "low"\n'
        '[[rules]]\nname = "not 1"\nrule = "a > 1"\n',
    }[form]
    space = Space.from_toml(rules, "f.toml")
    assert texts(space) == ["a < 3", "a > 1"]
    assert [r.name for r in space.rules] == ([None] * 2 if form == "list" else ["low", "not 1"])
    assert [r.line for r in space.rules] == {"list": [1, 1], "table": [4, 5], "tables": [4, 8]}[
        form
    ]
    assert "f.toml:" in str(space.rules[0])


@pytest.mark.slow
def test_fields_of_all_kinds_weights_and_shares():
    space = Space.from_toml(
        """
        rules = ["opts.fast or a > 5", 'field("odd name") != 2.5']
        [fields]
        a = { integer = [-1, 0x1_0000_0000_0000_0000_0000] }
        n = { choice = [3, 7, -2] }
        c = { choice = ["x", true, 2.5, "1"] }
        "odd name" = { choice = ["x", 2.5] }
        opts = { flags = ["fast", "a b"] }
        f = "flag"
        [weights]
        f = 0.5
        "n > 3" = 2
        [weights.c]
        x = 60
        true = 3
        "2.5" = 4
        [weights.a]
        "0..255" = 5
        -1 = 0
        [shares.n]
        3 = 0.5
        0x7 = 0.25
        """
    )
    assert list(space.fields) == ["a", "n", "c", "odd name", "opts.fast", "opts.a b", "f"]
    assert space["a"].high == 2**80
    weights, shares = space.weights, space.shares
    assert weights["f"] == 0.5
    assert weights["c"] == {"x": 60, True: 3, 2.5: 4}
    assert weights["a"] == {range(256): 5, -1: 0}
    assert shares == {"n": {3: 0.5, 7: 0.25}}
    assert [repr(key) for key in weights if not isinstance(key, str)] == ["n > 3"]
    assert space.mode(weights=weights)["c"] == "x"


def test_weights_of_a_file_are_for_the_command_line():
    """`sample` without arguments stays uniform, whatever the file says."""
    space = Space.from_toml('[fields]\na = "flag"\n[shares]\na = 0.9\n')
    assert space.marginals()["a"][True] == 0.5
    assert space.marginals(shares=space.shares)["a"][True] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("field", "shown", "value"),
    [
        ("f", "TRUE", True),
        ("f", "0", False),
        ("i", " 0x10 ", 16),
        ("i", "-3", -3),
        ("i", "1_0", 10),
        ("i", "-3..4", range(-3, 5)),
        ("n", "7", 7),
        ("c", "1", "1"),
        ("c", "true", True),
        ("c", "2.5", 2.5),
    ],
)
def test_values_from_their_texts(field, shown, value):
    space = Space()
    space.flag("f")
    space.integer("i", -3, 20)
    space.choice("n", [3, 7])
    space.choice("c", ["1", "a", True, 2.5])
    found = value_of(space.fields[field], shown)
    assert found == value and type(found) is type(value)
    with pytest.raises(FormulaError, match=rf"{field} .*nonsense"):
        value_of(space.fields[field], "nonsense")


def test_compressed_files_byte_order_marks_and_windows_line_ends(tmp_path):
    path = tmp_path / "bus.toml.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + BUS.replace("\n", "\r\n").encode()))
    bus = Space.load(path)
    assert texts(bus) == texts(Space.from_toml(BUS))
    assert [r.line for r in bus.rules] == [4, 5, 6]


# --- what is refused, and where ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("rules = [", 1, "no TOML"),
        ("a = 1\nb = = 2\n", 2, "no TOML"),
        ('[fields]\na = "flag"\na = "flag"\n', 3, "Cannot overwrite"),
        ("", None, "without fields"),
        ("[fields]\n", 1, "without fields"),
        ("fields = 3\n", 1, "without fields"),
        ('nmae = "x"\n[fields]\na = "flag"\n', 1, "the key 'nmae'; expected 'name'"),
        ('name = 3\n[fields]\na = "flag"\n', 1, "name = 3; expected a string"),
        ('[fields]\na = "flog"\n', 2, "the field 'a' = 'flog'"),
        ("[fields]\na = { intger = [0, 1] }\n", 2, "'intger'; expected 'integer'"),
        ("[fields]\na = { integer = [0, 1], choice = [1] }\n", 2, "the field 'a'"),
        ("[fields]\na = { integer = 5 }\n", 2, "expected a list"),
        ("[fields]\na = { integer = [0] }\n", 2, "[lowest, highest]"),
        ("[fields]\na = { integer = [0, 1.5] }\n", 2, "[lowest, highest]"),
        ("[fields]\na = { integer = [false, true] }\n", 2, "[lowest, highest]"),
        ("[fields]\na = { integer = [5, 4] }\n", 2, "no values"),
        ("[fields]\n\n\na = { choice = [] }\n", 4, "without values"),
        ('[fields]\na = { choice = ["x", "x"] }\n', 2, "twice"),
        ("[fields]\na = { choice = [1, true] }\n", 2, "twice"),
        ("[fields]\na = { choice = [nan] }\n", 2, "finite numbers"),
        ("[fields]\na = { choice = [[1]] }\n", 2, "the value [1] of 'a'"),
        ("[fields]\na = { choice = [1979-05-27] }\n", 2, "finite numbers"),
        ("[fields]\na = { flags = [1] }\n", 2, "the member 1"),
        ("[fields]\na = { bins = [1, 'x'] }\n", 2, "the edge 'x'"),
        ("[fields]\na = { bins = [1, nan] }\n", 2, "rising"),
        ("[fields]\na = { bins = [0, 0x1" + "0" * 300 + "] }\n", 2, "more than 1000 bits"),
        ('[fields]\nb = { flags = ["x"] }\n"b.x" = "flag"\n', 3, "a second field 'b.x'"),
        ('[fields]\n"" = "flag"\n', 2, "the name ''"),
        ('rules = 7\n[fields]\na = "flag"\n', 1, "rules = 7"),
        ('rules = [\n  "a",\n  7,\n]\n[fields]\na = "flag"\n', 3, "the rule 7"),
        ('rules = [\n  "a",\n\n  "a + b",\n]\n[fields]\na = "flag"\n', 4, "no field is called 'b'"),
        ('rules = [\n"""\n\na""", "a <"]\n[fields]\na = "flag"\n', 4, "`a <` cannot be read"),
        ("rules = [\"a == 'x'\"]\n[fields]\na = { integer = [0, 1] }\n", 1, "a number to compare"),
        ('[fields]\na = "flag"\n[rules]\nr = "z"\n', 4, "(rule 'r')"),
        ('[fields]\na = "flag"\n[[rules]]\nrule = "a"\ntext = "a"\n', 5, "the key 'text'"),
        ('[fields]\na = "flag"\n[[rules]]\nname = "a"\n', 3, "a rule without text"),
        ('[fields]\na = "flag"\n[[rules]]\nname = 1\nrule = "a"\n', 4, "the name 1"),
        ('weights = 3\n[fields]\na = "flag"\n', 1, "weights = 3"),
        ('[fields]\na = "flag"\n[weights.b]\nx = 3\n', 3, "no field is called 'b'"),
        ('[fields]\na = "flag"\n[weights.a]\nx = 3\n', 4, "a = 'x'; expected true or false"),
        ('[fields]\na = "flag"\n[weights.a]\ntrue = -1\n', 4, "weights of a = -1"),
        ('[fields]\na = "flag"\n[weights.a]\ntrue = "x"\n', 4, "weights of a = 'x'"),
        ('[fields]\na = "flag"\n[weights.a]\ntrue = 1\n1 = 2\n', 5, "twice"),
        ("[fields]\na = { integer = [0, 3] }\n[shares]\na = 0.5\n", 4, "a number for each value"),
        ("[fields]\na = { integer = [0, 3] }\n[shares.a]\n7 = 0.5\n", 4, "a = 7"),
        ("[fields]\na = { integer = [0, 3] }\n[shares.a]\n'3..0' = 0.5\n", 4, "a range of values"),
    ],
)
def test_errors_name_the_line_and_what_is_wrong(text, line, words):
    error = refused(text)
    assert error.line == line, error
    assert words in str(error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = " + "[" * 100_000, "nested too deeply"),
        ("x = " + "{a=" * 100_000, "nested too deeply"),
        ("a." * 100_000 + "b = 1", "a key of too many parts"),
        ("[" + "'a'." * 100_000 + "b]\n", "a key of too many parts"),
        ("[fields]\nx = { integer = [0, 0x" + "F" * 1_000_000 + "] }", "1,000,002 characters"),
        ("[fields]\nx = { integer = [0, 1" + "0" * 4400 + "] }", "no TOML"),
        ("[fields]\nx = { integer = [0, 0x1" + "0" * 1024 + "] }", "more than 4096 bits"),
        ("[fields]\nx = { choice = [1, 0x1" + "0" * 1024 + "] }", "more than 4096 bits"),
        ("[fields]\nx = { choice = [1, 1e999] }", "finite numbers"),
        ("[fields]\nx = { choice = [" + "1," * 1_000_000 + "] }", "at most 100,000"),
        ("[fields]\n" + "".join(f"f{k}=''\n" for k in range(100_001)), "at most 100,000"),
        ("[[rules]]\n" * 100_001, "at most 100,000"),
        ('rules = ["' + "(" * 5000 + '"]\n[fields]\na = "flag"\n', "cannot be read"),
        ('rules = ["' + "not " * 5000 + 'a"]\n[fields]\na = "flag"\n', "recursion"),
        ('rules = ["' + "a" * 200_000 + '"]\n[fields]\na = "flag"\n', "200000 characters"),
        ('rules = ["x < 9**9**9"]\n[fields]\nx = { integer = [0, 9] }\n', "not supported"),
        ('rules = ["x < 0x' + "F" * 9000 + '"]\n[fields]\nx = "flag"\n', "36,000 bits"),
        ('rules = ["x % 0 == 1"]\n[fields]\nx = { integer = [0, 9] }\n', "positive constant"),
        ('rules = ["__import__(\'os\')"]\n[fields]\nx = "flag"\n', "not supported"),
        ('rules = ["x.__class__"]\n[fields]\nx = "flag"\n', "no field"),
    ],
)
def test_hostile_texts_are_refused_at_once(text, words):
    error = refused(text)
    assert words in str(error)
    assert len(str(error)) < 500


def test_gigantic_ranges_are_no_lists():
    """Wide fields, and weights of wide ranges, cost no more than their bits."""
    space = Space.from_toml(
        'rules = ["x in range(10**30)"]\n[fields]\nx = { integer = [0, 0x' + "F" * 60 + "] }\n"
        "[weights.x]\n'0..0xFFFFFFFFFFFFFFFFFFFFFF' = 5\n"
    )
    law = law_of(space, weights=space.weights)
    assert law.formula.n_vars < 2000


CAR = "features\n    Car\n        optional\n            Radio\n"
PHONE = "c 1 Phone\nc 2 Camera\np cnf 2 1\n-2 1 0\n"
LENGTH = "[fields]\nlen = { integer = [1, 4] }\n"


@pytest.mark.parametrize(
    ("name", "content", "fields"),
    [
        ("car.uvl", CAR, ["Car", "Radio"]),
        ("phone.cnf", PHONE, ["Phone", "Camera"]),
        ("phone.txt", PHONE, ["Phone", "Camera"]),
        ("bus.toml", LENGTH, ["len"]),
        ("bus", LENGTH, ["len"]),
    ],
)
def test_load_opens_what_the_command_line_opens(tmp_path, name, content, fields):
    path = tmp_path / name
    path.write_text(content)
    assert list(Space.load(path).fields) == fields
    if not name.endswith(".uvl"):
        path = tmp_path / f"{name}.gz"
        path.write_bytes(gzip.compress(content.encode()))
        assert list(Space.load(path).fields) == fields


@pytest.mark.parametrize("name", ["bus.toml", "bus"])
def test_a_file_of_no_format_is_told_which_ones_there_are(tmp_path, name):
    path = tmp_path / name
    path.write_text("fields: none\n")
    with pytest.raises(FormulaError, match=r"no TOML.*UVL.*DIMACS"):
        Space.load(path)


def test_none_is_a_value_of_a_choice(tmp_path):
    space = Space.from_toml('[fields]\nc = { choice = ["a", {}, 2] }\n[weights.c]\nNone = 3\n')
    assert space["c"].values == ("a", None, 2) and space.weights == {"c": {None: 3}}
    space.require(space["c"] != "a")
    space.save(tmp_path / "a.toml")
    back = Space.load(tmp_path / "a.toml")
    assert back["c"].values == ("a", None, 2) and back.weights == space.weights
    assert back.count() == 2


def test_huge_files_are_refused_unread(tmp_path):
    path = tmp_path / "huge.toml"
    with open(path, "wb") as file:
        file.truncate(1 << 30)  # a sparse gigabyte
    with pytest.raises(FormulaError, match=f"more than {MAX_CHARACTERS:,} characters"):
        Space.load(path)
    bomb = tmp_path / "bomb.toml.gz"
    bomb.write_bytes(gzip.compress(b"#" * (MAX_CHARACTERS + 1)))
    with pytest.raises(FormulaError, match="more than"):
        Space.load(bomb)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\xff\xfe\x00", "UTF-8"), (b"\x1f\x8bbroken", "compressed"), (None, "No such file")],
)
def test_unreadable_files(tmp_path, content, words):
    path = tmp_path / "f.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FormulaError, match=words) as caught:
        Space.load(path)
    assert caught.value.source == os.fspath(path)


def test_lines_of_keys_with_quotes_and_comments():
    found = lines_of(
        '# [a]\n"x # y" = "]"\n\'b\' = [ # [\n"""\n]""", {c = 1}]\n[d]\ne."f g" = 2\n', None
    )
    assert found == {
        ("x # y",): 2,
        ("b",): 3,
        ("b", 0): 4,
        ("b", 1): 5,
        ("d",): 6,
        ("d", "e", "f g"): 7,
    }


# --- the way back --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [k if k < 10 else pytest.param(k, marks=pytest.mark.slow) for k in range(60)]
)
def test_random_spaces_come_back(tmp_path, seed):
    """Same fields, same number of legal rows (by Python's own evaluation), same texts.

    The parser folds constants, so the texts of the first file may be simpler than those of the
    expressions; from then on they stay.
    """
    space = random_space(seed)
    space.save(tmp_path / "a.toml")
    back = Space.load(tmp_path / "a.toml")
    assert {n: (type(f), f.domain) for n, f in back.fields.items()} == {
        n: (type(f), f.domain) for n, f in space.fields.items()
    }
    assert back.count() == len(legal_rows(space))
    back.save(tmp_path / "b.toml")
    again = Space.load(tmp_path / "b.toml")
    assert texts(again) == texts(back)
    again.save(tmp_path / "c.toml")
    assert (tmp_path / "c.toml").read_bytes() == (tmp_path / "b.toml").read_bytes()


def test_the_round_trip_would_notice_a_lost_rule():
    space = random_space(0)
    text = to_toml(space)
    rules = text.index("rules = [")
    cut = text[:rules] + text[text.index("[fields]") :]
    assert Space.from_toml(cut).count() != len(legal_rows(space))


def test_odd_names_values_sets_names_of_rules_and_weights_come_back(tmp_path):
    space = Space('a "name" \\ with\n\x7f\x01 é')
    space.flag("opts", ["fast", 'a "b"', "dotted.name"])
    space.choice("count", ["x'y", 'x"y', "tab\t", "", "1", 2.5, True, -0.5e-300])
    space.integer("wide", -(2**100), 2**100)
    space.integer("two words", 0, 1)
    space.choice("n", [3, -7])
    space.require("count in ['x\\'y', 'tab\\t', '1']", name='the "first"')
    space.require("opts.fast", "field('two words') == 0 or opts['dotted.name']")
    n_is_3 = space.rule("n == 3")
    space.weights = {"count": {"1": 2.0, True: 3}, "wide": {range(256): 5}, n_is_3: 0.25}
    space.shares = {"opts.fast": 0.5, "n": {-7: 1e-300}}
    space.save(tmp_path / "a.toml")
    tomllib.loads((tmp_path / "a.toml").read_text())
    back = Space.load(tmp_path / "a.toml")
    assert back.name == space.name
    assert list(back.sets["opts"].members) == list(space.sets["opts"].members)
    assert list(back.fields) == list(space.fields)
    assert back.fields["count"].values == space.fields["count"].values
    assert [type(v) for v in back.fields["count"].values] == [
        type(v) for v in space.fields["count"].values
    ]
    assert texts(back) == texts(space)
    assert [r.name for r in back.rules] == ['the "first"', None, None]
    weights = back.weights
    assert repr(next(key for key in weights if not isinstance(key, str))) == "n == 3"
    assert weights["count"] == {"1": 2.0, True: 3}
    assert weights["wide"] == {range(256): 5}
    assert back.shares == space.shares


@pytest.mark.slow
def test_long_sums_come_back():
    """More terms than rules may be nested deep."""
    space = Space()
    flags = [space.flag(f"f{k}") for k in range(500)]
    space.require(sum((k + 1) * f for k, f in enumerate(flags)) <= 3)
    assert Space.from_toml(to_toml(space)).formula == space.formula


@pytest.mark.parametrize(
    ("value", "words"), [((1, 2), r"\(1, 2\)"), (float("nan"), "nan"), (float("inf"), "inf")]
)
def test_values_that_toml_cannot_hold(tmp_path, value, words):
    space = Space()
    space.choice("c", ["a", value])
    with pytest.raises(FormulaError, match=words):
        space.save(tmp_path / "a.toml")
    assert not list(tmp_path.iterdir())


def test_other_things_that_cannot_be_saved(tmp_path):
    with pytest.raises(FormulaError, match="without fields"):
        Space().save(tmp_path / "a.toml")
    space = Space("half \ud800")
    space.flag("a")
    with pytest.raises(FormulaError, match="surrogate"):
        space.save(tmp_path / "a.toml")
    assert nelson.Space is Space


def test_the_text_of_a_sparse_list_takes_no_memory():
    """Its values are far apart: the range between them must not be listed."""
    space = Space.from_toml(
        'rules = ["x in [0, 1, 99999999999999]"]\n[fields]\nx = { integer = [0, 99999999999999] }\n'
    )
    assert texts(space) == ["x in [0, 1, 99999999999999]"]


def test_rules_that_would_need_gigabytes_are_refused(monkeypatch):
    """Literals are counted, not clauses: those of one wide comparison fill a whole page."""
    monkeypatch.setattr("nelson.space.clauses.gates.MAX_LITERALS", 100_000)
    wide = f"{{ integer = [0, 0x{'F' * 100}] }}"
    error = refused(
        f'rules = ["distinct({", ".join(["x", "y"] * 60)})"]\n[fields]\nx = {wide}\ny = {wide}\n'
    )
    assert "more than 100,000 literals" in str(error)
    assert error.line == 1


def test_a_refused_rule_leaves_the_space_as_it_was():
    """Fields that follow keep their clauses: they once went to the rule that was refused."""
    space = Space()
    x = space.integer("x", 0, 2**4000)
    with pytest.raises(FormulaError, match="4096 bits"):
        space.require(x * x == 3)
    space.integer("y", 0, 2)
    space.require(x == 0)
    assert space.count() == 3


def test_rules_that_could_not_be_read_back_are_not_written(tmp_path):
    """A text of 205 differences within each other nests more deeply than a text may."""
    space = Space()
    x = space.integer("x", 0, 1)
    nested = x
    for _ in range(205):
        nested = x - nested
    space.rules.append(Requirement(nested == 0))
    with pytest.raises(FormulaError, match="a file cannot hold"):
        space.save(tmp_path / "a.toml")
    assert not list(tmp_path.iterdir())


def test_dimacs_files_become_toml():
    space = Space.from_dimacs(b"c 1 Car\nc 2 Tow bar\np cnf 4 2\n-2 1 0\nx 1 2 3 4 0\nw 1 0.3\n")
    back = Space.from_toml(to_toml(space))
    assert back.formula == space.formula and back.weights == space.weights != {}


def test_bins_come_back(tmp_path):
    space = Space()
    space.bins("age", [-math.inf, 0, 18.5, 1e300])
    space.save(tmp_path / "a.toml")
    back = Space.load(tmp_path / "a.toml")
    assert isinstance(back.fields["age"], Bins)
    assert back.fields["age"].edges == space.fields["age"].edges
