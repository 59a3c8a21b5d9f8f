"""Loading a DIMACS file with a million 5-literal clauses: seconds and peak memory.

    python benchmarks/load.py [CLAUSES]

The file is made once, in a temporary folder, then read in a fresh process per run, so that the peak
resident memory is that of Python, numpy and the reader together. The goals are for a million
clauses: under 5 s and under 500 MB. The peer in the same run is PySAT's own reader.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

GOAL_SECONDS, GOAL_MB = 5.0, 500.0
RUNS = 3

READ = """
import json, resource, sys, time
start = time.perf_counter()
{imports}
ready = time.perf_counter()
{read}
done = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
peak *= 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
print(json.dumps(dict(imports=ready - start, seconds=done - ready, mb=peak / 2**20)))
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
    code = READ.format(imports=imports, read=read)
    runs = []
    for _ in range(RUNS):
        result = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
        )
        runs.append(json.loads(result.stdout))
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def main() -> None:
    clauses = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.cnf"
        write_file(path, clauses)
        size = path.stat().st_size / 2**20
        print(f"{clauses:,} clauses of 5 literals, {size:.0f} MB, median of {RUNS} fresh processes")
        print(f"goal    read < {GOAL_SECONDS:.2f} s    peak < {GOAL_MB:.0f} MB    for a million")
        results = {name: measure(name, path) for name in READERS}
    for name, r in results.items():
        line = f"{name:7} read   {r['seconds']:.2f} s    peak   {r['mb']:.0f} MB"
        print(f"{line}    imports {r['imports']:.2f} s")
    ratio = results["PySAT"]["seconds"] / results["nelson"]["seconds"]
    print(f"PySAT / nelson {ratio:.1f}x; PySAT leaves repeated clauses and tautologies as they are")


if __name__ == "__main__":
    main()
