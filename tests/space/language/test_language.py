"""What can be said, and what is refused: every refusal is a sentence with the expression in it."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.space import Space, at_most, count, distinct, element, forbidden, table


@pytest.fixture
def bus() -> Space:
    space = Space()
    space.integer("addr", 0, 0xFFFF)
    space.integer("len", 1, 15)
    space.choice("burst", ["FIXED", "INCR", "WRAP"])
    space.choice("size", [1, 2, 4, 8])
    space.flag("write")
    space.flag("opt", ["lock", "cache"])
    return space


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("addr + len <= 0xFFFF", "addr + len <= 65535"),
        (
            'implies(burst == "WRAP", len in [2, 4, 8])',
            "implies(burst == 'WRAP', len in [2, 4, 8])",
        ),
        ("(burst == 'WRAP').implies(len.isin([2, 4, 8]))", None),
        ("addr % 4 == 0", "addr % 4 == 0"),
        ("0 <= addr < 100", "addr >= 0 and addr < 100"),
        ("not (write or opt.lock)", "not (write or opt.lock)"),
        ("opt['lock'] & ~write", "opt.lock and not write"),
        ("count(write, opt.lock, opt.cache) <= 1", None),
        ("opt.count() >= 1", "count(opt.lock, opt.cache) >= 1"),
        ("at_most(1, write, opt.lock)", "count(write, opt.lock) <= 1"),
        ("distinct(len, size)", "distinct(len, size)"),
        ("(addr if write else len) > 3", "(addr if write else len) > 3"),
        ("table([burst, write], [('WRAP', True), ('INCR', False)])", None),
        ("burst not in ['FIXED', 'WRAP']", "burst not in ['FIXED', 'WRAP']"),
        ("len in range(3, 9)", "len in range(3, 9)"),
        ("write or not (addr in range(500) or addr in range(600, 900))", None),
        ("addr in range(2**30)", "addr in range(0, 1073741824)"),
        ("len in [1, 2, 5, 6, 7, 9]", "len in [1, 2, 5, 6, 7, 9]"),
        ("len not in [1, 5, 6, 7]", "len not in [1, 5, 6, 7]"),
        ("-addr + 2 * len - 3 < size << 2", "-addr + 2 * len - 3 < size << 2"),
        ("(addr & 0xFF) ^ (len | 3) == addr >> 4", None),
        ("field('addr') == 3", "addr == 3"),
        ("min(addr, len, 3) == max(size, 2)", None),
        ("sum([len, size, write]) == 9", None),
        ("abs(len - size) <= 2", None),
        ("write == True", "iff(write, True)"),
        ("(True & False) | write", "True and False or write"),
        ("'WRAP' == burst", "burst == 'WRAP'"),
        ("write if burst == 'WRAP' else len > 3", None),
        ("element([1, 5, len], size % 3) == 5", None),
    ],
)
def test_texts_are_read_and_printed(bus, text, shown):
    rule = bus.rule(text)
    if shown is not None:
        assert repr(rule) == shown
    assert repr(bus.rule(repr(rule))) == repr(rule)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("addr + lenn <= 3", "no field is called 'lenn'; expected 'len'"),
        ("burst == 'WRP'", "burst has no value 'WRP'; expected 'WRAP'"),
        ("burst < 3", "not numbers"),
        ("burst + 1 == 2", "not numbers"),
        ("addr", "something true or false"),
        ("addr / 2 == 1", "is not supported"),
        ("addr % len == 0", "a constant to divide by"),
        ("addr % 0 == 0", "a positive constant"),
        ("addr << len == 0", "a shift by a constant"),
        ("addr ** 2 == 4", "is not supported"),
        ("addr == 1.5", "a whole number"),
        ("addr == 'x'", "a number to compare with"),
        ("write & (addr)", "two rules"),
        ("addr & (len == 3)", "two rules or two numbers"),
        ("__import__('os').system('true')", "is not supported"),
        ("open('x')", "is not supported"),
        ("[x for x in y]", "is not supported"),
        ("(lambda: 1)()", "is not supported"),
        ("addr.real == 1", "no field is called 'addr.real'"),
        ("addr ==", "cannot be read"),
        ("", "cannot be read"),
        ("addr == 1; len == 2", "cannot be read"),
        ("len in 5", "a list of values"),
        ("count() == 0", "one or more"),
        ("element([1, 2], len) == 1", "an index between 0 and 1"),
        ("table([addr, len], [(1,)]) ", "2 values"),
        ("addr in list(range(10**9))", "is not supported"),
        ("addr in range(0, 9, 0)", "is not supported"),
        ("addr in range(0, 10**9, 3)", "at most 1,000,000"),
        # sizes are looked at before anything is expanded
        ("element(range(10**30), len) == 1", "at most 10,000"),
        ("bits(1, 10**12) == 1", "1 to 4,096 bits"),
        ("bits(len, 4) == 1", "a whole number"),
        ("table(range(10**12), [(1,)])", "at most 10,000"),
        ("table([addr, len], range(10**12))", "at most 10,000"),
        ("table([addr, len], [range(10**12)])", r"the row \(0, 1, 2\) of a table"),
        ("count(range(10**12)) == 1", "at most 10,000"),
        ("sum(range(10**9)) == len", "at most 10,000"),
        ("(2**8000) * (2**8000) == addr", "is not supported"),
        ("(addr << 4000) * (addr << 4000) * (addr << 4000) * (addr << 4000) == 1", "16,064 bits"),
        ("max(" * 90 + "addr" + ", len)" * 90 + " > 1", "parts; expected at most 1,000,000"),
        (f"element({[*range(900)]}, addr % 900) == 1", "nested too deeply"),
        # only our own functions and methods, with the arguments that they take
        ("range(10**12).count(1.5) == 1", "a method of range"),
        ("[1, 2].count(1) == 1", r"a method of \[1, 2\]; expected a rule, a number"),
        ("'%1000000000s' % addr == 1", "expected numbers or rules"),
        ("'ab' * 10**9 == burst", "expected numbers or rules"),
        ("[1] * 10**9 == addr", "expected numbers or rules"),
        ("(addr + len).implies(write)", r"a method of addr \+ len; expected .isin"),
        ("[1, 2].isin(addr)", "a method of"),
        ("burst.implies(write)", "a method of burst; expected .isin"),
        ("opt.isin([write])", r"a method of Flags.*expected .count\(\)"),
        ("write.implies()", r"expected .implies\(...\), .iff\(...\), .isin\(...\)"),
        ("(True).implies(addr)", "True implies addr; expected two rules"),
        ("implies(write)", r"with 1 arguments; expected implies\(rule, rule\)"),
        ("-burst == 1", "not numbers"),
        ("opt + 1 == addr", "Flags.* in `opt \\+ 1`"),
        ("opt", "of type Flags; expected something true or false"),
        ("opt[[1]]", "is not supported"),
        ("None == None", "None in `None == None`; expected numbers"),
        ("write.isin(['a'])", "'a' in write.isin.*a whole number"),
        ("count(None) == 1", "the rule None"),
        ("sum('a', 'b') == 1", "'a', of type str"),
        ("element(5, len) == 1", "element of 5; expected a list"),
        ("table([addr], [1])", "the row 1 of a table; expected a list of values"),
        ("table(addr, [(1,)])", "the fields of a table of addr; expected a list"),
        ("addr == '\ud800'", "cannot be read"),
        ("addr < 2 ** 10 ** 9", "is not supported"),
        ("1 << 10**9 == addr", "is not supported"),
        ("(" * 300 + "addr" + ")" * 300 + " == 1", "cannot be read|nested too deeply"),
        ("not " * 300 + "write", "nested too deeply|cannot be read"),
        ("x" * 200_000, "characters"),
    ],
)
def test_bad_texts_are_refused_in_a_sentence(bus, text, message):
    with pytest.raises(nelson.FormulaError, match=message):
        bus.require(text)
    assert not bus.rules and bus.count() > 0  # nothing of it was kept


def test_products_of_wide_constants_are_computed_by_python():
    """NumPy turns an array of objects without an axis into its object."""
    space = Space()
    space.integer("x", 0, 3)
    space.require("element([10**30], 0) * element([10**30], 0) - 10**60 + x > 1")
    assert space.count() == 2
    assert space.satisfied({"x": [0, 1, 2, 3]}).tolist() == [False, False, True, True]


def test_bad_fields_are_refused():
    space = Space()
    space.integer("x", 0, 3)
    for call, message in [
        (lambda: space.integer("x", 0, 3), "a second field 'x'"),
        (lambda: space.flag("x"), "a second field 'x'"),
        (lambda: space.integer("y", 3, 0), "which has no values"),
        (lambda: space.integer("y", 0.5, 3), "a whole number"),
        (lambda: space.integer("y", True, 3), "a whole number"),
        (lambda: space.choice("y", []), "without values"),
        (lambda: space.choice("y", ["a", "a"]), "twice"),
        (lambda: space.choice("y", "abc"), "a list of values"),
        (lambda: space.choice("y", [[1], [2]]), "hashed"),
        (lambda: space.flag("y", []), "without members"),
        (lambda: space.flag("y", ["a", "a"]), "twice"),
        (lambda: space.flag(""), "a string"),
        (lambda: space.flag(3), "a string"),
    ]:
        with pytest.raises(nelson.FormulaError, match=message):
            call()
    with pytest.raises(nelson.FormulaError, match="without fields"):
        Space().sample(3)
    assert list(space.fields) == ["x"]


def test_wrong_expressions_are_refused_with_the_expression(bus):
    addr, burst, write = bus["addr"], bus["burst"], bus["write"]
    other = Space().integer("addr", 0, 5)
    for call, message in [
        (lambda: bus.require(addr), "which is a number"),
        (lambda: bus.require(other == 3), "of another space"),
        (lambda: bus.require(3), "of type int"),
        (lambda: addr / 2, "addr / 2"),
        (lambda: addr**2, r"addr \*\* 2"),
        (lambda: 7 % addr, "7 % addr"),
        (lambda: addr % -3, "addr % -3"),
        (lambda: addr == "x", "addr == 'x'"),
        (lambda: addr + 1.5, "a whole number"),
        (lambda: addr + burst, "choices by =="),
        (lambda: burst.isin("WRAP"), "a list of values"),
        (lambda: write & addr, "write & addr"),
        (lambda: addr & (addr == 3), "binds before"),
        (lambda: bus["opt"]["look"], "no member 'look'"),
    ]:
        with pytest.raises(nelson.FormulaError, match=message):
            call()
    for call in (
        lambda: bool(write),
        lambda: bool(addr),
        lambda: write and write,
        lambda: 1 if burst else 2,
        lambda: 0 <= addr <= 3,
    ):
        with pytest.raises(TypeError, match="no truth value in Python"):
            call()


@pytest.mark.slow
def test_wrong_arguments_of_a_draw_are_refused(bus):
    for options, message in [
        ({"given": {"adr": 3}}, "no field is called 'adr'; expected 'addr'"),
        ({"given": {"addr": -1}}, r"0\.\.65535"),
        ({"given": {"addr": 1.5}}, r"0\.\.65535"),
        ({"given": {"burst": "X"}}, "burst has no value 'X'"),
        ({"given": {"write": 2}}, "True or False"),
        ({"given": "len + 1"}, "something true or false"),
        ({"weights": {"burst": {"X": 3}}}, "burst has no value 'X'"),
        ({"weights": {"burst": {"WRAP": -3}}}, "0 or more"),
        ({"weights": {"burst": {"WRAP": float("nan")}}}, "0 or more"),
        ({"weights": {"burst": 3}}, "a number for each value"),
        ({"weights": [1, 2]}, "{field: {value: number}}"),
        ({"weights": {"nope": {1: 2}}}, "no field is called 'nope'"),
        ({"shares": {"burst": {"WRAP": 1.5}}}, "at most 1"),
        ({"shares": {"burst": {"WRAP": 0.5, "INCR": 0.1, "FIXED": 0.1}}}, "add up to 0.7"),
        ({"first": ["addr"]}, "at most 4096"),
        ({"first": []}, "names of fields"),
        ({"first": ["burst"], "shares": {"write": 0.5}}, "one of them"),
        ({"method": "nope"}, "nope"),
        ({"n": -1}, "n = -1"),
    ]:
        with pytest.raises(nelson.FormulaError, match=message):
            bus.sample(**options)


@pytest.mark.slow
def test_contradictions_name_a_smallest_set_of_rules(bus):
    bus.require("addr % 4 == 0", name="aligned")
    bus.require("addr + len <= 0xFFFF")
    bus.require("addr >= 100", "addr <= 1000")
    bus.require("implies(write, addr == 102)")
    bus.require("len > 3")
    with pytest.raises(nelson.Unsatisfiable) as caught:
        bus.sample(10, given={"write": True, "burst": "WRAP"})
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("no row is legal: these rules cannot hold together")
    assert {line.strip() for line in lines[1:]} == {
        "aligned: addr % 4 == 0",
        "implies(write, addr == 102)",
        "given: write == True",
    }
    assert bus.contradiction() is None
    bus.require("write", source="bus.toml", line=7)
    message = bus.contradiction()
    assert message is not None and "write (bus.toml:7)" in message and bus.count() == 0
    with pytest.raises(nelson.Unsatisfiable, match="aligned"):
        bus.marginals()
    with pytest.raises(nelson.Unsatisfiable, match="aligned"):
        bus.mode()


def test_choices_of_any_values():
    space = Space()
    a = space.choice("a", [None, (1, 2), "x", 3.5])
    b = space.choice("b", ["x", None, "y"])
    space.require(a != b)
    space.require(table([a, b], [(None, "x"), ((1, 2), None), ("x", "x"), (3.5, "y")]))
    assert sorted(
        map(repr, (tuple(r.values()) for r in space.sample(50, seed=0, unique=True)))
    ) == [
        "((1, 2), None)",
        "(3.5, 'y')",
        "(None, 'x')",
    ]


@pytest.mark.slow
def test_large_choices_and_numeric_choices():
    space = Space()
    big = space.choice("big", [f"v{k}" for k in range(1000)])
    square = space.choice("square", [k * k for k in range(300)])
    space.require(big.isin(["v3", "v999", "v500"]), square + 1 > 80_000, square % 2 == 0)
    legal = [k * k for k in range(300) if k * k + 1 > 80_000 and k % 2 == 0]
    assert space.count() == 3 * len(legal)
    rows = space.sample(200, seed=0)
    assert set(rows["big"]) == {"v3", "v500", "v999"} and set(rows["square"]) <= set(legal)
    assert space.marginals()["big"]["v999"] == pytest.approx(1 / 3)


def test_the_readme_of_operators():
    """Sets of flags, forbidden tuples, distinct, at_most, element: counted by hand."""
    space = Space()
    tools = space.flag("tool", ["saw", "drill", "file"])
    a, b, c = (space.integer(n, 0, 3) for n in "abc")
    space.require(distinct(a, b, c), at_most(2, *tools), forbidden([a, b], [(0, 1), (2, 3)]))
    space.require(element([3, 2, 1, 0], a) >= 1)
    rows = [
        (x, y, z)
        for x in range(3)
        for y in range(4)
        for z in range(4)
        if len({x, y, z}) == 3 and (x, y) not in {(0, 1), (2, 3)}
    ]
    assert space.count() == 7 * len(rows)
    assert space.count(given={"tool.saw": True}) == 3 * len(rows)
    assert space.count(given=count(tools) == 2) == 3 * len(rows)


def test_numpy_values_are_values():
    space = Space()
    x = space.integer("x", np.int64(0), np.int32(9))
    c = space.choice("c", np.array(["a", "b"]))
    space.require(x >= np.int64(3), x.isin(np.array([1, 4, 5])), c == np.str_("a"))
    assert space.count() == 2 and space.count(given={"x": np.int64(4)}) == 1
