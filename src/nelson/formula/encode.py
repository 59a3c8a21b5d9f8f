"""XOR, cardinality and pseudo-Boolean constraints as clauses that keep the distribution.

    Xor:     l_1 + ... + l_k = parity  (mod 2)
    Linear:  low <= a_1 l_1 + ... + a_k l_k <= high,   a_i > 0

A sampler draws from the solutions of the *encoded* clauses. The visible part of a uniform draw is
uniform only if each visible solution has the same number of completions. Here it has exactly one:
full equivalences make every auxiliary variable a function of the visible ones. The usual encodings
(sequential counter, totalizer, BDD with one polarity; PySAT's `CardEnc` and `PBEnc` except for
`pairwise`) state only the implications that a solver needs. Their auxiliary variables are free if
the constraint is slack, so a solution would be drawn in proportion to its number of completions.

- Short constraints need no auxiliary variables. "At most k of n" means that no k + 1 are true
  together: C(n, k + 1) clauses (PySAT's `pairwise` for k = 1). A short XOR is 2^(k-1) clauses.
- A long XOR is cut into chunks t <-> l_1 + ... + l_4, each again an XOR: k/3 auxiliary variables
  with 16 clauses each.
- Linear: s(i, j) = [a_1 l_1 + ... + a_i l_i >= j], with
      s(i, j) <-> s(i-1, j) or (l_i and s(i-1, j - a_i)).
  Only those s(i, j) are made that the two final thresholds need. Thresholds with the same function
  share a variable, which makes this the reduced ordered BDD (Abio et al. 2012): O(n min(k, n - k))
  variables for a cardinality.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nelson.errors import FormulaError

if TYPE_CHECKING:
    from nelson.formula.formula import Formula

MAX_PLAIN_XOR = 5  # longer XORs, in variables, are cut into chunks: 2^(k-1) clauses grow too fast
MAX_PLAIN_CLAUSES = 2_000  # a cardinality that takes more clauses gets auxiliary variables
MAX_AUXILIARY = 2_000_000  # auxiliary variables of one constraint
TRUE = 2**40  # stands for a literal that is always true; -TRUE is false


@dataclass(frozen=True, slots=True)
class Xor:
    """x_v + ... = parity (mod 2), over sorted distinct variables."""

    variables: tuple[int, ...]
    parity: bool

    @classmethod
    def of(cls, literals: Iterable[int], parity: bool = True) -> Xor:
        """From literals: a negation flips the parity, a repeated variable cancels."""
        odd: set[int] = set()
        parity = bool(parity)
        for literal in _literals(literals):
            odd ^= {abs(literal)}
            parity ^= literal < 0
        return cls(tuple(sorted(odd)), parity)

    def satisfied(self, rows: np.ndarray) -> np.ndarray:
        """(m, n) bool -> (m,) bool."""
        columns = np.array(self.variables, dtype=np.int64) - 1
        return np.logical_xor.reduce(rows[:, columns], axis=1) == self.parity

    def clauses(self, new: Iterator[int]) -> Iterator[list[int]]:
        """Clauses; `new` hands out auxiliary variables."""
        rest = list(self.variables)
        while len(rest) > MAX_PLAIN_XOR:
            chunk, rest = rest[: MAX_PLAIN_XOR - 1], rest[MAX_PLAIN_XOR - 1 :]
            t = next(new)
            yield from _plain_xor([*chunk, t], False)
            rest.append(t)
        yield from _plain_xor(rest, self.parity)


@dataclass(frozen=True, slots=True)
class Linear:
    """low <= sum_i weights_i [literals_i] <= high; positive weights, distinct variables."""

    weights: tuple[int, ...]
    literals: tuple[int, ...]
    low: int
    high: int

    @classmethod
    def of(
        cls, weights: Iterable[int], literals: Iterable[int], relation: str, bound: int
    ) -> Linear:
        """From sum_i weights_i literals_i <relation> bound, with any integers as weights.

        c [-v] = c - c [v] gathers the terms of a variable; c [v] = c + |c| [-v] makes all c > 0.
        """
        literals = _literals(literals)
        coefficients = [_integer(w, "weight") for w in weights]
        bound = _integer(bound, "bound")
        if len(coefficients) != len(literals):
            raise FormulaError(
                f"{len(coefficients)} weights for {len(literals)} literals",
                expected="one per literal",
            )
        if relation not in ("<=", ">=", "=="):
            raise FormulaError(f"relation {relation!r}", expected="<=, >= or ==")
        constant = 0
        of_variable: dict[int, int] = {}
        for c, literal in zip(coefficients, literals, strict=True):
            v = abs(literal)
            if literal < 0:
                constant += c
                c = -c
            of_variable[v] = of_variable.get(v, 0) + c
        constant += sum(c for c in of_variable.values() if c < 0)
        terms = [(abs(c), v if c > 0 else -v) for v, c in of_variable.items() if c]
        total, bound = sum(c for c, _ in terms), bound - constant
        low = 0 if relation == "<=" else max(bound, 0)
        high = total if relation == ">=" else min(bound, total)
        unit = math.gcd(*(c for c, _ in terms)) or 1
        return cls(
            tuple(c // unit for c, _ in terms),
            tuple(literal for _, literal in terms),
            -(-low // unit),
            high // unit,
        )

    @property
    def variables(self) -> tuple[int, ...]:
        return tuple(abs(literal) for literal in self.literals)

    def satisfied(self, rows: np.ndarray) -> np.ndarray:
        """(m, n) bool -> (m,) bool."""
        literals = np.array(self.literals, dtype=np.int64)
        exact = np.int64 if sum(self.weights) + abs(self.low) + abs(self.high) < 2**62 else object
        values = (rows[:, np.abs(literals) - 1] ^ (literals < 0)).astype(exact)
        sums = values @ np.array(self.weights, dtype=exact)
        return np.asarray((self.low <= sums) & (sums <= self.high), dtype=bool)

    def clauses(self, new: Iterator[int]) -> Iterator[list[int]]:
        """Clauses; `new` hands out auxiliary variables."""
        n, total = len(self.literals), sum(self.weights)
        if self.low > self.high:
            yield []
        elif total == n and self._direct_size() <= MAX_PLAIN_CLAUSES:
            if self.low > 0:
                yield from map(list, itertools.combinations(self.literals, n - self.low + 1))
            if self.high < n:
                for chosen in itertools.combinations(self.literals, self.high + 1):
                    yield [-literal for literal in chosen]
        else:
            counter = Thresholds(self.weights, self.literals, new)
            counter.add([counter.at_least(self.low)])
            counter.add([-counter.at_least(self.high + 1)])
            yield from counter.written

    def _direct_size(self) -> int:
        n = len(self.literals)
        at_least = math.comb(n, n - self.low + 1) if self.low > 0 else 0
        return at_least + (math.comb(n, self.high + 1) if self.high < n else 0)


Constraint = Xor | Linear


def checked_constraints(constraints: Iterable[Constraint], n_vars: int) -> tuple[Constraint, ...]:
    """Constraints over distinct variables in 1..n_vars, with whole numbers everywhere."""
    checked = tuple(constraints)
    for c in checked:
        numbers = c.variables if isinstance(c, Xor) else (*c.literals, *c.weights, c.low, c.high)
        whole = all(type(v) is int for v in numbers)
        fits = whole and all(1 <= v <= n_vars for v in c.variables)
        if isinstance(c, Xor):
            fits = fits and isinstance(c.parity, bool)
        else:
            fits = fits and len(c.weights) == len(c.literals) and min(c.weights, default=1) > 0
        if not fits or len(set(c.variables)) < len(c.variables):
            raise FormulaError(
                f"constraint {str(c)[:60]}", expected=f"distinct variables in 1..{n_vars}"
            )
    return checked


def extend(f: Formula, constraints: Sequence[Constraint]) -> Formula:
    """The formula f with further constraints. O(size of the encoding)."""
    if f.n_aux and not f.constraints:
        raise FormulaError(
            "auxiliary variables that no constraint of the formula explains",
            expected="a formula without them",
        )
    new = itertools.count(f.n_total + 1)
    flat: list[int] = []
    lengths: list[int] = []
    hidden = list(f.constraints)  # constraints whose encoding has auxiliary variables
    for constraint in constraints:
        for v in constraint.variables:
            if not 1 <= v <= f.n_vars:
                raise FormulaError(f"constraint on variable {v}", expected=f"1..{f.n_vars}")
        for clause in constraint.clauses(new):
            flat.extend(clause)
            lengths.append(len(clause))
            if clause and max(map(abs, clause)) > f.n_vars and hidden[-1:] != [constraint]:
                hidden.append(constraint)
    n_aux = next(new) - 1 - f.n_vars
    literals = np.concatenate([f.literals, np.array(flat, dtype=np.int32)])
    ends = f.offsets[-1] + np.cumsum(np.array(lengths, dtype=np.int64))
    return f.replace(
        literals=literals,
        offsets=np.concatenate([f.offsets, ends]),
        n_aux=n_aux,
        constraints=hidden,
    )


class Thresholds:
    """s(i, j) for one weighted sum, made on demand; equal functions share one literal.

    Level i keeps disjoint intervals [start, stop] of thresholds j over which s(i, j) is the same
    function, in three sorted lists. s(i, j) is true for j <= 0 and false for j > a_1 + ... + a_i.
    """

    def __init__(
        self, weights: tuple[int, ...], literals: tuple[int, ...], new: Iterator[int]
    ) -> None:
        # Light terms come first, so the recursion from the top starts with the heavy ones. After
        # these, most remainders are out of reach of the light terms and need no variable.
        order = sorted(range(len(weights)), key=lambda i: weights[i])
        self.weights = [weights[i] for i in order]
        self.literals = [literals[i] for i in order]
        self.new = new
        self.written: list[list[int]] = []
        self.made = 0
        totals = itertools.accumulate(self.weights, initial=0)
        far = sum(weights) + 1
        self.starts = [[-far, total + 1] for total in totals]
        self.stops = [[0, 2 * far] for _ in self.starts]
        self.nodes = [[TRUE, -TRUE] for _ in self.starts]

    def add(self, clause: list[int]) -> None:
        if TRUE not in clause:
            self.written.append([literal for literal in clause if literal != -TRUE])

    def at_least(self, j: int) -> int:
        """[sum >= j], as a literal."""
        stack = [(len(self.weights), j)]
        while stack:
            i, j = stack[-1]
            if self._find(i, j) is not None:
                stack.pop()
                continue
            without, within = self._find(i - 1, j), self._find(i - 1, j - self.weights[i - 1])
            if without is None:
                stack.append((i - 1, j))
            elif within is None:
                stack.append((i - 1, j - self.weights[i - 1]))
            else:
                self._join(i, without, within)
        interval = self._find(len(self.weights), j)
        assert interval is not None
        return self.nodes[-1][interval]

    def _find(self, i: int, j: int) -> int | None:
        """Position of the interval that holds j at level i."""
        k = bisect.bisect_right(self.starts[i], j) - 1
        return k if k >= 0 and j <= self.stops[i][k] else None

    def _join(self, i: int, without: int, within: int) -> None:
        a, below = self.weights[i - 1], i - 1
        start = max(self.starts[below][without], self.starts[below][within] + a)
        stop = min(self.stops[below][without], self.stops[below][within] + a)
        node = self._or_and(
            self.nodes[below][without], self.literals[i - 1], self.nodes[below][within]
        )
        k = bisect.bisect_left(self.starts[i], start)
        self.starts[i].insert(k, start)
        self.stops[i].insert(k, stop)
        self.nodes[i].insert(k, node)

    def _or_and(self, p: int, literal: int, q: int) -> int:
        """A literal for p or (literal and q), where p implies q."""
        if p == q:
            return p
        if (p, q) == (-TRUE, TRUE):
            return literal
        s = next(self.new)
        self.made += 1
        if self.made > MAX_AUXILIARY:
            raise FormulaError(
                "linear constraint too large to encode", expected=f"at most {MAX_AUXILIARY} sums"
            )
        for clause in ([-s, p, literal], [-s, q], [s, -p], [s, -literal, -q]):
            self.add(clause)
        return s


def _plain_xor(variables: list[int], parity: bool) -> Iterator[list[int]]:
    """All 2^(k-1) clauses: each forbids one assignment of the wrong parity."""
    for signs in itertools.product((1, -1), repeat=len(variables)):
        # The clause is false where v is 0 for sign +1 and 1 for sign -1.
        if (signs.count(-1) % 2 == 1) != parity:
            yield [sign * v for sign, v in zip(signs, variables, strict=True)]


def _literals(literals: Iterable[int]) -> list[int]:
    chosen = [_integer(literal, "literal") for literal in literals]
    if 0 in chosen:
        raise FormulaError("literal 0", expected="non-zero integers")
    return chosen


def _integer(value: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise FormulaError(f"{what} {value!r}", expected="an integer")
    return int(value)
