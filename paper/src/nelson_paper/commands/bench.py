"""`nelson bench NAME`: rerun a table or figure of the paper, and compare with its figures."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nelson.cli.common import ExitCode, fail, guarded, say
from nelson.cli.interrupt import interrupted_code
from nelson.cli.options import ClusterCommand
from nelson.io.progress import StatusLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nelson_paper.experiments.base import Cell, Row
    from nelson_paper.experiments.runner import Outcome

#: Seconds above which the forecast says how to run less.
_LONG = 86400.0

EXAMPLES = """\b
Examples:
  nelson bench --list                          all experiments
  nelson bench table1                          quick sizes, into ./nelson-bench-quick
  nelson bench all                             everything, in under 15 minutes on two cores
  nelson bench table1 bias -o run1             two of them, into the folder run1
  nelson bench table1 --only lovasz,prs --only n=10,20
  nelson bench table1 --list                   its cells, one per line
  nelson bench table3 --full --cell-seconds 60
  nelson bench all --full --only seed=0        one formula for each size, instead of 100
  nelson bench uniform --formulas FOLDER       the .cnf files below FOLDER
  nelson bench all -o run1 --report            run nothing: write the tables and the page again
  nelson bench my_module:EXPERIMENT            your own experiment
  nelson bench all --full --cluster auto       cells as Ray tasks, side by side (timings suffer)

\b
The folder gets results.parquet, table.md, tables.tex (booktabs), plots (.png, .svg) and
report.html, one page that needs no network. The same command again continues the run: finished
cells are not run twice. --full has ten thousands of cells: the command says how many and for how
long before it starts. --only seed=0 and --cluster make it shorter.
Exit codes: 0 every cell is finished (T.O. is a result), 1 bad input or a table that could not be
made, 2 wrong usage, 130 interrupted.
"""


def add(app: typer.Typer) -> None:
    """Declare the command (`nelson.cli.commands`)."""
    app.command("bench", cls=ClusterCommand, epilog=EXAMPLES)(guarded(bench))


def bench(
    names: list[str] = typer.Argument(
        None, metavar="[NAME...]", help="Experiments (--list shows them), or all."
    ),
    full: bool = typer.Option(
        False,
        "--full/--quick",
        help="The paper's sizes and limits (7,200 s per sampler), or smaller ones.",
    ),
    output: Path | None = typer.Option(
        None, "-o", "--output", metavar="FOLDER", help="Folder [nelson-bench-quick or -full]."
    ),
    only: list[str] = typer.Option(
        [],
        metavar="[NAME=]VALUE,...",
        help="Only these cells: lovasz, sampler=prs,gibbs, n=10.",
    ),
    show: bool = typer.Option(
        False, "--list", help="List experiments, or the cells of those named."
    ),
    cell_seconds: float | None = typer.Option(
        None,
        min=0.001,
        metavar="SECONDS",
        help="Time limit of every cell, instead of the experiment's.",
    ),
    data: Path | None = typer.Option(
        None, metavar="FOLDER", help="Folder of data, for experiments that need one."
    ),
    retry: bool = typer.Option(False, "--retry", help="Run cells that timed out or failed again."),
    keep: bool = typer.Option(
        False, "--keep", help="Continue in a folder of another version or machine."
    ),
    report: bool = typer.Option(False, "--report", help="Run nothing; report finished cells."),
    formulas: Path | None = typer.Option(
        None,
        metavar="FOLDER",
        exists=True,
        file_okay=False,
        help="K-SAT formulas: the .cnf files below FOLDER, instead of our own random ones.",
    ),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
    cluster: str | None = typer.Option(
        None,
        metavar="[ADDRESS]",
        help="Run cells as Ray tasks on the cluster at ADDRESS; default: the one that runs on "
        "this machine.",
    ),
) -> None:
    """Reproduce tables and figures of the paper: run, tabulate, plot, report."""
    from nelson_paper.experiments import get
    from nelson_paper.experiments import names as registered

    names = names or []
    chosen = list(dict.fromkeys(registered() if "all" in names else names))
    if "all" in names and formulas is not None:
        chosen = [name for name in chosen if get(name).cells_on_files]
    if show:
        _list(chosen, full, only, formulas, data)
        return
    if not chosen and not report:
        fail(f"which experiment? One of {', '.join(registered())}, or all", 2)
    for name in chosen if data is None and not report else ():
        if get(name).from_data:
            fail(f"{name} needs --data FOLDER", 2)
    import shlex

    from nelson_paper.experiments.runner import run

    outcome = run(
        chosen,
        output or Path(f"nelson-bench-{'full' if full else 'quick'}"),
        full=full,
        only=only,
        cell_seconds=cell_seconds,
        data=None if data is None else str(data),
        retry=retry,
        keep=keep,
        report_only=report,
        watcher=None if quiet else CellProgress(),
        executor=_executor(cluster),
        command=shlex.join(["nelson", *sys.argv[1:]]),
        formulas=formulas,
    )
    _report(outcome, chosen)


def _executor(cluster: str | None) -> Any:
    """Runs the cells on Ray. None: they run here, one after the other."""
    if cluster is None:
        return None
    from functools import partial

    from nelson_paper.experiments.ray_executor import executor

    return partial(executor, address=cluster)


def _report(outcome: Outcome, chosen: list[str]) -> None:
    """Tables to stdout; errors and the path of the page to stderr."""
    from nelson_paper.experiments.report import markdown

    for name, tables in outcome.tables.items():
        if name in (*chosen, "samplers") or not chosen:
            for table in tables:
                print(markdown(table), end="\n\n")
    if outcome.known and not outcome.ran:
        say(f"{outcome.known} cells were finished before; remove {outcome.folder} to run them anew")
    for text in outcome.failed[:5]:
        say(text)
    if len(outcome.failed) > 5:
        say(f"... {len(outcome.failed) - 5} more cells failed: see the report")
    for text in outcome.problems:
        say(f"error: {text}")
    say(f"{outcome.folder / 'report.html'}")
    if outcome.interrupted:
        say(
            f"interrupted: {outcome.ran} cells are finished and kept, {outcome.left} are left; "
            "the same command goes on from here"
        )
        raise typer.Exit(interrupted_code())
    if outcome.problems:
        raise typer.Exit(ExitCode.BAD_INPUT)


def _list(
    chosen: list[str], full: bool, only: list[str], formulas: Path | None, data: Path | None
) -> None:
    from nelson_paper.experiments import get
    from nelson_paper.experiments import names as registered
    from nelson_paper.experiments.folder import in_words, planned
    from nelson_paper.experiments.runner import matching

    if chosen:
        files = None if formulas is None else str(formulas.resolve())
        folder = None if data is None else str(data)
        cells = [cell for name in chosen for cell in planned(name, full, files=files, data=folder)]
        for cell in matching(cells, only):
            print(f"{cell.experiment}: {cell}; at most {in_words(cell.seconds)}")
        return
    for name in registered():
        experiment = get(name)
        if experiment.from_data:
            print(f"{name:9}     cells of a folder (--data)     {experiment.title}")
            continue
        quick, complete = len(experiment.cells(False)), len(experiment.cells(True))
        print(f"{name:9} {quick:5} cells ({complete:6} with --full)   {experiment.title}")


def forecast(cells: Sequence[Cell]) -> str:
    """How many cells, about how long one after another, and what to do if that is too long."""
    from nelson_paper.experiments.folder import in_words

    about = sum(cell.expected() for cell in cells)
    told = (
        f"{len(cells):,} cells, one after another: about {in_words(about)} on two idle cores "
        "(the limits of single cells are longer; few cells need them)"
    )
    first = [cell for cell in cells if cell.key.get("seed") == 0]
    if about > _LONG and 0 < len(first) < len(cells):
        told += (
            f". --only seed=0 runs {len(first):,} of them, one formula for each size; --cluster "
            "runs cells side by side on Ray"
        )
    return told + "."


class CellProgress:
    """On a terminal: one line that is written over; cells that failed stay above it. Elsewhere:
    two lines per cell.
    """

    def start(self, cells: Sequence[Cell], finished: int) -> None:
        self._started = time.monotonic()
        self._line = StatusLine(patience=0.0)
        self._expected = {cell.id: cell.expected() for cell in cells}  # of cells not done yet
        self._expected_done = 0.0
        self._number, self._total = 0, len(cells)
        if finished:
            say(f"{finished} cells are finished already; {len(cells)} to run")
        say(forecast(cells))

    def begin(self, cell: Cell) -> None:
        from nelson_paper.experiments.folder import in_words

        self._number += 1
        text = f"{self._number}/{self._total} {cell.experiment} {cell}"
        text += f" (at most {in_words(cell.seconds)}); {self._time_left()}"
        if self._line.wanted:
            self._line.show(text)
        else:
            say(text)

    def done(self, cell: Cell, rows: Sequence[Row]) -> None:
        from nelson_paper.experiments.folder import in_words

        self._expected_done += self._expected.pop(cell.id, 0.0)
        states = list(dict.fromkeys(row["status"] for row in rows)) or ["no rows"]
        seconds = max((row["cell_seconds"] for row in rows), default=0.0)
        ending = f"{', '.join(states)}, {in_words(seconds)}"
        if not self._line.wanted:
            say(f"    {ending}")
        elif states != ["ok"]:
            self._line.clear()
            say(f"{cell.experiment} {cell}: {ending}")

    def stop(self) -> None:
        self._line.clear()

    def _time_left(self) -> str:
        """What was expected of the cells to come, scaled by how the cells before compared with it.

        The expectation itself counts as one more minute that went as expected.
        """
        from nelson_paper.experiments.folder import in_words

        share = (time.monotonic() - self._started + 60) / (self._expected_done + 60)
        return f"about {in_words(sum(self._expected.values()) * share)} left"
