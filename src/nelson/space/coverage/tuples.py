"""All t-tuples of bins, numbered.

A row is an array of bins, one for each column (`bins.OUTSIDE`: in none). Columns c_1 < ... < c_t
are one *cross*. The tuples of a cross have consecutive places, in mixed radix:

    place = offset of the cross + bin(c_1) stride_1 + ... + bin(c_t) stride_t

Place 0 belongs to no tuple: rows that are outside all bins of a column are sent there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from nelson.errors import FormulaError

#: Most tuples of a coverage.
MAX_TUPLES = 20_000_000
#: Places that are computed at once: rows x crosses.
BLOCK = 1 << 21


class Tuples:
    """The places of all t-tuples of columns, given the number of bins of each column.

    starts   (columns,) the first bin of each column, if the bins of all columns are numbered
    crosses  (crosses, t) the columns of each cross, in lexicographic order
    strides  (crosses, t)
    offsets  (crosses,) the first place of each cross
    total    1 + the number of tuples
    """

    def __init__(self, sizes: Sequence[int], t: int) -> None:
        self.sizes = np.array(sizes, np.int64)
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.t, n = t, len(sizes)
        tuples = _number(sizes, t)
        if tuples > MAX_TUPLES:
            raise FormulaError(
                f"{tuples:,} combinations of {t} values in {n} fields",
                expected=f"at most {MAX_TUPLES:,}: a smaller t, fewer fields or fewer bins",
            )
        picked = itertools.chain.from_iterable(itertools.combinations(range(n), t))
        self.crosses = np.fromiter(picked, np.int64).reshape(-1, t)
        widths = self.sizes[self.crosses]
        below = np.cumprod(widths[:, ::-1], axis=1)
        self.counts = below[:, -1]
        self.strides = np.ones_like(widths)
        self.strides[:, :-1] = below[:, -2::-1]
        ends = 1 + np.cumsum(self.counts)
        self.offsets = ends - self.counts
        self.total = int(ends[-1])
        self._keys = self._key(self.crosses)

    def _key(self, crosses: np.ndarray) -> np.ndarray:
        """Numbers that have the order of the crosses."""
        key = np.zeros(len(crosses), np.int64)
        for k in range(crosses.shape[1]):
            key = key * len(self.sizes) + crosses[:, k]
        return key

    def places(self, rows: np.ndarray) -> np.ndarray:
        """(m, crosses) the places of all tuples of some rows (m, columns)."""
        out = steps(self.offsets, rows, self.crosses, self.strides)
        return np.maximum(out, 0, out=out)

    def mark(self, seen: np.ndarray, columns: Sequence[np.ndarray]) -> None:
        """Set seen[place] for all tuples of some rows, given as columns (m,). seen: (total,) bool.

        Many rows: after a first block, each tuple that is still missing is looked for in bit sets,
        one bit for each row. (Blocks go on while there are too many such tuples.)
        """
        step = max(1, BLOCK // len(self.offsets))
        for first in range(0, len(columns[0]), step):
            missing = np.flatnonzero(~seen[1:]) + 1
            if first and len(missing) < 64 * len(self.offsets):
                seen[missing] |= self._occur(missing, [column[first:] for column in columns])
                break
            block = [column[first : first + step].astype(np.int64) for column in columns]
            seen[self.places(np.stack(block, axis=1)).ravel()] = True
        seen[0] = False

    def _occur(self, places: np.ndarray, columns: Sequence[np.ndarray]) -> np.ndarray:
        """(k,) does some row have the tuple at each place?"""
        words = -(-len(columns[0]) // 64)
        octets = np.zeros((int(self.sizes.sum()), 8 * words), np.uint8)
        for column, size, start in zip(columns, self.sizes, self.starts, strict=True):
            for k in range(size):
                packed = np.packbits(column == k)
                octets[start + k, : len(packed)] = packed
        bits = octets.view(np.uint64)
        at, bins = self.decode(places)
        which = self.starts[at] + bins  # (k, t) rows of `bits`
        out = np.zeros(len(places), bool)
        step = max(1, BLOCK // words)
        for first in range(0, len(places), step):
            chosen = which[first : first + step]
            both = bits[chosen[:, 0]]
            for k in range(1, self.t):
                both &= bits[chosen[:, k]]
            out[first : first + step] = both.any(axis=1)
        return out

    def decode(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places (k,) -> columns (k, t), bins (k, t)."""
        cross = np.searchsorted(self.offsets, places, side="right") - 1
        columns = self.crosses[cross]
        rest = places - self.offsets[cross]
        return columns, rest[:, None] // self.strides[cross] % self.sizes[columns]

    def decode_one(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """The same for one place: columns (t,), bins (t,)."""
        cross = int(np.searchsorted(self.offsets, place, side="right")) - 1
        columns = self.crosses[cross]
        return columns, (place - self.offsets[cross]) // self.strides[cross] % self.sizes[columns]

    def encode(self, columns: np.ndarray, bins: np.ndarray) -> np.ndarray:
        """The inverse of `decode`. The columns of a tuple ascend."""
        cross = np.searchsorted(self._keys, self._key(columns))
        return self.offsets[cross] + (bins * self.strides[cross]).sum(axis=1)


def steps(
    offsets: np.ndarray, rows: np.ndarray, columns: np.ndarray, strides: np.ndarray
) -> np.ndarray:
    """(m, crosses): offset of a cross + the sum of bin * stride over its columns, for each row."""
    out = np.repeat(offsets[None], len(rows), axis=0)
    for k in range(columns.shape[1]):
        out += rows[:, columns[:, k]] * strides[:, k]
    return out


def _number(sizes: Sequence[int], t: int) -> int:
    """The number of t-tuples: the t-th elementary symmetric polynomial of the sizes."""
    e = [1] + [0] * t
    for size in sizes:
        for k in range(t, 0, -1):
            e[k] += size * e[k - 1]
    return e[t]
