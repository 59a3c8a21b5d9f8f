"""Clauses under construction. Every auxiliary variable is defined by an equivalence.

    g <-> a and b        is written as   (-g a) (-g b) (g -a -b)

So each auxiliary variable is a function of the fields: a row has exactly one completion, uniform
over assignments is uniform over rows, and the number of solutions is the number of rows. One half
of an equivalence would be enough for a solver, but would leave g free in some rows.

Literals are DIMACS integers; TRUE and -TRUE are constants and never reach a clause. Equal gates are
made once. Variables of fields are 1, 2, ...; gates are numbered from FIRST_GATE on. In the end
`numbered` gives the gates that the rules need their final numbers, behind those of the fields.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from nelson.errors import FormulaError
from nelson.kernels.core.deadline import check_time

TRUE = 2**40
FALSE = -TRUE
#: Most literals in all clauses of a space: about a gigabyte.
MAX_LITERALS = 20_000_000
FIRST_GATE = 2**30


class LongRule(Exception):
    """A rule has more clauses than are written when it is stated."""


class Gates:
    """Clauses, and the gates that they define."""

    def __init__(self) -> None:
        self._steps = 0
        self.most_steps = math.inf  # clauses of the rule that is being stated
        self.n_fields = 0
        self.n_gates = 0
        self.clauses: list[list[int]] = []  # clauses that must hold
        self.defined: dict[int, list[list[int]]] = {}  # by gate: the clauses that define it
        self._known: dict[tuple[str, tuple[int, ...]], int] = {}
        self._size = 0

    def fork(self) -> Gates:
        """A copy that can grow by itself."""
        copy = Gates()
        copy.n_fields, copy.n_gates = self.n_fields, self.n_gates
        copy.clauses, copy.defined = list(self.clauses), dict(self.defined)
        copy._known = dict(self._known)
        copy._size = self._size
        return copy

    @contextmanager
    def whole_or_not_at_all(self, most: float = math.inf) -> Iterator[None]:
        """What is added inside is taken back if an error ends it. most: clauses before LongRule."""
        grown: list[Any] = [self.clauses, self.defined, self._known]
        before = [len(each) for each in grown], self.n_gates, self._size
        self.most_steps = self._steps + most
        try:
            yield
        except BaseException:
            sizes, self.n_gates, self._size = before
            for each, size in zip(grown, sizes, strict=True):
                truncate(each, size)
            raise
        finally:
            self.most_steps = math.inf

    def field_variables(self, count: int) -> list[int]:
        first, self.n_fields = self.n_fields + 1, self.n_fields + count
        return list(range(first, self.n_fields + 1))

    def variable(self) -> int:
        """A new variable, which the caller has to make a function of the fields."""
        self.n_gates += 1
        return FIRST_GATE + self.n_gates

    def numbered(
        self, more: Iterable[list[int]], literals: Iterable[int]
    ) -> tuple[Iterator[list[int]], int, dict[int, int]]:
        """All clauses that must hold, `more`, and the definitions of the gates that occur in them
        or in `literals`: (clauses, number of variables, final number of each gate).

        Clauses come one by one: Python's garbage collector looks at every list that is there.

        Gates of the clauses come first, then those of each literal: further literals do not change
        the numbers of the gates before them.
        """
        stated = [*self.clauses, *more]
        number: dict[int, int] = {}
        for roots in ((x for clause in stated for x in clause), *([x] for x in literals)):
            stack, gates = [abs(x) for x in roots if abs(x) != TRUE], set()
            while stack:
                v = stack.pop()
                self._look()
                if v > self.n_fields and v not in number and v not in gates:
                    gates.add(v)
                    for clause in self.defined.get(v, ()):
                        stack += [abs(x) for x in clause]
            number |= {v: k for k, v in enumerate(sorted(gates), self.n_fields + len(number) + 1)}
        return self._final(number, stated), self.n_fields + len(number), number

    def _final(self, number: dict[int, int], stated: list[list[int]]) -> Iterator[list[int]]:
        """The definitions of these gates and the clauses, with final numbers."""
        final = number | {-gate: -v for gate, v in number.items()}
        definitions = (clause for gate in number for clause in self.defined.get(gate, ()))
        for clause in itertools.chain(definitions, stated):
            self._look()
            yield [final.get(x, x) for x in clause]

    def add(self, clause: Iterable[int]) -> None:
        """A clause that must hold."""
        literals = [literal for literal in clause if literal != FALSE]
        if TRUE not in literals:
            self.grow(literals)
            self.clauses.append(literals)

    def forbid(self, sets: Iterable[list[int]]) -> None:
        """Clauses that must hold: none of these sets of literals is all true."""
        for literals in sets:
            self.add(-literal for literal in literals)

    def grow(self, clause: list[int]) -> None:
        """Count the literals of a clause. Raises FormulaError when there are too many."""
        self._look()
        self._size += len(clause)
        if self._size > MAX_LITERALS:
            raise FormulaError(
                f"clauses with more than {MAX_LITERALS:,} literals",
                expected="smaller fields or fewer rules",
            )

    def _look(self) -> None:
        """Raise if the time of the call is up, or a rule has too many clauses to be stated now."""
        self._steps += 1
        every = 256  # clauses, which take less than a millisecond
        if self._steps % every == 0:
            check_time()
            if self._steps > self.most_steps:
                raise LongRule

    def all(self, literals: Iterable[int]) -> int:
        """A literal for: all of these are true."""
        wanted = {literal for literal in literals if literal != TRUE}
        if FALSE in wanted or any(-literal in wanted for literal in wanted):
            return FALSE
        if len(wanted) < 2:
            return wanted.pop() if wanted else TRUE
        key = tuple(sorted(wanted))
        return self._gate("all", key, lambda g: [*([-g, x] for x in key), [g, *(-x for x in key)]])

    def any(self, literals: Iterable[int]) -> int:
        """A literal for: one or more of these are true."""
        return -self.all([-literal for literal in literals])

    def any_of_all(self, sets: Iterable[list[int]]) -> int:
        """A literal for: one or more of these sets of literals is all true."""
        return self.any([self.all(literals) for literals in sets])

    def xor(self, a: int, b: int) -> int:
        """A literal for: exactly one of the two is true."""
        if abs(a) == TRUE or abs(b) == TRUE:
            return b if a == FALSE else -b if a == TRUE else a if b == FALSE else -a
        if abs(a) == abs(b):
            return FALSE if a == b else TRUE
        flip = (a < 0) != (b < 0)
        p, q = key = tuple(sorted((abs(a), abs(b))))
        gate = self._gate("xor", key, lambda g: ([-g, p, q], [-g, -p, -q], [g, -p, q], [g, p, -q]))
        return -gate if flip else gate

    def xor3(self, a: int, b: int, c: int) -> int:
        """A literal for a + b + c mod 2: the sum bit of a full adder, without a gate in between."""
        literals = (a, b, c)
        if any(abs(x) == TRUE for x in literals) or len({abs(x) for x in literals}) < 3:
            return self.xor(self.xor(a, b), c)
        flip = sum(x < 0 for x in literals) % 2 == 1
        p, q, r = key = tuple(sorted(map(abs, literals)))
        signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
        gate = self._gate(
            "xor",
            key,
            lambda g: (
                clause
                for s, t in signs
                for clause in ([-g, s * p, t * q, s * t * r], [g, s * p, t * q, -s * t * r])
            ),
        )
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
        pairs = ((a, b), (a, c), (b, c))
        return self._gate(
            "majority",
            key,
            lambda g: (clause for p, q in pairs for clause in ([-g, p, q], [g, -p, -q])),
        )

    def agree(self, so_far: int, a: int, b: int) -> int:
        """A literal for: `so_far` is true, and a equals b."""
        literals = (so_far, a, b)
        if any(abs(x) == TRUE for x in literals) or len({abs(x) for x in literals}) < 3:
            return self.all([so_far, -self.xor(a, b)])
        key = (so_far, a, b) if abs(a) < abs(b) else (so_far, b, a)
        return self._gate(
            "agree",
            key,
            lambda g: (
                *([-g, so_far], [-g, a, -b], [-g, -a, b]),
                *([g, -so_far, a, b], [g, -so_far, -a, -b]),
            ),
        )

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
            return (self.any if holds else self.all)([-condition if holds else condition, then])
        if condition < 0:
            condition, then, otherwise = -condition, otherwise, then
        c, p, q = key = condition, then, otherwise
        return self._gate("mux", key, lambda g: ([-g, -c, p], [-g, c, q], [g, -c, -p], [g, c, -q]))

    def select(self, has: list[int], values: list[int]) -> int:
        """A literal for: values[k], where exactly one literal has[k] is true."""
        pairs = list(zip(has, values, strict=True))
        return self._gate(
            "select",
            (*has, *values),
            lambda g: (clause for c, x in pairs for clause in ([-c, -g, x], [-c, g, -x])),
        )

    def _gate(
        self, kind: str, key: tuple[int, ...], clauses: Callable[[int], Iterable[list[int]]]
    ) -> int:
        """The gate of a kind on some literals, which is made once; clauses: what defines it."""
        gate = self._known.get((kind, key))
        if gate is None:
            gate = self._known[kind, key] = self.variable()
            self.defined[gate] = []
            for clause in clauses(gate):
                if TRUE not in clause:
                    open_literals = [x for x in clause if x != FALSE]
                    self.grow(open_literals)
                    self.defined[gate].append(open_literals)
        return gate


def truncate(grown: list[Any] | dict[Any, Any], size: int) -> None:
    """Take back what was added last."""
    if isinstance(grown, list):
        del grown[size:]
    else:
        for key in list(itertools.islice(reversed(grown), len(grown) - size)):
            del grown[key]


def renumbered(literal: int, number: dict[int, int]) -> int:
    """A literal with the final number of its variable; constants stay."""
    v = number.get(abs(literal), abs(literal))
    return v if literal > 0 else -v
