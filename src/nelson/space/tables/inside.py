"""The numbers inside of ranges: bins that the data choose, and a quantile function for each bin.

    number = Q_b(u),    u uniform on [0, 1)        b: the bin that the law over ranges has drawn

Q_b is linear between quantiles of the data of bin b; where they have few values it is a step
function, so that spikes and round numbers stay. Numbers are rounded to the step of the column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

#: Most bins of a column; and n rows have n ** POWER, so that pairs of bins have rows.
MOST_BINS, POWER = 24, 0.385
#: A bin of at most this many values, three rows for each, keeps them as they are.
ATOMS = 64
#: Quantiles of a bin of more values.
KNOTS = 33


def bins_for(rows: int) -> int:
    return int(min(MOST_BINS, max(2, round(rows**POWER))))


def resolution(values: np.ndarray, most: int = 6) -> float:
    """The step of the grid on which all numbers lie: 1000, 1, 0.25, ...; 0 if they lie on none."""
    top = float(np.abs(values).max(initial=0.0))
    for digits in range(most + 1):
        scaled = values * 10**digits
        if top * 10**digits < 2**50 and np.abs(scaled - np.rint(scaled)).max(
            initial=0.0
        ) < 1e-6 * max(1.0, 1e-9 * top * 10**digits):
            step = int(np.gcd.reduce(np.rint(scaled).astype(np.int64))) if len(values) else 1
            return max(1, step) / 10**digits
    return 0.0


def edges_for(values: np.ndarray, bins: int, must: Iterable[float] = ()) -> tuple[float, ...]:
    """Edges from -inf to inf: a value with the rows of a bin has one alone, the others have about
    equally many rows each. must: edges that rules or other columns need.
    """
    distinct, counts = np.unique(values, return_counts=True)
    share = len(values) / bins
    starts: set[int] = set()  # positions in `distinct` where a bin starts
    if len(distinct) <= bins:
        starts.update(range(1, len(distinct)))
    else:
        heavy = counts >= share
        for k in np.flatnonzero(heavy):
            starts.update((int(k), int(k) + 1))
        before = np.cumsum(np.where(heavy, 0, counts))
        light = int(before[-1])
        left = max(1, bins - int(heavy.sum()))
        parts = light * np.arange(1, left) / left
        starts.update(np.searchsorted(before, parts, side="right").tolist())
    inner = {between(distinct[k - 1], distinct[k]) for k in starts if 0 < k < len(distinct)}
    inner |= {float(edge) for edge in must if math.isfinite(edge)}
    return (-math.inf, *sorted(inner), math.inf)


def between(low: float, high: float) -> float:
    """The shortest decimal number in (low, high]."""
    low, high = float(low), float(high)
    gap = high - low
    if not gap > 0:
        return high
    digits = -math.floor(math.log10(gap)) if gap < 1e300 else -300
    for d in (digits - 1, digits, digits + 1):
        step = 10.0**-d
        found = round(math.floor(high / step) * step, max(d, 0))
        if low < found <= high:
            return found
    return high


@dataclass(frozen=True, eq=False)
class Inside:
    """Q_b of all bins: values `v` at shares `p` + b, in one array; step: of the grid, or 0."""

    p: np.ndarray
    v: np.ndarray
    step: float

    @classmethod
    def of(
        cls, values: np.ndarray, codes: np.ndarray, edges: tuple[float, ...], step: float
    ) -> Inside:
        p, v = [], []
        for b in range(len(edges) - 1):
            shares, numbers = _quantiles(np.sort(values[codes == b]), edges[b], edges[b + 1], step)
            p.append(b + shares)
            v.append(numbers)
        return cls(np.concatenate(p), np.concatenate(v), step)

    def draw(self, codes: np.ndarray, u: np.ndarray) -> np.ndarray:
        """A number for each code, from uniform u."""
        found = np.interp(codes + np.minimum(u, 1 - 1e-12), self.p, self.v)
        return np.round(found / self.step) * self.step if self.step else found


def ranks(values: np.ndarray, codes: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The rank of each number in its bin, in (0, 1); `noise` breaks ties."""
    order = np.lexsort((noise, values, codes))
    counts = np.bincount(codes)
    first = np.concatenate([[0], np.cumsum(counts)])[codes[order]]
    found = np.empty(len(values))
    found[order] = (np.arange(len(values)) - first + 0.5) / counts[codes[order]]
    return found


def _quantiles(
    sorted_values: np.ndarray, low: float, high: float, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """(shares from 0 to 1, values): the quantile function of one bin."""
    n = len(sorted_values)
    if not n:  # a bin that only an edge made: uniform, or at its finite end
        known = [x for x in (low, high) if math.isfinite(x)] or [0.0]
        first, last = known[0], known[-1]
        if len(known) == 2:
            last = max(first, high - step if step else float(np.nextafter(high, low)))
        return np.array([0.0, 1.0]), np.array([first, last])
    distinct, counts = np.unique(sorted_values, return_counts=True)
    if len(distinct) <= ATOMS and (3 * len(distinct) <= n or len(distinct) == 1):
        ends = np.cumsum(counts) / n
        p = np.column_stack([np.concatenate([[0.0], ends[:-1]]), ends]).ravel()
        return p, np.repeat(distinct, 2)
    at = np.linspace(0.0, 1.0, min(n, KNOTS))
    return at, np.quantile(sorted_values, at)
