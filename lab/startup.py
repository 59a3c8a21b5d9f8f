"""The first minute: what a command costs on a machine that never ran nelson, and later.

Each command runs in a new process. *Cold* has an empty folder of compiled kernels; *warm* is the
second run with the same folder. Times are CPU seconds of the process and its children, as the
machine may be busy with other things. Python's byte code is there before, as installers make it.
The time until `nelson demo` shows a line is wall-clock time.

Set NELSON_BEFORE to the folder `src` of another checkout to run its commands in turns with ours;
its times then stand in the notes.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import numpy as np

import nelson
from lab.common import Row

RUNS = 3
SMALL = "p cnf 5 3\n1 2 0\n-2 3 4 0\n-1 -4 5 0\n"
#: Not extremal: `auto` preprocesses it and enumerates its solutions.
DENSE = "p cnf 5 4\n1 2 0\n-1 3 0\n2 -4 5 0\n-3 4 0\n"
#: name: (arguments of `nelson`, goals for cold and for warm as (must, aim))
COMMANDS = {
    "--help": ("--help", (0.3, 0.15), (0.3, 0.15)),
    "sample, 5 variables, 10 samples": ("sample {small} -n 10 --seed 1", (5, 1), (0.6, 0.5)),
    "sample, 5 variables, not extremal": ("sample {dense} -n 10 --seed 1", (5, 1), (0.6, 0.5)),
    "sample, 1,000 variables, 1,000 samples": (
        "sample {large} -n 1000 --seed 1 -o {out}.npz",
        None,
        (1.5, 0.7),
    ),
    "sample --method gibbs, 5 variables": (
        "sample {small} -n 10 --seed 1 --method gibbs",
        (5, 1),
        (0.8, 0.6),
    ),
    "report, 5 variables": ("report {small}", (5, 1), (0.6, 0.5)),
    "count, 5 variables": ("count {small}", (5, 1), (0.6, 0.5)),
    "learn, 5 variables, 200 examples": ("learn {small} {data} -o {out}", None, None),
}


def rows() -> Iterator[Row]:
    ours = str(Path(nelson.__file__).parents[1])
    before = os.environ.get("NELSON_BEFORE")
    for source in filter(None, (ours, before)):
        subprocess.run([sys.executable, "-m", "compileall", "-q", f"{source}/nelson"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        names = _files(Path(folder))
        for what, (arguments, *goals) in COMMANDS.items():
            command = [word.format(**names) for word in arguments.split()]
            old = _cold_and_warm(command, before, names["out"]) if before else (None, None)
            new = _cold_and_warm(command, ours, names["out"])
            for state, measured, was, goal in zip(("cold", "warm"), new, old, goals, strict=True):
                note = "" if was is None else f"before: {was:.2f} s"
                yield Row(f"{state}: {what}", measured, *(goal or (None, None)), "s", True, note)
        was = _first_line(before) if before else None
        note = "" if was is None else f"before: {was:.2f} s"
        yield Row("cold: demo, first line of it", _first_line(ours), 10, 5, "s", True, note)


def _files(folder: Path) -> dict[str, str]:
    """The files that commands read; "out" is the start of the names that they write."""
    (folder / "small.cnf").write_text(SMALL)
    (folder / "dense.cnf").write_text(DENSE)
    formula = nelson.Formula.from_dimacs(folder / "small.cnf")
    np.save(folder / "data.npy", nelson.sample(formula, n=200, seed=2).to_numpy())
    large = resources.files("nelson_paper.tasks") / "data" / "ksat-1000.cnf"
    return {
        "small": str(folder / "small.cnf"),
        "dense": str(folder / "dense.cnf"),
        "data": str(folder / "data.npy"),
        "large": str(large),
        "out": str(folder / "out"),
    }


def _environment(source: str, kernels: str) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": source,
        "NUMBA_CACHE_DIR": kernels,
        "NELSON_CACHE_DIR": kernels,
    }


def _cold_and_warm(command: list[str], source: str, out: str) -> tuple[float, float]:
    """CPU seconds of the first run with an empty folder, and the median of later ones."""
    with tempfile.TemporaryDirectory() as kernels:
        times = [_seconds(command, _environment(source, kernels), out) for _ in range(1 + RUNS)]
    return times[0], statistics.median(times[1:])


def _seconds(command: list[str], environment: dict[str, str], out: str) -> float:
    for old in Path(out).parent.glob(f"{Path(out).name}*"):
        subprocess.run(["rm", "-r", str(old)], check=True)
    started = _children()
    done = subprocess.run(
        [sys.executable, "-m", "nelson.cli", *command], env=environment, capture_output=True
    )
    if done.returncode:
        raise RuntimeError(f"nelson {' '.join(command)}: {done.stderr.decode()}")
    return _children() - started


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _first_line(source: str) -> float:
    """Wall-clock seconds until `nelson demo` prints the name of the first task."""
    with tempfile.TemporaryDirectory() as kernels:
        started = time.perf_counter()
        demo = subprocess.Popen(
            [sys.executable, "-u", "-m", "nelson.cli", "demo", "trees", "-o", f"{kernels}/demo"],
            env=_environment(source, kernels),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert demo.stdout is not None
        demo.stdout.readline()
        took = time.perf_counter() - started
        demo.kill()
        demo.communicate()
    return took
