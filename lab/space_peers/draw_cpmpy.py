"""CPMpy with OR-Tools. OPTION: `seeds` solves again with a new seed, `all` lists with solveAll.

`all` stops after LISTED rows, because solveAll returns only when it is done; the rows are the first
ones in the order of the search.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import cpmpy as cp
from protocol import BITS, SHARES, TRANSACTIONS, Missing, serve

LISTED = 100_000


def bus(problem: str, seed: int, option: str) -> Iterator[Any]:
    top = (1 << BITS[problem]) - 1
    addr, length = cp.intvar(0, top, name="addr"), cp.intvar(1, 15, name="len")
    burst, write = cp.intvar(0, 2, name="burst"), cp.intvar(0, 1, name="write")
    wrap = (burst == 2).implies(cp.any([length == 2, length == 4, length == 8]))
    # `write` is in no rule; without the last one OR-Tools would not see it.
    rules = [addr + length <= top, addr % 4 == 0, wrap, write >= 0]
    fields = [addr, length, burst, write]
    if problem != "shares":
        yield from rows([rules], [1.0], fields, seed, option)
    elif option == "all":
        raise Missing("a list has no shares")
    else:  # the burst is chosen by hand, and the rest is left to the solver
        yield from rows([[*rules, burst == k] for k in range(3)], SHARES, fields, seed, option)


def ordered(problem: str, seed: int, option: str) -> Iterator[Any]:
    count = TRANSACTIONS[problem]
    addr = [cp.intvar(0, 65535, name=f"addr{i}") for i in range(count)]
    length = [cp.intvar(1, 15, name=f"len{i}") for i in range(count)]
    rules = [addr[i] + length[i] <= addr[i + 1] for i in range(count - 1)]
    fields = [x for pair in zip(addr, length, strict=True) for x in pair]
    yield from rows([[*rules, length[-1] >= 1]], [1.0], fields, seed, option)


def rows(cases: list[Any], shares: Any, fields: list[Any], seed: int, option: str) -> Iterator[Any]:
    """Rows of one of the cases at a time, chosen by its share."""
    rng = random.Random(seed)
    solvers = [cp.SolverLookup.get("ortools", cp.Model(rules)) for rules in cases]
    if option == "all":
        listed: list[list[int]] = []
        keep = lambda: listed.append([int(x.value()) for x in fields])  # noqa: E731
        solvers[0].solveAll(display=keep, solution_limit=LISTED, time_limit=20)
        yield [x for row in listed for x in row]
        return
    while True:
        [solver] = rng.choices(solvers, shares)
        seeds = {"random_seed": rng.getrandbits(30), "randomize_search": True}
        if not solver.solve(num_search_workers=1, **seeds):
            raise RuntimeError("OR-Tools found no row")
        yield [int(x.value()) for x in fields]


if __name__ == "__main__":
    serve({"bus": bus, "shares": bus, "bus32": bus, "four": ordered, "eight": ordered})
