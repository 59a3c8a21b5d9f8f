"""constrainedrandom: draws and checks first, then searches if too many attempts failed."""

from __future__ import annotations

import random
from collections.abc import Iterator

from constrainedrandom import RandObj
from protocol import BITS, SHARES, TRANSACTIONS, serve


def bus(problem: str, seed: int, option: str) -> Iterator[tuple[int, ...]]:
    top = (1 << BITS[problem]) - 1
    item = RandObj(random.Random(seed))
    item.add_rand_var("addr", bits=BITS[problem], constraints=[lambda a: a % 4 == 0])
    item.add_rand_var("len", domain=range(1, 16))
    weighted = {k: round(100 * share) for k, share in enumerate(SHARES)}
    item.add_rand_var("burst", domain=weighted if problem == "shares" else range(3))
    item.add_rand_var("write", bits=1)
    item.add_constraint(lambda a, n: a + n <= top, ("addr", "len"))
    item.add_constraint(lambda b, n: b != 2 or n in (2, 4, 8), ("burst", "len"))
    while True:
        item.randomize()
        yield item.addr, item.len, item.burst, item.write


def ordered(problem: str, seed: int, option: str) -> Iterator[list[int]]:
    count = TRANSACTIONS[problem]
    item = RandObj(random.Random(seed))
    for i in range(count):
        item.add_rand_var(f"addr{i}", bits=16)
        item.add_rand_var(f"len{i}", domain=range(1, 16))
    for i in range(count - 1):
        names = (f"addr{i}", f"len{i}", f"addr{i + 1}")
        item.add_constraint(lambda a, n, b: a + n <= b, names)
    while True:
        item.randomize()
        yield [getattr(item, f"{name}{i}") for i in range(count) for name in ("addr", "len")]


if __name__ == "__main__":
    serve({"bus": bus, "shares": bus, "bus32": bus, "four": ordered, "eight": ordered})
