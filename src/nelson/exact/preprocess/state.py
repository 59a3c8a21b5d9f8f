"""A problem while it is being reduced: clauses, log-odds, and what was taken out in which order."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from nelson.formula import flat
from nelson.formula.flat import lengths_to_offsets, select

#: Visits that the loops may make at once; between, the clock is looked at. About 20 ms.
CHUNK = 2_000_000


class Budget:
    """Visits (of a literal, a clause, an edge) and seconds. Visits end a reduction at the same
    place in every run; the clock is there for machines that are slower than thought.
    """

    def __init__(self, visits: int, deadline: float) -> None:
        self.left = visits
        self.deadline = deadline

    @property
    def spent(self) -> bool:
        return self.left <= 0 or time.monotonic() >= self.deadline

    def next(self, share: int) -> int:
        """Visits for a loop that may still use `share`; 0 if it has to end."""
        return 0 if self.spent else max(0, min(CHUNK, share, self.left))

    def use(self, visits: int) -> None:
        self.left -= int(visits)


@dataclass
class Taken:
    """Variables that were taken out, as entries of `kernels.rebuild`, oldest first."""

    target: list[np.ndarray] = field(default_factory=list)  # int32
    flip: list[np.ndarray] = field(default_factory=list)  # uint8
    clauses: list[np.ndarray] = field(default_factory=list)  # clauses of each entry
    lengths: list[np.ndarray] = field(default_factory=list)  # literals of each clause
    literals: list[np.ndarray] = field(default_factory=list)  # int32

    def constants(self, literals: np.ndarray) -> None:
        """True literals: no clause, and a flip."""
        self._add(np.abs(literals) - 1, literals > 0, np.zeros(len(literals)), [], [])

    def copies(self, variables: np.ndarray, of: np.ndarray) -> None:
        """x_v = l(x): one clause, which is false where l is true."""
        ones = np.ones(len(variables))
        self._add(variables, np.zeros(len(variables)), ones, ones, -of)

    def definitions(
        self,
        target: np.ndarray,
        flip: np.ndarray,
        first: np.ndarray,
        start: np.ndarray,
        literals: np.ndarray,
    ) -> None:
        self._add(target, flip, np.diff(first), np.diff(start), literals)

    def _add(self, *columns: np.ndarray | list[int]) -> None:
        kinds = (np.int32, np.uint8, np.int64, np.int64, np.int32)
        for name, kind, column in zip(self.__dataclass_fields__, kinds, columns, strict=True):
            getattr(self, name).append(np.asarray(column, kind))

    def program(self) -> tuple[np.ndarray, ...]:
        """(target, flip, first, start, literals) for the kernel."""
        empty = (np.int32, np.uint8, np.int64, np.int64, np.int32)
        target, flip, clauses, lengths, literals = (
            np.concatenate([np.zeros(0, kind), *getattr(self, name)]).astype(kind)
            for name, kind in zip(self.__dataclass_fields__, empty, strict=True)
        )
        return target, flip, lengths_to_offsets(clauses), lengths_to_offsets(lengths), literals


@dataclass
class State:
    n: int  # variables, visible and auxiliary
    literals: np.ndarray  # int32, the clauses as they stand
    offsets: np.ndarray  # int64
    theta: np.ndarray  # (n, contexts): a variable is a row, since merging adds rows
    budget: Budget
    log_constant: np.ndarray  # (contexts,)
    out: np.ndarray  # (n,) bool: no longer a variable of the reduced problem
    taken: Taken = field(default_factory=Taken)
    fixed: list[np.ndarray] = field(default_factory=list)  # literals
    did: dict[str, int] = field(default_factory=dict)  # how often each kind of thing happened
    version: int = 0  # grows with every change
    cut: bool = False  # did the budget end a step early

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def count(self, what: str, how_often: int) -> None:
        if how_often:
            self.did[what] = self.did.get(what, 0) + int(how_often)
            self.version += 1

    def replace(self, literals: np.ndarray, offsets: np.ndarray) -> None:
        # Read-only, as those of a formula: to the compiler of kernels that is a type of its own.
        literals.setflags(write=False)
        offsets.setflags(write=False)
        self.literals, self.offsets = literals, offsets

    def keep(self, clauses: np.ndarray, places: np.ndarray | None = None) -> None:
        """Only these clauses (bool), and of them only these literals (bool)."""
        if places is not None:
            kept = lengths_to_offsets(places)
            lengths = kept[self.offsets[1:]] - kept[self.offsets[:-1]]
            self.replace(self.literals[places], lengths_to_offsets(lengths))
        self.replace(*select(self.literals, self.offsets, clauses))

    def fix(self, literals: np.ndarray) -> None:
        variables = np.abs(literals) - 1
        self.out[variables] = True
        self.log_constant += self.theta[variables[literals > 0]].sum(axis=0)
        self.taken.constants(literals)
        self.fixed.append(literals)

    def merge(self, variables: np.ndarray, into: np.ndarray) -> None:
        """x_v = l(x) for each: theta_v x_v = theta_v x_u, or theta_v - theta_v x_u."""
        sign = np.sign(into)[:, None]
        rows = self.theta[variables]
        np.add.at(self.theta, np.abs(into) - 1, sign * rows)
        self.log_constant += rows[into < 0].sum(axis=0)
        self.out[variables] = True
        self.taken.copies(variables, into)


def occurrences(state: State) -> tuple[np.ndarray, np.ndarray]:
    """Clauses by literal code: start int64 (2 n + 1,), where int32."""
    state.budget.use(2 * len(state.literals))
    return flat.occurrences(state.literals, state.offsets, state.n)
