"""Loading a DIMACS file with a million clauses of 5 literals: seconds and peak memory.

The file is written once, into a temporary folder. Each run reads it in a new process, so that the
peak of the resident memory is that of Python, NumPy and the reader together. The goals are 5 s and
500 MB. The peer in the same run is the reader of PySAT.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lab.common import PEAK_MEMORY_CODE, Row

CLAUSES = 1_000_000
RUNS = 3

READ = """
import json, sys, time
start = time.perf_counter()
{imports}
ready = time.perf_counter()
{read}
done = time.perf_counter()
{peak}
print(json.dumps(dict(imports=ready - start, seconds=done - ready, mb=peak)))
"""

READERS = {
    "nelson": ("from nelson.formula import Formula", "f = Formula.from_dimacs(sys.argv[1])"),
    "PySAT": ("from pysat.formula import CNF", "f = CNF(from_file=sys.argv[1])"),
}


def write_file(path: Path, clauses: int, k: int = 5, seed: int = 0) -> None:
    """Random k-SAT with as many variables as clauses."""
    rng = np.random.default_rng(seed)
    literals = rng.integers(1, clauses + 1, (clauses, k)) * rng.choice([-1, 1], (clauses, k))
    with path.open("w") as file:
        file.write(f"p cnf {clauses} {clauses}\n")
        np.savetxt(file, np.column_stack([literals, np.zeros(clauses, int)]), fmt="%d")


def measure(name: str, path: Path) -> dict[str, float]:
    imports, read = READERS[name]
    code = READ.format(imports=imports, read=read, peak=PEAK_MEMORY_CODE)
    runs = []
    for _ in range(RUNS):
        result = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
        )
        runs.append(json.loads(result.stdout))
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.cnf"
        write_file(path, CLAUSES)
        ours, peer = measure("nelson", path), measure("PySAT", path)
    note = f"PySAT {peer['seconds']:.2f} s (it keeps repeated literals and tautologies; we do not)"
    yield Row("load a million 5-literal clauses", ours["seconds"], 5, 5, "s", True, note)
    note = f"peak of the whole process; PySAT {peer['mb']:.0f} MB"
    yield Row("  memory of the process", ours["mb"], 500, 500, "MB", True, note)
