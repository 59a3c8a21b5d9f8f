"""Rules that hold in a table: groups of 0/1 columns of which at most one is set, and pairs of
values that never occur together. A rule is taken only if chance alone would not produce it.

Two values, with m and k of the n rows, never meet. If they were independent, the probability of
that would be

    p = C(n - k, m) / C(n, m)                                       (Fisher's exact test)

A rule is taken if p times the number of all candidates is below `level`. So the probability that
any rule is taken that only chance has made, in the whole table, is at most `level` (Bonferroni).

What the test does not say: values that meet seldom, but sometimes, pass it as well. Such a rule is
wrong for a few new rows. Rows that were held out tell how many (`nelson.experiments.density`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import FormulaError
from nelson.space.language.expressions import Rule
from nelson.space.language.functions import any_of
from nelson.space.terms import has

if TYPE_CHECKING:
    from nelson.space.space import Space

#: Probability that any rule of a table is due to chance, at most.
LEVEL = 0.01
#: Fields with more values take no part.
_MAX_VALUES = 256


def log_p_of_never(m: np.ndarray, k: np.ndarray, n: int) -> np.ndarray:
    """log C(n - k, m) / C(n, m): two independent values with m and k of n rows never meet."""
    from scipy.special import gammaln

    m, k = np.asarray(m, float), np.asarray(k, float)
    left = n - k - m
    with np.errstate(invalid="ignore"):
        found = gammaln(n - k + 1) - gammaln(left + 1) - gammaln(n + 1) + gammaln(n - m + 1)
    return np.where(left < 0, -np.inf, np.minimum(found, 0.0))


# --- groups of columns ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """Columns of which at most one is set in each row; `exactly`: always one.

    assumed: members that are set too seldom to be tested one by one; the group as a whole is.
    """

    columns: tuple[int, ...]
    exactly: bool = False
    assumed: tuple[int, ...] = ()


def groups(bits: np.ndarray, level: float = LEVEL) -> list[Group]:
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

    def group(self, x: np.ndarray, bound: float, level: float) -> Group:
        # If the columns were independent, this many rows would have none of them.
        none = len(x) * float(np.prod(1 - x[:, self.columns].mean(axis=0)))
        several = len(self.columns) > 1
        exactly = several and bool(self.rows.all()) and math.exp(-none) < level
        rare = [k for k, log_p in zip(self.columns, self.log_p, strict=True) if log_p > bound]
        return Group(tuple(self.columns), exactly, tuple(rare[1:]) if several else ())


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


# --- values that never meet -----------------------------------------------------------------------


@dataclass(frozen=True)
class Never:
    """`field` = value never occurs with `other` = one of `values`."""

    field: str
    value: Any
    other: str
    values: tuple[Any, ...]  # excluded values of the other field
    left: tuple[Any, ...]  # values of the other field that stay possible
    log_p: float  # of the weakest exclusion, if chance were the reason

    def __str__(self) -> str:
        if len(self.left) == 1:
            then = f"{self.other} is {self.left[0]}"
        elif len(self.left) < len(self.values):
            then = f"{self.other} is {_listed(self.left)}"
        else:
            then = f"{self.other} is not {_listed(self.values)}"
        return f"if {self.field} is {self.value}, then {then}"

    def rule(self, space: Space) -> Rule:
        """The rule, with the fields of a space."""
        one, other = space.fields[self.field], space.fields[self.other]
        kept = len(self.left) < len(self.values)
        side = any_of([has(other, value) for value in (self.left if kept else self.values)])
        return has(one, self.value).implies(side if kept else ~side)

    def broken(self, space: Space, codes: Mapping[str, np.ndarray]) -> np.ndarray:
        """(rows,) bool: which rows of codes break the rule."""
        field, other = space.fields[self.field], space.fields[self.other]
        excluded = [other.code(value) for value in self.values]
        return (codes[self.field] == field.code(self.value)) & np.isin(codes[self.other], excluded)


def _listed(values: Sequence[Any]) -> str:
    return " or ".join(str(value) for value in values)


def never_together(
    space: Space, codes: Mapping[str, np.ndarray], level: float = LEVEL
) -> list[Never]:
    """All pairs of values of two fields that never meet in a table, where chance is not the reason.

    codes: of all fields, as `Space.codes` gives them. Rules that the weakest evidence supports come
    last.
    """
    if not 0 < level < 1:
        raise FormulaError(f"level = {level!r}", expected="a probability between 0 and 1")
    small = [name for name, field in space.fields.items() if 1 < field.size <= _MAX_VALUES]
    columns = {name: np.asarray(codes[name]).astype(np.int64) for name in small}
    n = len(next(iter(columns.values()))) if columns else 0
    sizes = {name: space.fields[name].size for name in small}
    counts = {name: np.bincount(columns[name], minlength=sizes[name]) for name in small}
    pairs = list(itertools.combinations(small, 2))
    candidates = max(1, sum(sizes[a] * sizes[b] for a, b in pairs))
    bound = math.log(level) - math.log(candidates)
    found = []
    for a, b in pairs:
        met = np.bincount(columns[a] * sizes[b] + columns[b], minlength=sizes[a] * sizes[b])
        met = met.reshape(sizes[a], sizes[b])
        log_p = log_p_of_never(counts[a][:, None], counts[b][None, :], n)
        never = (met == 0) & (log_p < bound)
        for code in np.flatnonzero(never.any(axis=1)):
            out = np.flatnonzero(never[code])
            left = np.flatnonzero(~never[code])
            found.append(
                Never(
                    a,
                    space.fields[a].value(int(code)),
                    b,
                    tuple(space.fields[b].value(int(k)) for k in out),
                    tuple(space.fields[b].value(int(k)) for k in left),
                    float(log_p[code, out].max()),
                )
            )
    return sorted(found, key=lambda rule: rule.log_p)
