"""Random expressions over bit vectors: as a node of the language, and as a term of SMT-LIB.

The two are built side by side from different vocabularies: other solvers read the term.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from nelson.space import (
    Space,
    concat,
    if_else,
    popcount,
    sign_extend,
    signed,
    unsigned,
    zero_extend,
)
from nelson.space.language.expressions import Rule
from nelson.space.language.vectors import Bits, constant, smod


class Term(NamedTuple):
    """A vector without sign, and the same in SMT-LIB."""

    node: Bits
    smt: str


class Fact(NamedTuple):
    """A rule, and the same in SMT-LIB."""

    node: Rule
    smt: str


_BINARY = {
    "bvadd": lambda a, b: a + b,
    "bvsub": lambda a, b: a - b,
    "bvmul": lambda a, b: a * b,
    "bvand": lambda a, b: a & b,
    "bvor": lambda a, b: a | b,
    "bvxor": lambda a, b: a ^ b,
    "bvudiv": lambda a, b: a // b,
    "bvurem": lambda a, b: a % b,
    "bvshl": lambda a, b: a << b,
    "bvlshr": lambda a, b: a >> b,
    "bvashr": lambda a, b: unsigned(signed(a) >> b),
    "bvsdiv": lambda a, b: unsigned(signed(a) // signed(b)),
    "bvsrem": lambda a, b: unsigned(signed(a) % signed(b)),
    "bvsmod": smod,
}
_COMPARE = {
    "=": lambda a, b: a == b,
    "distinct": lambda a, b: a != b,
    "bvult": lambda a, b: a < b,
    "bvule": lambda a, b: a <= b,
    "bvugt": lambda a, b: a > b,
    "bvuge": lambda a, b: a >= b,
    "bvslt": lambda a, b: signed(a) < signed(b),
    "bvsle": lambda a, b: signed(a) <= signed(b),
    "bvsgt": lambda a, b: signed(a) > signed(b),
    "bvsge": lambda a, b: signed(a) >= signed(b),
}


class RandomVectors:
    """A space of one to three vectors, and expressions over them."""

    def __init__(self, seed: int, most_bits: int = 9) -> None:
        self.rng = np.random.default_rng(seed)
        self.space = Space()
        widths = [self.small(1, 5) for _ in range(self.small(1, 3))]
        while sum(widths) > most_bits:
            widths.pop()
        self.widths = {f"v{k}": w for k, w in enumerate(widths)}
        made = [self.space.bits(name, w) for name, w in self.widths.items()]
        self.leaves = [Term(x, x.name) for x in made]

    def small(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def pick(self, items: Any) -> Any:
        return items[self.small(0, len(items) - 1)]

    def sized(self, term: Term, width: int) -> Term:
        """The term with another width, by a cut or an extension."""
        node, smt, more = term.node, term.smt, width - term.node.width
        if more < 0:
            low = self.small(0, -more)
            high = low + width - 1
            return Term(node[high:low], f"((_ extract {high} {low}) {smt})")
        if more == 0:
            return term
        if self.rng.random() < 0.5:
            made = unsigned(sign_extend(signed(node), width))
            return Term(made, f"((_ sign_extend {more}) {smt})")
        return Term(zero_extend(node, width), f"((_ zero_extend {more}) {smt})")

    def vector(self, width: int, depth: int) -> Term:
        if depth == 0 or self.rng.random() < 0.1:
            if self.rng.random() < 0.25:
                value = self.small(0, 2 ** min(width, 30) - 1)
                return Term(constant(value, width), f"(_ bv{value} {width})")
            return self.sized(self.pick(self.leaves), width)
        op = self.pick([*_BINARY, "bvnot", "bvneg", "ite", "concat", "resize", "rule", "nand"])
        if op in _BINARY:
            a, b = self.vector(width, depth - 1), self.vector(width, depth - 1)
            return Term(_BINARY[op](a.node, b.node), f"({op} {a.smt} {b.smt})")
        if op == "concat" and width > 1:
            low = self.small(1, width - 1)
            a, b = self.vector(width - low, depth - 1), self.vector(low, depth - 1)
            return Term(concat(a.node, b.node), f"(concat {a.smt} {b.smt})")
        if op == "ite":
            c = self.rule(depth - 1)
            a, b = self.vector(width, depth - 1), self.vector(width, depth - 1)
            return Term(if_else(c.node, a.node, b.node), f"(ite {c.smt} {a.smt} {b.smt})")
        if op == "rule":
            c = self.rule(depth - 1)
            made = if_else(c.node, constant(1, 1), constant(0, 1))
            return self.sized(Term(made, f"(ite {c.smt} #b1 #b0)"), width)
        if op == "nand":
            a, b = self.vector(width, depth - 1), self.vector(width, depth - 1)
            return Term(~(a.node & b.node), f"(bvnand {a.smt} {b.smt})")
        a = self.vector(self.small(1, 6) if op == "resize" else width, depth - 1)
        if op == "bvneg":
            return Term(-a.node, f"(bvneg {a.smt})")
        if op == "bvnot":
            return Term(~a.node, f"(bvnot {a.smt})")
        return self.sized(a, width)

    def rule(self, depth: int) -> Fact:
        op = self.pick([*_COMPARE, "not", "and", "or", "xor", "=>", "ones"])
        if depth == 0 or op in _COMPARE:
            op = op if op in _COMPARE else "bvult"
            width = self.small(1, 6)
            a, b = self.vector(width, max(depth - 1, 0)), self.vector(width, max(depth - 1, 0))
            return Fact(_COMPARE[op](a.node, b.node), f"({op} {a.smt} {b.smt})")
        if op == "ones":
            a, most = self.pick(self.leaves), self.small(0, 4)
            w = a.node.width
            bits = " ".join(f"((_ zero_extend 9) ((_ extract {k} {k}) {a.smt}))" for k in range(w))
            total = f"(bvadd {bits})" if w > 1 else bits
            return Fact(popcount(a.node) <= most, f"(bvule {total} (_ bv{most} 10))")
        a, b = self.rule(depth - 1), self.rule(depth - 1)
        if op == "not":
            return Fact(~a.node, f"(not {a.smt})")
        made = {
            "and": lambda: a.node & b.node,
            "or": lambda: a.node | b.node,
            "xor": lambda: a.node ^ b.node,
            "=>": lambda: a.node.implies(b.node),
        }[op]()
        return Fact(made, f"({op} {a.smt} {b.smt})")

    @property
    def declarations(self) -> str:
        return "".join(f"(declare-const {n} (_ BitVec {w}))\n" for n, w in self.widths.items())

    def grid(self) -> dict[str, np.ndarray]:
        """All rows, as columns of patterns."""
        rows = np.array(list(itertools.product(*(range(1 << w) for w in self.widths.values()))))
        return {name: rows[:, k] for k, name in enumerate(self.widths)}
