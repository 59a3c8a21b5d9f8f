"""Fields and rules as clauses.

How a field becomes bits:

    two values                            one variable
    a choice of up to 64 values           one variable for each value, exactly one of them true
    an integer of up to 16 values         the same
    anything larger                       a binary number: the value itself in two's complement, or
                                          the position of the value

How a rule becomes clauses:

- A comparison (or `isin`, a table, ...) over few fields with few values is tabulated: its truth
  value for every combination, as a decision diagram over the one-hot variables.
- Any other comparison is arithmetic on vectors of literals (`vectors`).
- Sums of rules with small coefficients are counted by the decision diagram of
  `nelson.formula.encode`.
- Logic between rules: gates (`gates`), and none at all for the outermost `and`, `or`, `implies`.

All auxiliary variables are functions of the fields (`gates` says why).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula.encode import Counter
from nelson.space.clauses import vectors
from nelson.space.clauses.gates import FALSE, TRUE, Gates
from nelson.space.clauses.vectors import Vector
from nelson.space.language.evaluate import evaluate
from nelson.space.language.expressions import (
    Category,
    Expression,
    Number,
    Rule,
    leaves,
    number,
    width,
)
from nelson.space.language.fields import FIELDS, Choice, Field, Flag, Integer

#: Values of the largest one-hot choice and of the largest one-hot integer.
ONE_HOT_CHOICE = 64
ONE_HOT_INTEGER = 16
#: Combinations of values of the largest comparison that is tabulated.
TABULATED = 4096
#: Terms x largest sum of the largest sum of rules that a decision diagram counts.
COUNTED = 20_000
#: Widest number, in bits.
MAX_WIDTH = 4096


class Encoder:
    """The clauses of a space so far. `literal` and `require` translate expressions."""

    def __init__(self) -> None:
        self.gates = Gates()
        self.of_field: dict[str, list[int]] = {}  # the variables of each field, in order
        self.groups: list[list[list[int]]] = []  # the clauses that state each rule
        self._vectors: dict[int, Vector] = {}  # by id of the expression, which `_kept` keeps alive
        self._literals: dict[int, int] = {}
        self._divisions: dict[tuple[int, int], tuple[Vector, Vector]] = {}  # (q, r) of a by c
        self._kept: list[Expression] = []
        self._group: list[list[int]] | None = None

    def fork(self) -> Encoder:
        """A copy that can grow by itself."""
        copy = Encoder()
        copy.gates = self.gates.fork()
        copy.of_field = dict(self.of_field)
        copy.groups = list(self.groups)
        copy._vectors, copy._literals = dict(self._vectors), dict(self._literals)
        copy._divisions, copy._kept = dict(self._divisions), list(self._kept)
        return copy

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: without what is found by the id of an expression.

        The expressions of a copy have other ids, and an id of the original may come to stand for
        another expression.
        """
        by_id: dict[str, Any] = {"_vectors": {}, "_literals": {}, "_divisions": {}, "_kept": []}
        return self.__dict__ | by_id

    # --- fields -----------------------------------------------------------------------------------

    def add_field(self, field: Field) -> None:
        made = [self.gates.field_variable() for _ in range(_variables(field))]
        self.of_field[field.name] = made
        if is_one_hot(field):
            self._add(made)
            for a, b in itertools.combinations(made, 2):
                self._add([-a, -b])
        elif isinstance(field, Integer) and field.size > 2:
            for vector, bound, flip in (
                (self.bits(field), field.high, False),
                (self.bits(field), field.low, True),
            ):
                other = vectors.constant(bound)
                pair = (other, vector) if flip else (vector, other)
                for breach in vectors.breaches(self.gates, *pair):
                    self._add([-literal for literal in breach])
        elif field.size > 2:
            top = vectors.constant(field.size - 1)
            for breach in vectors.breaches(self.gates, [*made, FALSE], top):
                self._add([-literal for literal in breach])

    def indicators(self, field: Field) -> list[int]:
        """The literal of each value of a one-hot or two-valued field, by its code."""
        made = self.of_field[field.name]
        if field.size == 1:
            return [TRUE]
        return [-made[0], made[0]] if field.size == 2 else made

    def has(self, field: Field, code: int) -> int:
        """A literal for: the field has the value of this code."""
        if field.size <= 2 or is_one_hot(field):
            return self.indicators(field)[code]
        return self.gates.all(self.evidence(field, code))

    def evidence(self, field: Field, code: int) -> list[int]:
        """Literals that together say: the field has the value of this code."""
        made = self.of_field[field.name]
        if field.size <= 2 or is_one_hot(field):
            return [literal for literal in [self.indicators(field)[code]] if literal != TRUE]
        stored = field.low + code if isinstance(field, Integer) else code
        return [x if stored >> k & 1 else -x for k, x in enumerate(made)]

    def bits(self, field: Number) -> Vector:
        """The number that a field holds, as a vector."""
        made = self.of_field[field.name]  # type: ignore[attr-defined]
        if isinstance(field, Integer) and not is_one_hot(field) and field.size > 2:
            return [*made, FALSE] if field.low >= 0 else list(made)
        values = [field.value(k) for k in range(field.size)]  # type: ignore[attr-defined]
        literals = [self.has(field, k) for k in range(len(values))]  # type: ignore[arg-type]
        return [
            self.gates.any(x for x, value in zip(literals, values, strict=True) if value >> j & 1)
            for j in range(width(field.low, field.high))
        ]

    # --- rules ------------------------------------------------------------------------------------

    def require(self, rule: Rule) -> None:
        """State a rule. Its clauses are kept apart, to find rules that contradict each other."""
        self._kept.append(rule)
        self._group = []
        try:
            self._assert(rule, True)
            self.groups.append(self._group)
        finally:  # after an error too: what follows is no part of this rule
            self._group = None

    def require_clause(self, rule: Rule, literals: list[int]) -> None:
        """State a rule that is a clause of these literals: `require` without the translation."""
        self._kept.append(rule)
        self.groups.append([literals])

    def _add(self, clause: Iterable[int]) -> None:
        """A clause of the rule that is being stated, or of a field."""
        kept = [literal for literal in clause if literal != FALSE]
        if TRUE in kept:
            return
        self.gates.grow(kept)
        if self._group is None:
            self.gates.clauses.append(kept)
        else:
            self._group.append(kept)

    def _assert(self, rule: Rule, holds: bool) -> None:
        op, args = rule.op, rule.args
        if op == "not":
            self._assert(args[0], not holds)
        elif (op, holds) in (("and", True), ("or", False)):
            for arg in args:
                self._assert(arg, holds)
        elif (op, holds) == ("implies", False):
            self._assert(args[0], True)
            self._assert(args[1], False)
        elif op in ("and", "or", "implies"):
            self._add(self._alternatives(rule, holds))
        elif (op, holds) == ("distinct", True):
            for a, b in itertools.combinations(args, 2):
                self._assert(a != b, True)
        elif (fields := self._tabulated(rule)) is not None:
            self._add([self._table(fields, rule, holds, top=True)])
        elif op in _ORDER:
            self._assert_comparison(rule, holds)
        else:
            self._add([self.literal(rule) if holds else -self.literal(rule)])

    def _alternatives(self, rule: Rule, holds: bool) -> list[int]:
        """Literals of which one must be true for the rule to hold (or not to hold)."""
        op, args = rule.op, rule.args
        if op == "not":
            return self._alternatives(args[0], not holds)
        if (op, holds) in (("or", True), ("and", False)):
            return [literal for arg in args for literal in self._alternatives(arg, holds)]
        if (op, holds) == ("implies", True):
            return [*self._alternatives(args[0], False), *self._alternatives(args[1], True)]
        return [self.literal(rule) if holds else -self.literal(rule)]

    def literal(self, rule: Rule) -> int:
        """A literal that is true if and only if the rule holds."""
        if (known := self._literals.get(id(rule))) is None:
            known = self._literals[id(rule)] = self._literal(rule)
            self._kept.append(rule)
        return known

    def _literal(self, rule: Rule) -> int:
        op, args, gates = rule.op, rule.args, self.gates
        if op == "const":
            return TRUE if args[0] else FALSE
        if isinstance(rule, Flag):
            return self.of_field[rule.name][0]
        if op in _LOGIC:
            return _LOGIC[op](gates, [self.literal(arg) for arg in args])
        if op == "distinct":
            return gates.all([self.literal(a != b) for a, b in itertools.combinations(args, 2)])
        if (fields := self._tabulated(rule)) is not None:
            return self._table(fields, rule, True, top=False)
        if op in _ORDER:
            return self._comparison(rule)
        if op == "is":
            return gates.any(self.has(args[0], code) for code in args[1])
        if op == "same":
            return self._same(*args)
        if op == "in":
            return gates.any(self._between(args[0], *run) for run in args[1])
        assert op == "table", op
        return self._diagram(_cells(self, args[0], args[1]), {tuple(row) for row in args[1]})

    # --- comparisons ------------------------------------------------------------------------------

    def _comparison(self, rule: Rule) -> int:
        if rule.op in ("==", "!="):
            literals, positive = self._equality(rule)
            both = self.gates.all(literals)
            return both if positive else -both
        breaches, positive = self._order(rule)
        breach = self.gates.any([self.gates.all(b) for b in breaches])
        return -breach if positive else breach

    def _assert_comparison(self, rule: Rule, holds: bool) -> None:
        if rule.op in ("==", "!="):
            literals, positive = self._equality(rule)
            if positive == holds:
                for literal in literals:
                    self._add([literal])
            else:
                self._add([-literal for literal in literals])
            return
        breaches, positive = self._order(rule if holds else Rule(_OPPOSITE[rule.op], rule.args))
        if positive:
            for breach in breaches:
                self._add([-literal for literal in breach])
        else:
            self._add([self.gates.any([self.gates.all(b) for b in breaches])])

    def _equality(self, rule: Rule) -> tuple[list[int], bool]:
        """(literals that are all true iff both sides are equal, is it `==`)."""
        counter, left, right = self._sides(rule)
        if counter is not None:
            literals = [self._at_least(counter, right), -self._at_least(counter, right + 1)]
        else:
            literals = vectors.equal(self.gates, left, right)
        return literals, rule.op == "=="

    def _order(self, rule: Rule) -> tuple[list[list[int]], bool]:
        """Breaches of left <= right, where the rule is `<=` of these (positive) or its negation."""
        op, (a, b) = rule.op, rule.args
        if op in (">=", "<"):  # a >= b is b <= a; a < b is not b <= a
            a, b = b, a
        positive = op in ("<=", ">=")
        counter, left, right = self._sides(a <= b)
        if counter is not None:
            return [[self._at_least(counter, right + 1)]], positive
        return vectors.breaches(self.gates, left, right), positive

    def _sides(self, rule: Rule) -> tuple[Any, Any, Any]:
        """Both sides of a comparison, for `left - right` gathered into c_1 t_1 + ... + c.

        (counter, None, bound): the sum of few rules against a constant. (None, left, right): two
        vectors, with the positive terms to the left and the negative ones to the right.
        """
        a, b = rule.args
        terms, constant = linear(a - b)
        if terms and all(t.op == "truth" for t, _ in terms):
            at = [self.literal(t.args[0]) for t, _ in terms]
            if all(abs(x) != TRUE for x in at) and len({abs(x) for x in at}) == len(at):
                # c x = c + |c| (not x) for c < 0, so that all coefficients are positive
                weights = tuple(abs(c) for _, c in terms)
                literals = tuple(x if c > 0 else -x for x, (_, c) in zip(at, terms, strict=True))
                bound = -constant - sum(c for _, c in terms if c < 0)
                if len(terms) * sum(weights) <= COUNTED:
                    new = iter(self.gates.variable, None)
                    return Counter(weights, literals, new), None, bound
        left = [(t, c) for t, c in terms if c > 0]
        right = [(t, -c) for t, c in terms if c < 0]
        return (
            None,
            self._sum(left, max(constant, 0)),
            self._sum(right, max(-constant, 0)),
        )

    def _at_least(self, counter: Counter, bound: int) -> int:
        """A literal for: the sum of the counter is at least `bound`."""
        literal = counter.at_least(min(max(bound, 0), sum(counter.weights) + 1))
        for clause in counter.written:
            self.gates.add(clause)
        counter.written.clear()
        return literal

    def _between(self, value: Number, first: int, last: int) -> int:
        vector, gates = self.vector(value), self.gates
        if first == last:
            return gates.all(vectors.equal(gates, vector, vectors.constant(first)))
        low = vectors.breaches(gates, vectors.constant(first), vector)
        high = vectors.breaches(gates, vector, vectors.constant(last))
        return -gates.any([gates.all(breach) for breach in (*low, *high)])

    def _same(self, a: Category, b: Category) -> int:
        others = set(b.values)
        common = [v for v in a.values if v in others]  # in the same order in every process
        pairs = [
            self.gates.all([self.has(a, a.code(v)), self.has(b, b.code(v))])  # type: ignore[arg-type]
            for v in common
        ]
        return self.gates.any(pairs)

    # --- tables -----------------------------------------------------------------------------------

    def _tabulated(self, rule: Rule) -> list[Field] | None:
        """The fields of a rule, if the rule is to be tabulated."""
        if rule.op in _LOGIC or rule.op in ("const", "field", "table", "distinct"):
            return None
        fields: dict[int, Any] = {}
        for leaf in leaves(rule):
            if isinstance(leaf, FIELDS):
                if leaf.size > 2 and not is_one_hot(leaf):
                    return None
                fields[id(leaf)] = leaf
                if len(fields) > 12:
                    return None
        if not fields or math.prod(f.size for f in fields.values()) > TABULATED:
            return None
        if all(isinstance(f, Flag) for f in fields.values()) and len(fields) > 3:
            return None  # a sum of flags: counted
        return list(fields.values())

    def _table(self, fields: list[Field], rule: Rule, holds: bool, *, top: bool) -> int:
        """A literal for a rule by its truth table; with `top`, clauses state the rule instead."""
        sizes = [f.size for f in fields]
        grid = np.indices(sizes).reshape(len(sizes), -1)
        columns = {f.name: codes for f, codes in zip(fields, grid, strict=True)}
        truth = np.asarray(evaluate(rule, columns), bool) == holds
        if truth.ndim == 0:
            truth = np.full(grid.shape[1], bool(truth))
        literals = [[self.has(f, k) for k in range(f.size)] for f in fields]
        return self._node(truth.reshape(sizes), literals, {}, TRUE if top else None)

    def _node(
        self,
        truth: np.ndarray,
        literals: list[list[int]],
        known: dict[bytes, int],
        is_top: int | None = None,
    ) -> int:
        """A literal for a truth table (axis k: codes of field k): a decision diagram.

        node <-> the child of the value that the first field has. Exactly one of the literals of
        a field is true, so two clauses for each value define the node.
        """
        if truth.all():
            return TRUE
        if not truth.any():
            return FALSE
        if truth.ndim == 1 and is_top is None:
            inside = np.flatnonzero(truth).tolist()
            outside = np.flatnonzero(~truth).tolist()
            if len(inside) <= len(outside):
                return self.gates.any(literals[0][k] for k in inside)
            return -self.gates.any(literals[0][k] for k in outside)
        key = truth.tobytes() + bytes([truth.ndim])
        if is_top is None and key in known:
            return known[key]
        if truth.ndim == 1:
            children = [TRUE if t else FALSE for t in truth.tolist()]
        else:
            children = [self._node(below, literals[1:], known) for below in truth]
        if is_top is not None:
            for has, child in zip(literals[0], children, strict=True):
                self._add([-has, child])
            return TRUE
        if len(set(children)) == 1:
            return children[0]
        if len(children) == 2:
            node = self.gates.mux(literals[0][1], children[1], children[0])
        else:
            node = self.gates.select(literals[0], children)
        known[key] = node
        return node

    def _diagram(self, cells: list[dict[int, int]], rows: set[tuple[int, ...]]) -> int:
        """A literal for: the columns have one of these rows. cells: value -> literal, by column.

        Rows with the same first value are gathered, and equal remainders become one node.
        """
        known: dict[frozenset[tuple[int, ...]], int] = {}

        def node(rest: frozenset[tuple[int, ...]]) -> int:
            if not rest:
                return FALSE
            if rest == {()}:
                return TRUE
            if rest not in known:
                at = len(cells) - len(next(iter(rest)))
                by_value: dict[int, set[tuple[int, ...]]] = {}
                for row in rest:
                    by_value.setdefault(row[0], set()).add(row[1:])
                by_child: dict[int, list[int]] = {}
                for value, below in sorted(by_value.items()):
                    child = node(frozenset(below))
                    by_child.setdefault(child, []).append(cells[at][value])
                known[rest] = self.gates.any(
                    self.gates.all([self.gates.any(values), child])
                    for child, values in by_child.items()
                )
            return known[rest]

        return node(frozenset(rows))

    # --- numbers ----------------------------------------------------------------------------------

    def vector(self, value: Number) -> Vector:
        """A number as a vector of literals."""
        if (known := self._vectors.get(id(value))) is None:
            if width(value.low, value.high) > MAX_WIDTH:
                raise FormulaError(
                    f"{value!r}, a number of {width(value.low, value.high)} bits",
                    expected=f"at most {MAX_WIDTH} bits",
                )
            known = self._vectors[id(value)] = self._vector(value)
            self._kept.append(value)
        return known

    def _vector(self, value: Number) -> Vector:
        op, args, gates = value.op, value.args, self.gates
        bounds = value.low, value.high
        if op == "const":
            return vectors.constant(args[0])
        if op == "field":
            return self.bits(value)
        if op == "truth":
            return [self.literal(args[0]), FALSE]
        if op in ("+", "neg", "count", "<<") or (op == "*" and _is_linear(args)):
            terms, constant = linear(value)
            return self._sum(terms, constant)
        if op == "*":
            return vectors.product(gates, self.vector(args[0]), self.vector(args[1]), *bounds)
        if op in ("&", "|", "^"):
            return vectors.bitwise(gates, op, self.vector(args[0]), self.vector(args[1]), *bounds)
        if op == "if":
            made = vectors.chosen(
                gates, self.literal(args[0]), self.vector(args[1]), self.vector(args[2])
            )
            return vectors.resized(made, width(*bounds))
        if op == ">>":
            return _shifted(self.vector(args[0]), args[1], width(*bounds))
        assert op in ("%", "//"), op
        return self._divided(value)

    def _sum(self, terms: list[tuple[Number, int]], constant: int) -> Vector:
        low = constant + sum(min(c * t.low, c * t.high) for t, c in terms)
        high = constant + sum(max(c * t.low, c * t.high) for t, c in terms)
        parts = [(c, self.vector(t)) for t, c in terms]
        if constant:
            parts.append((1, vectors.constant(constant)))
        if len(parts) == 1 and parts[0][0] == 1:
            return vectors.resized(parts[0][1], max(width(low, high), len(parts[0][1])))
        return vectors.total(self.gates, parts, low, high)

    def _divided(self, value: Number) -> Vector:
        """a // c or a % c: slices of a where c is a power of two; else q and r with a = c q + r.

        0 <= r < c leaves one pair (q, r) for each a: both are functions of the fields.
        """
        op, (a, c) = value.op, value.args
        vector, gates = self.vector(a), self.gates
        if c & (c - 1) == 0:
            k = c.bit_length() - 1
            if op == "//":
                return _shifted(vector, k, width(value.low, value.high))
            return [*vectors.resized(vector, max(k, len(vector)))[:k], FALSE]
        key = id(a), c
        if key not in self._divisions:
            low, high = a.low // c, a.high // c
            q = [gates.variable() for _ in range(width(low, high) - (low >= 0))]
            q = [*q, FALSE] if low >= 0 else q
            r = [*(gates.variable() for _ in range((c - 1).bit_length())), FALSE]
            back = vectors.total(gates, [(c, q), (1, r)], *_reach(q, r, c))
            for literal in vectors.equal(gates, back, vector):
                gates.add([literal])
            for breach in vectors.breaches(gates, r, vectors.constant(c - 1)):
                gates.add([-literal for literal in breach])
            self._divisions[key] = q, r
        q, r = self._divisions[key]
        return vectors.resized(q if op == "//" else r, width(value.low, value.high))


_ORDER = {"==", "!=", "<", "<=", ">", ">="}
_OPPOSITE = {"<": ">=", ">=": "<", "<=": ">", ">": "<="}
_LOGIC: dict[str, Callable[[Gates, list[int]], int]] = {
    "not": lambda gates, x: -x[0],
    "and": lambda gates, x: gates.all(x),
    "or": lambda gates, x: gates.any(x),
    "xor": lambda gates, x: gates.xor(*x),
    "iff": lambda gates, x: -gates.xor(*x),
    "implies": lambda gates, x: gates.any([-x[0], x[1]]),
    "if": lambda gates, x: gates.mux(*x),
}


def is_one_hot(field: Field) -> bool:
    """Does the field have one variable for each of its values?"""
    most = ONE_HOT_INTEGER if isinstance(field, Integer) else ONE_HOT_CHOICE
    return 2 < field.size <= most


def _variables(field: Field) -> int:
    if field.size <= 2:
        return field.size - 1
    if is_one_hot(field):
        return field.size
    if isinstance(field, Integer):
        return width(field.low, field.high) - (field.low >= 0)
    return (field.size - 1).bit_length()


def linear(value: Number) -> tuple[list[tuple[Number, int]], int]:
    """value = sum_k c_k t_k + c, with each t_k once and no c_k = 0: ([(t_k, c_k)], c)."""
    terms: dict[int, tuple[Number, int]] = {}
    constant = 0
    stack: list[tuple[Any, int]] = [(value, 1)]
    while stack:
        node, c = stack.pop()
        op, args = node.op, node.args
        if op == "const":
            constant += c * args[0]
        elif op == "+":
            stack += [(arg, c) for arg in reversed(args)]
        elif op == "neg":
            stack.append((args[0], -c))
        elif op == "<<":
            stack.append((args[0], c << args[1]))
        elif op == "*" and _is_linear(args):
            factor, other = args if args[0].low == args[0].high else args[::-1]
            stack.append((other, c * factor.low))
        elif op == "count":
            stack += [(number(arg), c) for arg in reversed(args)]
        else:
            # A rule as a number is made anew by each operation; the rule itself is the same node.
            key = id(args[0]) if op == "truth" else id(node)
            terms[key] = node, terms.get(key, (node, 0))[1] + c
    return [(t, c) for t, c in terms.values() if c], constant


def _is_linear(args: tuple[Any, ...]) -> bool:
    return any(isinstance(a, Number) and a.low == a.high for a in args)


def _reach(q: Vector, r: Vector, c: int) -> tuple[int, int]:
    """Bounds of c q + r over all bits of q and r, also those that no row has."""
    top = (1 << len(q) - 1) - 1
    bottom = 0 if q[-1] == FALSE else -(1 << len(q) - 1)
    return c * bottom, c * top + (1 << len(r) - 1) - 1


def _shifted(vector: Vector, k: int, bits: int) -> Vector:
    return vectors.resized(vector[k:] or vector[-1:], bits)


def _cells(encoder: Encoder, columns: tuple[Any, ...], rows: Any) -> list[dict[int, int]]:
    """For each column of a table: the literal of each value that occurs in it."""
    cells = []
    for k, column in enumerate(columns):
        values = {row[k] for row in rows}
        if isinstance(column, Choice):
            cells.append({v: encoder.has(column, v) for v in values})
        elif isinstance(column, Rule):
            literal = encoder.literal(column)
            cells.append({v: literal if v == 1 else -literal for v in values & {0, 1}})
            cells[-1].update(dict.fromkeys(values - {0, 1}, FALSE))
        else:
            cells.append({v: encoder.literal(column == v) for v in values})
    return cells
