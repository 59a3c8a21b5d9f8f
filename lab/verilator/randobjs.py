"""Some of the eight problems as classes of PyVSC, randomized by each of its solvers in turn.

`randomize()` is timed as a whole: PyVSC's own work at each call is part of it.
"""

# ruff: noqa: B015
from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import vsc
from vsc.model.rand_state import RandState

import nelson.pyvsc
from lab.verilator.client import Row


@vsc.randobj
class Implication:
    def __init__(self) -> None:
        self.s, self.d = vsc.rand_bit_t(1), vsc.rand_bit_t(8)

    @vsc.constraint
    def legal(self) -> None:
        with vsc.implies(self.s == 1):
            self.d == 0


@vsc.randobj
class SumOfTwo:
    def __init__(self) -> None:
        self.a, self.b = vsc.rand_bit_t(6), vsc.rand_bit_t(6)

    @vsc.constraint
    def legal(self) -> None:
        self.a + self.b <= 50


@vsc.randobj
class SumOfThree:
    def __init__(self) -> None:
        self.x, self.y, self.z = (vsc.rand_bit_t(7) for _ in range(3))

    @vsc.constraint
    def legal(self) -> None:
        self.x + self.y + self.z == 100


@vsc.randobj
class Ordered:
    def __init__(self) -> None:
        self.a, self.b, self.c, self.d = (vsc.rand_bit_t(8) for _ in range(4))

    @vsc.constraint
    def legal(self) -> None:
        self.a < self.b
        self.b < self.c
        self.c < self.d


CLASSES: dict[str, Any] = {
    "implication": Implication,
    "a + b <= 50": SumOfTwo,
    "x + y + z = 100": SumOfThree,
    "a < b < c < d": Ordered,
}
SOLVERS = ("nelson", "dv-solve", "boolector")


def drawn(
    case: str, names: list[str], solver: str, seed: int, most: int, seconds: float
) -> Iterator[tuple[Row, float]]:
    """(row, CPU seconds so far) of each call; the first calls of a process are not among them."""
    nelson.pyvsc.install(select=False)
    vsc.set_solver_backend(solver)
    try:
        item = CLASSES[case]()
        for _ in range(3):
            item.randomize()
        item.set_randstate(RandState.mkFromSeed(seed))
        used = 0.0
        while most and used < seconds:
            begun = time.process_time()
            item.randomize()
            used += time.process_time() - begun
            yield {name: int(getattr(item, name)) for name in names}, used
            most -= 1
    finally:
        vsc.set_solver_backend(None)
