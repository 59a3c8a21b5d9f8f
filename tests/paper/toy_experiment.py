"""An experiment for the tests of the framework: cells that work, stall, eat memory, die and raise.

Where TOY_LOG names a file each execution adds a line to it, from whatever process runs it.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace

from nelson_paper.experiments.base import Cell, Experiment, Table

NAME = "tests.paper.toy_experiment:EXPERIMENT"
KINDS = ("works", "stalls", "eats", "dies", "raises")


def _cells(full: bool) -> list[Cell]:
    sizes = (10, 20, 40, 80) if full else (10, 20)
    good = [Cell({"sampler": "works", "n": n, "seed": 7}, 60.0) for n in sizes]
    bad = [
        Cell({"sampler": "stalls", "n": 10, "seed": 7}, 0.5),
        Cell({"sampler": "eats", "n": 10, "seed": 7}, 60.0, memory=300 << 20),
        Cell({"sampler": "dies", "n": 10, "seed": 7}, 60.0),
        Cell({"sampler": "raises", "n": 10, "seed": 7}, 60.0),
    ]
    last = [Cell({"sampler": "works", "n": 5, "seed": 8}, 60.0)]
    return good + bad + last


def _log(line: str) -> None:
    if path := os.environ.get("TOY_LOG"):
        with open(path, "a") as file:
            file.write(line + "\n")


def run(cell: Cell) -> list[dict]:
    _log(f"{cell} pid={os.getpid()}")
    kind, n = cell.key["sampler"], int(cell.key["n"])
    print("noise on stdout", flush=True)
    if kind == "stalls":
        child = subprocess.Popen(["sleep", "600"])  # a descendant stalls, as foreign samplers do
        _log(f"sleeper pid={child.pid}")
        child.wait()
    elif kind == "eats":
        kept = []
        while True:
            kept.append(b"x" * (8 << 20))
            time.sleep(0.002)
    elif kind == "dies":
        os.abort()
    elif kind == "raises":
        raise ValueError("no <b>luck</b> & no | row")
    time.sleep(float(os.environ.get("TOY_SLEEP", "0")))
    return [{"value": 1.0 / n, "valid": True, "note": None}]


def tables(rows) -> list[Table]:
    """One column a size; a size that was not run is left blank on purpose."""
    sizes = sorted({row["n"] for row in rows} | {1234})
    out = []
    for kind in KINDS:
        found = {row["n"]: row for row in rows if row["sampler"] == kind}
        if found:
            texts = [
                "" if n not in found
                else f"{found[n]['value']:.3f}" if found[n]["status"] == "ok"
                else found[n]["status"]
                for n in sizes
            ]  # fmt: skip
            out.append([kind, *texts])
    return [Table("Toy <table>", ["sampler", *(f"n = {n}" for n in sizes)], out, "a `note`")]


def plots(rows):
    from nelson_paper.experiments.plots import curves

    good = [row for row in rows if row["status"] == "ok"]

    def draw(ax) -> None:
        series = {"works": ([row["n"] for row in good], [row["value"] for row in good])}
        curves(ax, series, x="n", y="value", title="Toy")

    return {"value": draw}


EXPERIMENT = Experiment(
    name="toy",
    title="A toy",
    reproduces="nothing & nobody",
    cells=_cells,
    run=run,
    tables=tables,
    plots=plots,
)


PLAIN = replace(EXPERIMENT, plots=lambda rows: {})


def _prepare(key) -> None:
    _log("prepared")
    time.sleep(1.5)


PREPARED = replace(PLAIN, prepare=_prepare)


def _broken(rows):
    raise KeyError("a slip in a table")


BROKEN = Experiment("broken", "A slip", "nothing", lambda full: _cells(full)[:1], run, _broken)
