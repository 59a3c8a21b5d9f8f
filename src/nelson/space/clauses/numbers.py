"""Numbers as vectors of literals: sums, products, quotients, shifts, choices of two numbers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from nelson.errors import FormulaError
from nelson.space.clauses import vectors
from nelson.space.clauses.field_bits import FieldBits
from nelson.space.clauses.gates import FALSE
from nelson.space.clauses.vectors import Vector
from nelson.space.language.expressions import Expression, Number, Rule, number, width
from nelson.space.language.fields import Integer, NumericChoice

#: Widest number, in bits.
MAX_WIDTH = 4096


class Numbers(FieldBits):
    """Vectors of numbers, each made once."""

    def __init__(self) -> None:
        super().__init__()
        self._vectors: dict[int, Vector] = {}  # by id of the expression, which `_kept` keeps alive
        self._divisions: dict[tuple[int, int], tuple[Vector, Vector]] = {}  # (q, r) of a by c
        self._kept: list[Expression] = []

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
            self._kept.append(value)
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
            for breach in vectors.breaches(gates, r, vectors.constant(c - 1)):
                gates.add([-literal for literal in breach])
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
