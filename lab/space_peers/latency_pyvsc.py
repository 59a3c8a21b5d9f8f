"""PyVSC and dv-solve, one row at a time: prints {name: seconds of each call} as a line of JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import vsc
from draw_pyvsc import Bus
from dv_solve.builder import SolveProblemBuilder
from dv_solve.ctx import SOLVE_OK, SolveCtx
from dv_solve.problem import BIN_ADD, BIN_EQ, BIN_LTE, BIN_MOD, BIN_NEQ, BIN_OR


def dv_solve() -> tuple[Callable[[int], None], Callable[[int], None]]:
    """The bus, built by hand: a row, and a row with another address."""
    b = SolveProblemBuilder()
    addr, length, burst, write = range(4)
    for name, (width, low, high) in enumerate(((17, 0, 0xFFFF), (17, 1, 15), (2, 0, 2), (1, 0, 1))):
        b.add_var(name, width=width, is_signed=False, lo=low, hi=high)

    def rule(op: int, left: int, right: int) -> int:
        return b.expr_binary(op, left, right)

    var, const = b.expr_var, b.expr_const
    b.add_constraint(rule(BIN_LTE, rule(BIN_ADD, var(addr), var(length)), const(0xFFFF)))
    b.add_constraint(rule(BIN_EQ, rule(BIN_MOD, var(addr), const(4)), const(0)))
    short = b.expr_in_set(var(length), [const(2), const(4), const(8)])
    b.add_constraint(rule(BIN_OR, rule(BIN_NEQ, var(burst), const(2)), short))
    ctx = SolveCtx(b.finalize()[0])

    def row(k: int) -> None:
        ctx.reset()
        assert ctx.solve(seed=k, fair_pick=True) == SOLVE_OK
        {name: ctx.get_value(name) for name in (addr, length, burst, write)}

    def given(k: int) -> None:
        ctx.reset()
        assert ctx.pin(addr, 4 * k)
        assert ctx.solve(seed=k, fair_pick=True) == SOLVE_OK
        {name: ctx.get_value(name) for name in (addr, length, burst, write)}

    return row, given


def pyvsc(backend: str) -> tuple[Callable[[int], None], Callable[[int], None]]:
    vsc.set_solver_backend(backend)
    item = Bus(16, False)

    def row(k: int) -> None:
        vsc.set_solver_backend(backend)
        item.randomize()

    def given(k: int) -> None:
        vsc.set_solver_backend(backend)
        with item.randomize_with() as it:
            it.addr == 4 * k  # noqa: B015 - PyVSC records the comparison

    return row, given


def main() -> None:
    calls = int(sys.argv[1])
    every = {}
    for name, make in {
        "dv-solve": dv_solve,
        "PyVSC, dv-solve": lambda: pyvsc("dv-solve"),
        "PyVSC, boolector": lambda: pyvsc("boolector"),
    }.items():
        for what, call in zip(("a row", "given another value"), make(), strict=True):
            times = []
            for k in range(calls + calls // 10):
                started = time.perf_counter()
                call(k)
                times.append(time.perf_counter() - started)
            every[f"{name}: {what}"] = times[calls // 10 :]
    print(json.dumps(every))


if __name__ == "__main__":
    main()
