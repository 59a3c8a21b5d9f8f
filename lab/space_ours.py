"""The problems of `space_peers` as spaces of nelson, and the goals that need no peer.

All times are wall-clock times of whole calls.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import nelson
from lab.common import PEAK_MEMORY_CODE, Row
from lab.space_peers import table
from lab.space_peers.problems import PROBLEMS
from lab.space_peers.protocol import BITS, SHARES, TRANSACTIONS

ROWS = 1_000_000
BURSTS = ("FIXED", "INCR", "WRAP")
BUILD_FIELDS, BUILD_RULES = 100, 200
WIDE_FIELDS = 50


def space_of(name: str) -> Any:
    """The problem as a space of nelson; see the page on spaces for the language."""
    space = nelson.Space()
    if name in TRANSACTIONS:
        count = TRANSACTIONS[name]
        pairs = [
            (space.integer(f"addr{i}", 0, 65535), space.integer(f"len{i}", 1, 15))
            for i in range(count)
        ]
        for (addr, length), (after, _) in itertools.pairwise(pairs):
            space.require(addr + length <= after)
        return space
    top = (1 << BITS[name]) - 1
    addr, length = space.integer("addr", 0, top), space.integer("len", 1, 15)
    burst = space.choice("burst", BURSTS)
    space.flag("write")
    space.require(addr + length <= top)
    space.require((burst == "WRAP").implies(length.isin([2, 4, 8])))
    space.require(addr % 4 == 0)
    return space


def numbers_of(rows: Any, columns: tuple[str, ...]) -> np.ndarray:
    """The rows as the int64 numbers that the checks of the problems expect."""
    numbers = {value: k for k, value in enumerate(BURSTS)}
    out = []
    for column in columns:
        values = np.asarray(rows[column])
        if column == "burst":
            values = pd.Series(values).map(numbers).to_numpy()
        out.append(values.astype(np.int64))
    return np.stack(out, axis=1)


def options_of(name: str) -> dict[str, Any]:
    return {"shares": {"burst": dict(zip(BURSTS, SHARES, strict=True))}} if name == "shares" else {}


def clocked(
    job: Callable[[], Any], clock: Callable[[], float] = time.perf_counter
) -> tuple[Any, float]:
    """The result of the job, and the seconds that it took."""
    started = clock()
    result = job()
    return result, clock() - started


def table_space() -> Any:
    """The rules of `table.legal` in the language of nelson; age and income are ordered."""
    space = nelson.Space()
    x = {
        column: space.choice(column, [table.name(column, k) for k in range(size)])
        for column, size in table.COLUMNS.items()
    }

    def some(column: str, *values: int) -> Any:
        return x[column].isin([table.name(column, k) for k in values])

    space.require(some("device", 0).implies(some("os", 0, 1)))
    space.require(some("device", 3).implies(some("os", 2, 3, 4)))
    for age in range(3):
        space.require(some("age", age).implies(some("income", *range(age + 3))))
    space.require(some("plan", 3).implies(~some("payment", 0)))
    space.require(some("support", 2).implies(some("plan", 2, 3)))
    space.require(~(some("region", 4) & some("channel", 3, 4) & some("status", 0)))
    return space


def wide_space(fields: int, rules: int, seed: int = 1) -> Any:
    """Fields of all kinds in turn, and rules on random pairs of them that one row satisfies."""
    rng, space = np.random.default_rng(seed), nelson.Space()
    made = []
    for k in range(fields):
        kind = k % 3
        if kind == 0:
            made.append(space.integer(f"field{k}", 0, 15))
        elif kind == 1:
            made.append(space.choice(f"field{k}", ["a", "b", "c", "d", "e"]))
        else:
            made.append(space.flag(f"field{k}"))
    for k in range(rules):
        # Neighbours, so that the space stays easy: the goal is about building, not about counting.
        i = int(rng.integers(0, fields - 5)) // 3 * 3
        number, choice, flag, after = made[i], made[i + 1], made[i + 2], made[i + 3]
        low = int(rng.integers(1, 8))
        rule = (
            (choice == "abcde"[k % 5]).implies(number + low <= after + 15),
            (number >= 8 + low % 4).implies(flag | (after <= 14)),
            flag.implies((choice != "e") | (number != low)),
        )[k % 3]
        space.require(rule)
    return space


WIDE_CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from lab import space_ours as ours
rows = ours.wide_space(ours.WIDE_FIELDS, ours.WIDE_FIELDS).sample(ours.ROWS, seed=1)
count = len(rows)
frame = rows.to_pandas() if sys.argv[2] == "frame" else None
{peak}
import json
print(json.dumps(dict(rows=count, mb=peak)))
"""


def wide_memory(what: str) -> dict[str, float]:
    """Peak resident memory of a new process that draws ROWS rows of WIDE_FIELDS fields."""
    code = WIDE_CODE.format(peak=PEAK_MEMORY_CODE)
    root = str(Path(__file__).parent.parent)
    command = [sys.executable, "-c", code, root, what]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def left_out(drawn: np.ndarray) -> np.ndarray:
    """The legal rows of the bus that were not drawn."""
    ranges = (np.arange(0, 65536, 4), np.arange(1, 16), np.arange(3), np.arange(2))
    every = np.stack([axis.ravel() for axis in np.meshgrid(*ranges)], axis=1)
    every = every[PROBLEMS["bus"].legal(every)]
    key = np.array([1 << 16, 1 << 8, 1 << 4, 1])  # one number for each row
    return every[~np.isin(every @ key, drawn @ key)]


def goals() -> Iterator[Row]:
    """Speed and memory of `nelson.Space` itself."""
    bus = space_of("bus")
    _, first = clocked(lambda: bus.sample(ROWS, seed=1))
    rows, seconds = clocked(lambda: bus.sample(ROWS, seed=2))
    note = f"first call {first:.2f} s; {rows.guarantee}"
    yield Row("bus: 10^6 rows after the first call", seconds, 2, 1, "s", True, note)
    frame, decode = clocked(rows.to_pandas)
    note = f"{len(frame):,} rows, {decode:.2f} s against {seconds:.2f} s"
    yield Row("  pandas frame / draw", decode / seconds, 1, 0.5, "x", True, note)
    rows, seconds = clocked(lambda: bus.sample(ROWS, seed=3, unique=True))
    numbers = numbers_of(rows, PROBLEMS["bus"].columns)
    distinct = len(np.unique(np.ascontiguousarray(numbers).view("V32")))
    note = f"{distinct:,} distinct of {len(rows):,}"
    yield Row("bus: 10^6 distinct rows", seconds, 5, 2, "s", True, note)
    yield Row("  share of them that is distinct", distinct / ROWS, 1, 1, "", note=note)
    out = left_out(numbers)
    z = abs(PROBLEMS["bus"].deviation(out).z)
    note = f"{len(out):,} legal rows were not drawn; they must look uniform"
    yield Row("  |z| of the rows left out", z, 5, 4, "", True, note)
    space, seconds = clocked(lambda: wide_space(BUILD_FIELDS, BUILD_RULES))
    formula, encode = clocked(lambda: space.formula)
    size = f"{formula.n_vars:,} variables, {formula.n_clauses:,} clauses"
    note = f"{encode:.2f} s of it for the formula: {size}"
    name = f"build {BUILD_FIELDS} fields, {BUILD_RULES} rules"
    yield Row(name, seconds + encode, 1, 0.5, "s", True, note)
    for what in ("rows", "frame"):
        used = wide_memory(what)
        note = f"{used['rows']:,.0f} rows as {what}; the whole process"
        name = f"memory: 10^6 rows of {WIDE_FIELDS} fields, {what}"
        yield Row(name, used["mb"], 1000, 500, "MB", True, note)
