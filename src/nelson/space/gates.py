"""Clauses under construction. Every auxiliary variable is defined by an equivalence.

    g <-> a and b        is written as   (-g a) (-g b) (g -a -b)

So each auxiliary variable is a function of the fields: a row has exactly one completion, uniform
over assignments is uniform over rows, and the number of solutions is the number of rows. One half
of an equivalence would be enough for a solver, but would leave g free in some rows.

Literals are DIMACS integers; TRUE and -TRUE are constants and never reach a clause. Equal gates are
made once.
"""

from __future__ import annotations

from collections.abc import Iterable

from nelson.errors import FormulaError

TRUE = 2**40
FALSE = -TRUE
#: Most literals in all clauses of a space: about a gigabyte.
MAX_LITERALS = 20_000_000


class Gates:
    """Clauses, and the gates that they define."""

    def __init__(self) -> None:
        self.n = 0
        self.clauses: list[list[int]] = []
        self._known: dict[tuple[str, tuple[int, ...]], int] = {}
        self._size = 0

    def fork(self) -> Gates:
        """A copy that can grow by itself."""
        copy = Gates()
        copy.n, copy.clauses, copy._known = self.n, list(self.clauses), dict(self._known)
        copy._size = self._size
        return copy

    def variable(self) -> int:
        self.n += 1
        return self.n

    def add(self, clause: Iterable[int]) -> None:
        """A clause that must hold."""
        kept = [literal for literal in clause if literal != FALSE]
        if TRUE not in kept:
            self.grow(kept)
            self.clauses.append(kept)

    def grow(self, clause: list[int]) -> None:
        """Count the literals of a clause. Raises FormulaError when there are too many."""
        self._size += len(clause)
        if self._size > MAX_LITERALS:
            raise FormulaError(
                f"clauses with more than {MAX_LITERALS:,} literals",
                expected="smaller fields or fewer rules",
            )

    def all(self, literals: Iterable[int]) -> int:
        """A literal for: all of these are true."""
        wanted = {literal for literal in literals if literal != TRUE}
        if FALSE in wanted or any(-literal in wanted for literal in wanted):
            return FALSE
        if len(wanted) < 2:
            return wanted.pop() if wanted else TRUE
        key = tuple(sorted(wanted))
        if (known := self._known.get(("all", key))) is not None:
            return known
        gate = self._new("all", key)
        for literal in key:
            self.add([-gate, literal])
        self.add([gate, *(-literal for literal in key)])
        return gate

    def any(self, literals: Iterable[int]) -> int:
        """A literal for: one or more of these are true."""
        return -self.all([-literal for literal in literals])

    def xor(self, a: int, b: int) -> int:
        """A literal for: exactly one of the two is true."""
        if abs(a) == TRUE or abs(b) == TRUE:
            return b if a == FALSE else -b if a == TRUE else a if b == FALSE else -a
        if abs(a) == abs(b):
            return FALSE if a == b else TRUE
        flip = (a < 0) != (b < 0)
        key = tuple(sorted((abs(a), abs(b))))
        gate = self._known.get(("xor", key))
        if gate is None:
            gate = self._new("xor", key)
            p, q = key
            for clause in ([-gate, p, q], [-gate, -p, -q], [gate, -p, q], [gate, p, -q]):
                self.add(clause)
        return -gate if flip else gate

    def xor3(self, a: int, b: int, c: int) -> int:
        """A literal for a + b + c mod 2: the sum bit of a full adder, without a gate in between."""
        literals = (a, b, c)
        if any(abs(x) == TRUE for x in literals) or len({abs(x) for x in literals}) < 3:
            return self.xor(self.xor(a, b), c)
        flip = sum(x < 0 for x in literals) % 2 == 1
        key = tuple(sorted(map(abs, literals)))
        gate = self._known.get(("xor", key))
        if gate is None:
            gate = self._new("xor", key)
            p, q, r = key
            for s in (1, -1):
                for t in (1, -1):
                    self.add([-gate, s * p, t * q, s * t * r])
                    self.add([gate, s * p, t * q, -s * t * r])
        return -gate if flip else gate

    def majority(self, a: int, b: int, c: int) -> int:
        """A literal for: two or more of the three are true. The carry of a full adder."""
        if abs(a) == TRUE:
            return self.any([b, c]) if a == TRUE else self.all([b, c])
        if abs(b) == TRUE or abs(c) == TRUE:
            return self.majority(b, c, a)
        if abs(a) == abs(b):
            return a if a == b else c
        if abs(b) == abs(c) or abs(a) == abs(c):
            return self.majority(b, c, a)
        key = tuple(sorted((a, b, c)))
        if sum(x < 0 for x in key) >= 2:  # majority(-a, -b, -c) = -majority(a, b, c)
            return -self.majority(-a, -b, -c)
        if (known := self._known.get(("majority", key))) is not None:
            return known
        gate = self._new("majority", key)
        for p, q in ((a, b), (a, c), (b, c)):
            self.add([-gate, p, q])
            self.add([gate, -p, -q])
        return gate

    def agree(self, so_far: int, a: int, b: int) -> int:
        """A literal for: `so_far` is true, and a equals b."""
        literals = (so_far, a, b)
        if any(abs(x) == TRUE for x in literals) or len({abs(x) for x in literals}) < 3:
            return self.all([so_far, -self.xor(a, b)])
        key = (so_far, a, b) if abs(a) < abs(b) else (so_far, b, a)
        if (known := self._known.get(("agree", key))) is not None:
            return known
        gate = self._new("agree", key)
        for clause in ([so_far], [a, -b], [-a, b]):
            self.add([-gate, *clause])
        self.add([gate, -so_far, a, b])
        self.add([gate, -so_far, -a, -b])
        return gate

    def mux(self, condition: int, then: int, otherwise: int) -> int:
        """A literal for: `then` if the condition is true, else `otherwise`."""
        if abs(condition) == TRUE:
            return then if condition == TRUE else otherwise
        if then == otherwise:
            return then
        if then == -otherwise:
            return self.xor(condition, otherwise)
        if abs(then) in (TRUE, abs(condition)):
            holds = then in (TRUE, condition)
            return (self.any if holds else self.all)(
                [condition if holds else -condition, otherwise]
            )
        if abs(otherwise) in (TRUE, abs(condition)):
            holds = otherwise in (TRUE, -condition)
            return (self.any if holds else self.all)(
                [-condition if holds else condition, then]
            )
        if condition < 0:
            condition, then, otherwise = -condition, otherwise, then
        key = (condition, then, otherwise)
        if (known := self._known.get(("mux", key))) is not None:
            return known
        gate = self._new("mux", key)
        for sign in (1, -1):
            self.add([-sign * gate, -condition, sign * then])
            self.add([-sign * gate, condition, sign * otherwise])
        return gate

    def select(self, has: list[int], values: list[int]) -> int:
        """A literal for: values[k], where exactly one literal has[k] is true."""
        key = (*has, *values)
        if (known := self._known.get(("select", key))) is not None:
            return known
        gate = self._new("select", key)
        for condition, value in zip(has, values, strict=True):
            self.add([-condition, -gate, value])
            self.add([-condition, gate, -value])
        return gate

    def _new(self, kind: str, key: tuple[int, ...]) -> int:
        gate = self._known[kind, key] = self.variable()
        return gate
