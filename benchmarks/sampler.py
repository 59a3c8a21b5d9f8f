"""The speed table of the CPU sampler. Random 5-SAT, n = L, theta ~ N(0,1), one thread.

Figures are of whole calls of `nelson.sample` (packed samples, each checked against the formula).
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import nelson
from benchmarks.common import PEAK_MEMORY_CODE, Row, ksat, ratio, seconds
from nelson.kernels.core import rng
from nelson.kernels.cpu import tiles as cpu
from nelson.kernels.cpu.state import Job
from nelson.sampling.engine import laws
from nelson.sampling.problem import prepare

MANY = {100: 1 << 18, 1_000: 1 << 16, 10_000: 1 << 13, 1_000_000: 1 << 10}


def per_sample(
    formula: nelson.Formula, theta: np.ndarray, sweeps: int | None = 0, **more: Any
) -> float:
    """CPU seconds a sample, of a whole call: the median of three, after one that warms memory up.

    (A peer that ran in between leaves cold caches, and fresh pages are dear on virtual machines.)
    """
    count = MANY[formula.n_vars]
    options: dict[str, Any] = {"method": "lovasz", "threads": 1, "seed": 1, **more}
    clock = options.pop("clock", time.process_time)

    def job() -> None:
        nelson.sample(formula, theta, count, sweeps=sweeps, **options)

    job()
    return statistics.median(seconds(job, clock) for _ in range(3)) / count


def peers() -> Iterator[Row]:
    from benchmarks.cmsgen import cmsgen_rate
    from benchmarks.dense_torch import dense_rate

    formula, theta = ksat(1000)
    wall = time.perf_counter  # torch leaves threads that spin, which CPU time would count as ours

    def ours() -> float:
        return 1 / per_sample(formula, theta, clock=wall)

    def auto() -> float:
        return 1 / per_sample(formula, theta, sweeps=None, method="auto", clock=wall)

    def cmsgen() -> float:
        return cmsgen_rate(formula, theta, seconds=0.5)

    figure, rate, peer = ratio(ours, cmsgen, 5)
    note = f"{rate:,.0f}/s against {peer:,.0f}/s"
    yield Row("n=1000, samples/s against pycmsgen", figure, 100, 250, note=note)
    figure, rate, peer = ratio(auto, cmsgen, 5)
    note = f"{rate:,.0f}/s against {peer:,.0f}/s; not asked for"
    yield Row("  the same with auto (sweeps, asymptotic)", figure, None, None, note=note)
    for name, compact, must, aim, how in (
        ("n=1000, against the paper's dense W, b, V", False, 2000, 5000, "all 200 stay to the end"),
        (
            "  against the same, improved",
            True,
            1,
            1,
            "valid samples leave the batch; not asked for",
        ),
    ):

        def dense(compact: bool = compact) -> float:
            return dense_rate(formula, theta, seconds=1.0, compact=compact)

        figure, rate, peer = ratio(ours, dense, 5)
        yield Row(name, figure, must, aim, note=f"{rate:,.0f}/s against {peer:,.0f}/s ({how})")


def yardstick() -> Iterator[Row]:
    module = _yardstick()
    for n in (100, 1_000, 10_000):
        name = f"n={n}, time against the yardstick"
        if module is None:
            yield Row(name, float("nan"), 1.6, 1.1, at_most=True, note="set YARDSTICK=cpu_limit.py")
            continue
        formula, theta = ksat(n)
        peer = module.Sampler(list(formula.clauses()), n, rng="splitmix")
        count = MANY[n]

        def theirs(peer=peer, theta=theta, count=count) -> float:
            peer.sample(theta, count, seed=1, store=False)
            runs = []
            for _ in range(3):
                peer.sample(theta, count, seed=1, store=False)
                runs.append(peer.cpu)
            return statistics.median(runs)

        def ours(formula=formula, theta=theta, count=count) -> float:
            return per_sample(formula, theta) * count

        figure, mine, his = ratio(ours, theirs)
        note = f"{mine / count * 1e6:.3f} us a sample against {his / count * 1e6:.3f}"
        yield Row(name, figure, 1.6, 1.1, at_most=True, note=note)


def _yardstick() -> ModuleType | None:
    """cpu_limit.py, from $YARDSTICK or from a folder `shared/yardstick` beside the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "yardstick" / "cpu_limit.py"
    path = Path(os.environ.get("YARDSTICK", beside))
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location("cpu_limit", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cpu_limit"] = module
    spec.loader.exec_module(module)
    return module


def floor() -> Iterator[Row]:
    """The floor: all variables drawn once, all clauses checked once, in the same kernel."""
    formula, theta = ksat(1000)
    width, count = 16, MANY[1000]
    problem = prepare(formula)
    table = laws(problem, theta[None])
    space, stop = cpu.scratch(problem.program, width), np.zeros(1, np.int32)
    tiles = count // (64 * width)
    word = np.arange(tiles, dtype=np.int64) * width
    none = np.zeros(tiles, np.int64)
    rows = count // 64

    def run(max_rounds: int) -> float:
        lanes = np.full(tiles, 64 * width)
        columns = np.arange(1000, dtype=np.int32)
        seed = rng.spread_seed(1)
        job = Job(0, max_rounds, 0, seed, none, none, word, lanes, columns, 1000)
        result = cpu.Result(
            np.empty((rows, 1000), np.uint64),
            np.zeros(rows, np.uint64),
            word,
            none.copy(),
            none.copy(),
            np.zeros(1000, np.uint8),
        )
        arguments = (width, problem.program, table, job, result, space, stop, (0, tiles))
        return seconds(lambda: cpu.run(*arguments))

    figure, mine, bare = ratio(lambda: run(1000), lambda: run(0))
    note = f"{mine / count * 1e6:.3f} us a sample against {bare / count * 1e6:.3f}"
    yield Row("n=1000, time over the floor", figure, 6, 4, at_most=True, note=note)


def growth() -> Iterator[Row]:
    million, few = ksat(1_000_000), ksat(1000)
    figure, big, small = ratio(
        lambda: per_sample(*million, project=[1]) / 1e6, lambda: per_sample(*few) / 1e3, 3
    )
    note = f"{big * 1e9:.2f} ns against {small * 1e9:.2f} ns a sample and variable"
    yield Row("growth from n=1,000 to n=1,000,000", figure, 6, 3, at_most=True, note=note)


MEMORY = """
from benchmarks.common import ksat
import nelson
formula, theta = ksat(1_000_000)
s = nelson.sample(formula, theta, 4096, method="lovasz", threads=1, seed=1, sweeps=0)
assert len(s) == 4096 and s.packed.shape == (64, 1_000_000)
"""


def memory() -> Iterator[Row]:
    code = MEMORY + PEAK_MEMORY_CODE + "print(peak / 1024)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    note = "peak of the whole process, samples included"
    name = "n=L=1,000,000, 4,096 samples: memory"
    yield Row(name, float(run.stdout), 4, 2, "GB", at_most=True, note=note)


def sweep() -> Iterator[Row]:
    few = ksat(1000)
    figure, with_sweeps, draw = ratio(lambda: per_sample(*few, sweeps=8), lambda: per_sample(*few))
    note = f"one sweep {(with_sweeps - draw) / 8 * 1e6:.3f} us, one draw {draw * 1e6:.3f} us"
    name = "n=1000, one sweep against one draw"
    yield Row(name, (figure - 1) / 8, 0.8, 0.5, at_most=True, note=note)


def threads() -> Iterator[Row]:
    formula, theta = ksat(1000)

    def wall(count: int) -> float:
        started = time.perf_counter()
        nelson.sample(formula, theta, 1 << 19, method="lovasz", sweeps=0, threads=count, seed=1)
        return time.perf_counter() - started

    figure, one, two = ratio(lambda: wall(1), lambda: wall(2))
    note = f"{(1 << 19) / two:,.0f}/s against {(1 << 19) / one:,.0f}/s"
    yield Row("two threads against one", figure, 1.7, 1.9, note=note)


def handing_over() -> Iterator[Row]:
    formula, theta = ksat(1000)
    s = nelson.sample(formula, theta, MANY[1000], method="lovasz", threads=1, seed=1, sweeps=0)
    buffer = np.empty((len(s), 1000), np.uint8)
    from nelson.kernels.core.bits import _unpack

    figure, unpacked, drawn = ratio(
        lambda: seconds(lambda: _unpack(s.packed, buffer)) / len(s),
        lambda: per_sample(formula, theta),
    )
    note = f"{unpacked * 1e6:.3f} us against {drawn * 1e6:.3f} us (memory already there)"
    yield Row("unpacking to booleans against drawing", figure, 1, 0.5, at_most=True, note=note)


def command_line() -> Iterator[Row]:
    formula, _ = ksat(1000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "formula.cnf"
        formula.to_dimacs(path)
        nelson_command = str(Path(sys.executable).with_name("nelson"))
        command = [nelson_command, "sample", str(path), "-n", "1000", "-o", f"{folder}/out.txt"]
        walls = []
        for _ in range(6):
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            walls.append(time.perf_counter() - started)
    note = "median of five after a first run"
    name = "`nelson sample`, 1000 variables, 1,000 samples"
    yield Row(name, statistics.median(walls[1:]), 1.5, 0.7, "s", at_most=True, note=note)


ALL = {
    "peers": peers,
    "yardstick": yardstick,
    "floor": floor,
    "growth": growth,
    "memory": memory,
    "sweep": sweep,
    "threads": threads,
    "unpack": handing_over,
    "cli": command_line,
}
