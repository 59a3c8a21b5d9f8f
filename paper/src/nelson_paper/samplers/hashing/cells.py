"""Cells: the solutions of a formula that satisfy k random parity constraints.

An *element* is an assignment of the m hash bits that satisfies the formula. A visible variable is
one hash bit, or several if its weight was turned into bits (`embed`). A cell is the intersection of
the elements with a random affine subspace of {0,1}^m of dimension m - k: k linear equations, drawn
uniformly among the independent ones. Each element lies in it with probability 2^-k. Affine maps
take any three points to any three others, so that given one element of the cell, any two others are
in it with at most the product of their probabilities: means and variances are at least as good as
those of the hash families H_xor(m, k, 3) of the papers, whose equations may depend on each other.

A cell is enumerated in one of two ways, which find the same elements:

* if there are few free dimensions f (of the subspace and the auxiliary variables): all 2^f points
  at once. A variable is an integer of 2^f bits, and a clause is an OR of such integers;
* else CryptoMiniSat, with the equations in reduced form, finds one element after the other. A
  clause over the free bits excludes each element found.
"""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

from nelson_paper.samplers.hashing.embed import comparator, embed

#: Up to this many free dimensions all points of a subspace are checked.
DIMENSIONS = 18
#: Local search and lucky guesses before each search cost ten times as much as the search itself.
OPTIONS = {"sls": "0", "lucky": "0"}


class Cell(NamedTuple):
    weights: list[float]  # of its elements, in (0, 1]
    rows: Any  # of element j: values of variables 1..n is rows(j)


class HashedSpace:
    """The solutions of clauses over variables 1..n, the first `len(theta)` of them visible.

    The weight of an element is exp(sum_i e_i x_i - sum_i max(e_i, 0)) <= 1, e the residual of
    theta after embedding; at least 1 / tilt.
    """

    def __init__(self, n: int, clauses: list[list[int]], theta: list[float], tilt: float) -> None:
        self.n, self.clauses = n, clauses
        self.chains = embed(theta, tilt)
        self.residual = [(v, c.residual) for v, c in enumerate(self.chains, 1) if c.residual]
        self.shift = sum(max(e, 0.0) for _, e in self.residual)
        spread = sum(abs(e) for _, e in self.residual)
        self.tilt = math.exp(spread) if spread < 700 else math.inf
        self.names: list[int] = []  # solver variable of each hash bit, least significant first
        self.extended = list(clauses)
        top = n
        for v, link in enumerate(self.chains, 1):
            names = [v] if link.bits == 1 else list(range(top + 1, top + 1 + link.bits))
            self.names += names
            if link.bits > 1:
                top += link.bits
                self.extended += comparator(v, names[::-1], link.above)
        self.m = len(self.names)
        self.hidden = range(len(theta) + 1, n + 1)

    def cell(
        self, rng: random.Random, k: int, limit: float = math.inf, weighted: bool = True
    ) -> Cell | None:
        """A random cell of k equations; None if its weight (or number of elements) > limit."""
        if self.m - k + len(self.hidden) <= DIMENSIONS:
            return self._all_points(*subspace(rng, self.m, self.m - k), limit, weighted)
        return self._solved(equations(rng, self.m, k), limit, weighted)

    def weight(self, values: Any) -> float:
        """values[v] of variables 1..n."""
        return math.exp(sum(e for v, e in self.residual if values[v]) - self.shift)

    # --- all points of a subspace ---------------------------------------------------------------

    def _all_points(
        self, origin: int, basis: list[int], limit: float, weighted: bool
    ) -> Cell | None:
        """Point t is origin + the sum of basis[i] over the set bits i of t, for i < f; the higher
        bits of t are the auxiliary variables.
        """
        f = len(basis)
        size = 1 << f + len(self.hidden)
        full = (1 << size) - 1
        # Row i of `units` has bit i of t at point t; a hash bit is a sum of such rows.
        units = [_unit(i, size) for i in range(f + len(self.hidden))]
        column = [0] * (self.n + 1)  # bit t: value at point t
        coefficients = zip(*(_digits(vector, self.m) for vector in (origin, *basis)), strict=True)
        for v, link in enumerate(self.chains, 1):
            acc = 0
            for place in range(link.bits):  # least significant bit first
                constant, *steps = next(coefficients)
                bit = full if constant == "1" else 0
                for unit, step in zip(units, steps, strict=False):
                    if step == "1":
                        bit ^= unit
                if link.bits == 1:
                    acc = bit
                elif link.above >> place & 1:
                    acc |= full ^ bit
                else:
                    acc &= full ^ bit
            column[v] = acc
        for i, v in enumerate(self.hidden):
            column[v] = units[f + i]
        good = full
        for clause in self.clauses:
            met = 0
            for literal in clause:
                met |= column[literal] if literal > 0 else full ^ column[-literal]
            good &= met
            if not good:
                break
        if good.bit_count() > (limit * self.tilt if weighted else limit):
            return None
        points = _ones(good)
        weights = [-self.shift] * len(points)
        for v, e in self.residual:
            values = _digits(column[v], size)
            weights = [
                w + e if values[t] == "1" else w for w, t in zip(weights, points, strict=True)
            ]
        weights = [math.exp(w) for w in weights]
        if weighted and sum(weights) > limit:
            return None
        return Cell(weights, lambda j: [column[v] >> points[j] & 1 for v in range(1, self.n + 1)])

    # --- CryptoMiniSat --------------------------------------------------------------------------

    def _solved(self, system: dict[int, int], limit: float, weighted: bool) -> Cell | None:
        from pycryptosat import Solver

        solver = Solver(options=OPTIONS)
        if self.extended:
            solver.add_clauses(self.extended)
        for pivot, row in system.items():
            others = [self.names[j] for j in range(self.m) if row >> j + 1 & 1]
            if len(others) == 1:
                solver.add_clause([self.names[pivot] if row & 1 else -self.names[pivot]])
            else:
                solver.add_xor_clause(others, bool(row & 1))
        free = [self.names[j] for j in range(self.m) if j not in system]
        elements: list[tuple[bool, ...]] = []
        total = 0.0
        while True:
            satisfiable, model = solver.solve()
            if not satisfiable:
                break
            elements.append(_values(model, self.n))
            total += self.weight(elements[-1]) if weighted else 1
            if total > limit:
                return None
            if not free:
                break
            # The model leaves out bits that no clause mentions: they count as False.
            solver.add_clause([-v if v < len(model) and model[v] else v for v in free])
        elements.sort(key=lambda values: values[1:])  # independent of the solver's order
        weights = [self.weight(values) for values in elements]
        return Cell(weights, lambda j: list(elements[j][1:]))


def _values(model: tuple[bool | None, ...], n: int) -> tuple[bool, ...]:
    return tuple(bool(value) for value in (*model[: n + 1], *[False] * (n + 1 - len(model))))


def _unit(i: int, size: int) -> int:
    """Bit t is bit i of t, for t < size: runs of 2^i zeros and 2^i ones."""
    value, width = ((1 << (1 << i)) - 1) << (1 << i), 2 << i
    while width < size:
        value |= value << width
        width *= 2
    return value


def _digits(value: int, width: int) -> str:
    """Bit t as character t."""
    return f"{value:0{width}b}"[::-1] if width else ""


def _ones(mask: int) -> list[int]:
    """Positions of the set bits."""
    text = bin(mask)[:1:-1]
    places, at = [], text.find("1")
    while at >= 0:
        places.append(at)
        at = text.find("1", at + 1)
    return places


# --- linear algebra over GF(2): a vector is an integer -------------------------------------------


def equations(rng: random.Random, m: int, k: int) -> dict[int, int]:
    """k independent random equations over m bits, reduced: {pivot bit: row}; bit j + 1 of a row is
    the coefficient of bit j, bit 0 the right-hand side.
    """
    rows: dict[int, int] = {}
    while len(rows) < k:
        row = rng.getrandbits(m + 1)
        for pivot, other in rows.items():
            if row >> pivot + 1 & 1:
                row ^= other
        if row > 1:
            pivot = row.bit_length() - 2
            for other_pivot, other in rows.items():
                if other >> pivot + 1 & 1:
                    rows[other_pivot] = other ^ row
            rows[pivot] = row
    return rows


def subspace(rng: random.Random, m: int, f: int) -> tuple[int, list[int]]:
    """A random affine subspace of {0,1}^m of dimension f: a point, and f independent directions."""
    reduced: list[int] = []
    basis: list[int] = []
    while len(basis) < f:
        vector = left = rng.getrandbits(m)
        for other in reduced:
            left = min(left, left ^ other)
        if left:
            reduced.append(left)
            basis.append(vector)
    return rng.getrandbits(m) if m else 0, basis
