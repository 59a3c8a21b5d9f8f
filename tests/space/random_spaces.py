"""Random small spaces with every operator, and their legal rows by Python itself.

The rows are found by `eval` of the text of each rule with Python's own integers, strings and
Booleans: neither the clauses nor `nelson.space.language.evaluate` take part.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from nelson.space import (
    Space,
    at_least,
    at_most,
    count,
    distinct,
    element,
    exactly,
    if_else,
    maximum,
    minimum,
    table,
)
from nelson.space.language.expressions import Number, Rule, number
from nelson.space.language.fields import Choice

#: Most combinations of values of a random space.
MAX_ROWS = 20_000


def random_space(seed: int) -> Space:
    """Two to five fields of all kinds and one to four rules."""
    rng = np.random.default_rng(seed)
    space = Space()
    product = 1
    for k in range(int(rng.integers(2, 6))):
        kind = rng.choice(["flag", "choice", "numbers", "small", "negative", "wide"])
        size = {"flag": 2, "choice": 3, "numbers": 3, "small": 5, "negative": 7, "wide": 21}[kind]
        if product * size > MAX_ROWS:
            kind, size = "flag", 2
        product *= size
        name = f"{'abcdefgh'[k]}{kind[0]}"
        if kind == "flag":
            space.flag(name)
        elif kind == "choice":
            space.choice(name, ["red", "green", "blue"])
        elif kind == "numbers":
            space.choice(name, [1, 5, -2])
        elif kind == "small":
            space.integer(name, 0, 4)
        elif kind == "negative":
            space.integer(name, -4, 2)
        else:
            low = int(rng.choice([0, 3, -10, 100]))
            space.integer(name, low, low + 20)
    maker = Maker(space, rng)
    for _ in range(int(rng.integers(1, 5))):
        space.require(maker.rule(2))
    return space


class Maker:
    """Random rules and numbers over the fields of a space."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self.space, self.rng = space, rng
        fields = list(space.fields.values())
        self.numbers = [f for f in fields if isinstance(f, Number)]
        self.flags = [f for f in fields if isinstance(f, Rule)]
        self.choices = [f for f in fields if isinstance(f, Choice)]

    def pick(self, items: list[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def small(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def number(self, depth: int) -> Number:
        if depth == 0 or self.rng.random() < 0.2:
            if self.numbers and self.rng.random() < 0.85:
                return self.pick(self.numbers)
            return number(self.small(-5, 9))
        a = self.number(depth - 1)
        op = self.pick(list("+-*%/&|^<>~n?cemMa"))
        b = self.number(depth - 1) if op in "+-*&|^?mM" else None
        match op:
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b if self.rng.random() < 0.5 else a * self.small(-4, 4)
            case "%":
                return a % self.small(1, 7)
            case "/":
                return a // self.small(1, 7)
            case "&":
                return a & b
            case "|":
                return a | b
            case "^":
                return a ^ b
            case "<":
                return a << self.small(0, 3)
            case ">":
                return a >> self.small(0, 3)
            case "~":
                return ~a
            case "n":
                return -a
            case "?":
                return if_else(self.rule(depth - 1), a, b)
            case "c":
                return count([self.rule(depth - 1) for _ in range(self.small(1, 4))])
            case "e":
                return element([self.number(0) for _ in range(3)], a % 3)
            case "m":
                return minimum(a, b)
            case "M":
                return maximum(a, b)
        return abs(a)

    def rule(self, depth: int) -> Rule:
        if depth == 0:
            return self.atom()
        op = self.pick(["cmp"] * 4 + ["in", "and", "or", "not", "xor", "implies", "iff", "if"])
        op = self.pick([op] * 3 + ["table", "distinct", "some", "weighted", "bool"])
        rules = [self.rule(depth - 1) for _ in range(3)]
        match op:
            case "cmp":
                return self.compare(self.number(depth), self.number(depth - 1))
            case "in":
                return self.number(depth).isin([self.small(-6, 12) for _ in range(4)])
            case "and":
                return rules[0] & rules[1]
            case "or":
                return rules[0] | rules[1]
            case "not":
                return ~rules[0]
            case "xor":
                return rules[0] ^ rules[1]
            case "implies":
                return rules[0].implies(rules[1])
            case "iff":
                return rules[0].iff(rules[1])
            case "if":
                return if_else(*rules)
            case "some":
                return self.pick([at_most, at_least, exactly])(self.small(0, 3), *rules)
            case "weighted":
                terms = [self.small(-3, 5) * r for r in rules]
                return self.compare(sum(terms), number(self.small(-3, 6)))
            case "bool":
                return self.pick([rules[0] == rules[1], rules[0] != rules[1], rules[0] == True])  # noqa: E712
            case "table":
                return self.table()
        return self.distinct()

    def table(self) -> Rule:
        fields = list(self.space.fields.values())
        columns = [self.pick(fields) for _ in range(self.small(1, 3))]
        rows = [
            tuple(f.value(self.small(0, f.size - 1)) for f in columns)
            for _ in range(self.small(1, 12))
        ]
        made = table(columns, rows)
        return made if self.rng.random() < 0.5 else ~made

    def distinct(self) -> Rule:
        if len(self.choices) >= 2 and self.rng.random() < 0.5:
            return distinct(*self.choices)
        return distinct([self.number(1) for _ in range(3)])

    def compare(self, a: Number, b: Number) -> Rule:
        return self.pick([a == b, a != b, a < b, a <= b, a > b, a >= b])

    def atom(self) -> Rule:
        found: list[Rule] = list(self.flags)
        for f in self.choices:
            found += [f == self.pick(list(f.values)), f.isin(["red", "blue"]), f != "green"]
            found.append(f == self.pick(self.choices))
        for f in self.numbers:
            found.append(self.compare(f, number(self.small(f.low, f.high))))
        return self.pick(found)


def legal_rows(space: Space) -> list[tuple[Any, ...]]:
    """All legal rows, by Python's own evaluation of the rules' texts."""
    names = list(space.fields)
    codes = [compile(repr(r.rule), "rule", "eval") for r in space.rules]
    rows = []
    values = ([f.value(k) for k in range(f.size)] for f in space.fields.values())
    for row in itertools.product(*values):
        values_of = dict(zip(names, row, strict=True))
        scope = {**PYTHON, **values_of, "field": values_of.__getitem__}
        if all(eval(code, {"__builtins__": {}}, scope) for code in codes):
            rows.append(row)
    return rows


def _listed(items: tuple[Any, ...]) -> list[Any]:
    return list(items[0]) if len(items) == 1 and isinstance(items[0], list) else list(items)


#: What the functions of the rules' language mean, in Python.
PYTHON = {
    "implies": lambda a, b: (not a) or b,
    "iff": lambda a, b: bool(a) == bool(b),
    "count": lambda *items: sum(map(bool, _listed(items))),
    "distinct": lambda *items: len(set(_listed(items))) == len(_listed(items)),
    "table": lambda columns, rows: tuple(columns) in {tuple(r) for r in rows},
    "range": range,
}
