"""The speed of the CPU sampler on random 5-SAT with n = L and theta ~ N(0, 1), on one thread.

"Ours" is a whole call of `nelson.sample`: packed samples, all checked against the formula.
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
from lab.common import PEAK_MEMORY_CODE, Row, ksat, ratio, seconds
from nelson.chains.problem import prepare
from nelson.kernels.core import bits, rng
from nelson.kernels.cpu import tiles as cpu
from nelson.kernels.cpu.state import Job
from nelson.sampling.method_choice import verdict_for

#: Variables -> samples of a timed call: fewer for larger formulas, to limit time and memory.
SAMPLES = {100: 1 << 18, 1_000: 1 << 16, 10_000: 1 << 13, 1_000_000: 1 << 10}


def per_sample(
    formula: nelson.Formula, theta: np.ndarray, sweeps: int | None = 0, **more: Any
) -> float:
    """CPU seconds per sample of a whole call: the median of three, after one that is not timed.

    (The first is slower: a peer that ran before leaves cold caches, and memory that a process uses
    for the first time is slow on virtual machines.)
    """
    count = SAMPLES[formula.n_vars]
    options: dict[str, Any] = {"method": "lovasz", "threads": 1, "seed": 1, **more}
    clock = options.pop("clock", time.process_time)

    def job() -> None:
        nelson.sample(formula, theta, count, sweeps=sweeps, **options)

    job()
    return statistics.median(seconds(job, clock) for _ in range(3)) / count


def peers() -> Iterator[Row]:
    from lab.cmsgen import cmsgen_rate
    from lab.dense_rate import dense_rate

    formula, theta = ksat(1000)
    wall = time.perf_counter  # CPU time would count the idle threads of torch, which spin, as ours

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
    note = f"{rate:,.0f}/s against {peer:,.0f}/s; no goal"
    yield Row("  the same with auto", figure, None, None, note=note)
    dense_rows = (
        ("n=1000, samples/s against the paper's dense W, b, V in torch", False, 2000, 5000),
        ("  against the same, improved: valid samples leave the batch", True, 1, 1),
    )
    for name, compact, must, aim in dense_rows:

        def dense(compact: bool = compact) -> float:
            return dense_rate(formula, theta, seconds=1.0, compact=compact)

        figure, rate, peer = ratio(ours, dense, 5)
        yield Row(name, figure, must, aim, note=f"{rate:,.0f}/s against {peer:,.0f}/s")


def yardstick() -> Iterator[Row]:
    """Against a separate experiment that shows what one core can do on this problem alone."""
    module = _yardstick()
    for n in (100, 1_000, 10_000):
        name = f"n={n}, time against the yardstick"
        if module is None:
            note = "not measured: set YARDSTICK to the path of cpu_limit.py"
            yield Row(name, float("nan"), 1.6, 1.1, at_most=True, note=note)
            continue
        formula, theta = ksat(n)
        peer = module.Sampler(list(formula.clauses()), n, rng="splitmix")
        count = SAMPLES[n]

        def theirs(peer=peer, theta=theta, count=count) -> float:
            peer.sample(theta, count, seed=1, store=False)
            runs = []
            for _ in range(3):
                peer.sample(theta, count, seed=1, store=False)
                runs.append(peer.cpu)
            return statistics.median(runs)

        def ours(formula=formula, theta=theta, count=count) -> float:
            return per_sample(formula, theta) * count

        figure, our_time, peer_time = ratio(ours, theirs)
        note = f"{our_time / count * 1e6:.3f} us per sample against {peer_time / count * 1e6:.3f}"
        yield Row(name, figure, 1.6, 1.1, at_most=True, note=note)


def _yardstick() -> ModuleType | None:
    """The module cpu_limit.py: the path is $YARDSTICK, or ../shared/yardstick/cpu_limit.py."""
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
    """Against the floor: the same kernel draws each variable once and checks each clause once."""
    formula, theta = ksat(1000)
    width, count = 16, SAMPLES[1000]
    problem = prepare(formula)
    table = problem.law(theta[None])
    space, stop = cpu.scratch(problem.program, width), np.zeros(1, np.int32)
    tiles = count // (64 * width)
    word = np.arange(tiles, dtype=np.int64) * width
    zeros = np.zeros(tiles, np.int64)
    rows = count // 64

    def run(max_rounds: int) -> float:
        lanes = np.full(tiles, 64 * width)
        columns = np.arange(1000, dtype=np.int32)
        seed = rng.spread_seed(1)
        job = Job(0, max_rounds, 0, seed, zeros, zeros, word, lanes, columns, 1000)
        result = cpu.Result(
            np.empty((rows, 1000), np.uint64),
            np.zeros(rows, np.uint64),
            word,
            zeros.copy(),
            zeros.copy(),
            np.zeros(1000, np.uint8),
        )
        arguments = (width, problem.program, table, job, result, space, stop, (0, tiles))
        return seconds(lambda: cpu.run(*arguments))

    figure, whole, bare = ratio(lambda: run(1000), lambda: run(0))
    note = f"{whole / count * 1e6:.3f} us per sample against {bare / count * 1e6:.3f}"
    yield Row("n=1000, time against the floor", figure, 6, 4, at_most=True, note=note)


def growth() -> Iterator[Row]:
    """Time per sample and variable of a large formula against smaller ones."""
    large = ksat(1_000_000)
    for n, must, aim in ((1_000, 6, 3), (10_000, 5, 2.5)):
        small = ksat(n)
        figure, large_time, small_time = ratio(
            lambda: per_sample(*large, project=[1]) / 1e6,
            lambda n=n, small=small: per_sample(*small) / n,
            3,
        )
        note = f"{large_time * 1e9:.2f} ns against {small_time * 1e9:.2f} ns a sample and variable"
        yield Row(f"growth from n={n:,} to n=1,000,000", figure, must, aim, at_most=True, note=note)


#: Code of a child process that draws samples with a million variables.
MILLION_CODE = """
from lab.common import ksat
import nelson
formula, theta = ksat(1_000_000)
s = nelson.sample(formula, theta, 4096, method="lovasz", threads=1, seed=1, sweeps=0)
assert len(s) == 4096 and s.packed.shape == (64, 1_000_000)
"""


def memory() -> Iterator[Row]:
    code = MILLION_CODE + PEAK_MEMORY_CODE + "print(peak / 1024)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    note = "peak of the whole process, samples included"
    name = "n=L=1,000,000, 4,096 samples: memory"
    yield Row(name, float(run.stdout), 4, 2, "GB", at_most=True, note=note)


def sweep() -> Iterator[Row]:
    case = ksat(1000)
    figure, swept, draw = ratio(lambda: per_sample(*case, sweeps=8), lambda: per_sample(*case))
    note = f"one sweep {(swept - draw) / 8 * 1e6:.3f} us, one draw {draw * 1e6:.3f} us"
    name = "n=1000, one sweep against one draw"
    yield Row(name, (figure - 1) / 8, 0.8, 0.5, at_most=True, note=note)


def coupling() -> Iterator[Row]:
    """Exact samples by coupling from the past, against sweeps that are diagnosed."""
    whole, theta = ksat(1000)
    for name, clauses, must, aim in (("L = 0.8 n", 800, 1e5, 3e5), ("L = n", 1000, None, None)):
        formula = nelson.Formula(list(whole.clauses())[:clauses], n_vars=1000)
        sweeps = verdict_for(formula, theta).sweeps

        def ours(formula: nelson.Formula = formula) -> float:
            return 1 / per_sample(formula, theta, None, method="cftp")

        def swept(formula: nelson.Formula = formula, sweeps: int = sweeps) -> float:
            return 1 / per_sample(formula, theta, sweeps)

        figure, rate, other = ratio(ours, swept, 3)
        name = f"n=1000, {name}: exact samples/s of cftp"
        yield Row(name, rate, must, aim, "/s", note="one thread" + "; no goal" * (must is None))
        note = f"against {other:,.0f}/s of lovasz with {sweeps} sweeps (diagnosed); no goal"
        yield Row("  the same as a ratio", figure, None, None, note=note)


def threads() -> Iterator[Row]:
    formula, theta = ksat(1000)
    count = 1 << 19
    options: dict[str, Any] = {"method": "lovasz", "sweeps": 0, "seed": 1}

    def wall(threads: int) -> float:
        return seconds(
            lambda: nelson.sample(formula, theta, count, threads=threads, **options),
            time.perf_counter,
        )

    figure, one, two = ratio(lambda: wall(1), lambda: wall(2))
    note = f"{count / two:,.0f}/s against {count / one:,.0f}/s"
    yield Row("samples/s, two threads against one", figure, 1.7, 1.9, note=note)


def unpacking() -> Iterator[Row]:
    formula, theta = ksat(1000)
    s = nelson.sample(formula, theta, SAMPLES[1000], method="lovasz", threads=1, seed=1, sweeps=0)
    buffer = np.empty((len(s), 1000), np.uint8)
    figure, unpack, draw = ratio(
        lambda: seconds(lambda: bits._unpack(s.packed, buffer)) / len(s),
        lambda: per_sample(formula, theta),
    )
    note = f"{unpack * 1e6:.3f} us against {draw * 1e6:.3f} us per sample, into a buffer in use"
    yield Row("unpacking to booleans against drawing", figure, 1, 0.5, at_most=True, note=note)


def command_line() -> Iterator[Row]:
    formula, _ = ksat(1000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "formula.cnf"
        formula.to_dimacs(path)
        nelson_command = str(Path(sys.executable).with_name("nelson"))
        command = [nelson_command, "sample", str(path), "-n", "1000", "-o", f"{folder}/out.txt"]

        def job() -> None:
            subprocess.run(command, check=True, capture_output=True)

        walls = [seconds(job, time.perf_counter) for _ in range(6)]
    note = "median of five runs, after a first one"
    name = "`nelson sample`, 1000 variables, 1,000 samples"
    yield Row(name, statistics.median(walls[1:]), 1.5, 0.7, "s", at_most=True, note=note)


ALL = {
    "peers": peers,
    "yardstick": yardstick,
    "floor": floor,
    "large": growth,
    "memory": memory,
    "sweep": sweep,
    "coupling": coupling,
    "threads": threads,
    "unpack": unpacking,
    "cli": command_line,
}
