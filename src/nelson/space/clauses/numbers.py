"""Fields as variables, and numbers as vectors of literals: sums, products, quotients, choices.

    two values                            one variable
    a choice of up to 64 values           one variable for each value, exactly one of them true
    an integer of up to 12 values         the same
    anything larger                       a binary number: the value itself in two's complement, or
                                          the position of the value

One variable for each value suits `distinct`, tables and single values; binary suits sums
(`SpacePolicy` has the measurements).
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from typing import Any

from nelson.errors import FormulaError
from nelson.policy import DEFAULT
from nelson.space.clauses import vectors
from nelson.space.clauses.gates import FALSE, TRUE, Gates
from nelson.space.clauses.vectors import Vector
from nelson.space.language.expressions import Expression, Number, Rule, number, width
from nelson.space.language.fields import BitField, Field, Integer, NumericChoice
from nelson.space.language.vectors import Bits

#: Widest number, in bits.
MAX_WIDTH = 4096


class Numbers:
    """Fields with the clauses of their domains, and vectors of numbers, each made once."""

    def __init__(self) -> None:
        self.gates = Gates()
        self.of_field: dict[str, list[int]] = {}  # the variables of each field, in order
        self._vectors: dict[int, Vector] = {}  # by id of the expression, which `_alive` holds
        self._divisions: dict[tuple[int, int], tuple[Vector, Vector]] = {}  # (q, r) of a by c
        self._alive: list[Expression] = []

    # --- fields -----------------------------------------------------------------------------------

    def add_field(self, field: Field) -> None:
        made = self.gates.field_variables(_variables(field))
        self.of_field[field.name] = made
        if is_one_hot(field):
            self.gates.add(made)
            for a, b in itertools.combinations(made, 2):
                self.gates.add([-a, -b])
        elif isinstance(field, Integer) and field.size > 2:
            low, high = vectors.constant(field.low), vectors.constant(field.high)
            self.gates.forbid(vectors.breaches(self.gates, self.bits(field), high))
            self.gates.forbid(vectors.breaches(self.gates, low, self.bits(field)))
        elif field.size > 2:
            top = vectors.constant(field.size - 1)
            self.gates.forbid(vectors.breaches(self.gates, [*made, FALSE], top))

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
        return self.gates.all(self.code_literals(field, code))

    def code_literals(self, field: Field, code: int) -> list[int]:
        """Literals that together say: the field has the value of this code."""
        made = self.of_field[field.name]
        if field.size <= 2 or is_one_hot(field):
            return [literal for literal in [self.indicators(field)[code]] if literal != TRUE]
        stored = field.low + code if isinstance(field, Integer) else code
        return [x if stored >> k & 1 else -x for k, x in enumerate(made)]

    def evidence(self, field: Field, value: Any) -> list[int]:
        """The literals that hold if and only if the field has this value."""
        return self.code_literals(field, field.code(value))

    def cubes(self, field: Field, key: Any) -> list[list[int]]:
        """A value, or a range of values, as sets of literals of which exactly one holds then.

        The literals are variables of the field: no gate is needed. A range of a binary number is
        cut into blocks of 2^j values whose binary numbers differ in the lowest j bits only: at most
        two blocks for each j.
        """
        if not isinstance(key, range):
            return [self.evidence(field, key)]
        if field.size <= 2 or is_one_hot(field) or not isinstance(field, Integer):
            return [self.evidence(field, value) for value in key]
        first, last = key[0], key[-1]
        made = self.of_field[field.name]
        sets = []
        while first <= last:
            free = (first & -first).bit_length() - 1 if first else len(made)
            free = min(free, (last - first + 1).bit_length() - 1, len(made))
            sets.append([x if first >> k & 1 else -x for k, x in enumerate(made) if k >= free])
            first += 1 << free
        return sets

    def bits(self, field: Integer | NumericChoice) -> Vector:
        """The number that a field holds, as a vector."""
        made = self.of_field[field.name]
        if isinstance(field, Integer) and not is_one_hot(field) and field.size > 2:
            return [*made, FALSE] if field.low >= 0 else list(made)
        values = [field.value(k) for k in range(field.size)]
        literals = [self.has(field, k) for k in range(field.size)]
        return [
            self.gates.any(x for x, value in zip(literals, values, strict=True) if value >> j & 1)
            for j in range(width(field.low, field.high))
        ]

    # --- numbers ----------------------------------------------------------------------------------

    @abstractmethod
    def pattern(self, x: Bits) -> Vector:
        """A bit vector as a vector of literals, without a sign."""

    @abstractmethod
    def literal(self, rule: Rule) -> int:
        """A literal that is true if and only if the rule holds."""

    def vector(self, value: Number) -> Vector:
        """A number as a vector of literals."""
        if (known := self._vectors.get(id(value))) is None:
            if width(value.low, value.high) > MAX_WIDTH:
                raise FormulaError(
                    f"{value!r}, a number of {width(value.low, value.high)} bits",
                    expected=f"at most {MAX_WIDTH} bits",
                )
            known = self._vectors[id(value)] = self._vector(value)
            self._alive.append(value)
        return known

    def _vector(self, value: Number) -> Vector:
        op, args, gates = value.op, value.args, self.gates
        bounds = value.low, value.high
        if op == "const":
            return vectors.constant(args[0])
        if isinstance(value, (Integer, NumericChoice)):
            return self.bits(value)
        if op == "truth":
            return [self.literal(args[0]), FALSE]
        if op == "value":
            pattern = self.pattern(args[0])
            return pattern if args[0].is_signed else [*pattern, FALSE]
        if op in ("+", "neg", "count", "<<") or (op == "*" and _is_linear(args)):
            terms, constant = linear(value)
            return self.sum_of(terms, constant)
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

    def sum_of(self, terms: list[tuple[Number, int]], constant: int) -> Vector:
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
            gates.forbid(vectors.breaches(gates, r, vectors.constant(c - 1)))
            self._divisions[key] = q, r
        q, r = self._divisions[key]
        return vectors.resized(q if op == "//" else r, width(value.low, value.high))


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


def is_one_hot(field: Field) -> bool:
    """Does the field have one variable for each of its values?"""
    if isinstance(field, BitField):
        return False
    policy = DEFAULT.space
    most = policy.one_hot_integer if isinstance(field, Integer) else policy.one_hot_choice
    return 2 < field.size <= most


def _variables(field: Field) -> int:
    if field.size <= 2:
        return field.size - 1
    if is_one_hot(field):
        return field.size
    if isinstance(field, Integer):
        return width(field.low, field.high) - (field.low >= 0)
    return (field.size - 1).bit_length()
