"""`pycmsgen.Solver`: each call of `solve` gives a fresh draw from the solutions.

CMSGen promises no law; here a solution is drawn from P(x) ~ product of the weights over solutions,
exactly where that is possible. Otherwise a warning says what is known.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from nelson.compat.clauses import Clauses, iterated, literals, not_negative
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.formula import Formula
from nelson.sampling.sample_stream import plan

__version__ = VERSION = "6.1.1"

#: Solutions that are drawn ahead.
BLOCK = 64

#: Of C integers.
BUFFERS = (array, memoryview, np.ndarray)


def _flat(items: Any) -> Iterator[list[int]]:
    """The clauses of a buffer, without empty ones."""
    view = memoryview(items)
    if view.ndim != 1:
        raise ValueError(f"invalid clause array: expected 1-D array, got {view.ndim}-D")
    if view.format not in ("i", "l", "q"):
        raise ValueError(f"invalid clause array: invalid format '{view.format}'")
    if len(view) and view[-1] != 0:
        raise ValueError("last clause not terminated by zero")
    clause: list[int] = []
    for x in view.tolist():
        if x:
            clause.append(x)
        elif clause:
            yield clause
            clause = []


class Solver(Clauses):
    """Clauses and parities in, random solutions out."""

    def __init__(
        self,
        verbose: int = 0,
        seed: int = 0,
        time_limit: float = math.inf,
        confl_limit: int = 2**62,
    ) -> None:
        """seed: the same calls with the same seed give the same solutions. time_limit: seconds of
        one `solve`. verbose and confl_limit have no effect.
        """
        super().__init__()
        self._check(verbose, time_limit, confl_limit)
        self._seed, self._time_limit = seed, time_limit
        self._xors: list[tuple[list[int], bool]] = []
        self._weights: dict[int, float] = {}
        self._model: list[int] | None = []
        self._calls = 0
        self._forget()

    def _forget(self) -> None:
        self._formula: Formula | None = None
        self._blocks: dict[tuple[int, ...], list[list[bool]]] = {}

    @staticmethod
    def _check(verbose: int, time_limit: float, confl_limit: int) -> None:
        not_negative(verbose, "verbosity")
        not_negative(time_limit, "time_limit")
        not_negative(confl_limit, "conflict limit")

    def add_clause(self, clause: Iterable[int]) -> None:
        super().add_clause(clause)
        self._forget()

    def add_clauses(self, clauses: Any) -> None:
        """Several clauses; or a flat array of C integers in which each clause ends in 0."""
        for clause in _flat(clauses) if isinstance(clauses, BUFFERS) else iterated(clauses):
            self.add_clause(clause)

    def add_xor_clause(self, xor_clause: Iterable[int], rhs: bool) -> None:
        """x_1 + ... + x_k = rhs (mod 2)."""
        if not isinstance(rhs, bool):
            raise TypeError("rhs must be boolean")
        variables = literals(xor_clause)
        if min(variables, default=1) < 0:
            raise ValueError(
                "XOR clause must contiain only positive variables (not inverted literals)"
            )
        self._xors.append((variables, rhs))
        self._grow(variables)
        self._forget()

    def set_var_weight(self, var: int, weight: float) -> None:
        """The factor of x = 1; that of x = 0 is 1 - weight."""
        if var <= 0:
            raise ValueError("invalid variable number, it must be a positive integer")
        if not 0 <= weight <= 1:
            raise ValueError(
                "invalid weight, it must be a non-negative value between 0 and 1, inclusive"
            )
        self._weights[var] = weight
        self._grow([var])
        self._forget()

    def nb_vars(self) -> int:
        """The largest variable so far."""
        return self._largest

    def solve(
        self,
        assumptions: Iterable[int] | None = None,
        verbose: int = 0,
        time_limit: float | None = None,
        confl_limit: int = 2**62,
    ) -> tuple[bool | None, tuple[bool | None, ...] | None]:
        """(True, (None, value of 1, value of 2, ...)), (False, None) if there is no solution,
        (None, None) if none was found in time.
        """
        limit = self._time_limit if time_limit is None else time_limit
        self._check(verbose, limit, confl_limit)
        given = () if assumptions is None else tuple(literals(assumptions))
        for x in given:
            if abs(x) > self._largest:
                raise ValueError(f"Variable {abs(x)} not used in clauses")
        try:
            row = self._next(given, None if math.isinf(limit) else limit)
        except Unsatisfiable:
            if not given:
                self._model = None
            return False, None
        except BudgetExceeded:
            return None, None
        self._model = [v if value else -v for v, value in enumerate(row, 1)]
        return True, (None, *row)

    def _next(self, given: tuple[int, ...], seconds: float | None) -> list[bool]:
        if not self._largest and not any(not clause for clause in self._clauses):
            return []
        if not self._blocks.get(given):
            samples = plan(self._built(), self._theta(), given, seconds=seconds).sample(
                BLOCK, seed=(self._seed << 32) + self._calls
            )
            self._calls += 1
            self._tell(samples)
            if not samples.count:
                raise BudgetExceeded(samples.why)
            self._blocks[given] = samples.to_numpy().tolist()
        return self._blocks[given].pop()

    def _built(self) -> Formula:
        if self._formula is None:
            formula = Formula(self._clauses, self._largest)
            for items, parity in self._xors:
                formula = formula.xor(items, parity)
            self._formula = formula
        return self._formula

    def _theta(self) -> Any:
        if not self._weights:
            return None
        theta = np.zeros(self._largest)
        for v, p in self._weights.items():
            theta[v - 1] = math.log(p / (1 - p)) if 0 < p < 1 else math.copysign(math.inf, p - 0.5)
        return theta

    def is_satisfiable(self) -> bool | None:
        """Is there a solution? None if that was not decided."""
        return self.solve()[0]

    def get_model(self) -> list[int]:
        """The last solution, as literals."""
        if self._model is None:
            raise SystemError("called get_model on an UNSAT solver")
        return list(self._model)
