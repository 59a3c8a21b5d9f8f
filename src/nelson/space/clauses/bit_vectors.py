"""Bit vectors as gates: expressions as vectors of literals, each made once.

A vector is a list of literals, the lowest bit first, here without a sign: bit k counts 2^k. Sums
and products drop their carries. A quotient is made by long division, so each of its bits is a
function of the operands, also where the divisor is 0:

    for k from the highest bit down:  r = 2 r + a_k;  q_k = (r >= b);  r = r - b if q_k

With b = 0 every q_k is true and r keeps its value: q = 2^w - 1 and r = a, as SMT-LIB wants it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nelson.formula.encode import Thresholds
from nelson.kernels.core.deadline import check_time
from nelson.space.clauses import vectors
from nelson.space.clauses.gates import FALSE, TRUE, Gates
from nelson.space.clauses.numbers import Numbers
from nelson.space.clauses.vectors import Vector
from nelson.space.language.expressions import Expression, Rule
from nelson.space.language.vectors import Bits

_SUMS = ("bvadd", "bvsub")


class BitVectors(Numbers):
    """Fields and numbers, and vectors of bits."""

    def __init__(self) -> None:
        super().__init__()
        self._patterns: dict[int, Vector] = {}  # by id of the vector, which `_alive` holds

    def pattern(self, x: Bits) -> Vector:
        """A vector, the lowest bit first, without a sign."""
        if (known := self._patterns.get(id(x))) is None:
            known = self._patterns[id(x)] = self._blasted(x)
            self._alive.append(x)
        return known

    def _blasted(self, x: Bits) -> Vector:
        op, args, gates, width = x.op, x.args, self.gates, x.width
        if op == "bits":
            return self.bits(args[0])[:width]
        if op == "bvconst":
            return vectors.constant(args[0], width)
        if op in _SUMS:
            return total(gates, *self._terms(x), width)
        if op == "bvif":
            then, otherwise = self.pattern(args[1]), self.pattern(args[2])
            return vectors.chosen(gates, self.literal(args[0]), then, otherwise)
        a = self.pattern(args[0])
        if op == "extract":
            return a[args[2] : args[1] + 1]
        if op in ("zero_extend", "sign_extend"):
            return a + [a[-1] if op == "sign_extend" else FALSE] * args[1]
        if op in ("signed", "unsigned"):
            return a
        if op == "bvnot":
            return [-literal for literal in a]
        if op == "bvneg":
            return negated(gates, a)
        return _BINARY[op](gates, a, self.pattern(args[1]))

    def prepare(self, root: Expression) -> None:
        """Translate the rules and vectors below a node from the leaves up: depth costs no stack."""
        stack: list[tuple[Expression, bool]] = [(root, False)]
        seen: set[int] = set()
        while stack:
            node, ready = stack.pop()
            if ready:
                if isinstance(node, Bits):
                    self.pattern(node)
                elif isinstance(node, Rule):
                    self.literal(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                nested = self._summands(node) if node.op in _SUMS else node.args
                stack += [(arg, False) for arg in nested if isinstance(arg, (Bits, Rule))]

    @staticmethod
    def _summands(x: Expression) -> list[Expression]:
        """The terms of a nested sum, which is translated as one."""
        terms, stack = [], [x]
        while stack:
            node = stack.pop()
            if node.op in _SUMS:
                stack += node.args
            else:
                terms.append(node)
        return terms

    def _terms(self, x: Bits) -> tuple[list[Vector], int]:
        """x = the sum of some vectors and a constant, mod 2^width: the terms of nested sums."""
        terms: list[Vector] = []
        rest = 0
        stack = [(x, 1)]
        while stack:
            node, sign = stack.pop()
            if node.op in _SUMS and (node is x or id(node) not in self._patterns):
                stack += [(node.args[1], sign if node.op == "bvadd" else -sign)]
                stack += [(node.args[0], sign)]
                continue
            vector = self.pattern(node)
            if all(abs(literal) == TRUE for literal in vector):
                rest += sign * sum(1 << k for k, literal in enumerate(vector) if literal == TRUE)
            elif sign > 0:
                terms.append(vector)
            else:  # -a = not a + 1
                terms.append([-literal for literal in vector])
                rest += 1
        return terms, rest

    # --- comparisons ------------------------------------------------------------------------------

    def compared(self, op: str, a: Bits, b: Bits) -> int:
        """A literal for bv=, bvult, bvule, bvslt or bvsle."""
        if op in ("bv=", "bvult", "bvule"):
            for x, y, left in ((a, b, True), (b, a, False)):
                if (counted := self._counted(op, x, y, left)) is not None:
                    return counted
        p, q = self.pattern(a), self.pattern(b)
        if op == "bv=":
            return self.gates.all(vectors.equal(self.gates, p, q))
        if op.endswith("lt"):  # a < b is not b <= a
            return -at_most(self.gates, q, p, op == "bvslt")
        return at_most(self.gates, p, q, op == "bvsle")

    def _counted(self, op: str, x: Bits, y: Bits, left: bool) -> int | None:
        """The comparison of a sum of single bits, a population count, with a constant y.

        A decision diagram compiles to far smaller circuits than the adders of such a sum.
        """
        if y.op != "bvconst" or x.op != "bvadd":
            return None
        terms, rest = self._terms(x)
        rows = [[literal for literal in term if literal != FALSE] for term in terms]
        lowest = all(row == term[:1] for row, term in zip(rows, terms, strict=True))
        literals = tuple(row[0] for row in rows) if lowest else ()
        distinct = len({abs(literal) for literal in literals}) == len(literals)
        if len(literals) < 3 or not distinct or rest or len(literals) >= 1 << x.width:
            return None
        counter, bound = self.counter((1,) * len(literals), literals), y.args[0]
        if op == "bv=":
            return self.gates.all(
                [self.at_least(counter, bound), -self.at_least(counter, bound + 1)]
            )
        if left:  # sum < c, sum <= c
            return -self.at_least(counter, bound + (op == "bvule"))
        return self.at_least(counter, bound + (op == "bvult"))

    # --- sums of rules ----------------------------------------------------------------------------

    def counter(self, weights: tuple[int, ...], literals: tuple[int, ...]) -> Thresholds:
        """The sum of some literals with positive weights, as a decision diagram."""
        return Thresholds(weights, literals, iter(self.gates.variable, None))

    def at_least(self, counter: Thresholds, bound: int) -> int:
        """A literal for: the sum of the counter is at least `bound`."""
        literal = counter.at_least(min(max(bound, 0), sum(counter.weights) + 1))
        for clause in counter.written:
            self.gates.add(clause)
        counter.written.clear()
        return literal


# --- operators ------------------------------------------------------------------------------------


def total(gates: Gates, terms: list[Vector], rest: int, width: int) -> Vector:
    """The sum of some vectors and a constant, mod 2^width."""
    parts = [(1, [*term[:width], FALSE]) for term in terms]
    if rest := rest % (1 << width):
        parts.append((1, [*vectors.constant(rest, width), FALSE]))
    return vectors.total_mod(gates, parts, width)


def product(gates: Gates, a: Vector, b: Vector) -> Vector:
    """a b mod 2^width."""
    width = len(a)
    a, b = vectors.by_unknowns(a, b)
    shifted = []
    for j, literal in enumerate(a):
        check_time()
        if literal != FALSE:
            both = [gates.all([literal, other]) for other in b[: width - j]]
            shifted.append((1 << j, [*both, FALSE]))
    return vectors.total_mod(gates, shifted, width)


def negated(gates: Gates, a: Vector) -> Vector:
    """-a mod 2^width."""
    return total(gates, [[-x for x in a]], 1, len(a))


def difference(gates: Gates, a: Vector, b: Vector) -> Vector:
    """a - b mod 2^width."""
    return total(gates, [a, [-x for x in b]], 1, len(a))


def at_most(gates: Gates, a: Vector, b: Vector, is_signed: bool = False) -> int:
    """A literal for: a <= b."""
    if is_signed:
        return -gates.any_of_all(vectors.breaches(gates, a, b))
    return -gates.any_of_all(vectors.breaches(gates, [*a, FALSE], [*b, FALSE]))


def divided(gates: Gates, a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """(quotient, remainder), without signs."""
    if all(abs(x) == TRUE for x in b) and sum(x == TRUE for x in b) == 1:
        k = b.index(TRUE)  # a power of two
        return a[k:] + [FALSE] * k, a[:k] + [FALSE] * (len(a) - k)
    quotient: Vector = []
    rest: Vector = []  # below b, or below 2^(number of steps)
    for literal in reversed(a):
        rest = [literal, *rest]
        bits = len(rest)
        wide = any(x != FALSE for x in b[bits:])
        low = b[:bits] + [FALSE] * (bits - len(b))
        bit = at_most(gates, low, rest)
        if wide:
            bit = gates.all([bit, *(-x for x in b[bits:])])
        quotient.append(bit)
        rest = vectors.chosen(gates, bit, difference(gates, rest, low), rest)[: len(a)]
    return quotient[::-1], rest


def signed_divided(gates: Gates, a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """(quotient rounded toward zero, remainder with the sign of the dividend)."""
    minus_a, minus_b = a[-1], b[-1]
    quotient, rest = divided(gates, magnitude(gates, a), magnitude(gates, b))
    turned = gates.xor(minus_a, minus_b)
    return (
        vectors.chosen(gates, turned, negated(gates, quotient), quotient),
        vectors.chosen(gates, minus_a, negated(gates, rest), rest),
    )


def modulus(gates: Gates, a: Vector, b: Vector) -> Vector:
    """The remainder with the sign of the divisor (bvsmod)."""
    _, rest = signed_divided(gates, a, b)
    other = gates.all([gates.any(rest), gates.xor(a[-1], b[-1])])
    return vectors.chosen(gates, other, total(gates, [rest, b], 0, len(a)), rest)


def magnitude(gates: Gates, a: Vector) -> Vector:
    return vectors.chosen(gates, a[-1], negated(gates, a), a)


def shifted(op: str, gates: Gates, a: Vector, amount: Vector) -> Vector:
    """bvshl, bvlshr or bvashr, by a vector of any width without sign."""
    width, fill = len(a), a[-1] if op == "bvashr" else FALSE
    stages = (width - 1).bit_length()
    out = list(a)
    for k, literal in enumerate(amount[:stages]):
        step = min(1 << k, width)
        if op == "bvshl":
            moved = [FALSE] * step + out[: width - step]
        else:
            moved = out[step:] + [fill] * step
        out = vectors.chosen(gates, literal, moved, out)
    if beyond := gates.any(amount[stages:]) if amount[stages:] else FALSE:
        out = vectors.chosen(gates, beyond, [fill] * width, out)
    return out


_BINARY: dict[str, Callable[[Gates, Vector, Vector], Vector]] = {
    "concat": lambda gates, a, b: b + a,
    "bvmul": product,
    "bvand": lambda gates, a, b: [gates.all(pair) for pair in zip(a, b, strict=True)],
    "bvor": lambda gates, a, b: [gates.any(pair) for pair in zip(a, b, strict=True)],
    "bvxor": lambda gates, a, b: [gates.xor(p, q) for p, q in zip(a, b, strict=True)],
    **{op: partial(shifted, op) for op in ("bvshl", "bvlshr", "bvashr")},
    "bvudiv": lambda gates, a, b: divided(gates, a, b)[0],
    "bvurem": lambda gates, a, b: divided(gates, a, b)[1],
    "bvsdiv": lambda gates, a, b: signed_divided(gates, a, b)[0],
    "bvsrem": lambda gates, a, b: signed_divided(gates, a, b)[1],
    "bvsmod": modulus,
}
