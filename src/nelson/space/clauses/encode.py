"""Fields and rules as clauses, and the formulas made of them.

How a rule becomes clauses (`numbers` says how a field does):

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
from contextlib import suppress
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.memo import Recent
from nelson.io.progress import phase
from nelson.policy import DEFAULT
from nelson.space.clauses import diagrams, vectors
from nelson.space.clauses.bit_vectors import BitVectors
from nelson.space.clauses.gates import FALSE, TRUE, Gates, LongRule, renumbered, truncate
from nelson.space.clauses.numbers import is_one_hot, linear
from nelson.space.language.evaluate import evaluate
from nelson.space.language.expressions import (
    Category,
    Number,
    Rule,
    leaves,
)
from nelson.space.language.fields import FIELDS, Choice, Field, Flag
from nelson.space.language.text import COMPARISONS, VECTOR_COMPARISONS, text


class Encoder(BitVectors):
    """The clauses of a space so far, as `Space.encoding`. `literal` and `require` translate rules.

    It is for nelson itself: users state fields and rules, and ask for rows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[list[list[int]]] = []  # the clauses that state each rule
        self._literals: dict[int, int] = {}  # by id of the rule, which `_alive` holds
        self._group: list[list[int]] | None = None
        self._waiting: list[tuple[int, Rule]] = []  # rules without clauses yet; their groups
        self._changed()

    def _changed(self) -> None:
        """Forget the formulas that were made before a field or a rule was added."""
        self._formula: Formula | None = None
        # Weights, shares and conditions beyond the rules: few of them return.
        self._extended: Recent[tuple[str, ...], tuple[Formula, list[int]]] = Recent(16)

    def fork(self) -> Encoder:
        """A copy that can grow by itself. All stated rules have their clauses in it."""
        self._write_waiting()
        copy = Encoder()
        copy.gates = self.gates.fork()
        copy.of_field = dict(self.of_field)
        copy.groups = list(self.groups)
        copy._vectors, copy._literals = dict(self._vectors), dict(self._literals)
        copy._divisions, copy._alive = dict(self._divisions), list(self._alive)
        copy._patterns = dict(self._patterns)
        return copy

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: without what is found by the id of an expression.

        The expressions of a copy have other ids, and an id of the original may come to stand for
        another expression.
        """
        by_id: dict[str, Any] = {"_vectors": {}, "_literals": {}, "_divisions": {}, "_alive": []}
        return self.__dict__ | by_id | {"_patterns": {}}

    # --- formulas ---------------------------------------------------------------------------------

    @property
    def formula(self) -> Formula:
        """The clauses. The projection is the variables of the fields, which determine the rest."""
        if self._formula is None:
            self._formula = self._build([])[0]
        return self._formula

    def extended(self, rules: list[Rule]) -> tuple[Formula, list[int]]:
        """A formula in which each of these rules has a literal. TRUE and -TRUE are constants.

        It is the formula of the space if that has such literals already.
        """
        if not rules:
            return self.formula, []
        return self._extended.once(tuple(text(rule) for rule in rules), lambda: self._build(rules))

    def _build(self, rules: list[Rule]) -> tuple[Formula, list[int]]:
        if not self.of_field:
            raise FormulaError("a space without fields", expected="space.integer(...), ...")
        with phase("writing the rules as clauses"):
            self._write_waiting()
            return self._built(self.fork() if rules else self, rules)

    def _built(self, encoder: Encoder, rules: list[Rule]) -> tuple[Formula, list[int]]:
        literals = [encoder.literal(rule) for rule in rules]
        stated = [clause for group in encoder.groups for clause in group]
        clauses, n, number = encoder.gates.numbered(stated, literals)
        literals = [renumbered(x, number) for x in literals]
        if rules and n == self.formula.n_vars:
            return self.formula, literals
        shown = [v for variables in self.of_field.values() for v in variables]
        return Formula(clauses, n, projection=shown), literals

    # --- rules ------------------------------------------------------------------------------------

    def add_field(self, field: Field) -> None:
        super().add_field(field)
        self._changed()

    def require(self, rule: Rule) -> None:
        """State a rule. Its clauses are kept apart, to find rules that contradict each other.

        A rule of many clauses, and all that follow it, have their clauses when they are needed:
        then the call that needs them may have a limit.
        """
        most = DEFAULT.space.clauses_at_once
        self._alive.append(rule)
        place = len(self.groups)
        written: list[list[int]] | None = None
        with suppress(LongRule):
            written = None if self._waiting else self._written(rule, most)
        if written is None:
            self._waiting.append((place, rule))
        self.groups.append(written or [])
        self._changed()

    def _written(self, rule: Rule, most: float = math.inf) -> list[list[int]]:
        """The clauses of a rule. After an error nothing of it is left."""
        known = self._vectors, self._literals, self._divisions, self._patterns
        sizes = [len(each) for each in known]
        self._group = []
        try:
            with self.gates.whole_or_not_at_all(most):
                self._assert(rule, True)
            return self._group
        except BaseException:
            for each, size in zip(known, sizes, strict=True):
                truncate(each, size)  # type: ignore[arg-type]
            raise
        finally:
            self._group = None

    def _write_waiting(self) -> None:
        """Write the clauses of the rules that wait for them."""
        while self._waiting:
            place, rule = self._waiting[0]
            self.groups[place] = self._written(rule)
            del self._waiting[0]

    def require_clauses(self, clauses: Iterable[tuple[Rule, list[int]]]) -> None:
        """State rules that are clauses: (the rule, its literals). `require` without translation."""
        for rule, literals in clauses:
            self._alive.append(rule)
            self.groups.append([literals])
        self._changed()

    def _add(self, clause: Iterable[int]) -> None:
        """A clause of the rule that is being stated, or of a field."""
        literals = [literal for literal in clause if literal != FALSE]
        if TRUE in literals:
            return
        self.gates.grow(literals)
        if self._group is None:
            self.gates.clauses.append(literals)
        else:
            self._group.append(literals)

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
            diagrams.state(self.gates, *self._truth(fields, rule, holds), self._add)
        elif op in COMPARISONS:
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
            self._alive.append(rule)
        return known

    def _literal(self, rule: Rule) -> int:
        op, args, gates = rule.op, rule.args, self.gates
        if op == "const":
            return TRUE if args[0] else FALSE
        if isinstance(rule, Flag):
            return self.of_field[rule.name][0]
        if op in _LOGIC:
            return _LOGIC[op](gates, [self.literal(arg) for arg in args])
        if op == "bit":
            return self.pattern(args[0])[args[1]]
        if op in VECTOR_COMPARISONS:
            return self.compared(op, *args)
        if op == "distinct":
            return gates.all([self.literal(a != b) for a, b in itertools.combinations(args, 2)])
        if (fields := self._tabulated(rule)) is not None:
            return diagrams.tabulated(self.gates, *self._truth(fields, rule, True))
        if op in COMPARISONS:
            return self._comparison(rule)
        if op == "is":
            return gates.any(self.has(args[0], code) for code in args[1])
        if op == "same":
            return self._same(*args)
        if op == "in":
            return gates.any(self._between(args[0], *run) for run in args[1])
        assert op == "table", op
        return diagrams.listed(
            self.gates, _cells(self, args[0], args[1]), {tuple(row) for row in args[1]}
        )

    # --- comparisons ------------------------------------------------------------------------------

    def _comparison(self, rule: Rule) -> int:
        if rule.op in ("==", "!="):
            literals, positive = self._equality(rule)
            both = self.gates.all(literals)
            return both if positive else -both
        breaches, positive = self._order(rule)
        breach = self.gates.any_of_all(breaches)
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
            self._add([self.gates.any_of_all(breaches)])

    def _equality(self, rule: Rule) -> tuple[list[int], bool]:
        """(literals that are all true iff both sides are equal, is it `==`)."""
        counter, left, right = self._sides(rule)
        if counter is not None:
            literals = [self.at_least(counter, right), -self.at_least(counter, right + 1)]
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
            return [[self.at_least(counter, right + 1)]], positive
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
                if len(terms) * sum(weights) <= DEFAULT.space.counted:
                    return self.counter(weights, literals), None, bound
        left = [(t, c) for t, c in terms if c > 0]
        right = [(t, -c) for t, c in terms if c < 0]
        return (
            None,
            self.sum_of(left, max(constant, 0)),
            self.sum_of(right, max(-constant, 0)),
        )

    def _between(self, value: Number, first: int, last: int) -> int:
        vector, gates = self.vector(value), self.gates
        if first == last:
            return gates.all(vectors.equal(gates, vector, vectors.constant(first)))
        low = vectors.breaches(gates, vectors.constant(first), vector)
        high = vectors.breaches(gates, vector, vectors.constant(last))
        return -gates.any_of_all([*low, *high])

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
        if not fields or math.prod(f.size for f in fields.values()) > DEFAULT.space.tabulated:
            return None
        if all(isinstance(f, Flag) for f in fields.values()) and len(fields) > 3:
            return None  # a sum of flags: counted
        return list(fields.values())

    def _truth(
        self, fields: list[Field], rule: Rule, holds: bool
    ) -> tuple[np.ndarray, diagrams.Literals]:
        """For which values of the fields the rule holds (or does not), and their literals."""
        sizes = [f.size for f in fields]
        grid = np.indices(sizes).reshape(len(sizes), -1)
        columns = {f.name: codes for f, codes in zip(fields, grid, strict=True)}
        truth = np.broadcast_to(evaluate(rule, columns), grid.shape[1]) == holds
        return truth.reshape(sizes), [[self.has(f, k) for k in range(f.size)] for f in fields]


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
