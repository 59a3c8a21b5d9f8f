"""Eight problems: their constraints as Verilator writes them, and all their rows or their shares.

`share(row)` is the bin of a row, and `shares` the exact share of each bin under the uniform law.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lab.verilator.client import Row, Task

Bin = Any


@dataclass(frozen=True)
class Case:
    """A task with the exact law of some function of its rows."""

    name: str
    task: Task
    bin: Callable[[Row], Bin]
    shares: dict[Bin, float]
    rows: int  # legal rows


def _ones(width: int) -> str:
    """$countones(x), as Verilator unrolls it."""
    terms = f"(bvand x #x{1:0{width // 4}x})"
    for k in range(1, width):
        mask = f"#x{1 << k:0{width // 4}x}"
        terms = f"(bvadd {terms} (bvlshr (bvand x {mask}) #x{k:0{width // 4}x}))"
    return terms


def _wide(name: str, more: int) -> str:
    return f"((_ zero_extend {more}) {name})"


def _bv(rule: str) -> str:
    return f"(__Vbv {rule})"


def _shares(rows: Iterable[Row], of: Callable[[Row], Bin]) -> tuple[dict[Bin, float], int]:
    counts = Counter(map(of, rows))
    n = sum(counts.values())
    return {key: count / n for key, count in counts.items()}, n


def _case(name: str, task: Task, rows: Iterable[Row], of: Callable[[Row], Bin]) -> Case:
    shares, n = _shares(rows, of)
    return Case(name, task, of, shares, n)


def _every(**sizes: range) -> Iterable[Row]:
    return (dict(zip(sizes, row, strict=True)) for row in itertools.product(*sizes.values()))


def p_of(counts: Counter[Bin], shares: dict[Bin, float], n: int) -> float:
    """The p-value of chi-square against exact shares; bins with little in them are joined.

    A bin that must not occur has p = 0.
    """
    from scipy.stats import chisquare

    if not set(counts) <= set(shares):
        return 0.0
    observed, expected, some, more = [], [], 0.0, 0.0
    for key in sorted(shares, key=lambda k: shares[k]):
        some, more = some + counts[key], more + n * shares[key]
        if more >= 5:
            observed.append(some)
            expected.append(more)
            some = more = 0.0
    observed[-1] += some
    expected[-1] += more
    return float(chisquare(observed, expected, sum_check=False).pvalue)


def cases() -> list[Case]:
    """The eight problems."""
    found = [_implication(), _ones8(), _ones32(), _sum_of_two(), _sum_of_three()]
    return [*found, _ordered(), _bus(), _timer()]


def _implication() -> Case:
    task = Task({"s": 1, "d": 8}, [_bv("(=> (__Vbool s) (__Vbool (__Vbv (= d #x00))))")])
    legal = (r for r in _every(s=range(2), d=range(256)) if not r["s"] or r["d"] == 0)
    return _case("implication", task, legal, lambda r: (r["s"], r["d"]))


def _ones8() -> Case:
    task = Task({"x": 8}, [_bv(f"(= {_ones(8)} #x04)")])
    legal = (r for r in _every(x=range(256)) if r["x"].bit_count() == 4)
    return _case("ones of 8 bits", task, legal, lambda r: r["x"])


def _ones32() -> Case:
    """Binned by the lowest bit that is 1: C(31 - k, 3) of C(32, 4) rows."""
    task = Task({"x": 32}, [_bv(f"(= {_ones(32)} #x00000004)")])
    n = math.comb(32, 4)
    shares = {k: math.comb(31 - k, 3) / n for k in range(29)}
    return Case("ones of 32 bits", task, lambda r: (r["x"] & -r["x"]).bit_length() - 1, shares, n)


def _sum_of_two() -> Case:
    total = f"(bvadd {_wide('a', 1)} {_wide('b', 1)})"
    task = Task({"a": 6, "b": 6}, [_bv(f"(bvule {total} #b0110010)")])
    legal = (r for r in _every(a=range(64), b=range(64)) if r["a"] + r["b"] <= 50)
    return _case("a + b <= 50", task, legal, lambda r: r["a"])


def _sum_of_three() -> Case:
    total = f"(bvadd (bvadd {_wide('x', 2)} {_wide('y', 2)}) {_wide('z', 2)})"
    task = Task({"x": 7, "y": 7, "z": 7}, [_bv(f"(= {total} #b001100100)")])
    legal = ({"x": x, "y": y, "z": 100 - x - y} for x in range(101) for y in range(101 - x))
    return _case("x + y + z = 100", task, legal, lambda r: r["x"])


def _ordered() -> Case:
    """a < b < c < d, binned by a in steps of 16: C(255 - a, 3) of C(256, 4) rows."""
    task = Task(dict.fromkeys("abcd", 8), [_bv(f"(bvult {p} {q})") for p, q in ("ab", "bc", "cd")])
    n = math.comb(256, 4)
    shares: dict[Bin, float] = Counter()
    for a in range(253):
        shares[a // 16] += math.comb(255 - a, 3) / n
    return Case("a < b < c < d", task, lambda r: r["a"] // 16, dict(shares), n)


def _bus() -> Case:
    """The bus of the README, with a byte strobe; binned by (burst, len)."""
    end = f"(bvadd {_wide('addr', 1)} (bvmul {_wide('len', 13)} #b00000000000000100))"
    inside = " ".join(f"(__Vbool (__Vbv (= len #x{v})))" for v in (2, 4, 8))
    task = Task(
        {"addr": 16, "len": 4, "burst": 2, "write": 1, "strobe": 8},
        [
            _bv("(bvuge len #x1)"),
            _bv("(bvule burst #b10)"),
            _bv("(= (bvurem addr #x0004) #x0000)"),
            _bv(f"(=> (__Vbool (__Vbv (= burst #b10))) (or {inside}))"),
            _bv(f"(bvule {end} #b10000000000000000)"),
            _bv("(=> (__Vbool (bvnot write)) (__Vbool (__Vbv (= strobe #x00))))"),
            _bv("(=> (__Vbool write) (__Vbool (__Vbv (not (= strobe #x00)))))"),
        ],
    )
    counts = {
        (burst, length): 256 * ((0x10000 - 4 * length) // 4 + 1 - (length == 0))
        for burst in range(3)
        for length in range(1, 16)
        if burst < 2 or length in (2, 4, 8)
    }
    n = sum(counts.values())
    shares: dict[Bin, float] = {key: count / n for key, count in counts.items()}
    return Case("bus", task, lambda r: (r["burst"], r["len"]), shares, n)


def _timer() -> Case:
    """An alert timer: its limit is the state of the test bench; binned by (level, enable)."""
    task = Task(
        {"period": 16, "prescale": 8, "level": 2, "enable": 1},
        [
            _bv("(=> (__Vbool enable) (bvuge period ((_ zero_extend 8) prescale)))"),
            _bv("(bvult period #x03e8)"),
            _bv("(=> (= level #b11) (and (bvuge prescale #x01) (bvule prescale #x0f)))"),
            _bv("(=> (__Vbool (bvnot enable)) (__Vbool (__Vbv (= period #x0000))))"),
            _bv("(not (= prescale #x00))"),
        ],
    )
    legal = (
        {"period": p, "prescale": s, "level": v, "enable": e}
        for e in range(2)
        for p in (range(1000) if e else range(1))
        for s in range(1, 256)
        for v in range(4)
        if (not e or p >= s) and (v < 3 or s <= 15)
    )
    return _case(
        "alert timer", task, legal, lambda r: (r["level"], r["enable"], r["period"] // 100)
    )
