"""`python -m benchmarks [NAME ...] [--quick]` measures speed and prints a table with goals."""

from __future__ import annotations

import argparse
import os
import platform
import sys

from rich.console import Console
from rich.table import Table

from benchmarks import (
    auto,
    calls,
    circuit,
    cluster,
    gpu,
    learning,
    load,
    log_z,
    log_z_truth,
    pairs,
    peers,
    sampler,
    space,
    startup,
)
from benchmarks.common import Row

ALL = {
    **sampler.ALL,
    "calls": calls.rows,
    "load": load.rows,
    "startup": startup.rows,
    "logz": log_z.rows,
    "pairs": pairs.rows,
    "circuit": circuit.rows,
    "auto": auto.rows,
    "samplers": peers.rows,
    **learning.ALL,
    "cluster": cluster.rows,
}
#: Benchmarks that run only when they are named: one needs a GPU, one installs its peers, one takes
#: half an hour, and the others are parts of `auto`.
ONLY_IF_NAMED = {
    "gpu": gpu.rows,
    "space": space.rows,
    "logz-truth": log_z_truth.rows,
    **auto.PARTS,
}


def _names(every: list[str]) -> list[str]:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure speed, mostly as ratios to peers that run in turns with us, and "
        "print a table. Exit code 1 means that a goal was missed.",
        epilog="Example: python -m benchmarks peers sweep",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"{', '.join(every)} (default: all except {', '.join(ONLY_IF_NAMED)}; this takes "
        "40 minutes)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only for the benchmark `cluster`: draw a hundredth of the samples",
    )
    parser.add_argument(
        "--peers",
        metavar="FOLDER",
        help="only for the benchmark `space`: where to install the peers, each in an environment "
        "of its own (default: the variable NELSON_BENCH_PEERS, or the cache folder of the user)",
    )
    arguments = parser.parse_args()
    if arguments.peers:
        os.environ["NELSON_BENCH_PEERS"] = arguments.peers
    names = arguments.names
    if unknown := [name for name in names if name not in every]:
        parser.error(f"no benchmark is called {', '.join(unknown)}; use {', '.join(every)}")
    return names or list(ALL)


def main() -> int:
    every = ALL | ONLY_IF_NAMED
    names = _names(list(every))
    console = Console(width=150)
    rows: list[Row] = []
    for name in names:
        for row in every[name]():
            rows.append(row)
            console.print(f"{row.name}: {row}  {row.note}", highlight=False)
    table = Table(title=f"nelson on {platform.processor() or platform.machine()}, one run")
    for column in ("benchmark", "measured", "must reach", "aim", "verdict", "details"):
        table.add_column(column)
    for row in rows:
        sign = "<=" if row.at_most else ">="
        bounds = [
            "" if bound is None else f"{sign} {bound:,g} {row.unit}"
            for bound in (row.must, row.aim)
        ]
        table.add_row(row.name, str(row), *bounds, row.verdict, row.note)
    if rows:
        console.print(table)
    return 1 if any(row.verdict == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
