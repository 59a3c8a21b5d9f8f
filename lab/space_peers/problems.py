"""The problems that every peer gets, who is right about them, and how far a draw is from its law.

A row is a row of int64 numbers. The problems:

bus     A bus transaction: addr (16 bits), len (1 to 15), burst (0 FIXED, 1 INCR, 2 WRAP), write (0
        or 1), with addr + len <= 0xFFFF, addr a multiple of 4, and len 2, 4 or 8 if burst is WRAP.
        Uniform over the 1,081,242 legal rows.
shares  The same, with the shares .6, .3 and .1 of FIXED, INCR and WRAP. The law is the one of
        maximum entropy with these shares: given the burst, every legal row is as likely.
bus32   The same as bus with 32 bits of addr: 7 * 10^10 legal rows, which nobody can list.
four    Four transactions in order that do not overlap: addr_i (16 bits), len_i (1 to 15), with
        addr_i + len_i <= addr_(i+1). Columns addr_0, len_0, addr_1, ... Uniform. One row in 24 of
        random addresses and lengths is legal.
eight   The same with eight transactions. One row in 40,000 is legal.

**Deviation.** Legal rows are counted in cells whose exact probabilities p are known. Pearson's

    X^2 = sum over the cells of (count - n p)^2 / (n p)

has, for n independent rows of the law and k cells, exactly the mean k - 1 and the variance
2 (k - 1) + (sum 1/p - k^2 - 2 k + 2) / n. So ratio = X^2 / (k - 1) is 1 up to noise, and z says how
many standard deviations it is off. sqrt((X^2 - (k - 1)) / n) estimates the relative error of a
cell's share: what is left when the noise is subtracted, and does not grow with n. Cells in which
less than one row is expected are pooled. A problem has several partitions into cells, coarse and
fine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from lab.space_peers.protocol import BITS, SHARES, TRANSACTIONS

#: Cells with a smaller expected count are pooled. It may be small: the variance above is exact.
LEAST_EXPECTED = 1
LENGTHS = np.arange(1, 16)


class Deviation(NamedTuple):
    """How far a draw is from its law; see the head of this file."""

    ratio: float  # 1 up to noise; sums over all partitions
    z: float  # of the partition with the largest |z|
    error: float  # relative error of a cell's share, noise subtracted, in the same partition

    @property
    def fine(self) -> bool:
        """Nothing is seen. A faultless sampler fails about once in 1,000 draws."""
        return abs(self.z) < 5


class Partition(NamedTuple):
    cells: Callable[[np.ndarray], np.ndarray]  # rows -> the number of the cell of each row
    law: np.ndarray  # the exact probability of each cell


@dataclass(frozen=True)
class Problem:
    name: str
    columns: tuple[str, ...]
    legal: Callable[[np.ndarray], np.ndarray]  # rows -> is each row legal?
    partitions: Callable[[], list[Partition]]

    def deviation(self, rows: np.ndarray) -> Deviation:
        """Deviation of legal rows from the law of the problem."""
        n = len(rows)
        found = [
            pearson(np.bincount(part.cells(rows), minlength=len(part.law)), part.law)
            for part in self.partitions()
        ]
        worst = max(found, key=lambda part: abs(part[2]))
        statistic, freedom = sum(part[0] for part in found), sum(part[1] for part in found)
        error = max((worst[0] - worst[1]) / max(n, 1), 0.0) ** 0.5
        return Deviation(statistic / freedom, worst[2], error)


def pearson(counts: np.ndarray, law: np.ndarray) -> tuple[float, int, float]:
    """(X^2, k - 1, z) after pooling; nothing can be said about fewer than two cells: (0, 1, 0)."""
    n = int(counts.sum())
    rare = law * n < LEAST_EXPECTED
    p = np.append(law[~rare], law[rare].sum())
    observed = np.append(counts[~rare], counts[rare].sum())
    p, observed = p[p > 0], observed[p > 0]
    k = len(p)
    if k < 2:
        return 0.0, 1, 0.0
    statistic = float(((observed - n * p) ** 2 / (n * p)).sum())
    variance = 2 * (k - 1) + ((1 / p).sum() - k * k - 2 * k + 2) / n
    return statistic, k - 1, float((statistic - (k - 1)) / variance**0.5)


# The bus ------------------------------------------------------------------------------------------


def bus_legal(rows: np.ndarray, bits: int) -> np.ndarray:
    addr, length, burst, write = rows.T
    top = (1 << bits) - 1
    ranges = (addr >= 0) & (length >= 1) & (length <= 15) & (burst >= 0) & (burst <= 2)
    wrap = (burst != 2) | np.isin(length, (2, 4, 8))
    return ranges & np.isin(write, (0, 1)) & (addr + length <= top) & (addr % 4 == 0) & wrap


def bus_cells(rows: np.ndarray, bits: int) -> np.ndarray:
    """(burst, len, write, the two highest bits of addr, its bits 2 and 3)."""
    addr, length, burst, write = rows.T
    corner = addr >> (bits - 2) << 2 | addr >> 2 & 3
    return ((burst * 15 + length - 1) * 2 + write) * 16 + corner


def bus_law(bits: int, shares: tuple[float, ...] | None) -> np.ndarray:
    """Exact probability of each cell.

    Of the addresses that are a multiple of 4, every corner has 2^(bits - 6). Only the last three,
    2^bits - 4 j for j = 1, 2, 3, forbid some lengths: those above 4 j - 1.
    """
    count = np.full((3, 15, 2, 4, 4), float(1 << (bits - 6)))  # burst, len, write, top, low
    for j in (1, 2, 3):
        count[:, 4 * j - 1 < LENGTHS, :, 3, 4 - j] -= 1
    count[2, ~np.isin(LENGTHS, (2, 4, 8))] = 0
    if shares is not None:
        count *= (np.array(shares) / count.sum(axis=(1, 2, 3, 4)))[:, None, None, None, None]
    return (count / count.sum()).ravel()


def bus(name: str) -> Problem:
    bits, shares = BITS[name], SHARES if name == "shares" else None

    @cache
    def partitions() -> list[Partition]:
        law = bus_law(bits, shares)
        coarse = law.reshape(-1, 32).sum(axis=1)  # (burst, len)
        return [
            Partition(lambda rows: bus_cells(rows, bits), law),
            Partition(lambda rows: bus_cells(rows, bits) // 32, coarse),
        ]

    columns = ("addr", "len", "burst", "write")
    return Problem(name, columns, lambda rows: bus_legal(rows, bits), partitions)


# Ordered transactions -----------------------------------------------------------------------------


def ordered_legal(rows: np.ndarray) -> np.ndarray:
    addr, length = rows[:, 0::2], rows[:, 1::2]
    ranges = (addr >= 0) & (addr <= 65535) & (length >= 1) & (length <= 15)
    return ranges.all(axis=1) & (addr[:, :-1] + length[:, :-1] <= addr[:, 1:]).all(axis=1)


def ordered_cells(rows: np.ndarray, i: int) -> np.ndarray:
    """(the three highest bits of addr_i, its two lowest bits, len_i)."""
    addr, length = rows[:, 2 * i], rows[:, 2 * i + 1]
    return (addr >> 13 << 2 | addr & 3) * 15 + length - 1


def ordered_counts(count: int, size: int = 65536) -> list[np.ndarray]:
    """For each i, how many legal rows have the values (addr_i, len_i): shape (size, 15).

    Dynamic programming. before[i][a] counts the ways to choose the transactions before i if addr_i
    is a; room[i][a] counts the ways to choose transaction i and the later ones if addr_i >= a.
    """
    before = [np.ones(size)]
    for _ in range(count - 1):
        sums = np.concatenate([np.zeros(15), before[-1].cumsum()])  # sums[15 + a]: addr <= a
        before.append(sum(sums[15 - n : 15 - n + size] for n in LENGTHS))
    tables: list[np.ndarray] = []
    room = np.ones(size + 15)  # behind the last transaction everything is allowed
    for i in reversed(range(count)):
        after = np.stack([room[n : n + size] for n in LENGTHS], axis=1)
        tables.insert(0, before[i][:, None] * after)
        ways = after.sum(axis=1)
        room = np.concatenate([ways[::-1].cumsum()[::-1], np.zeros(15)])
    return tables


def ordered(name: str) -> Problem:
    count = TRANSACTIONS[name]

    @cache
    def partitions() -> list[Partition]:
        addr, length = np.meshgrid(np.arange(65536), LENGTHS, indexing="ij")
        found = []
        for i, table in enumerate(ordered_counts(count)):
            cell = (addr >> 13 << 2 | addr & 3) * 15 + length - 1
            law = np.bincount(cell.ravel(), (table / table.sum()).ravel())
            found.append(Partition(lambda rows, i=i: ordered_cells(rows, i), law))
        return found

    columns = tuple(f"{field}{i}" for i in range(count) for field in ("addr", "len"))
    return Problem(name, columns, ordered_legal, partitions)


PROBLEMS = {
    **{name: bus(name) for name in BITS},
    **{name: ordered(name) for name in TRANSACTIONS},
}
