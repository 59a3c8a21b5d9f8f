"""NumPy, by hand. OPTION: `list` makes all legal rows first, `reject` drops illegal ones.

Ten lines for each problem, written by somebody who knows the rules of that problem.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from protocol import BITS, SHARES, TRANSACTIONS, Missing, serve

BLOCK = 100_000


def legal(addr: np.ndarray, length: np.ndarray, burst: np.ndarray, top: int) -> np.ndarray:
    wrap = (burst != 2) | np.isin(length, (2, 4, 8))
    return (addr % 4 == 0) & (addr + length <= top) & wrap


def bus(problem: str, seed: int, option: str) -> Iterator[bytes]:
    rng, top = np.random.default_rng(seed), (1 << BITS[problem]) - 1
    if option == "list" and BITS[problem] > 16:
        raise Missing("7 * 10^10 rows cannot be listed")
    if option == "list":
        grid = np.meshgrid(np.arange(top + 1), np.arange(1, 16), np.arange(3), np.arange(2))
        every = np.stack([axis.ravel() for axis in grid], axis=1)
        every = every[legal(*every.T[:3], top)]
        weights = np.asarray(SHARES) / np.bincount(every[:, 2])
        p = weights[every[:, 2]] if problem == "shares" else np.ones(len(every))
        while True:
            yield every[rng.choice(len(every), BLOCK, p=p / p.sum())].astype(np.int64).tobytes()
    while True:
        addr, length = rng.integers(0, top + 1, BLOCK), rng.integers(1, 16, BLOCK)
        burst, write = rng.integers(0, 3, BLOCK), rng.integers(0, 2, BLOCK)
        rows = np.stack([addr, length, burst, write], axis=1)[legal(addr, length, burst, top)]
        if problem == "shares":  # choose how many rows of each burst, then take as many
            wanted = rng.multinomial(len(rows) // 2, SHARES)
            rows = np.concatenate([rows[rows[:, 2] == k][:m] for k, m in enumerate(wanted)])
            rows = rng.permutation(rows)  # a reader may take only the first ones
        yield rows.astype(np.int64).tobytes()


def ordered(problem: str, seed: int, option: str) -> Iterator[bytes]:
    if option == "list":
        raise Missing("more than 10^22 rows cannot be listed")
    rng, count = np.random.default_rng(seed), TRANSACTIONS[problem]
    while True:
        addr = rng.integers(0, 65536, (BLOCK, count))
        length = rng.integers(1, 16, (BLOCK, count))
        fine = (addr[:, :-1] + length[:, :-1] <= addr[:, 1:]).all(axis=1)
        yield np.stack([addr[fine], length[fine]], axis=2).astype(np.int64).tobytes()


if __name__ == "__main__":
    serve({"bus": bus, "shares": bus, "bus32": bus, "four": ordered, "eight": ordered})
