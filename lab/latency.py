"""How long a user waits for one row, one sample, or the import; beside dv-solve and PyVSC.

Each figure is the median of single calls, in microseconds of wall-clock time, with the 99th
percentile in the notes: on a busy machine look at the median. The space is the bus of the README.
The peers run right after ours, from an environment of their own (`space_peers/environments.py`):
where it cannot be made, a warning says so.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import numpy as np

import nelson
from lab.calls import CLAUSES
from lab.common import Row
from lab.space_peers import environments

CALLS = 600
#: Our calls -> the aim in microseconds.
AIMS = {
    "space.sample(1)": 150.0,
    "next(plan.rows())": 10.0,
    "space.sample(1, given=another value)": 300.0,
    "space.sample(1, given=another rule)": 20_000.0,
    "nelson.sample(f, theta, 1), 7 variables": 100.0,
    "import nelson; nelson.Space()": 150_000.0,
}
#: What is imported in new processes: all of it, and the part that is NumPy's.
IMPORTS = ("import nelson; nelson.Space()", "import numpy")


def rows() -> Iterator[Row]:
    calls = our_calls()
    assert set(calls) | {IMPORTS[0]} == set(AIMS)
    measured = {name: times(call, 100 if "rule" in name else CALLS) for name, call in calls.items()}
    measured[IMPORTS[0]], numpy_alone = imports()
    for name, seconds in measured.items():
        yield line(name, seconds, AIMS[name])
    yield line(f"of this, {IMPORTS[1]}", numpy_alone)
    yield from peers()


def line(name: str, seconds: list[float], aim: float | None = None) -> Row:
    last = statistics.quantiles(seconds, n=100)[-1]
    note = f"99% of {len(seconds)} calls took at most {1e6 * last:,.0f} us"
    must = None if aim is None else 2 * aim
    return Row(name, 1e6 * statistics.median(seconds), must, aim, "us", True, note)


def our_calls() -> dict[str, Callable[[int], object]]:
    """name -> a function of the number of the call"""
    bus = nelson.Space()
    addr = bus.integer("addr", 0, 0xFFFF)
    length = bus.integer("len", 1, 15)
    burst = bus.choice("burst", ["FIXED", "INCR", "WRAP"])
    bus.flag("write")
    bus.require(addr + length <= 0xFFFF, addr % 4 == 0)
    bus.require((burst == "WRAP").implies(length.isin([2, 4, 8])))
    kept, formula, theta = bus.plan().rows(), nelson.Formula(CLAUSES), np.linspace(-1, 1, 7)
    return {
        "space.sample(1)": lambda k: bus.sample(1)[0],
        "next(plan.rows())": lambda k: next(kept),
        "space.sample(1, given=another value)": lambda k: bus.sample(1, given={"addr": 4 * k})[0],
        "space.sample(1, given=another rule)": lambda k: bus.sample(1, given=f"addr + len > {k}")[
            0
        ],
        "nelson.sample(f, theta, 1), 7 variables": lambda k: nelson.sample(
            formula, theta, 1, seed=k
        ),
    }


def times(call: Callable[[int], object], calls: int) -> list[float]:
    """Seconds of each call, after some that are not timed."""
    seconds = []
    for k in range(calls + calls // 10):
        started = time.perf_counter()
        call(k)
        seconds.append(time.perf_counter() - started)
    return seconds[calls // 10 :]


def imports() -> tuple[list[float], list[float]]:
    """CPU seconds of new processes, in turns: `import nelson; nelson.Space()`, `import numpy`.

    Python's own start is not counted. Modules are read as bytecode, as pip leaves them: a process
    that may not write bytecode compiles nelson anew each time, which takes 50 ms.
    """
    seconds: tuple[list[float], list[float]] = ([], [])
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(11):
            for code, taken in zip(IMPORTS, seconds, strict=True):
                timed = (
                    f"import time; t = time.process_time(); {code}; print(time.process_time() - t)"
                )
                done = [sys.executable, "-c", timed]
                taken.append(float(subprocess.check_output(done, text=True, env=environment)))
    return seconds[0][1:], seconds[1][1:]


def peers() -> Iterator[Row]:
    place = environments.folder()
    try:
        python = environments.python_of("pyvsc", place)
        program = str(environments.HERE / "latency_pyvsc.py")
        done = subprocess.run(
            [python, program, str(CALLS // 3)], capture_output=True, text=True, timeout=600
        )
        if done.returncode:
            raise environments.PeerMissing(done.stderr.strip().splitlines()[-1])
    except (environments.PeerMissing, subprocess.TimeoutExpired) as why:
        print(f"*** WARNING: dv-solve and PyVSC are not measured: {why}")
        yield Row("dv-solve, PyVSC", math.nan, None, None, "us", True, f"not measured: {why}")
        return
    for name, seconds in json.loads(done.stdout.splitlines()[-1]).items():
        yield line(name, seconds)
