"""Random programs in the languages of rules and of UVL, with the rows that they must have.

A program is a function of its seed. Its text is made together with its meaning: arrays over all
combinations of values, computed by NumPy and `fractions`. Neither the parser nor the clauses take
part. Nearly well-formed programs have other words in some places; they have no meaning to compare
with, but the only error that they may raise is ours.
"""

from __future__ import annotations

import itertools
import operator
import random
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

#: Most rows of a program.
MAX_ROWS = 400


class Program(NamedTuple):
    text: str
    legal: set[tuple[Any, ...]]  # the rows that the file states


class Node(NamedTuple):
    """A piece of text and its value in each row. low, high: bounds of a number in a rule; in UVL,
    low is how tightly the outermost operator binds.
    """

    text: str
    value: Any
    low: int = 0
    high: int = 0

    def __str__(self) -> str:
        return self.text


# --- rules ---------------------------------------------------------------------------------------

#: Name in a file -> (declaration, values, text of a value).
FIELDS: dict[str, tuple[str, list[Any]]] = {
    "x": ("{ integer = [0, 5] }", [*range(6)]),
    "y": ("{ integer = [-3, 3] }", [*range(-3, 4)]),
    "k": ("{ choice = [1, 5, -2] }", [1, 5, -2]),
    "wide": ("{ integer = [100, 120] }", [*range(100, 121)]),
    "c": ('{ choice = ["a", "b", "cc"] }', ["a", "b", "cc"]),
    "d": ('{ choice = ["b", "a"] }', ["b", "a"]),
    "f": ('"flag"', [False, True]),
    "g": ('"flag"', [False, True]),
    "o": ('{ flags = ["p", "q"] }', []),
}
COMPARE = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class Rules:
    """A generator of rules over some fields."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        chosen, rows = [], 1
        for name in rng.sample(list(FIELDS), rng.randint(2, 5)):
            size = len(FIELDS[name][1]) or 4
            if rows * size <= MAX_ROWS:
                chosen.append(name)
                rows *= size
        self.names = chosen
        self.columns = [n for name in chosen for n in (["o.p", "o.q"] if name == "o" else [name])]
        values = [FIELDS.get(n, ("", [False, True]))[1] for n in self.columns]
        self.rows = list(itertools.product(*values))
        self.value = {
            name: np.array([row[k] for row in self.rows]) for k, name in enumerate(self.columns)
        }
        self.numbers = [n for n in self.columns if n in ("x", "y", "k", "wide")]
        self.choices = [n for n in self.columns if n in ("c", "d")]
        self.flags = [n for n in self.columns if n in ("f", "g", "o.p", "o.q")]

    def number(self, depth: int) -> Node:
        rng = self.rng
        kind = rng.randrange(14) if depth else rng.randrange(2)
        if kind == 0 and self.numbers:
            name = rng.choice(self.numbers)
            values = FIELDS[name][1]
            return Node(name, self.value[name].astype(np.int64), min(values), max(values))
        if kind <= 1 or depth == 0:
            value = rng.choice((0, 1, 2, 3, -1, -7, 10, 0x1F))
            shown = rng.choice((str(value), hex(value)) if value >= 0 else (f"({value})",))
            return Node(shown, np.full(len(self.rows), value), value, value)
        if kind == 2:
            rule = self.rule(depth - 1)
            return Node(f"sum({rule}, 0)", rule.value.astype(np.int64), 0, 1)
        if kind == 3:
            rules = [self.rule(depth - 1) for _ in range(rng.randint(1, 3))]
            given = ", ".join(r.text for r in rules)
            given = rng.choice((given, f"[{given}]", f"({given},)"))
            return Node(f"count({given})", sum(r.value.astype(np.int64) for r in rules), 0, 3)
        a, b = self.number(depth - 1), self.number(depth - 1)
        if kind == 4:
            c = self.rule(depth - 1)
            text = rng.choice((f"({a} if {c} else {b})", f"if_else({c}, {a}, {b})"))
            return Node(text, np.where(c.value, a.value, b.value), *self.span(a, b))
        if kind == 5:
            name, f = rng.choice((("min", np.minimum), ("max", np.maximum)))
            return Node(f"{name}({a}, {b})", f(a.value, b.value), *self.span(a, b))
        if kind == 6:
            most = max(abs(a.low), abs(a.high))
            return Node(f"abs({a})", np.abs(a.value), 0, most)
        if kind == 7:
            items = [self.number(0) for _ in range(8)]
            value = np.choose(a.value % 8, [item.value for item in items])
            text = f"element([{', '.join(item.text for item in items)}], {a} % 8)"
            return Node(text, value, -7, 200)
        if kind == 8:
            c = rng.randint(1, 7)
            op, f = rng.choice((("%", np.mod), ("//", np.floor_divide)))
            most = max(abs(a.low), abs(a.high), 7)
            return Node(f"({a} {op} {c})", f(a.value, c), -most, most)
        if kind == 9:
            c = rng.randint(0, 3)
            op, g = rng.choice((("<<", np.left_shift), (">>", np.right_shift)))
            return Node(f"({a} {op} {c})", g(a.value, c), min(a.low << 3, 0), max(a.high << 3, 0))
        if kind == 10:
            op, h = rng.choice((("&", np.bitwise_and), ("|", np.bitwise_or), ("^", np.bitwise_xor)))
            most = 1 << max(abs(n).bit_length() for n in (*a[2:], *b[2:])) + 1
            return Node(f"({a} {op} {b})", h(a.value, b.value), -most, most)
        if kind == 11:
            return rng.choice(
                (
                    Node(f"(-{a})", -a.value, -a.high, -a.low),
                    Node(f"(~{a})", ~a.value, ~a.high, ~a.low),
                    Node(f"(+{a})", a.value, a.low, a.high),
                )
            )
        op, f = rng.choice((("+", np.add), ("-", np.subtract), ("*", np.multiply)))
        most = max(map(abs, (*a[2:], *b[2:]))) ** 2 + 2
        if most > 10**6:
            return a
        return Node(f"({a} {op} {b})", f(a.value, b.value), -2 * most, 2 * most)

    @staticmethod
    def span(a: Node, b: Node) -> tuple[int, int]:
        return min(a.low, b.low), max(a.high, b.high)

    def rule(self, depth: int) -> Node:
        rng = self.rng
        kind = rng.randrange(16) if depth else 0
        if kind == 0 or not depth:
            if self.flags and rng.random() < 0.7:
                name = rng.choice(self.flags)
                shown = {"o.p": ("o.p", "o['p']"), "o.q": ("o.q", 'field("o.q")')}.get(
                    name, (name,)
                )
                return Node(rng.choice(shown), self.value[name])
            truth = rng.random() < 0.5
            return Node(str(truth), np.full(len(self.rows), truth))
        if kind <= 3:
            a, b = self.number(depth - 1), self.number(depth - 1)
            op = rng.choice(list(COMPARE))
            if rng.random() < 0.2:
                c = self.number(0)
                value = (a.value <= b.value) & (b.value < c.value)
                return Node(f"({a} <= {b} < {c})", value)
            return Node(f"({a} {op} {b})", COMPARE[op](a.value, b.value))
        if kind == 4 and self.choices:
            name = rng.choice(self.choices)
            values = FIELDS[name][1]
            some = rng.sample(values, rng.randint(1, len(values)))
            inside = np.isin(self.value[name], some)
            if len(some) == 1 and rng.random() < 0.7:
                return Node(f"({name} == {some[0]!r})", inside)
            word, value = rng.choice((("in", inside), ("not in", ~inside)))
            return Node(f"({name} {word} {some!r})", value)
        if kind == 5 and len(self.choices) == 2:
            same = self.value["c"] == self.value["d"]
            return rng.choice((Node("(c == d)", same), Node("(d != c)", ~same)))
        if kind <= 6:
            a = self.number(depth - 1)
            first, count, step = rng.randint(-5, 5), rng.randint(0, 9), rng.choice((1, 2, 3, -1))
            end = first + step * count
            listed = list(range(first, end, step))
            text = rng.choice((f"range({first}, {end}, {step})", f"{listed}"))
            inside = np.isin(a.value, np.array(listed, np.int64))
            form = rng.choice(("({} in {})", "({}).isin({})"))
            return Node(form.format(a, text), inside)
        if kind == 7:
            names = rng.sample(self.columns, rng.randint(1, min(3, len(self.columns))))
            columns = [self.columns.index(n) for n in names]
            known = sorted({tuple(row[k] for k in columns) for row in self.rows}, key=repr)
            some = rng.sample(known, rng.randint(0, min(5, len(known))))
            among = set(some)
            inside = np.array([tuple(row[k] for k in columns) in among for row in self.rows])
            word, value = rng.choice((("table", inside), ("forbidden", ~inside)))
            return Node(f"{word}([{', '.join(names)}], {some!r})", value)
        if kind == 8 and self.numbers:
            terms = [self.number(depth - 1) for _ in range(rng.randint(2, 3))]
            pairs = itertools.combinations(terms, 2)
            value = np.logical_and.reduce([a.value != b.value for a, b in pairs])
            return Node(f"distinct({', '.join(t.text for t in terms)})", value)
        a, b = self.rule(depth - 1), self.rule(depth - 1)
        if kind == 9:
            name, f = rng.choice(
                (("at_most", np.less_equal), ("at_least", np.greater_equal), ("exactly", np.equal))
            )
            k = rng.randint(0, 2)
            total = a.value.astype(int) + b.value
            return Node(f"{name}({k}, {a}, {b})", f(total, k))
        if kind == 10:
            return Node(rng.choice((f"(not {a})", f"(~{a})")), ~a.value)
        if kind == 11:
            forms = ("implies({}, {})", "({}).implies({})")
            return Node(rng.choice(forms).format(a, b), ~a.value | b.value)
        if kind == 12:
            forms = ("iff({}, {})", "({}).iff({})", "({} == {})")
            return Node(rng.choice(forms).format(a, b), a.value == b.value)
        if kind == 13:
            c = self.rule(depth - 1)
            return Node(f"({a} if {c} else {b})", np.where(c.value, a.value, b.value))
        if kind == 14:
            return Node(f"({a} ^ {b})", a.value ^ b.value)
        word, value = rng.choice((("and", a.value & b.value), ("or", a.value | b.value)))
        return Node(f"({a} {rng.choice((word, '&' if word == 'and' else '|'))} {b})", value)


def rules(seed: object) -> Program:
    """A space in TOML."""
    rng = random.Random(f"rules {seed}")
    maker = Rules(rng)
    made = [maker.rule(rng.randint(1, 4)) for _ in range(rng.randint(1, 3))]
    legal = np.logical_and.reduce([rule.value for rule in made])
    fields = "\n".join(f"{name} = {FIELDS[name][0]}" for name in maker.names)
    listed = ",\n".join(f"  '''{rule.text}'''" for rule in made)
    rows = {row for row, holds in zip(maker.rows, legal, strict=True) if holds}
    return Program(f"rules = [\n{listed}\n]\n[fields]\n{fields}\n", rows)


# --- UVL -----------------------------------------------------------------------------------------


class Uvl:
    """A generator of feature models of at most eight features."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.names, self.lines = rng, [], []
        self.below: dict[str, list[tuple[str, int, int, list[str]]]] = {}
        self.price: dict[str, Fraction] = {}
        self.most = rng.randint(2, 8)
        self.feature("R", 1)
        states = list(itertools.product((False, True), repeat=len(self.names)))
        self.states = states
        self.value = {n: np.array([s[k] for s in states]) for k, n in enumerate(self.names)}

    def feature(self, name: str, depth: int) -> None:
        rng = self.rng
        self.names.append(name)
        attributes = []
        if rng.random() < 0.5:
            shown = rng.choice(("1", "2", "-3", "0.5", "1.25", "40"))
            self.price[name] = Fraction(shown)
            attributes.append(f"p {shown}")
        if rng.random() < 0.2:
            attributes.append("abstract")
        shown = f" {{{', '.join(attributes)}}}" if attributes else rng.choice(("", " {}"))
        self.lines.append("\t" * depth + self.quoted(name) + shown)
        self.below[name] = []
        while len(self.names) < self.most and rng.random() < 0.8 and depth < 9:
            room = self.most - len(self.names)
            children = [f"F{len(self.names) + k}" for k in range(rng.randint(1, min(3, room)))]
            n = len(children)
            low = rng.randint(0, n)
            high = rng.randint(low, n + 1)
            kinds = {"or": (1, n), "alternative": (1, 1), "optional": (0, n), "mandatory": (n, n)}
            kinds |= {
                f"[{low}..{high}]": (low, high),
                f"[{low}..*]": (low, n),
                f"[{low}]": (low, low),
            }
            kind = rng.choice(list(kinds))
            self.lines.append("\t" * (depth + 1) + kind)
            self.below[name].append((kind, *kinds[kind], children))
            before = self.most
            for k, child in enumerate(children):  # each child gets its name first
                self.most = before - (n - 1 - k)
                children[k] = child = f"F{len(self.names)}"
                self.feature(child, depth + 2)
            self.most = before

    def quoted(self, name: str) -> str:
        return f'"{name}"' if self.rng.random() < 0.1 else name

    def tree(self) -> np.ndarray:
        legal = self.value["R"].copy()
        for parent, groups in self.below.items():
            for _, low, high, children in groups:
                some = sum(self.value[child].astype(int) for child in children)
                legal &= np.where(self.value[parent], (some >= low) & (some <= high), some == 0)
        return legal

    #: How tightly the operators bind, as the grammar of UVL has it. ATOM: names and numbers.
    LEVEL: ClassVar[dict[str, int]] = {
        "<=>": 0,
        "=>": 1,
        "|": 2,
        "&": 3,
        "!": 4,
        "+": 6,
        "-": 6,
        "*": 7,
        "/": 7,
    }
    COMPARISON, ATOM = 5, 9

    def inside(self, node: Node, least: int) -> str:
        """With parentheses where they are needed, and sometimes where they are not."""
        return node.text if node.low >= least and self.rng.random() < 0.8 else f"({node.text})"

    def joined(self, a: Node, op: str, b: Node, value: Any) -> Node:
        level = self.LEVEL.get(op, self.COMPARISON)
        alone = op in ("=>", "<=>") or level == self.COMPARISON  # chains of these in parentheses
        left, right = self.inside(a, level + alone), self.inside(b, level + 1)
        return Node(f"{left} {op} {right}", value, level)

    def rule(self, depth: int) -> Node:
        rng = self.rng
        kind = rng.randrange(8) if depth else 0
        if kind <= 1:
            if rng.random() < 0.1:
                truth = rng.random() < 0.5
                return Node(str(truth).lower(), np.full(len(self.states), truth), self.ATOM)
            name = rng.choice(self.names)
            return Node(self.quoted(name), self.value[name], self.ATOM)
        if kind == 2:
            a, b = self.number(depth - 1), self.number(depth - 1)
            op = rng.choice(list(COMPARE))
            return self.joined(a, op, b, COMPARE[op](a.value, b.value).astype(bool))
        a, b = self.rule(depth - 1), self.rule(depth - 1)
        if kind == 3:
            return Node(f"!{self.inside(a, 4)}", ~a.value, 4)
        op, value = rng.choice(
            (
                ("&", a.value & b.value),
                ("|", a.value | b.value),
                ("=>", ~a.value | b.value),
                ("<=>", a.value == b.value),
            )
        )
        return self.joined(a, op, b, value)

    def number(self, depth: int) -> Node:
        rng = self.rng
        kind = rng.randrange(8) if depth else rng.randrange(4)
        if kind == 0 and self.price:
            name = rng.choice(list(self.price))
            return Node(f"{name}.p", self.value[name] * self.price[name], self.ATOM)
        if kind == 1 and self.price:
            terms = [self.value[n] * p for n, p in self.price.items()]
            return Node("sum(p)", sum(terms[1:], terms[0]), self.ATOM)
        if kind <= 3:
            shown = rng.choice(("0", "1", "2.5", "-1", "7", "0.125"))
            return Node(shown, np.full(len(self.states), Fraction(shown)), self.ATOM)
        a = self.number(depth - 1)
        if kind == 4:
            shown = rng.choice(("2", "4", "0.5"))
            c = Node(shown, Fraction(shown), self.ATOM)
            op, value = rng.choice((("*", a.value * c.value), ("/", a.value / c.value)))
            return self.joined(a, op, c, value)
        b = self.number(depth - 1)
        op, f = rng.choice((("+", operator.add), ("-", operator.sub), ("*", operator.mul)))
        return self.joined(a, op, b, f(a.value, b.value))


def uvl(seed: object) -> Program:
    rng = random.Random(f"uvl {seed}")
    maker = Uvl(rng)
    made = [maker.rule(rng.randint(1, 4)) for _ in range(rng.randint(0, 3))]
    legal = np.logical_and.reduce([maker.tree(), *(rule.value for rule in made)])
    text = "\n".join(["features", *maker.lines, *(["constraints"] if made else [])])
    text += "".join(f"\n\t{rule.text}{rng.choice(('', ' // end'))}" for rule in made) + "\n"
    return Program(text, {s for s, holds in zip(maker.states, legal, strict=True) if holds})


# --- nearly well-formed --------------------------------------------------------------------------

WORD = re.compile(r"'''|\s+|[^\W\d]\w*|\d+|[<=>!]=|<=>|=>|\*\*|//|<<|>>|\S")
#: Words that do not belong where they are put: other types, huge sizes, Python that is not ours.
WRONG = [
    "x", "y", "k", "c", "d", "f", "g", "o", "o.p", "o['p']", "zz", "x.y", "o.count()", "field('x')",
    "0", "-1", "2.5", "1e999", "10**30", "2**8192", "9" * 50, "9" * 5000, "True", "None", "'a'",
    "'%1000000000s'", "[1, 2]", "[x]", "[]", "(1,)", "{1: 2}", "{1}", "f''", "b''", "...", "1j",
    "range(10**12)", "range(10**30)", "range(5)", "range(0, 10**12, 7)", "[f, 'a', None]",
    "[[1]]", "[(1, 2)]", "lambda: 0", "[z for z in x]", "(yield)", "*x", "x := 1", "__import__",
    "+", "-", "*", "**", "/", "//", "%", "<<", ">>", "&", "|", "^", "~", "@", "<", "==", "!=", "in",
    "not in", "is", "and", "or", "not", "if", "else", "(", ")", "[", "]", ",", ".", ":", ";", "=",
    ".isin(x)", ".implies(f)", ".iff(1)", ".count(1)", ".count()", ".format(x)", ".__class__",
    ".values", ".args", "implies", "iff", "count", "distinct", "at_most", "table", "forbidden",
    "element", "min", "max", "sum", "abs", "if_else", "field", "range", "sorted", "print",
    "max(max(max(x, y), max(y, x)), 3)", "!", "=>", "<=>", "'text'", "avg(p)", "sum(R, p)",
    "floor(F1.p)", "mandatory", "or", "[0..*]", "[3..1]", "R", "F1", "\t", "\n", "\n\t", '"F1"',
]  # fmt: skip
#: Programs that are large for their length; most are refused for their size.
DEEP: list[Callable[[int], str]] = [
    lambda n: "(" * n + "f" + ")" * n,
    lambda n: "not " * n + "f",
    lambda n: "max(" * n + "x" + ", y)" * n + " > 1",
    lambda n: "abs(" * n + "y" + " - 1)" * n + " > 1",
    lambda n: " + ".join(["x"] * n) + " > 1",
    lambda n: " * ".join(["x"] * n) + " > 1",
    lambda n: " and ".join(["f"] * n),
    lambda n: " ^ ".join(["f"] * n),
    lambda n: "sum(" + "x, " * n + "y) > 1",
    lambda n: "count(" + "f, " * n + "g) > 1",
    lambda n: f"element({list(range(n))}, x % {n}) == 1",
    lambda n: f"x in {list(range(0, 2 * n, 2))}",
    lambda n: f"table([x], {[(k,) for k in range(n)]})",
    lambda n: f"(x << {n}) * (x << {n}) > 1",
    lambda n: f"2 ** {n} > x",
    lambda n: "x == " + "9" * n,
    lambda n: "x" + "[0]" * n + " == 1",
    lambda n: "x < " * n + "y",
    lambda n: "(f if g else " * n + "f" + ")" * n,
    lambda n: "!" * n + "R",
    lambda n: " * ".join([f"({'9' * 40} - R)"] * n) + " > 1",
    lambda n: " + ".join(f"R / 9{k}" for k in range(n)) + " > 1",
    lambda n: " => ".join(["R"] * n),
]


def nearly(rng: random.Random, text: str) -> str:
    """Other words in one to three places, or one huge expression in place of a rule."""
    if rng.random() < 0.1:
        deep = rng.choice(DEEP)(rng.choice((3, 30, 90, 150, 400, 2000)))
        lines = text.split("\n")
        places = [k for k, line in enumerate(lines) if line.startswith(("  '''", "\t"))]
        if places:
            at = rng.choice(places)
            lines[at] = f"  '''{deep}'''," if lines[at].startswith("  '''") else "\t" + deep
            return "\n".join(lines)
    words = WORD.findall(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, kind = rng.randrange(len(words)), rng.randrange(5)
        if kind == 0:
            del words[at]
        elif kind == 1:
            words.insert(at, words[rng.randrange(len(words))])
        else:
            words[at : at + (kind != 2)] = [rng.choice(WRONG)]
        if not words:
            break
    return "".join(words)
