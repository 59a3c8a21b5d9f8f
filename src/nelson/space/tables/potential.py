"""The potential of a model of tables: theta on values of fields, and on pairs of values.

    P(row) ~ exp(sum of theta[field = value] + sum of theta[field = value and field' = value'])

A field has *levels*: its values, or ranges of them. One level of each field, the most common one,
is the reference: its theta is 0, and so is that of every pair with it. This loses nothing, since
exactly one level of each field holds, and it leaves no redundant parameter.

A pair may have fewer numbers than levels: its table is then F w G^T, where the columns of F and G
are polynomials of the *scores* of levels that have an order (degree 1: one number w for a pair of
numeric fields, as in a Gaussian copula), and indicators of the others. `w` of all blocks together
are the *numbers* of the potential; theta = B w is linear in them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.kernels.core.deadline import check_time
from nelson.space.language.expressions import Rule
from nelson.space.language.fields import Bins, Field, Integer
from nelson.space.names import has

#: An integer of more values has no theta for each value. It stays uniform, or gets ranges.
MAX_INTEGER = 64
#: A choice of more values is refused: it is more likely a key than a category.
MAX_CHOICE = 4096
Pair = tuple[str, str]
#: {pair: degree of the polynomials of its table}; FREE: a theta for each pair of levels.
Forms = Mapping[Pair, int]
FREE = 9
#: Degrees that a search for pairs tries before a free table.
DEGREES = (1, 2)


@dataclass(frozen=True, eq=False)
class FieldLevels:
    """What has a theta in a field: each value (starts None), or ranges of codes from these on."""

    field: Field
    starts: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        return self.field.size if self.starts is None else len(self.starts)

    def of(self, codes: np.ndarray) -> np.ndarray:
        """The level of each code, (n,) int64."""
        if self.starts is None:
            return codes.astype(np.int64)
        if len(self.starts) == 1:
            return np.zeros(len(codes), np.int64)
        starts = np.array(self.starts, object if codes.dtype == object else np.uint64)
        if codes.dtype != object:
            codes = codes.astype(np.uint64)
        return np.searchsorted(starts, codes, side="right").astype(np.int64) - 1

    @property
    def even(self) -> np.ndarray:
        """The share that each level has of the values of the field, (count,)."""
        if self.starts is None:
            return np.full(self.count, 1 / self.count)
        ends = [*self.starts, self.field.size]
        return np.array([(b - a) / self.field.size for a, b in itertools.pairwise(ends)])

    def key(self, level: int) -> Any:
        """The value of a level, or its range of values."""
        if self.starts is None:
            return self.field.value(level)
        ends = (*self.starts, self.field.size)
        low = self.field.low  # type: ignore[union-attr]  # only integers have ranges
        return range(low + ends[level], low + ends[level + 1])

    def text(self, level: int) -> str:
        """`burst = WRAP`, `addr = 0..255`."""
        key = self.key(level)
        shown = f"{key[0]}..{key[-1]}" if isinstance(key, range) else str(key)
        return f"{self.field.name} = {shown}"


def levels_of(field: Field, bins: Any, codes: np.ndarray) -> FieldLevels:
    """bins: None, a number of ranges with about equal shares of the data, or their edges."""
    if bins is None:
        wide = isinstance(field, Integer) and field.size > MAX_INTEGER
        if field.size > MAX_CHOICE and not wide:
            raise FormulaError(
                f"the field {field.name}, of {field.size:,} values",
                expected=f"at most {MAX_CHOICE:,}; leave a column of keys out",
            )
        return FieldLevels(field, (0,) if wide else None)
    if not isinstance(field, Integer):
        raise FormulaError(f"bins of {field.name}", expected="bins of an integer")
    if isinstance(bins, (int, np.integer)) and not isinstance(bins, bool):
        if bins < 1:
            raise FormulaError(f"bins of {field.name} = {bins}", expected="1 or more")
        ordered = np.sort(codes)
        inner = {int(ordered[len(ordered) * k // int(bins)]) for k in range(1, int(bins))}
        return FieldLevels(field, tuple(sorted({0} | inner)))
    edges = [field.code(edge) for edge in bins]
    if edges != sorted(set(edges)):
        raise FormulaError(f"bins of {field.name} = {bins!r}", expected="edges in rising order")
    return FieldLevels(field, tuple(sorted({0, *edges} - ({field.size - 1} & set(edges[-1:])))))


def scores_of(levels: FieldLevels, counts: np.ndarray) -> np.ndarray | None:
    """Polynomials of the normal scores of the levels of a field, (levels, columns), orthonormal
    under the shares of its levels; an indicator of a missing value comes first. None: its levels
    have no order, or are too few.
    """
    from scipy.special import ndtri

    of = levels.field
    ranges = of.ranges if isinstance(of, Bins) else levels.count
    if not isinstance(of, (Bins, Integer)) or ranges <= len(DEGREES) + 1:
        return None
    share = (counts + 0.5) / (counts + 0.5).sum()
    inner = share[:ranges] / share[:ranges].sum()
    z = np.zeros(levels.count)
    z[:ranges] = ndtri(np.cumsum(inner) - inner / 2)
    columns = [np.ones(levels.count)]
    if levels.count > ranges:
        columns.append((np.arange(levels.count) >= ranges).astype(float))
    columns += [np.where(np.arange(levels.count) < ranges, z**d, 0.0) for d in DEGREES]
    root = np.sqrt(share)[:, None]
    q, r = np.linalg.qr(root * np.column_stack(columns))
    return (q * np.sign(np.diag(r)) / root)[:, 1:]


@dataclass(frozen=True, eq=False)
class Potential:
    """Which values and pairs have a theta; `theta` (k,) goes with `features`, in this order.

    forms: of pairs with fewer numbers than levels (see above); the fit alone looks at them.
    """

    levels: Mapping[str, FieldLevels]
    reference: Mapping[str, int]  # the level with theta 0
    pairs: tuple[Pair, ...] = ()
    forms: Forms = field(default_factory=dict)  # of the pairs whose table is not free
    #: of the fields with an order: (levels, polynomials), orthonormal under the shares of the data
    scores: Mapping[str, np.ndarray] = field(default_factory=dict)

    def with_pairs(self, pairs: Sequence[Pair] | Forms) -> Potential:
        forms = pairs if isinstance(pairs, Mapping) else {}
        forms = {pair: degree for pair, degree in forms.items() if degree != FREE}
        return replace(self, pairs=tuple(pairs), forms=forms)

    @cached_property
    def blocks(self) -> list[tuple[str, ...]]:
        """(field,) and (field, field'): the tables of theta, in the order of the vector."""
        return [(name,) for name, levels in self.levels.items() if levels.count > 1] + [*self.pairs]

    @cached_property
    def features(self) -> list[tuple[tuple[str, int], ...]]:
        """((field, level),) or ((field, level), (field', level')) of each theta."""
        found: list[tuple[tuple[str, int], ...]] = []
        for names in self.blocks:
            free = [self._free(name) for name in names]
            if len(names) == 1:
                found += [((names[0], k),) for k in free[0]]
            else:
                found += [((names[0], k), (names[1], m)) for k in free[0] for m in free[1]]
        return found

    @cached_property
    def rules(self) -> list[Rule]:
        """The rule of each feature."""
        known: dict[tuple[str, int], Rule] = {}
        found = []
        for feature in self.features:
            for name, level in feature:
                if (name, level) not in known:
                    levels = self.levels[name]
                    known[name, level] = has(levels.field, levels.key(level))
            each = [known[at] for at in feature]
            found.append(each[0] if len(each) == 1 else each[0] & each[1])
        return found

    def _free(self, name: str) -> list[int]:
        return [k for k in range(self.levels[name].count) if k != self.reference[name]]

    @cached_property
    def _places_in_table(self) -> dict[tuple[str, ...], tuple[np.ndarray, ...]]:
        """Where the free levels of a block are in its table over all levels."""
        return {names: np.ix_(*map(self._free, names)) for names in self.blocks}

    @cached_property
    def places(self) -> dict[tuple[str, ...], slice]:
        """The part of the vector that each block has."""
        found, first = {}, 0
        for names in self.blocks:
            size = math.prod(self.levels[name].count - 1 for name in names)
            found[names] = slice(first, first + size)
            first += size
        return found

    @property
    def size(self) -> int:
        """How many theta there are."""
        return max((place.stop for place in self.places.values()), default=0)

    # --- numbers: theta = B w ---------------------------------------------------------------------

    def factor(self, name: str, degree: int) -> np.ndarray:
        """F of a field: (levels, columns); the identity where the field has no order."""
        table = self.scores.get(name)
        if table is None or degree == FREE:
            return np.eye(self.levels[name].count)
        return table[:, : table.shape[1] - len(DEGREES) + degree]

    @cached_property
    def _factors(self) -> dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]]:
        """(F, G) of each pair that is not free, over the free levels, 0 at the reference."""
        found: dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]] = {}
        for names, degree in self.forms.items():
            both = []
            for name in names:
                full = self.factor(name, degree)
                part = (full - full[self.reference[name]])[self._free(name)]
                both.append(np.eye(len(part)) if full.shape[0] == full.shape[1] else part)
            found[names] = both[0], both[1]
        return found

    @cached_property
    def parts(self) -> dict[tuple[str, ...], slice]:
        """The part of w that each block has."""
        found, first = {}, 0
        for names, place in self.places.items():
            size = place.stop - place.start
            if names in self._factors:
                f, g = self._factors[names]
                size = f.shape[1] * g.shape[1]
            found[names] = slice(first, first + size)
            first += size
        return found

    def basis(self, names: tuple[str, ...]) -> np.ndarray | None:
        """B of one pair, (theta, numbers); None: its table is free."""
        if names not in self._factors:
            return None
        return np.kron(*self._factors[names])

    @property
    def freedom(self) -> int:
        """How many numbers there are."""
        return max((part.stop for part in self.parts.values()), default=0)

    def expanded(self, w: np.ndarray) -> np.ndarray:
        """theta = B w."""
        out = np.empty(self.size)
        for names, part in self.parts.items():
            block = w[part]
            if names in self._factors:
                f, g = self._factors[names]
                block = (f @ block.reshape(f.shape[1], g.shape[1]) @ g.T).ravel()
            out[self.places[names]] = block
        return out

    def reduced(self, vector: np.ndarray, power: int = 1) -> np.ndarray:
        """B^T v; power=2: with the squares of B, for variances."""
        out = np.empty(self.freedom)
        for names, part in self.parts.items():
            block = vector[self.places[names]]
            if names in self._factors:
                f, g = (each**power for each in self._factors[names])
                block = (f.T @ block.reshape(len(f), len(g)) @ g).ravel()
            out[part] = block
        return out

    def numbers(self, theta: np.ndarray) -> np.ndarray:
        """w of theta = B w."""
        out = np.empty(self.freedom)
        for names, part in self.parts.items():
            block = theta[self.places[names]]
            if names in self._factors:
                f, g = self._factors[names]
                block = block.reshape(len(f), len(g))
                block = (np.linalg.pinv(f) @ block @ np.linalg.pinv(g).T).ravel()
            out[part] = block
        return out

    def vector(self, tables: Mapping[tuple[str, ...], np.ndarray]) -> np.ndarray:
        """The entries of tables over all levels, without those of reference levels, as (k,)."""
        parts = [tables[names][self._places_in_table[names]].ravel() for names in self.blocks]
        return np.concatenate(parts) if parts else np.zeros(0)

    def tables(self, theta: np.ndarray) -> dict[tuple[str, ...], np.ndarray]:
        """theta (k,) as a table over all levels for each block; 0 at reference levels."""
        found = {}
        for names, place in self.places.items():
            shape = [self.levels[name].count for name in names]
            table = np.zeros(shape)
            table[self._places_in_table[names]] = theta[place].reshape([k - 1 for k in shape])
            found[names] = table
        return found

    def completed(self, shares: np.ndarray) -> dict[tuple[str, ...], np.ndarray]:
        """Shares of the features (k,) as a table over all levels, of sum 1, for each block."""
        found: dict[tuple[str, ...], np.ndarray] = {}
        for names, table in self.tables(shares).items():
            if len(names) == 1:
                table[self.reference[names[0]]] = 1 - table.sum()
            else:
                a, b = (self.reference[name] for name in names)
                table[a] = found[names[1:]] - table.sum(axis=0)
                table[:, b] = found[names[:1]] - table.sum(axis=1)
                table[a, b] = 0.0
                table[a, b] = 1 - table.sum()
            found[names] = table.clip(0.0)
        return found

    def relative(self, tables: Mapping[tuple[str, ...], np.ndarray]) -> np.ndarray:
        """The vector of any tables of theta: what is constant in a pair goes to its fields."""
        moved = {names: np.array(table, float) for names, table in tables.items()}
        for a, b in self.pairs:
            table = moved[a, b]
            row, column = table[self.reference[a]].copy(), table[:, self.reference[b]].copy()
            corner = row[self.reference[b]]
            moved[a, b] = table - row - column[:, None] + corner
            moved[(a,)] += column
            moved[(b,)] += row
        for names in moved:
            if len(names) == 1:
                moved[names] -= moved[names][self.reference[names[0]]]
        return self.vector(moved)

    def levels_of(self, codes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Codes of rows -> levels, for the fields that have more than one."""
        return {
            name: levels.of(codes[name]) for name, levels in self.levels.items() if levels.count > 1
        }

    def counts(
        self, rows: Mapping[str, np.ndarray], blocks: Sequence[tuple[str, ...]]
    ) -> dict[tuple[str, ...], np.ndarray]:
        """How often each level, or pair of levels, occurs in rows of levels."""
        found = {}
        for names in blocks:
            check_time()
            shape = [self.levels[name].count for name in names]
            flat = np.ravel_multi_index([rows[name] for name in names], shape)
            found[names] = (
                np.bincount(flat, minlength=math.prod(shape)).reshape(shape).astype(float)
            )
        return found

    def score(self, theta: np.ndarray, rows: Mapping[str, np.ndarray], n: int) -> np.ndarray:
        """theta . features of rows of levels, (n,)."""
        total = np.zeros(n)
        for names, table in self.tables(theta).items():
            total += table[tuple(rows[name] for name in names)]
        return total

    def design(self, rows: Mapping[str, np.ndarray]) -> np.ndarray:
        """The features of the numbers in rows of levels, (n, freedom) float64."""
        parts: list[np.ndarray] = []
        hot = {
            name: (rows[name][:, None] == np.array(self._free(name))).astype(float)
            for name in {name for names in self.blocks for name in names}
        }
        n = len(next(iter(rows.values()))) if rows else 0
        for names in self.blocks:
            if len(names) == 1:
                parts.append(hot[names[0]])
            else:
                a, b = (hot[name] for name in names)
                if names in self._factors:
                    f, g = self._factors[names]
                    a, b = a @ f, b @ g
                parts.append((a[:, :, None] * b[:, None, :]).reshape(n, -1))
        return np.concatenate(parts, axis=1) if parts else np.zeros((n, 0))
