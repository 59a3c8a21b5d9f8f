"""How the time of a first answer grows with the size of a problem: exponents.

    python -m lab growth

Each case runs in a process of its own, with an empty cache of circuits, and counts the CPU seconds
of the process and of its children. The exponent is that of the best line through log(time) against
log(size), where time is what is above the smallest size: start-up does not count. Goal: at most 1.2
in the number of variables, fields, or rows, at most 2 in columns, whose pairs are all looked at.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

from lab.common import Row

#: Seconds after which a case ends: ten times what the slowest takes on an idle machine.
LIMIT = 600.0
#: Sizes, code and goal of each case; `size` and `np` are there.
CASES = {
    "a space of fields with rules of a few kinds, first draw": (
        (30, 3000, 10_000, 30_000),
        """
space = fields(size)
space.sample(10, seed=0)
""",
        1.2,
    ),
    "a space of fields with rules that all differ, first draw": (
        (30, 300, 1000, 3000),
        """
space = fields(size, different=True)
space.sample(10, seed=0)
""",
        1.2,
    ),
    "5-SAT with as many clauses as variables, 64 samples": (
        (1000, 30_000, 100_000, 300_000),
        """
from lab.common import ksat
formula, theta = ksat(size)
nelson.sample(formula, n=64, seed=0)
""",
        1.2,
    ),
    "a table of rows x 10 columns, learned": (
        (1000, 30_000, 100_000, 300_000),
        "learned(size, 10)",
        1.2,
    ),
    "a table of 10,000 rows x columns, learned": (
        (10, 50, 100, 200),
        "learned(10_000, size)",
        2.0,
    ),
}
MEASURED = """
import resource, sys, time
import numpy as np
import nelson

def fields(size, different=False):
    space, random = nelson.Space(), np.random.default_rng(0)
    for k in range(0, size, 3):
        number = space.integer(f"a{k}", 0, 15)
        kind = space.choice(f"b{k}", ["x", "y", "z"])
        flag = space.flag(f"f{k}")
        at, top = random.integers(2, 14, 2).tolist() if different else (4, 10)
        spread = random.choice(16, 6, replace=False).tolist() if different else [1, 3, 7]
        space.require((kind != "x") | (number > at))
        space.require((number < top) | flag)
        space.require(number.isin(spread) | (kind == "y"))
    return space

def learned(rows, columns):
    import pandas
    random = np.random.default_rng(0)
    base = random.integers(0, 4, (rows, columns))
    both = {f"c{k}": (base[:, k] + base[:, k - 1] // 2).astype(str) for k in range(columns)}
    table = pandas.DataFrame(both)
    nelson.Space.from_frame(table).learn(table, seed=0)

def used():
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)

size = int(sys.argv[1])
"""


def seconds(code: str, size: int, limit: float) -> float:
    """CPU seconds of a process for that case; infinite if it takes longer than the limit."""
    with tempfile.TemporaryDirectory() as cache:
        try:
            done = subprocess.run(
                [sys.executable, "-c", f"{MEASURED}\n{code}\nprint(used())", str(size)],
                env=os.environ | {"NELSON_CACHE_DIR": cache},
                capture_output=True, text=True, check=True, timeout=limit,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return math.inf
    return float(done.stdout.split()[-1])


def rows() -> Iterator[Row]:
    for name, (sizes, code, goal) in CASES.items():
        times = []
        for size in sizes:
            times.append(seconds(code, size, LIMIT))
            if math.isinf(times[-1]):
                break
        told = ", ".join(f"{n:,}: {t:.2f}" for n, t in zip(sizes, times, strict=False))
        later = zip(sizes[1:], times[1:], strict=False)
        grown = [(n, max(0.01, t - times[0])) for n, t in later if t < math.inf]
        slope = math.nan
        if len(grown) > 1:
            slope = float(np.polyfit(*np.log(np.array(grown).T), 1)[0])
        yield Row(f"growth: {name}", slope, goal, goal - 0.15, "", True, f"CPU s at {told}")
