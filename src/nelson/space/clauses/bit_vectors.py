"""Expressions over bit vectors as vectors of literals, each made once."""

from __future__ import annotations

from nelson.formula.encode import Thresholds
from nelson.space.clauses import blaster
from nelson.space.clauses.gates import FALSE, TRUE
from nelson.space.clauses.numbers import Numbers
from nelson.space.clauses.vectors import Vector
from nelson.space.language.expressions import Expression, Rule
from nelson.space.language.vectors import Bits

_SUMS = ("bvadd", "bvsub")


class BitVectors(Numbers):
    """Fields and numbers, and vectors of bits."""

    def __init__(self) -> None:
        super().__init__()
        self._patterns: dict[int, Vector] = {}  # by id of the vector, which `_kept` keeps alive

    def pattern(self, x: Bits) -> Vector:
        """A vector, the lowest bit first, without a sign."""
        if (known := self._patterns.get(id(x))) is None:
            known = self._patterns[id(x)] = self._blasted(x)
            self._kept.append(x)
        return known

    def _blasted(self, x: Bits) -> Vector:
        op, args, gates, width = x.op, x.args, self.gates, x.width
        if op == "bits":
            return self.bits(args[0])[:width]
        if op == "bvconst":
            return blaster.constant(args[0], width)
        if op in _SUMS:
            terms, rest = self._terms(x)
            return blaster.total(gates, terms, rest, width)
        if op == "bvif":
            then, otherwise = self.pattern(args[1]), self.pattern(args[2])
            return blaster.chosen(gates, self.literal(args[0]), then, otherwise)
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
            return blaster.negated(gates, a)
        b = self.pattern(args[1])
        if op == "concat":
            return b + a
        if op == "bvmul":
            return blaster.product(gates, a, b)
        if op == "bvxor":
            return [gates.xor(p, q) for p, q in zip(a, b, strict=True)]
        if op in ("bvand", "bvor"):
            join = gates.all if op == "bvand" else gates.any
            return [join([p, q]) for p, q in zip(a, b, strict=True)]
        if op in ("bvshl", "bvlshr", "bvashr"):
            return blaster.shifted(gates, op, a, b)
        if op in ("bvudiv", "bvurem"):
            return blaster.divided(gates, a, b)[op == "bvurem"]
        if op in ("bvsdiv", "bvsrem"):
            return blaster.signed_divided(gates, a, b)[op == "bvsrem"]
        assert op == "bvsmod", op
        return blaster.modulus(gates, a, b)

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
        found, stack = [], [x]
        while stack:
            node = stack.pop()
            if node.op in _SUMS:
                stack += node.args
            else:
                found.append(node)
        return found

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
            return blaster.equal(self.gates, p, q)
        if op.endswith("lt"):  # a < b is not b <= a
            return -blaster.at_most(self.gates, q, p, op == "bvslt")
        return blaster.at_most(self.gates, p, q, op == "bvsle")

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
