"""Rules that hold in a table: pairs of values that never occur together. A rule is taken only if
chance alone would not produce it.

Two values, with m and k of the n rows, never meet. If they were independent, the probability of
that would be

    p = C(n - k, m) / C(n, m)                                       (Fisher's exact test)

A rule is taken if p times the number of all candidates is below `level`. So the probability that
any rule is taken that only chance has made, in the whole table, is at most `level` (Bonferroni).

What the test does not say: values that meet seldom, but sometimes, pass it as well. Such a rule is
wrong for a few new rows. Rows that were held out tell how many (`lab.density`).
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
from nelson.space.names import has

if TYPE_CHECKING:
    from nelson.space.space import Space

#: Probability that any rule of a table is due to chance, at most.
LEVEL = 0.01


def log_p_of_never(m: np.ndarray, k: np.ndarray, n: int) -> np.ndarray:
    """log C(n - k, m) / C(n, m): two independent values with m and k of n rows never meet."""
    from scipy.special import gammaln

    m, k = np.asarray(m, float), np.asarray(k, float)
    left = n - k - m
    with np.errstate(invalid="ignore"):
        found = gammaln(n - k + 1) - gammaln(left + 1) - gammaln(n + 1) + gammaln(n - m + 1)
    return np.where(left < 0, -np.inf, np.minimum(found, 0.0))


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
    space: Space, codes: Mapping[str, np.ndarray], level: float = LEVEL, most: int = 256
) -> list[Never]:
    """All pairs of values of two fields that never meet in a table, where chance is not the reason.

    codes: of all fields, as `table_codes` gives them. most: fields with more values take no part.
    Rules that the weakest evidence supports come last.
    """
    if not 0 < level < 1:
        raise FormulaError(f"level = {level!r}", expected="a probability between 0 and 1")
    small = [name for name, field in space.fields.items() if 1 < field.size <= most]
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
