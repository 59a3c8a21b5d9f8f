"""`python -m lab NAME ...`: everything that only we run.

python -m lab                      the speed table, with goals
python -m lab auto logz-truth      some of its parts
python -m lab labels --full        an experiment, with the options of `nelson bench`
python -m lab gpu gpu.json         on a machine with a GPU; `python -m lab.gpu` needs fewer packages
python -m lab tables --peers PYTHON        new tables of several tools beside ours
python -m lab density-rules DATA FOLDER    the rules that `density` finds, as FOLDER/NAME.toml
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import typer

from lab import (
    auto,
    calls,
    circuit,
    cluster,
    coverage,
    gpu,
    growth,
    klay,
    latency,
    layer,
    learning,
    load,
    log_z,
    log_z_truth,
    overruns,
    pages,
    pairs,
    peers,
    rota,
    sampler,
    smt,
    space,
    startup,
)
from lab.common import Row
from lab.density import save_rules
from lab.tables import run as tables
from lab.verilator import run as verilator
from nelson.cli import app
from nelson_paper.experiments import machine
from nelson_paper.experiments.base import Table
from nelson_paper.experiments.report import markdown

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
#: Benchmarks that run only when they are named: two need peers that are installed
#: apart, two take half an hour, and the others are parts of `auto`.
ONLY_IF_NAMED = {
    "growth": growth.rows,
    "space": space.rows,
    "latency": latency.rows,
    "rota": rota.rows,
    "klay": klay.rows,
    "layer": layer.rows,
    "logz-truth": log_z_truth.rows,
    "overruns": overruns.rows,
    "coverage": coverage.rows,
    "verilator": verilator.rows,
    "smt": smt.rows,
    **auto.PARTS,
}


#: Experiments of `nelson_paper.experiments`: cells in a folder, tables, a page.
EXPERIMENTS = {
    "labels": "lab.labels:EXPERIMENT",
    "density": "lab.density:EXPERIMENT",
}


def _experiment(words: list[str]) -> None:
    """`nelson bench` with the names of our experiments."""
    command = typer.main.get_command(app)
    command(["bench", *(EXPERIMENTS.get(word, word) for word in words)], prog_name="python -m lab")


def _names(every: list[str]) -> list[str]:
    parser = argparse.ArgumentParser(
        prog="python -m lab",
        description="Measure speed, mostly as ratios to peers that run in turns with us, and "
        "print a table. Exit code 1 means that a goal was missed.",
        epilog="Example: python -m lab peers sweep",
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
    first, *rest = sys.argv[1:] or [""]
    if first in EXPERIMENTS:
        _experiment([first, *rest])
    if first == "prediction":
        from lab.prediction.run import main as predict

        return predict(rest)
    if first == "page":
        if not rest or rest[0] not in pages.NAMES:
            raise SystemExit(f"which page? One of {', '.join(pages.NAMES)}")
        pages.write(rest[0], *map(Path, rest[1:2]))
        return 0
    if first == "gpu":
        return gpu.main(rest)
    if first == "tables":
        return tables.main(rest)
    if first == "density-rules":
        print(*save_rules(*rest[:2]), sep="\n")
        return 0
    every = ALL | ONLY_IF_NAMED
    rows: list[Row] = []
    for name in _names(list(every)):
        for row in every[name]():
            rows.append(row)
            print(f"{row.name}: {row}  {row.note}", flush=True)
    if rows:
        print(markdown(_speed_table(rows)))
    return 1 if any(row.verdict == "MISSED" for row in rows) else 0


def _speed_table(rows: list[Row]) -> Table:
    def bound(row: Row, value: float | None) -> str:
        return "" if value is None else f"{'<=' if row.at_most else '>='} {value:,g} {row.unit}"

    return Table(
        f"nelson on {machine.processor()}, one run",
        ("benchmark", "measured", "must reach", "aim", "verdict", "details"),
        [
            [row.name, str(row), bound(row, row.must), bound(row, row.aim), row.verdict, row.note]
            for row in rows
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
