"""Bit vectors: meaning, clauses, texts, and what other solvers say of the same terms."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.errors import FormulaError
from nelson.space import concat, if_else, popcount, sign_extend, signed, unsigned, zero_extend
from nelson.space.language.evaluate import evaluate
from nelson.space.language.text import text
from tests.space.random_vectors import RandomVectors


def _legal(space: nelson.Space) -> set[tuple[int, ...]]:
    rows = space.sample(4096, seed=0, unique=True)
    return set(zip(*(rows[name].tolist() for name in space.fields), strict=True))


@pytest.mark.parametrize("seed", range(24))
def test_clauses_have_the_rows_that_evaluation_says_are_legal(seed):
    """Each row is exactly one solution: the count and the set of rows are those of all rows."""
    made = RandomVectors(seed)
    rules = [made.rule(3).node for _ in range(2)]
    grid = made.grid()
    holds = np.logical_and.reduce(
        [np.broadcast_to(evaluate(r, grid), len(grid["v0"])) for r in rules]
    )
    for rule in rules:
        made.space.require(rule)
    assert made.space.count() == holds.sum()
    if holds.any():
        expected = set(zip(*(grid[name][holds].tolist() for name in grid), strict=True))
        assert _legal(made.space) == expected


@pytest.mark.parametrize("seed", range(30))
def test_texts_are_read_back(seed):
    made = RandomVectors(seed)
    rule = made.rule(4).node
    again = made.space.rule(text(rule))
    assert text(made.space.rule(text(again))) == text(again)
    grid = made.grid()
    assert np.array_equal(
        np.broadcast_to(evaluate(rule, grid), len(grid["v0"])),
        np.broadcast_to(evaluate(again, grid), len(grid["v0"])),
    )


@pytest.mark.parametrize("seed", range(24))
def test_z3_has_the_same_values(seed):
    z3 = pytest.importorskip("z3", reason="z3-solver is not installed: pip install z3-solver")
    made = RandomVectors(1000 + seed)
    term = made.vector(made.small(1, 8), 4)
    w = term.node.width
    script = f"{made.declarations}(declare-const out (_ BitVec {w}))(assert (= out {term.smt}))"
    (equation,) = z3.parse_smt2_string(script)
    formula = equation.arg(1) if str(equation.arg(0)) == "out" else equation.arg(0)
    grid = made.grid()
    values = np.broadcast_to(evaluate(term.node, grid), len(grid["v0"]))
    for k in made.rng.permutation(len(values))[:16].tolist():
        row = [
            (z3.BitVec(name, width), z3.BitVecVal(int(grid[name][k]), width))
            for name, width in made.widths.items()
        ]
        assert z3.simplify(z3.substitute(formula, *row)).as_long() == values[k], term.smt


def test_division_by_zero_is_that_of_smt_lib():
    space = nelson.Space()
    x, y = space.bits("x", 4), space.bits("y", 4)
    a = space.bits("a", 4, signed=True)
    space.require(y == 0, x // y == 15, x % y == x, a % 0 == a)
    space.require(a // 0 == if_else(a < 0, a - a + 1, -1))
    assert space.count() == 16 * 16


def test_signed_division_rounds_toward_zero():
    space = nelson.Space()
    a, q, r = (space.bits(name, 4, signed=True) for name in "aqr")
    space.require(q == a // 3, r == a % 3)
    for row in space.sample(16, seed=0, unique=True):
        value = row["a"]
        assert (row["q"], row["r"]) == (int(value / 3), value - 3 * int(value / 3))


def test_wide_vectors_wrap():
    space = nelson.Space()
    x = space.bits("x", 80)
    space.require(x + 1 == 0, "x >> 79 == 1", x[79:76] == 15)
    assert space.sample(1, seed=0)[0]["x"] == 2**80 - 1
    assert not space.satisfied({"x": np.array([2**80 - 2], object)})[0]


def test_parts_and_extensions():
    space = nelson.Space()
    x = space.bits("x", 8)
    s = space.bits("s", 4, signed=True)
    space.require(concat(x[3:0], x[7:4]) == 0x1F, sign_extend(s, 8) == unsigned(signed(x)) // 31)
    space.require(zero_extend(x[0], 2) == 1, s.number < 9, popcount(x) == 5)
    assert space.sample(1, seed=0)[0] == {"x": 0xF1, "s": 7}


def test_a_population_count_compiles_and_is_uniform():
    """C(32, 4) rows; each bit is 1 with probability 1/8: 5 sigma, false alarm about 2e-5."""
    space = nelson.Space()
    x = space.bits("x", 32)
    space.require(popcount(x) == 4)
    assert space.count() == 35960
    rows = space.sample(20_000, seed=1)
    assert rows.guarantee == "exact"
    ones = (rows["x"][:, None] >> np.arange(32) & 1).mean(0)
    assert np.abs(ones - 1 / 8).max() < 5 * np.sqrt(1 / 8 * 7 / 8 / 20_000)


def test_vectors_are_fields_like_others(tmp_path):
    space = nelson.Space("device")
    x = space.bits("x", 4)
    y = space.bits("y", 4, signed=True)
    space.require(x + 1 > 3, "y * 2 == -4 or x[1:0] == 3")
    space.save(tmp_path / "device.toml")
    again = nelson.Space.load(tmp_path / "device.toml")
    assert [text(r.rule) for r in again.rules] == [text(r.rule) for r in space.rules]
    assert again.count() == space.count()
    assert space.count(given={"y": -2}) == space.count(given=y == -2)
    assert space.count({x.name: 5}) == space.count("x == 5")
    share = space.marginals(weights={x: {15: 0}})["x"]
    assert share[15] == 0 and abs(sum(share.values()) - 1) < 1e-9
    assert len(space.cover(t=2).to_list()) >= 16


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, y: x + y,
        lambda x, y: x == 16,
        lambda x, y: x[4],
        lambda x, y: x[0:1],
        lambda x, y: x << -1,
        lambda x, y: zero_extend(x, 3),
        lambda x, y: x + 0.5,
        lambda x, y: nelson.Space().bits("z", 0),
        lambda x, y: x + (x == 1),
        lambda x, y: x == nelson.Space().integer("n", 0, 3),
    ],
)
def test_bad_expressions_are_refused(wrong):
    space = nelson.Space()
    x, y = space.bits("x", 4), space.bits("y", 5)
    with pytest.raises((FormulaError, TypeError)):
        wrong(x, y)
