"""CPMpy models as spaces: every operator and global constraint against CPMpy's own evaluation.

The truth is CPMpy's `argval` of each constraint under all assignments of its variables. The puzzles
are those of CPMpy's folder of examples, written anew, with their known numbers of solutions.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import nelson
from nelson.errors import FormulaError, Unsatisfiable
from tests.space.adapters.every_row import distinct_rows

cp = pytest.importorskip("cpmpy", reason="NO CPMPY: Space.from_cpmpy is not tested")
from cpmpy.expressions.utils import argval  # noqa: E402
from cpmpy.transformations.get_variables import get_variables_model  # noqa: E402

X, Y, Z = (cp.intvar(-2, 3, name=n) for n in "xyz")
A, B, C = (cp.boolvar(name=n) for n in "abc")
W, V = (cp.intvar(0, 3, shape=3, name=n) for n in "wv")

#: Every operator, as CPMpy's own test_constraints.py generates them.
OPERATORS = [
    X + 2 * Y - Z <= 1,
    X - Y == Z,
    -X < Y,
    X * Y == Z,
    X**2 >= Z,
    X**0 == Y,
    abs(X) == Y,
    A & ~B | C,
    A.implies(X > Y),
    cp.any([A, B]),
    cp.all([A, X > Y]),
    ~(X > Y),
    (X > 1) == A,
    (A == B) != C,
    A < B,
    A + B == X,
    A == 1,
    A != X,
    cp.sum([A, B, X > 1, 4]) >= 6,
    cp.max([X, Y, Z]) == 2,
    cp.min([X, Y, 3]) <= -1,
    cp.Count([X, Y, Z], 2) == 1,
    cp.Count([X, Y, Z], X) >= 2,
    cp.Among([X, Y, Z], [1, 2]) == 2,
    cp.NValue([X, Y, Z]) == 2,
    cp.NValueExcept([X, Y, Z], 1) == 2,
    cp.Multiplication(X, Y) + A > 2,
]
#: Undefined for some values: the nearest Boolean expression around it is false then.
PARTIAL = [
    X // Y == Z,
    X % Y == Z,
    Y // 2 == Z,
    Y % -2 == X,
    X // -3 == Y,
    ~(X // Y == Z),
    A.implies(X // Y > 0),
    cp.Element([3, 1, -2], X) == Y,
    (cp.Element([3, 1, -2], X) == Y) == A,
    cp.Element([X, Y, 2], Z) == 1,
    cp.cpm_array(np.arange(6).reshape(2, 3))[X, Y] == Z + 2,
    cp.AllDifferent(X // Y, Z, 0),
]
GLOBALS = [
    cp.AllDifferent(X, Y, Z),
    cp.AllDifferentExcept0(X, Y, Z),
    cp.AllDifferentExceptN([X, Y, Z], [1, 2]),
    cp.AllEqual(X, Y, Z),
    cp.AllEqualExceptN([X, Y, Z], [1]),
    cp.Circuit(W),
    ~cp.Circuit(W),
    cp.Circuit(W) == A,
    cp.Inverse(W, V),
    cp.Table([X, Y], [[0, 1], [1, 2], [-2, 3]]),
    cp.Table([A, B], [[0, 1], [1, 1]]),
    cp.NegativeTable([X, Y], [[0, 1], [1, 2]]),
    cp.ShortTable([X, Y, Z], [[0, "*", 2], ["*", 1, 1]]),
    cp.IfThenElse(A, B, C),
    cp.InDomain(X, [1, 3, 7]),
    cp.Xor([A, B, C]),
    cp.Xor([A, B, True, X > 1]),
    cp.Cumulative(W, [1, 2, 1], demand=[1, 1, 2], capacity=2),
    cp.NoOverlap(W, [1, 1, 2]),
    cp.NoOverlapOptional(W, [1, 1, 2], None, [A, B, True]),
    cp.Precedence(W, [2, 1]),
    cp.GlobalCardinalityCount(W, [0, 1], [1, V[0]]),
    cp.GlobalCardinalityCount(W, [0, 1], [1, V[0]], closed=True),
    cp.Increasing(W),
    cp.Decreasing(W),
    cp.IncreasingStrict(W),
    cp.DecreasingStrict(W),
    cp.LexLess(W[:2], V[:2]),
    cp.LexLessEq(W[:2], V[:2]),
    cp.LexChainLess([W[:2], V[:2]]),
    cp.LexChainLessEq([W[:2], V[:2]]),
    cp.Reservoir(W, [1, -1, 1], 0, 2),
]


def solutions(model: Any) -> set[tuple[int, ...]]:
    """All solutions, by CPMpy's own evaluation of the constraints."""
    variables = get_variables_model(model)
    found = set()
    for values in itertools.product(*(range(int(v.lb), int(v.ub) + 1) for v in variables)):
        for variable, value in zip(variables, values, strict=True):
            variable._value = bool(value) if variable.is_bool() else value
        if all(argval(c) for c in model.constraints):
            found.add(values)
    return found


def agrees(model: Any) -> nelson.Space:
    """A space whose rows are the solutions: by its clauses, and by its own check of rows."""
    space = nelson.Space.from_cpmpy(model)
    assert list(space.fields) == [v.name for v in get_variables_model(model)]
    truth = solutions(model)
    assert distinct_rows(space) == truth
    rows = list(
        itertools.product(*([f.value(k) for k in range(f.size)] for f in space.fields.values()))
    )
    table = {name: [row[k] for row in rows] for k, name in enumerate(space.fields)}
    assert {row for row, ok in zip(rows, space.satisfied(table), strict=True) if ok} == truth
    return space


@pytest.mark.parametrize("constraint", OPERATORS + PARTIAL + GLOBALS, ids=str)
def test_rows_are_the_solutions(constraint):
    agrees(cp.Model(constraint))


class Random:
    """Random CPMpy expressions with undefined parts, nested."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.small = [
            cp.intvar(-2, 2, name="p"),
            cp.intvar(0, 3, name="q"),
            cp.intvar(-1, 1, name="r"),
        ]
        self.flags = [cp.boolvar(name="f"), cp.boolvar(name="g")]

    def number(self, depth: int) -> Any:
        pick, r = self.rng.choice, self.rng
        if depth == 0:
            return pick([*self.small, *self.small, r.randint(-3, 3)])
        a, b = self.number(depth - 1), self.number(depth - 1)
        kind = pick("+-*/%nameEcb")
        if not isinstance(a, cp.expressions.core.Expression):
            a = pick(self.small)
        match kind:
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b
            case "/":
                return a // (b if self.rng.random() < 0.5 else pick([-3, -1, 2, 3]))
            case "%":
                return a % (b if self.rng.random() < 0.5 else pick([-3, 2, 3]))
            case "n":
                return -a
            case "a":
                return abs(a)
            case "m":
                return cp.min([a, b])
            case "e":
                return cp.max([a, b, 1])
            case "E":
                return cp.Element([2, *self.small], a)
            case "c":
                return cp.Count([*self.small, a], b)
        return self.rule(depth - 1) + a

    def rule(self, depth: int) -> Any:
        pick = self.rng.choice
        if depth == 0:
            return pick([*self.flags, ~self.flags[0], self.small[0] > 0])
        kind = pick(["cmp"] * 3 + ["and", "or", "not", "implies", "iff", "xor", "distinct"])
        if kind == "cmp":
            a, b = self.number(depth - 1) + self.small[0] * 0, self.number(depth - 1)
            return pick([a == b, a != b, a < b, a <= b, a > b, a >= b])
        if kind == "distinct":
            return cp.AllDifferent([self.number(depth - 1) for _ in range(3)])
        a, b = self.rule(depth - 1), self.rule(depth - 1)
        made = {
            "and": lambda: a & b,
            "or": lambda: a | b,
            "not": lambda: ~a,
            "implies": lambda: a.implies(b),
            "iff": lambda: a == b,
            "xor": lambda: cp.Xor([a, b]),
        }
        return made[kind]()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_models(seed):
    maker = Random(seed)
    model = cp.Model([maker.rule(3) for _ in range(2)])
    if get_variables_model(model):
        agrees(model)


# --- puzzles of CPMpy's examples ------------------------------------------------------------------


def queens(n: int) -> Any:
    row = cp.intvar(1, n, shape=n, name="queens")
    diagonals = ([row[i] + s * i for i in range(n)] for s in (-1, 1))
    return cp.Model([cp.AllDifferent(row), *map(cp.AllDifferent, diagonals)])


def magic_sequence(n: int) -> Any:
    x = cp.intvar(0, n - 1, shape=n, name="x")
    return cp.Model([x[i] == cp.Count(x, i) for i in range(n)])


def langford(k: int) -> Any:
    """2 sets of 1..k in a row, so that i numbers lie between the two i; mirror images once."""
    place = cp.intvar(0, 2 * k - 1, shape=2 * k, name="place")
    row = cp.intvar(1, k, shape=2 * k, name="row")
    gaps = [place[i + k] == place[i] + i + 2 for i in range(k)]
    values = [row[place[i + j]] == i + 1 for i in range(k) for j in (0, k)]
    return cp.Model(cp.AllDifferent(place), gaps, values, row[0] < row[2 * k - 1])


def agatha() -> Any:
    """Who killed Agatha (0), the butler (1) or Charles (2)? The killer is an index."""
    killer = cp.intvar(0, 2, name="killer")
    hates, richer = (cp.boolvar(shape=(3, 3), name=n) for n in ("hates", "richer"))
    each = range(3)
    return cp.Model(
        hates[killer, 0] == 1,
        richer[killer, 0] == 0,
        [~richer[i, i] for i in each],
        [richer[i, j] == ~richer[j, i] for i in each for j in each if i != j],
        [hates[0, i].implies(~hates[2, i]) for i in each],
        hates[0, 0] & hates[0, 2] & ~hates[0, 1],
        [(~richer[i, 0]).implies(hates[1, i]) for i in each],
        [hates[0, i].implies(hates[1, i]) for i in each],
        [cp.sum(hates[i]) <= 2 for i in each],
    )


def send_more_money() -> Any:
    letters = s, e, n, d, m, o, r, y = cp.intvar(0, 9, shape=8, name=list("sendmory"))

    def word(*digits: Any) -> Any:
        return sum(10**k * digit for k, digit in enumerate(reversed(digits)))

    equation = word(s, e, n, d) + word(m, o, r, e) == word(m, o, n, e, y)
    return cp.Model(cp.AllDifferent(letters), equation, s > 0, m > 0)


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (queens(6), 4),
        (queens(8), 92),
        (magic_sequence(5), 1),
        (magic_sequence(6), 0),
        (langford(4), 1),
        (agatha(), 8),
        (send_more_money(), 1),
    ],
    ids=["queens 6", "queens 8", "magic 5", "magic 6", "langford", "agatha", "send"],
)
def test_puzzles_have_their_known_number_of_solutions(model, count):
    rows = distinct_rows(nelson.Space.from_cpmpy(model))
    assert len(rows) == count
    variables = get_variables_model(model)
    for row in rows:
        for variable, value in zip(variables, row, strict=True):
            variable._value = value
        assert all(argval(c) for c in np.hstack(model.constraints))


@pytest.mark.slow
def test_samples_are_solutions_with_the_names_of_the_model():
    model = send_more_money()
    [row] = nelson.Space.from_cpmpy(model).sample(1, seed=0)
    assert list(row) == list("sendmory")
    assert row == dict(zip("sendmory", [9, 5, 6, 7, 1, 0, 8, 2], strict=True))


def test_the_solver_of_cpmpy_counts_the_same():
    pytest.importorskip("ortools", reason="NO ORTOOLS: CPMpy's own count is not compared")
    for model in (queens(6), agatha()):
        assert model.solveAll() == nelson.Space.from_cpmpy(model).count()


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (cp.Model(cp.Regular(W, [("a", 0, "b"), ("b", 1, "b")], "a", ["b"])), "regular.*new var"),
        (cp.Model(cp.Circuit(cp.intvar(0, 11, shape=12, name="far"))), "circuit.*at most 10"),
        (cp.Model(cp.intvar(0, 9, name="h") // cp.intvar(1, 999, name="k") == 1), "div.*256"),
        (cp.Model(cp.DirectConstraint("AddFoo", (X,))), "AddFoo"),
        (cp.Model(X > 0, minimize=X), "objective.*constraints only"),
        ("x > 0", "str.*cpmpy.Model"),
    ],
)
def test_what_is_not_supported_shows_the_expression(model, said):
    with pytest.raises(FormulaError, match=said):
        nelson.Space.from_cpmpy(model)


def test_a_contradiction_names_the_constraints():
    model = cp.Model(cp.AllDifferent(W), cp.sum(W) >= 9, X > 0)
    with pytest.raises(Unsatisfiable) as caught:
        nelson.Space.from_cpmpy(model).sample(1)
    assert "alldifferent(w[0],w[1],w[2])" in str(caught.value)
    assert "x > 0" not in str(caught.value)


def test_constants_and_nested_lists():
    space = nelson.Space.from_cpmpy(cp.Model([[X > 0, [Y > X]], True]))
    assert distinct_rows(space) == {(x, y) for x in range(-2, 4) for y in range(-2, 4) if 0 < x < y}
    assert nelson.Space.from_cpmpy(cp.Model(X > 0, False)).count() == 0


@pytest.mark.slow
def test_a_minimum_of_many_numbers_stays_small():
    """A chain of comparisons would have a text of 2^40 characters."""
    many = cp.intvar(0, 3, shape=40, name="m")
    space = nelson.Space.from_cpmpy(cp.Model(cp.min(many) == 3))
    assert space.count() == 1
    assert len(repr(space)) < 10_000
