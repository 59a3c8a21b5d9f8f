"""Experiments on Ray, from Python and from the command line."""

from __future__ import annotations

import pytest

from nelson_paper.experiments import ray_executor
from nelson_paper.experiments.base import Cell
from tests.cli.commands import run_process
from tests.cluster.cells import NAME
from tests.paper.experiments.toy_runs import PLAIN


@pytest.mark.process
def test_sweep_with_limits(head, monkeypatch):
    """Cells that hang, eat memory, raise, or take their worker with them: each has its row, and the
    others are run.
    """
    monkeypatch.setattr(ray_executor, "RETRIES", 1)
    keys = [{"what": what, "x": 0} for what in ("hang", "hog", "raise", "shoot")]
    keys += [{"what": "fine", "x": x} for x in range(1, 4)]
    asked = [Cell(key, 3.0 if key["what"] == "hang" else 60.0, 256 << 20, NAME) for key in keys]
    rows = {}
    for cell, [row] in ray_executor.executor(iter(asked), address=head.address):
        assert row.items() >= {**cell.key, "experiment": NAME}.items()
        rows[cell.key["what"], cell.key["x"]] = row
    assert len(rows) == len(asked)
    assert [rows["fine", x].get("square", rows["fine", x]) for x in (1, 2, 3)] == [1, 4, 9]
    status = {what: rows[what, 0]["status"] for what in ("hang", "hog", "raise", "shoot")}
    assert (status["hang"], status["hog"]) == ("T.O.", "out of memory")
    assert status["raise"].startswith("failed: ") and "this cell raises" in status["raise"]
    assert "was lost with its worker" in status["shoot"]


@pytest.mark.process
def test_bench_runs_its_cells_on_the_cluster(head, tmp_path):
    """`nelson bench --cluster ADDRESS`: the run goes on past cells that exceed their limits; run
    again, nothing is left to do.
    """
    address = head.address
    args = [
        "bench",
        PLAIN,
        "--cluster",
        address,
        "-o",
        tmp_path / "run",
    ]
    done = run_process(*args)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    told = {line.split("|")[1].strip(): line for line in lines}
    assert "0.200" in told["works"] and "0.050" in told["works"]
    assert "T.O." in told["stalls"] and "out of memory" in told["eats"]
    assert "failed: died" in told["dies"] and "failed: ValueError" in told["raises"]
    again = run_process(*args)
    assert again.returncode == 0 and again.stdout == done.stdout
    assert "cells were finished before" in again.stderr
