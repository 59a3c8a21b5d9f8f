"""Rules that hold in a table: pairs of values that never occur together, numbers in an order.

A rule is suggested only if chance alone would not produce it; none is applied by itself.

Two values, with m and k of the n rows, never meet. If they were independent, the probability of
that would be

    p = C(n - k, m) / C(n, m)                                       (Fisher's exact test)

A rule is taken if p times the number of all candidates is below `level`. So the probability that
any rule is taken that only chance has made, in the whole table, is at most `level` (Bonferroni).

What the test does not say: values that meet seldom, but sometimes, pass it as well. Such a rule is
wrong for a few new rows. Of s rows that could break it none did, so the share that does is at most
3 / s, with 95% confidence. Rows that were held out tell more (`lab.density`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import FormulaError
from nelson.space.language.expressions import Rule
from nelson.space.language.fields import Bins
from nelson.space.language.functions import any_of
from nelson.space.language.text import text
from nelson.space.names import has
from nelson.space.rows import as_numbers, table_codes

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


@dataclass(frozen=True)
class Suggestion:
    """A rule that holds in all rows of a table, and chance does not explain it.

    rule      its text, for `Space.require` and `rules=[...]`
    support   rows that could have broken it
    expected  rows that would have broken it, if the two columns were independent
    log_p     log of the probability that none does, then
    """

    rule: str
    support: int
    expected: float
    log_p: float

    @property
    def upper(self) -> float:
        """The share of such rows that may break it all the same: 95% confidence."""
        return min(1.0, 3 / max(1, self.support))

    def __str__(self) -> str:
        return (
            f"{self.rule}   [holds in all {self.support:,} rows that could break it, by chance "
            f"{self.expected:,.1f} would; p = {math.exp(max(self.log_p, -700)):.0e}; may fail in "
            f"up to {self.upper:.2%} of such rows]"
        )


def suggestions(space: Space, frame: Any, level: float = LEVEL) -> list[Suggestion]:
    """Rules for the fields of a described frame, the ones with the strongest evidence first."""
    codes = {name: np.asarray(column) for name, column in table_codes(space.fields, frame).items()}
    ranged = {name for name, field in space.fields.items() if isinstance(field, Bins)}
    known = {r.name for r in space.rules}
    found = []
    for pair in never_together(space, codes, level, without=ranged):
        if {
            f"{a} is determined by {b}"
            for a, b in ((pair.field, pair.other), (pair.other, pair.field))
        } & known:
            continue
        of, other = space.fields[pair.field], space.fields[pair.other]
        support = int((codes[pair.field] == of.code(pair.value)).sum())
        out = np.isin(codes[pair.other], [other.code(v) for v in pair.values]).mean()
        found.append(Suggestion(text(pair.rule(space)), support, float(support * out), pair.log_p))
    found += _orders(space, frame, ranged, level)
    return sorted(found, key=lambda each: each.log_p)


def _orders(space: Space, frame: Any, names: set[str], level: float) -> list[Suggestion]:
    """a <= b for columns of numbers whose ranges overlap, and that are not tied already."""
    found = []
    values = {name: as_numbers(frame[name]) for name in names}
    pairs = [(a, b) for a, b in itertools.permutations(sorted(names), 2)]
    for a, b in pairs:
        one, other = space.fields[a], space.fields[b]
        if one.unit != other.unit or other.after is one or one.after is other:  # type: ignore[union-attr]
            continue
        both = ~np.isnan(values[a]) & ~np.isnan(values[b])
        x, y = values[a][both], values[b][both]
        if len(x) < 2 or (x > y).any() or x.max() <= y.min():
            continue
        share = float(np.searchsorted(np.sort(x), y, side="right").mean() / len(x))
        log_p = len(x) * math.log(max(share, 1e-300))
        if log_p < math.log(level) - math.log(len(pairs)):
            found.append(Suggestion(text(one <= other), len(x), len(x) * (1 - share), log_p))  # type: ignore[operator]
    return found


def never_together(
    space: Space,
    codes: Mapping[str, np.ndarray],
    level: float = LEVEL,
    most: int = 256,
    without: Collection[str] = (),
) -> list[Never]:
    """All pairs of values of two fields that never meet in a table, where chance is not the reason.

    codes: of all fields, as `table_codes` gives them. most: fields with more values take no part,
    nor do those of `without`.
    Rules that the weakest evidence supports come last.
    """
    if not 0 < level < 1:
        raise FormulaError(f"level = {level!r}", expected="a probability between 0 and 1")
    small = [
        name
        for name, field in space.fields.items()
        if 1 < field.size <= most and name not in without
    ]
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
