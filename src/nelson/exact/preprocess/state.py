"""A problem while it is being reduced: clauses, theta, and the eliminated variables in order."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nelson.budget import Budget
from nelson.formula import flat
from nelson.formula.flat import lengths_to_offsets, select


class Visits:
    """Visits (of a literal, a clause, an edge) within a budget. A limit on visits ends a reduction
    at the same place in every run; a deadline is for machines that are slower than expected.
    """

    def __init__(self, visits: int, budget: Budget) -> None:
        self.left = visits
        self.budget = budget
        self.late = False  # the deadline ended it, before the visits were spent

    @property
    def spent(self) -> bool:
        if self.left > 0 and self.budget.spent:
            self.late = True
        return self.left <= 0 or self.late

    def next(self, share: int) -> int:
        """Visits that a loop with `share` visits left may make now; 0 if it must end."""
        # Visits between two looks at the clock: about 20 ms.
        chunk = 2_000_000
        return 0 if self.spent else max(0, min(chunk, share, self.left))

    def use(self, visits: int) -> None:
        self.left -= int(visits)


class Eliminated:
    """Variables that were eliminated, oldest first, as entries of `nelson.kernels.reduce.rebuild`.

    Columns: target, flip, the number of clauses of each entry, the length of each clause, literals.
    """

    DTYPES = (np.int32, np.uint8, np.int64, np.int64, np.int32)

    def __init__(self) -> None:
        self._columns = [[np.zeros(0, dtype)] for dtype in self.DTYPES]

    def add(self, *columns: np.ndarray | list[int]) -> None:
        for blocks, column, dtype in zip(self._columns, columns, self.DTYPES, strict=True):
            blocks.append(np.asarray(column, dtype))

    def constants(self, literals: np.ndarray) -> None:
        """Literals that hold: an entry without a clause, flipped where the literal is positive."""
        self.add(np.abs(literals) - 1, literals > 0, np.zeros(len(literals)), [], [])

    def copies(self, variables: np.ndarray, of: np.ndarray) -> None:
        """x_v = l(x): an entry with one clause, which is violated where l is true."""
        ones = np.ones(len(variables))
        self.add(variables, np.zeros(len(variables)), ones, ones, -of)

    def program(self) -> tuple[np.ndarray, ...]:
        """(target, flip, first, start, literals) for the kernel."""
        target, flip, clauses, lengths, literals = map(np.concatenate, self._columns)
        return target, flip, lengths_to_offsets(clauses), lengths_to_offsets(lengths), literals


@dataclass
class State:
    n: int  # variables, visible and auxiliary
    literals: np.ndarray  # int32: the clauses now
    offsets: np.ndarray  # int64
    theta: np.ndarray  # (n, contexts): one row per variable, since merging variables adds rows
    visits: Visits
    log_constant: np.ndarray  # (contexts,)
    out: np.ndarray  # (n,) bool: no longer a variable of the reduced problem
    eliminated: Eliminated = field(default_factory=Eliminated)
    fixed: list[np.ndarray] = field(default_factory=list)  # literals
    did: dict[str, int] = field(default_factory=dict)  # how many changes of each kind
    version: int = 0  # grows with every change
    cut: bool = False  # the budget ended a step early

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def count(self, what: str, how_often: int) -> None:
        if how_often:
            self.did[what] = self.did.get(what, 0) + int(how_often)
            self.version += 1

    def replace(self, literals: np.ndarray, offsets: np.ndarray) -> None:
        # Read-only like the arrays of a formula: Numba compiles a kernel anew for writable arrays.
        literals.setflags(write=False)
        offsets.setflags(write=False)
        self.literals, self.offsets = literals, offsets

    def keep(self, clauses: np.ndarray, places: np.ndarray | None = None) -> None:
        """Keep only these clauses (bool), and in them only these literals (bool)."""
        if places is not None:
            before = lengths_to_offsets(places)
            lengths = before[self.offsets[1:]] - before[self.offsets[:-1]]
            self.replace(self.literals[places], lengths_to_offsets(lengths))
        self.replace(*select(self.literals, self.offsets, clauses))

    def fix(self, literals: np.ndarray) -> None:
        variables = np.abs(literals) - 1
        self.out[variables] = True
        self.log_constant += self.theta[variables[literals > 0]].sum(axis=0)
        self.eliminated.constants(literals)
        self.fixed.append(literals)

    def merge(self, variables: np.ndarray, into: np.ndarray) -> None:
        """x_v = l(x) for each: theta_v x_v = theta_v x_u, or theta_v - theta_v x_u."""
        sign = np.sign(into)[:, None]
        rows = self.theta[variables]
        np.add.at(self.theta, np.abs(into) - 1, sign * rows)
        self.log_constant += rows[into < 0].sum(axis=0)
        self.out[variables] = True
        self.eliminated.copies(variables, into)


def occurrences(state: State) -> tuple[np.ndarray, np.ndarray]:
    """Clauses by literal code: start int64 (2 n + 1,), where int32."""
    state.visits.use(2 * len(state.literals))
    return flat.occurrences(state.literals, state.offsets, state.n)
