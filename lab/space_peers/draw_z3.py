"""z3: find a model, forbid it by a clause, set a new seed, again; phases are random."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import z3
from protocol import BITS, SHARES, TRANSACTIONS, serve

RANDOM_PHASE = 5  # z3 calls this `phase_selection`


def bus(problem: str, seed: int, option: str) -> Iterator[Any]:
    bits = BITS[problem]
    top, width = (1 << bits) - 1, bits + 1  # one bit more, so that the sum cannot wrap
    names = ("addr", "len", "burst", "write")
    addr, length, burst, _ = fields = [z3.BitVec(name, width) for name in names]
    wrap = z3.Implies(burst == 2, z3.Or(length == 2, length == 4, length == 8))
    ranges = [z3.UGE(length, 1)]
    ranges += [z3.ULE(x, most) for x, most in zip(fields, (top, 15, 2, 1), strict=True)]
    rules = [*ranges, z3.ULE(addr + length, top), addr & 3 == 0, wrap]
    cases = [burst == k for k in range(3)] if problem == "shares" else None
    yield from rows(rules, fields, seed, cases)


def ordered(problem: str, seed: int, option: str) -> Iterator[Any]:
    count = TRANSACTIONS[problem]
    addr = [z3.BitVec(f"addr{i}", 17) for i in range(count)]
    length = [z3.BitVec(f"len{i}", 17) for i in range(count)]
    rules = [z3.ULE(a, 65535) for a in addr]
    rules += [rule for n in length for rule in (z3.UGE(n, 1), z3.ULE(n, 15))]
    rules += [z3.ULE(addr[i] + length[i], addr[i + 1]) for i in range(count - 1)]
    yield from rows(rules, [x for pair in zip(addr, length, strict=True) for x in pair], seed)


def rows(rules: list[Any], fields: list[Any], seed: int, cases: Any = None) -> Iterator[list[int]]:
    """Rows, none twice; `cases` are three conditions, one of which is chosen by its share."""
    rng = random.Random(seed)
    solver = z3.Solver()
    solver.set("phase_selection", RANDOM_PHASE)
    solver.add(*rules)
    while True:
        solver.set("random_seed", rng.getrandbits(30))
        if solver.check(*(rng.choices(cases, SHARES) if cases else ())) != z3.sat:
            raise RuntimeError("z3 found no further row")
        model = solver.model()
        row = [model.eval(x, model_completion=True).as_long() for x in fields]
        solver.add(z3.Or(*[x != value for x, value in zip(fields, row, strict=True)]))
        yield row


if __name__ == "__main__":
    serve({"bus": bus, "shares": bus, "bus32": bus, "four": ordered, "eight": ordered})
