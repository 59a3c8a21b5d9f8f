"""Groups of 0/1 columns of which at most one is set, found in a table as the rules of
`nelson.space.tables.rules` are: only if chance alone would not produce them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nelson.space.tables.rules import LEVEL, log_p_of_never


@dataclass(frozen=True)
class ColumnGroup:
    """Columns of which at most one is set in each row; `exactly`: always one.

    assumed: members that are set too seldom to be tested one by one; the group as a whole is.
    """

    columns: tuple[int, ...]
    exactly: bool = False
    assumed: tuple[int, ...] = ()


def groups(bits: np.ndarray, level: float = LEVEL) -> list[ColumnGroup]:
    """Divide the columns of 0/1 rows (n, columns) into groups. A lone column is a group of one.

    First come neighbours: a run of columns goes on as long as no row has two of them set. A run is
    a group if chance is no explanation for it as a whole. Columns that are left then join the
    group of left columns that they never meet, if chance is no explanation for that.
    """
    x = np.asarray(bits, bool)
    width = x.shape[1]
    bound = math.log(level) - math.log(max(1, width * (width - 1) // 2))
    found: list[_Members] = []
    alone: list[_Members] = []
    for run in _runs(x):
        if len(run.columns) > 1 and sum(run.log_p) < bound:
            found.append(run)
        else:
            alone += [_Members.of(x, column) for column in run.columns]
    joined: list[_Members] = []
    for single in alone:
        ways = [(other.log_p_with(single), other) for other in joined]
        log_p, home = min(ways, key=lambda way: way[0], default=(0.0, single))
        if log_p < bound:
            home.add(single, log_p)
        else:
            joined.append(single)
    found = sorted(found + joined, key=lambda members: members.columns[0])
    return [members.group(x, bound, level / len(found)) for members in found]


@dataclass
class _Members:
    """Columns that never meet, with the rows in which one of them is set."""

    columns: list[int]
    rows: np.ndarray
    log_p: list[float]  # of each column, if chance kept it apart from those before it

    @classmethod
    def of(cls, x: np.ndarray, column: int) -> _Members:
        return cls([column], x[:, column].copy(), [0.0])

    def log_p_with(self, other: _Members) -> float:
        """0 if they meet."""
        if (self.rows & other.rows).any():
            return 0.0
        return float(log_p_of_never(other.rows.sum(), self.rows.sum(), len(self.rows)))

    def add(self, other: _Members, log_p: float) -> None:
        self.columns += other.columns
        self.rows |= other.rows
        self.log_p.append(log_p)

    def group(self, x: np.ndarray, bound: float, level: float) -> ColumnGroup:
        # If the columns were independent, this many rows would have none of them.
        none = len(x) * float(np.prod(1 - x[:, self.columns].mean(axis=0)))
        several = len(self.columns) > 1
        exactly = several and bool(self.rows.all()) and math.exp(-none) < level
        rare = [k for k, log_p in zip(self.columns, self.log_p, strict=True) if log_p > bound]
        return ColumnGroup(tuple(self.columns), exactly, tuple(rare[1:]) if several else ())


def _runs(x: np.ndarray) -> list[_Members]:
    """Neighbours that never meet, as long as possible, from left to right."""
    runs: list[_Members] = []
    for column in range(x.shape[1]):
        single = _Members.of(x, column)
        if runs and not (runs[-1].rows & single.rows).any():
            runs[-1].add(single, runs[-1].log_p_with(single))
        else:
            runs.append(single)
    return runs
