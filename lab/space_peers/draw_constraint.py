"""python-constraint2: list all rows once, then choose from the list."""

from __future__ import annotations

import random
from collections.abc import Iterator

import constraint
from protocol import BITS, SHARES, TRANSACTIONS, Missing, serve

BLOCK = 100_000  # rows, once the list is made


def listed(problem: str) -> list[tuple[int, ...]]:
    if problem in TRANSACTIONS or BITS[problem] > 16:
        raise Missing("too many rows to list")
    model = constraint.Problem()
    names, top = ["addr", "len", "burst", "write"], (1 << BITS[problem]) - 1
    for name, domain in zip(names, (top + 1, range(1, 16), 3, 2), strict=True):
        model.addVariable(name, range(domain) if isinstance(domain, int) else domain)
    model.addConstraint(lambda a: a % 4 == 0, ["addr"])
    model.addConstraint(lambda a, n: a + n <= top, ["addr", "len"])
    model.addConstraint(lambda b, n: b != 2 or n in (2, 4, 8), ["burst", "len"])
    return model.getSolutionsOrderedList(names)


def draw(problem: str, seed: int, option: str) -> Iterator[list[int]]:
    rng, every = random.Random(seed), listed(problem)
    groups, shares = [every], (1.0,)
    if problem == "shares":
        groups, shares = [[row for row in every if row[2] == k] for k in range(3)], SHARES
    while True:
        block = [rng.choice(rows) for rows in rng.choices(groups, shares, k=BLOCK)]
        yield [x for row in block for x in row]


if __name__ == "__main__":
    serve(dict.fromkeys(("bus", "shares", "bus32", "four", "eight"), draw))
