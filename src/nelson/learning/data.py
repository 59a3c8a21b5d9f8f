"""The examples: read, checked against the formula once, then kept as packed bits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.evaluate import violated
from nelson.io.boolean_table import Table
from nelson.io.tables import read
from nelson.kernels.core.bits import pack, unpack
from nelson.learning.group import MINIBATCHES, stream_seed

INVALID_ROWS_SHOWN = 5  # in an error message


@dataclass(frozen=True, eq=False)
class Examples:
    """N valid examples of n variables.

    packed: (words, n) uint64; bit k of word w is example 64 w + k.
    """

    KIND: ClassVar[str] = "data"  # what messages call the source of the moments

    packed: np.ndarray
    count: int
    names: tuple[str, ...] | None = None
    source: str | None = None
    dropped: int = 0
    rows: np.ndarray | None = None  # rows of the source that are examples; None: all

    def mean(self) -> np.ndarray:
        """E_data[x] by popcount, (n,)."""
        return np.bitwise_count(self.packed).sum(axis=0, dtype=np.int64) / self.count

    def batch_mean(self, k: int, m: int) -> np.ndarray:
        """The mean of minibatch k: rows k m .. (k+1) m, modulo N. The mean of all if m >= N."""
        if m >= self.count:
            return self.mean()
        start = k * m % self.count
        stop = start + m
        ones = self._ones(start, min(stop, self.count))
        if stop > self.count:
            ones = ones + self._ones(0, stop - self.count)
        return ones / m

    def _ones(self, start: int, stop: int) -> np.ndarray:
        """In how many of the rows start..stop each variable is 1, (n,)."""
        words = self.packed[start // 64 : -(-stop // 64)].copy()
        words[0] &= ~np.uint64(0) << np.uint64(start % 64)
        if stop % 64:
            words[-1] &= np.uint64((1 << (stop % 64)) - 1)
        return np.bitwise_count(words).sum(axis=0, dtype=np.int64)

    def shuffled(self, seed: int) -> Examples:
        """The same rows in a random order, so that minibatches are random."""
        order = np.random.default_rng(stream_seed(seed, MINIBATCHES)).permutation(self.count)
        return Examples(pack(self.to_numpy()[order]), self.count, self.names, self.source)

    def split(self, every: int) -> tuple[Examples, Examples]:
        """(the other rows, every `every`-th row); all rows twice if there are fewer."""
        x = self.to_numpy()
        held = np.arange(self.count) % every == every - 1
        if not held.any():
            return self, self
        parts = (x[~held], x[held])
        first_part, second_part = (
            replace(self, packed=pack(x), count=len(x), rows=None) for x in parts
        )
        return first_part, second_part

    def to_numpy(self) -> np.ndarray:
        return unpack(self.packed, self.count)

    @property
    def asked(self) -> np.ndarray:
        """(n,) bool: variables whose moments are known. All of them, for examples."""
        return np.ones(self.packed.shape[1], bool)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(np.ascontiguousarray(self.packed, "<u8").tobytes())
        digest.update(str(self.count).encode())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Targets(Examples):
    """Moments (n,) to reach, in place of examples that have them: what `match` hands to the loop.

    NaN: nothing is asked of this variable, and its theta does not move. count: a number of
    examples; the noise of the samples has to be well below the noise of that many examples.
    """

    KIND: ClassVar[str] = "target"
    moments: np.ndarray = field(kw_only=True)

    @classmethod
    def of(cls, moments: np.ndarray, count: int) -> Targets:
        return cls(np.zeros((0, len(moments)), np.uint64), count, moments=moments)

    def mean(self) -> np.ndarray:
        return self.moments

    @property
    def asked(self) -> np.ndarray:
        return ~np.isnan(self.moments)

    def fingerprint(self) -> str:
        return hashlib.sha256(np.ascontiguousarray(self.moments, "<f8").tobytes()).hexdigest()


def load_examples(formula: Formula, data: Any, drop_invalid: bool = False) -> Examples:
    """Read the data, put the columns in the order of the variables, check every row, pack.

    Invalid rows raise a FormulaError that lists the first of them, each with a clause it breaks,
    and counts the others. `drop_invalid` leaves invalid rows out instead.
    """
    if isinstance(data, Examples):
        return data
    table = read(data)
    x = variable_columns(formula, table)
    valid = valid_rows(formula, x)
    bad = np.flatnonzero(~valid)
    if len(bad) and not drop_invalid:
        raise FormulaError(
            complaint(len(bad), len(x), broken(formula, x, bad), "drop_invalid"),
            source=table.source,
        )
    if not valid.any():
        what = f"all {len(x)} rows are invalid" if len(x) else "no rows"
        raise FormulaError(what, expected="at least one example", source=table.source)
    used = np.flatnonzero(valid) if len(bad) else None
    return Examples(
        pack(x if used is None else x[used]),
        int(valid.sum()),
        table.names,
        table.source,
        len(bad),
        used,
    )


def variable_columns(formula: Formula, table: Table) -> np.ndarray:
    """The columns of a table in the order of the formula's variables, (N, n) bool."""
    n = formula.n_vars
    if table.variables is None:
        if table.x.shape[1] != n:
            raise FormulaError(
                f"{table.x.shape[1]} columns", expected=f"{n} variables", source=table.source
            )
        return table.x
    place = np.full(n + 1, -1)
    for column, v in enumerate(table.variables):
        if 1 <= v <= n:
            place[v] = column
        elif v > formula.n_total:
            raise FormulaError(
                f"a column for variable {v}", expected=f"1..{n}", source=table.source
            )
    missing = np.flatnonzero(place[1:] < 0) + 1
    if len(missing):
        shown = ", ".join(map(str, missing[:5].tolist())) + ", ..." * (len(missing) > 5)
        raise FormulaError(
            f"no column for variable {shown}",
            expected=f'all of 1..{n}; nelson.sample(..., project="all") draws them',
            source=table.source,
        )
    return table.x[:, place[1:]]


def valid_rows(formula: Formula, x: np.ndarray, most: int = 1 << 27) -> np.ndarray:
    """Which rows of x satisfy the formula, (N,) bool, in blocks of at most `most` values."""
    step = max(1, most // max(1, formula.n_vars))
    blocks = [formula.satisfied(x[k : k + step]) for k in range(0, len(x), step)]
    return np.concatenate(blocks) if blocks else np.zeros(0, bool)


def broken(formula: Formula, x: np.ndarray, bad: np.ndarray, first: int = 0) -> list[str]:
    """What the first of the bad rows break. first: the number of row 0 of x in the file."""
    shown = bad[:INVALID_ROWS_SHOWN].tolist()
    return [f"row {first + row} breaks {violated(formula, x[row])}" for row in shown]


def complaint(bad: int, total: int, rows: list[str], option: str) -> str:
    shown = rows[:INVALID_ROWS_SHOWN]
    more = f"; and {bad - len(shown):,} more" if bad > len(shown) else ""
    return (
        f"{bad:,} of {total:,} rows are invalid: {'; '.join(shown)}{more} "
        f"(rows count from 0; {option} leaves them out)"
    )
