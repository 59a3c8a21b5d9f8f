"""PyVSC: random objects as in SystemVerilog. OPTION is its solver: boolector or dv-solve."""

from __future__ import annotations

from collections.abc import Iterator

import vsc
from protocol import BITS, SHARES, TRANSACTIONS, serve
from vsc.model.rand_state import RandState


@vsc.randobj
class Bus:
    def __init__(self, bits: int, shares: bool) -> None:
        self.addr = vsc.rand_bit_t(bits)
        self.len = vsc.rand_bit_t(4)
        self.burst = vsc.rand_bit_t(2)
        self.write = vsc.rand_bit_t(1)
        self.top = (1 << bits) - 1
        self.shares = shares

    @vsc.constraint
    def rules(self) -> None:
        self.len >= 1  # noqa: B015 - PyVSC records the comparison
        self.burst <= 2  # noqa: B015
        self.addr + self.len <= self.top  # noqa: B015
        self.addr % 4 == 0  # noqa: B015
        with vsc.implies(self.burst == 2):
            self.len in vsc.rangelist(2, 4, 8)  # noqa: B015
        if self.shares:
            vsc.dist(self.burst, [vsc.weight(k, round(100 * s)) for k, s in enumerate(SHARES)])


@vsc.randobj
class Ordered:
    """One field for each number, because with elements of lists PyVSC 1.0.0 swaps the two sides
    of `addr[i] + len[i] <= addr[j]`.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        for i in range(count):
            # 17 bits, because a sum of fields wraps at their width, as in SystemVerilog.
            setattr(self, f"addr{i}", vsc.rand_bit_t(17))
            setattr(self, f"len{i}", vsc.rand_bit_t(17))

    @vsc.constraint
    def rules(self) -> None:
        for i in range(self.count):
            getattr(self, f"addr{i}") <= 65535  # noqa: B015
            getattr(self, f"len{i}") >= 1  # noqa: B015
            getattr(self, f"len{i}") <= 15  # noqa: B015
        for i in range(self.count - 1):
            end = getattr(self, f"addr{i}") + getattr(self, f"len{i}")
            end <= getattr(self, f"addr{i + 1}")  # noqa: B015


def bus(problem: str, seed: int, option: str) -> Iterator[tuple[int, ...]]:
    vsc.set_solver_backend(option or "boolector")
    item = Bus(BITS[problem], problem == "shares")
    item.set_randstate(RandState(seed))
    while True:
        item.randomize()
        yield item.addr, item.len, item.burst, item.write


def ordered(problem: str, seed: int, option: str) -> Iterator[list[int]]:
    vsc.set_solver_backend(option or "boolector")
    count = TRANSACTIONS[problem]
    item = Ordered(count)
    item.set_randstate(RandState(seed))
    while True:
        item.randomize()
        yield [getattr(item, f"{name}{i}") for i in range(count) for name in ("addr", "len")]


if __name__ == "__main__":
    serve({"bus": bus, "shares": bus, "bus32": bus, "four": ordered, "eight": ordered})
