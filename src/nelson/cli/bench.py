"""`nelson bench NAME`: a table or figure of the paper, run here, beside the paper's figures."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from nelson.cli.common import BAD_INPUT, INTERRUPTED, fail, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nelson.experiments.base import Cell, Row
    from nelson.experiments.runner import Outcome

EXAMPLES = """\b
Examples:
  nelson bench --list                          what there is
  nelson bench table1                          quick sizes, into ./nelson-bench-quick
  nelson bench all                             everything, in under 15 minutes on two cores
  nelson bench table1 bias -o run1             two of them, into a folder of your own
  nelson bench table1 --only lovasz,prs --only n=10,20
  nelson bench table1 --list                   its cells, one a line
  nelson bench table3 --full --cell-seconds 60
  nelson bench all -o run1 --report            run nothing: write tables and page again
  nelson bench my_module:EXPERIMENT            an experiment of your own
  nelson bench all --full --cluster auto       its cells as Ray tasks (timings then share machines)

\b
The folder gets results.parquet, table.md, plots (.png, .svg) and report.html, one page that needs
no network. The same command again goes on where it was: finished cells are not run twice.
Exit codes: 0 every cell is finished (T.O. is a result), 1 bad input or a table that could not be
made, 2 wrong usage, 130 interrupted.
"""


def bench(
    names: list[str] = typer.Argument(
        None, metavar="[NAME...|all]", help="Experiments (--list shows them)."
    ),
    full: bool = typer.Option(
        False, "--full/--quick", help="The paper's sizes (an hour a sampler), or smaller ones."
    ),
    output: Path | None = typer.Option(
        None, "-o", "--output", metavar="FOLDER", help="Folder [nelson-bench-quick or -full]."
    ),
    only: list[str] = typer.Option(
        [], metavar="[FIELD=]VALUE,...", help="Only such cells: lovasz, sampler=prs,gibbs, n=10."
    ),
    show: bool = typer.Option(
        False, "--list", help="List experiments, or the cells of those named."
    ),
    cell_seconds: float | None = typer.Option(
        None, min=0.001, help="Time limit for every cell, in place of its own."
    ),
    retry: bool = typer.Option(False, "--retry", help="Run again what timed out or failed."),
    keep: bool = typer.Option(
        False, "--keep", help="Go on in a folder of another version or machine."
    ),
    report: bool = typer.Option(False, "--report", help="Run nothing; write what is finished."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
    cluster: str | None = typer.Option(
        None,
        metavar="[ADDRESS]",
        help="Run cells as Ray tasks: alone, on this machine; or on the cluster at ADDRESS.",
    ),
) -> None:
    """Reproduce tables and figures of the paper: run, tabulate, plot, report."""
    from nelson.experiments import names as registered

    names = names or []
    chosen = list(dict.fromkeys(registered() if "all" in names else names))
    if show:
        _list(chosen, full, only)
        return
    if not chosen and not report:
        fail(f"which experiment? One of {', '.join(registered())}, or all", 2)
    from nelson.experiments.runner import run

    folder = output or Path(f"nelson-bench-{'full' if full else 'quick'}")
    _term_is_interrupt()
    outcome = run(
        chosen,
        folder,
        full=full,
        only=only,
        cell_seconds=cell_seconds,
        retry=retry,
        keep=keep,
        report_only=report,
        watcher=None if quiet else Bar() if sys.stderr.isatty() else Lines(),
        executor=_on_cluster(cluster),
        command=_command(),
    )
    _tell(outcome, chosen)


def _on_cluster(address: str | None) -> Any:
    """What runs the cells; None: one after the other, here."""
    if address is None:
        return None
    from functools import partial

    from nelson.cli.cluster import LOCAL
    from nelson.cluster.bench import executor

    return partial(executor, address=None if address == LOCAL else address)


def _tell(outcome: Outcome, chosen: list[str]) -> None:
    """Tables to stdout; to stderr what happened and where it is."""
    from nelson.experiments.report import markdown

    for name, tables in outcome.tables.items():
        if name in chosen or not chosen:
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
        raise typer.Exit(INTERRUPTED)
    if outcome.problems:
        raise typer.Exit(BAD_INPUT)


def _list(chosen: list[str], full: bool, only: list[str]) -> None:
    from nelson.experiments import get
    from nelson.experiments import names as registered
    from nelson.experiments.folder import duration, planned
    from nelson.experiments.runner import matching

    if chosen:
        for cell in matching([cell for name in chosen for cell in planned(name, full)], only):
            print(f"{cell.experiment}: {cell}; at most {duration(cell.seconds)}")
        return
    for name in registered():
        experiment = get(name)
        quick, complete = len(experiment.cells(False)), len(experiment.cells(True))
        print(f"{name:9} {quick:5} cells ({complete:6} with --full)   {experiment.title}")


def _command() -> str:
    import shlex

    return shlex.join(["nelson", *sys.argv[1:]])


def _term_is_interrupt() -> None:
    """SIGTERM (a batch system, a shutdown) ends a run as Ctrl-C does."""
    import signal
    import threading

    def raised(number: int, frame: Any) -> NoReturn:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, raised)


# ------------------------------------------------------------------------------------ progress


class Clock:
    """How long the rest may take: limits of the cells to come, scaled by what limits were used."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._started = time.monotonic()
        self._limits = {cell.id: cell.seconds for cell in cells}
        self._done = 0.0

    def done(self, cell: Cell) -> None:
        self._done += self._limits.pop(cell.id, 0.0)

    @property
    def cells_left(self) -> int:
        return len(self._limits)

    def left(self) -> str:
        from nelson.experiments.folder import duration

        to_come = sum(self._limits.values())
        if not to_come:
            return "nothing left"
        if not self._done:
            return "time left: not known yet"
        share = min(1.0, (time.monotonic() - self._started) / self._done)
        return f"about {duration(to_come * share)} left"


class Lines:
    """Two lines a cell: what begins and how much is left, and how it ended."""

    def start(self, cells: Sequence[Cell], finished: int) -> None:
        self.clock, self.total, self.number = Clock(cells), len(cells), 0
        if finished:
            say(f"{finished} cells are finished already; {len(cells)} to run")

    def begin(self, cell: Cell) -> None:
        from nelson.experiments.folder import duration

        self.number += 1
        where = f"{self.number}/{self.total} {cell.experiment} {cell}"
        say(f"{where} (at most {duration(cell.seconds)}); {self.clock.left()}")

    def done(self, cell: Cell, rows: Sequence[Row]) -> None:
        self.clock.done(cell)
        say(f"    {_ending(rows)}")

    def stop(self) -> None:
        pass


class Bar(Lines):
    """A bar on the terminal; what did not work out stays on the screen above it."""

    def start(self, cells: Sequence[Cell], finished: int) -> None:
        from rich import progress
        from rich.console import Console

        super().start(cells, finished)
        self.bar = progress.Progress(
            progress.SpinnerColumn(),
            progress.MofNCompleteColumn(),
            progress.BarColumn(bar_width=24),
            progress.TextColumn("{task.fields[left]}"),
            progress.TextColumn("{task.fields[cell]}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self.bar.start()
        self.task = self.bar.add_task("", total=len(cells), left="", cell="")

    def begin(self, cell: Cell) -> None:
        self.bar.update(self.task, cell=f"{cell.experiment} {cell}", left=self.clock.left())

    def done(self, cell: Cell, rows: Sequence[Row]) -> None:
        self.clock.done(cell)
        if any(row["status"] != "ok" for row in rows):
            text = f"{cell.experiment} {cell}: {_ending(rows)}"
            self.bar.console.print(text, markup=False, highlight=False)
        self.bar.update(self.task, advance=1, left=self.clock.left())

    def stop(self) -> None:
        self.bar.stop()


def _ending(rows: Sequence[Row]) -> str:
    from nelson.experiments.folder import duration

    states = list(dict.fromkeys(row["status"] for row in rows)) or ["no rows"]
    took = max((row["cell_seconds"] for row in rows), default=0.0)
    return f"{', '.join(states)}, {duration(took)}"
