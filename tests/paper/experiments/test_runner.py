"""Running cells: limits, resuming, filters, executors; on a toy experiment."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from nelson.errors import FormulaError, NelsonError
from nelson_paper.experiments import child_process, machine, records, run_cell, runner
from nelson_paper.experiments.base import Cell, Experiment, plain_row
from nelson_paper.experiments.folder import planned
from tests.paper.experiments.toy_runs import (
    PLAIN,
    PREPARED,
    alive,
    by_cell,
    call,
    cli,
    pids,
    rows_of,
    wait,
)
from tests.paper.toy_experiment import NAME

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups")


# -------------------------------------------------------------------------------- one cell


def test_run_cell_adds_key_status_and_time():
    (row,) = run_cell(NAME, {"sampler": "works", "n": 4, "seed": 1})
    assert row.pop("cell_seconds") >= 0
    assert row == {
        "experiment": NAME, "sampler": "works", "n": 4, "seed": 1, "status": "ok",
        "value": 0.25, "valid": True, "note": None,
    }  # fmt: skip


def test_rows_are_plain():
    row = plain_row({"a": np.float64(0.5), "b": np.int32(3), "c": np.bool_(True), "d": None})
    assert row == {"a": 0.5, "b": 3, "c": True, "d": None}
    assert [type(v) for v in row.values()] == [float, int, bool, type(None)]
    with pytest.raises(NelsonError, match="'a' is list"):
        plain_row({"a": [1]})
    with pytest.raises(NelsonError, match="'a' is ndarray"):
        plain_row({"a": np.zeros(2)})


@pytest.mark.process
def test_limits_and_what_is_said(tmp_path, log):
    """A stall, a hunger, a crash, an exception: a row each, and the cells after them still run."""
    outcome = runner.run([NAME], tmp_path / "run")
    rows = by_cell(tmp_path / "run")
    status = {kind: row["status"] for (kind, n), row in rows.items()}
    assert status["works"] == "ok"
    assert status["stalls"] == "T.O."
    assert status["eats"] == "out of memory"
    assert status["dies"].startswith("failed: died (signal 6)")
    assert status["raises"] == "failed: ValueError: no <b>luck</b> & no | row"
    assert rows["works", 5]["status"] == "ok" and rows["works", 5]["value"] == 0.2
    assert 0.5 <= rows["stalls", 10]["cell_seconds"] < 60
    assert all(row["seed"] in (7, 8) and row["experiment"] == NAME for row in rows.values())
    assert outcome.ran == 7 and outcome.left == 0 and len(outcome.failed) == 2
    # One process serves until it has to be killed or dies: after the stall, the hunger, the crash.
    workers = pids(log(), "sampler=")
    assert len(workers) == 7 and len(set(workers)) == 4
    assert not any(map(alive, workers)) and not any(map(alive, pids(log(), "sleeper")))


@pytest.mark.process
def test_a_slow_cell_within_its_limit_is_not_killed(monkeypatch):
    """The twin of T.O.: what takes the time that stalled above, under a limit that allows it."""
    monkeypatch.setenv("TOY_SLEEP", "0.6")
    cell = Cell({"sampler": "works", "n": 4, "seed": 1}, 60.0, experiment=NAME)
    tight = Cell({"sampler": "works", "n": 5, "seed": 1}, 0.2, experiment=NAME)
    (_, good), (_, late) = child_process.limited(iter([cell, tight]))
    assert good[0]["status"] == "ok" and late[0]["status"] == "T.O."


@pytest.mark.process
@pytest.mark.slow
def test_compiling_does_not_count_against_the_limit(log):
    """What a cell prepares takes longer than its limit; the clock starts afterwards."""
    cell = Cell({"sampler": "works", "n": 10, "seed": 7}, 1.0, experiment=PREPARED)
    [(_, [row])] = child_process.limited([cell])
    assert row["status"] == "ok" and row["value"] == 0.1
    assert [line.split()[0] for line in log()] == ["prepared", "sampler=works"]


@pytest.mark.process
def test_a_large_cell_within_its_memory_is_not_killed():
    """The twin of "out of memory": the same appetite, ended by the clock under a larger limit."""
    key = {"sampler": "eats", "n": 1, "seed": 1}
    ((_, rows),) = child_process.limited([Cell(key, 0.5, memory=64 << 30, experiment=NAME)])
    assert rows[0]["status"] == "T.O."


@pytest.mark.process
def test_a_worker_that_cannot_start_is_an_error(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(NelsonError, match="cannot start"):
        list(child_process.limited([Cell({"n": 1}, 1.0, experiment=NAME)]))


# ---------------------------------------------------------------------------- resuming


@pytest.mark.process
def test_finished_cells_are_not_run_again(tmp_path, log):
    only = ["works"]
    assert runner.run([PLAIN], tmp_path / "run", only=["n=20"]).ran == 1
    again = runner.run([PLAIN], tmp_path / "run", only=only)
    assert (again.ran, again.known) == (2, 1) and len(log()) == 3
    once_more = runner.run([PLAIN], tmp_path / "run", only=only)
    assert (once_more.ran, once_more.known) == (0, 3) and len(log()) == 3
    # The order is that of the experiment, not that in which they were run.
    assert [row["n"] for row in rows_of(tmp_path / "run")] == [10, 20, 5]


@pytest.mark.process
def test_killed_in_the_middle_it_goes_on(tmp_path, log):
    """SIGKILL, twice: no cell that was finished is executed a second time."""
    folder, cells = tmp_path / "run", 5
    marks = []  # after each kill: executions so far, sizes finished so far
    arguments = (PLAIN, "--full", "--only", "works", "-o", folder, "-q", "--keep")
    for target in (2, 4):
        command, more = cli(*arguments, TOY_SLEEP="0.7")
        run = subprocess.Popen(command, stderr=subprocess.DEVNULL, **more)
        wait(lambda target=target: len(log()) >= target)
        run.send_signal(signal.SIGKILL)
        run.wait()
        wait(lambda: not any(map(alive, pids(log(), "sampler="))))  # the worker goes down with it
        marks.append((len(log()), {f"n={key['n']}" for key in _finished(folder)}))
        assert not (folder / "results.parquet").exists()
    done = marks[-1][1]
    assert 0 < len(done) < cells
    outcome = runner.run([PLAIN], folder, full=True, only=["works"], keep=True)
    assert outcome.known == len(done) and outcome.ran == cells - len(done)
    executed = [re.search(r"n=\d+", line)[0] for line in log()]
    assert len(set(executed)) == cells
    assert len(executed) <= cells + len(marks)  # only what was under way is repeated
    for count, finished in marks:
        assert finished and not finished & set(executed[count:])
    assert len(rows_of(folder)) == cells


def _finished(folder):
    lines = (folder / records.NAME).read_text().split("\n")[:-1]
    return [line["cell"] for line in map(json.loads, lines) if "cell" in line]


@pytest.mark.process
def test_interrupt_ends_in_order(tmp_path, log):
    """Ctrl-C: exit code 130, the folder holds what is finished, and it says how to go on."""
    folder = tmp_path / "run"
    command, more = cli(PLAIN, "--full", "--only", "works", "-o", folder, TOY_SLEEP="0.7")
    run = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, **more)
    wait(lambda: len(log()) >= 2)
    run.send_signal(signal.SIGINT)
    out, told = run.communicate(timeout=120)
    assert run.returncode == 130, told
    assert "the same command goes on from here" in told and "Traceback" not in told
    assert not any(map(alive, pids(log(), "sampler=")))
    assert 1 <= len(rows_of(folder)) < 5 and "n = 10" in out
    assert "interrupted" in (folder / "report.html").read_text()
    done = len(rows_of(folder))
    again = call(PLAIN, "--full", "--only", "works", "-o", folder, "--keep")
    assert again.returncode == 0, again.stderr
    assert f"{done} cells are finished already" in again.stderr
    assert len(rows_of(folder)) == 5 and len(log()) <= 6


@pytest.mark.process
def test_a_torn_last_line_is_dropped(tmp_path, log):
    folder = tmp_path / "run"
    runner.run([PLAIN], folder, only=["works"])
    path = folder / records.NAME
    whole = path.read_bytes()
    lines = whole.split(b"\n")
    last = next(k for k in reversed(range(len(lines))) if lines[k].startswith(b'{"cell"'))
    head = b"\n".join(lines[:last]) + b"\n"
    for cut in (b"", lines[last][:25], lines[last][:-1], lines[last][:25] + b"\n"):
        path.write_bytes(head + cut)
        before = len(log())
        outcome = runner.run([PLAIN], folder, only=["works"])
        assert (outcome.known, outcome.ran) == (2, 1) and len(log()) == before + 1
        assert len(rows_of(folder)) == 3
    path.write_bytes(b"not json\n" + whole)
    with pytest.raises(NelsonError, match=r"cells\.jsonl:1: not a line of a run"):
        runner.run([PLAIN], folder, only=["works"])


@pytest.mark.process
def test_another_kind_of_run_in_the_folder_is_refused(tmp_path, monkeypatch, log):
    folder = tmp_path / "run"
    runner.run([PLAIN], folder, only=["n=20"])
    with pytest.raises(NelsonError, match=r"size: quick there, full now.*another folder"):
        runner.run([PLAIN], folder, full=True)
    with pytest.raises(NelsonError, match=r"cell seconds: None there, 3\.0 now"):
        runner.run([PLAIN], folder, cell_seconds=3.0)
    versions = machine.versions() | {"nelson": "9.9"}
    monkeypatch.setattr(machine, "versions", lambda: versions)
    with pytest.raises(NelsonError, match=r"nelson: .* there, 9\.9 now.*--keep"):
        runner.run([PLAIN], folder, only=["works"])
    assert len(log()) == 1
    assert runner.run([PLAIN], folder, only=["works"], keep=True).ran == 2
    with pytest.raises(NelsonError, match="size"):  # other sizes never mix
        runner.run([PLAIN], folder, full=True, keep=True)


def test_two_runs_do_not_share_a_folder(tmp_path):
    with (
        records.CellStore(tmp_path, {"size": "quick"}),
        pytest.raises(NelsonError, match="another run is writing here"),
    ):
        records.CellStore(tmp_path, {"size": "quick"})
    records.CellStore(tmp_path, {"size": "quick"}).__exit__()  # free again


@pytest.mark.process
def test_retry_runs_what_did_not_work_out(tmp_path, log):
    folder = tmp_path / "run"
    runner.run([PLAIN], folder, only=["works,raises"])
    assert len(log()) == 4
    outcome = runner.run([PLAIN], folder, only=["works,raises"], retry=True)
    assert outcome.ran == 1 and len(log()) == 5 and len(rows_of(folder)) == 4


@pytest.mark.process
def test_report_only_runs_nothing(tmp_path, log):
    with pytest.raises(NelsonError, match="holds no run"):
        runner.run([PLAIN], tmp_path / "none", report_only=True)
    assert not (tmp_path / "none").exists()
    folder = tmp_path / "run"
    runner.run([PLAIN], folder, only=["n=20"])
    (folder / "report.html").unlink()
    assert runner.run([PLAIN], folder, report_only=True).left == 6
    assert (folder / "report.html").exists() and len(log()) == 1


# ------------------------------------------------------------------- filters and executors


def test_filters():
    cells = planned(PLAIN, True)
    assert len(runner.matching(cells, [])) == len(cells) == 9
    assert {c.key["sampler"] for c in runner.matching(cells, ["works,dies"])} == {"works", "dies"}
    assert len(runner.matching(cells, ["works", "dies"])) == 6
    assert len(runner.matching(cells, ["sampler=works", "n=10,40"])) == 2
    assert len(runner.matching(cells, ["seed=8"])) == 1
    with pytest.raises(FormulaError, match=r"no cell matches --only kus; expected sampler=works"):
        runner.matching(cells, ["kus"])
    with pytest.raises(FormulaError, match="no cell matches"):
        runner.matching(cells, ["colour=works"])


@pytest.mark.process
def test_an_executor_of_ones_own(tmp_path, log):
    """As a cluster would: all cells taken at once, finished in another order."""
    taken = []

    def backwards(cells):
        taken.extend(cells)
        for cell in reversed(taken):
            yield cell, run_cell(cell.experiment, cell.key)

    outcome = runner.run([PLAIN], tmp_path / "run", only=["works"], executor=backwards)
    assert outcome.ran == 3 and len(taken) == 3
    assert set(pids(log(), "sampler=")) == {os.getpid()}
    assert [row["n"] for row in rows_of(tmp_path / "run")] == [10, 20, 5]


@pytest.mark.process
def test_a_cell_is_announced_when_it_begins(tmp_path):
    events = []

    class Watch(runner.Silent):
        def start(self, cells, finished):
            events.append(("start", len(cells), finished))

        def begin(self, cell):
            events.append(("begin", cell.key["n"]))

        def done(self, cell, rows):
            events.append(("done", cell.key["n"], rows[0]["status"]))

        def stop(self):
            events.append("stop")

    runner.run([PLAIN], tmp_path / "run", only=["works"], watcher=Watch())
    expected = [("start", 3, 0)]
    for n in (10, 20, 5):
        expected += [("begin", n), ("done", n, "ok")]
    assert events == [*expected, "stop"]


def test_equal_keys_are_refused(monkeypatch):
    twice = [Cell({"n": 1}, 1.0), Cell({"n": 1}, 2.0)]
    broken = Experiment("twice", "", "", lambda full: twice, lambda cell: [], lambda rows: [])
    monkeypatch.setattr("tests.paper.toy_experiment.TWICE", broken, raising=False)
    with pytest.raises(ValueError, match="two cells have the same key"):
        planned("tests.paper.toy_experiment:TWICE", False)
