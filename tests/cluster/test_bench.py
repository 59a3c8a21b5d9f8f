"""Experiments on Ray, from Python and from the command line; and the plan of large jobs."""

from __future__ import annotations

import pytest
from benchmarks import cluster_plan

from nelson.cluster import bench
from nelson.experiments.base import Cell
from tests.cli.commands import run_process
from tests.cluster.cells import NAME


@pytest.mark.process
def test_sweep_with_limits(ray, monkeypatch):
    """Cells that hang, eat memory, raise, or take their worker with them: each has its row, and the
    others are run.
    """
    monkeypatch.setattr(bench, "RETRIES", 1)
    keys = [{"what": what, "x": 0} for what in ("hang", "hog", "raise", "shoot")]
    keys += [{"what": "fine", "x": x} for x in range(1, 4)]
    asked = [Cell(key, 3.0 if key["what"] == "hang" else 60.0, 256 << 20, NAME) for key in keys]
    rows = {}
    for cell, [row] in bench.executor(iter(asked)):
        assert row.items() >= {**cell.key, "experiment": NAME}.items()
        rows[cell.key["what"], cell.key["x"]] = row
    assert len(rows) == len(asked)
    assert [rows["fine", x].get("square", rows["fine", x]) for x in (1, 2, 3)] == [1, 4, 9]
    status = {what: rows[what, 0]["status"] for what in ("hang", "hog", "raise", "shoot")}
    assert (status["hang"], status["hog"]) == ("T.O.", "out of memory")
    assert status["raise"].startswith("failed: ") and "this cell raises" in status["raise"]
    assert status["shoot"].startswith("failed: lost with its worker")


@pytest.mark.process
def test_bench_runs_its_cells_on_the_cluster(ray, tmp_path):
    """`nelson bench --cluster ADDRESS`: the run goes on past cells that exceed their limits; run
    again, nothing is left to do.
    """
    address = ray.get_runtime_context().gcs_address
    args = ["bench", "tests.toy_experiment:PLAIN", "--cluster", address, "-o", tmp_path / "run"]
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


def test_the_plan_of_a_large_job():
    """By hand: a core draws 10^6/s, so 10^12 samples are 10^6 core seconds, and one to decide; 100
    bytes each at 1 GB/s are 10^5 s.
    """
    figures = {"rate": 1e6, "plain": 2e6, "bytes": 100.0, "decide": 0.5, "job": 0.5, "scaling": 1.9}
    figures |= {"guarantee": "asymptotic", "plain_guarantee": "heuristic", "disk_mb_s": 200.0}
    figures |= {"quick": False, "cores": 2, "nelson": "1"}
    large, formulas, _ = cluster_plan.JOBS
    slow, fast = cluster_plan.Machine(8, 1000.0), cluster_plan.Machine(64, 1000.0)
    for job, machines, machine, seconds, what in (
        (large, 1, slow, (1e6 + 1) / 8, "cores"),
        (large, 10, fast, 1e5 / 10, "writing"),
        (formulas, 1, slow, 2e4 / 8, "cores"),  # 10^4 s of drawing, as much of deciding
    ):
        took, waits = cluster_plan.hours(figures, job, machines, machine)
        assert (took, waits) == (pytest.approx(seconds / 3600), what)
    text = cluster_plan.markdown(figures)
    assert "| 10^12 samples of one formula | 100 TB |" in text and "too small" not in text
    page = cluster_plan.PAGE.read_text()
    assert all(page.count(mark) == 1 for mark in cluster_plan.MARKS)
