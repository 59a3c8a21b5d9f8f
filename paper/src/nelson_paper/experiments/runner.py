"""Runs experiments cell by cell, records finished cells, writes the folder of results.

    outcome = run(["table1", "bias"], "folder")        called again: continues where it stopped

`executor(cells)` runs cells and yields (cell, rows) as they finish, in any order. It gets an
iterator and takes a cell from it when that cell begins. The default is `child_process.limited`: one
cell after another, each under its own time and memory limit. `ray_executor.py` has one for Ray.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from nelson.errors import FormulaError, NelsonError
from nelson.formula.checks import duration
from nelson_paper.experiments import folder as folders
from nelson_paper.experiments import machine
from nelson_paper.experiments.base import FAILED, Cell, Row, Table
from nelson_paper.experiments.child_process import limited
from nelson_paper.experiments.records import CellStore

Executor = Callable[[Iterator[Cell]], Iterable[tuple[Cell, list[Row]]]]


class Watcher(Protocol):
    """Gets a call for every event of a run. A subclass overrides the methods that it needs."""

    def start(self, cells: Sequence[Cell], finished: int) -> None:
        """`cells` will be run; `finished` further cells were finished before."""
        return

    def begin(self, cell: Cell) -> None:
        """This cell begins."""
        return

    def done(self, cell: Cell, rows: Sequence[Row]) -> None:
        """This cell is finished and recorded."""
        return

    def stop(self) -> None:
        """No more cells. Called once, also after Ctrl-C."""
        return


class Silent(Watcher):
    """Ignores all events."""


@dataclass
class Outcome:
    """The result of a call of `run`."""

    folder: Path
    ran: int = 0  # cells run by this call
    known: int = 0  # wanted cells that were finished before
    left: int = 0  # wanted cells that were not reached
    failed: list[str] = field(default_factory=list)  # cells that failed in this call, with status
    interrupted: bool = False
    problems: list[str] = field(default_factory=list)  # tables and plots that failed
    tables: dict[str, list[Table]] = field(default_factory=dict)


def run(
    names: Sequence[str],
    folder: str | Path,
    *,
    full: bool = False,
    only: Sequence[str] = (),
    cell_seconds: float | None = None,
    data: str | None = None,
    retry: bool = False,
    keep: bool = False,
    report_only: bool = False,
    executor: Executor | None = None,
    watcher: Watcher | None = None,
    command: str = "",
    formulas: str | Path | None = None,
) -> Outcome:
    """Run the cells that are not finished yet, and write the folder.

    full          the paper's sizes instead of quick ones
    only          filters, see `matching`
    cell_seconds  time limit of every cell, instead of its own
    data          folder of data, for experiments that need one
    retry         run failed cells again
    keep          continue a run although version or machine differ
    report_only   run nothing, write the folder from the finished cells
    formulas      read the formulas from the .cnf files below this folder

    Ctrl-C ends the run normally, with `outcome.interrupted` set.
    """
    _require()
    if cell_seconds is not None:
        duration(cell_seconds, "cell_seconds", positive=True)
    folder, watcher = Path(folder), watcher or Silent()
    if executor is None:
        executor = limited
    files = None if formulas is None else str(Path(formulas).resolve())
    cells = [
        cell for name in names for cell in folders.planned(name, full, cell_seconds, files, data)
    ]
    cells = matching(cells, only)
    outcome = Outcome(folder)
    settings = _settings(full, cell_seconds, files)
    with CellStore(folder, settings, keep=keep, anew=not report_only) as store:
        todo = [cell for cell in cells if not store.has(cell, ok=retry)]
        outcome.known = len(cells) - len(todo)
        if report_only:
            outcome.left = len(todo)
        elif todo:
            store.begin(_run(command))
            _work(store, todo, executor, watcher, outcome)
        written = folders.write(folder, store, full, seconds=cell_seconds, files=files, data=data)
    outcome.problems, outcome.tables = written.problems, written.tables
    return outcome


def _work(
    store: CellStore, todo: list[Cell], executor: Executor, watcher: Watcher, outcome: Outcome
) -> None:
    def announced() -> Iterator[Cell]:
        for cell in todo:
            watcher.begin(cell)
            yield cell

    started = time.monotonic()
    watcher.start(todo, outcome.known)
    answers = executor(announced())
    try:
        for cell, rows in answers:
            store.add(cell, rows)
            outcome.ran += 1
            outcome.failed += [
                f"{cell.experiment} {cell}: {row['status']}"
                for row in rows
                if row["status"].startswith(FAILED)
            ]
            watcher.done(cell, rows)
    except KeyboardInterrupt:
        outcome.interrupted = True
    finally:
        if hasattr(answers, "close"):  # ends the worker process
            answers.close()
        watcher.stop()
        outcome.left = len(todo) - outcome.ran
        ended = "interrupted" if outcome.left else "finished"
        told = {"ran": outcome.ran, "seconds": time.monotonic() - started, "end": ended}
        store.end(told)


def matching(cells: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """The cells that match all filters.

    "sampler=lovasz,prs" matches one field of the key, "lovasz" matches any field with that value.
    Filters for the same field are alternatives; filters for different fields must all match.
    """
    wanted: dict[str, set[str]] = {}
    for text in only:
        name, equals, values = text.rpartition("=")
        wanted.setdefault(name if equals else "", set()).update(
            value.strip() for value in values.split(",")
        )

    def fits(cell: Cell) -> bool:
        texts = {name: str(value) for name, value in cell.key.items()}
        return all(
            texts.get(name) in values if name else bool(values & set(texts.values()))
            for name, values in wanted.items()
        )

    kept = [cell for cell in cells if fits(cell)]
    if cells and not kept:
        raise FormulaError(f"no cell matches --only {' '.join(only)}", expected=_fields(cells))
    return kept


def _fields(cells: Sequence[Cell]) -> str:
    """The filters that match a cell: "sampler=lovasz,prs,... or n=10,20"."""
    values: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name, value in cell.key.items():
            values.setdefault(name, {})[str(value)] = None
    return " or ".join(
        f"{name}={','.join(list(texts)[:8])}{',...' if len(texts) > 8 else ''}"
        for name, texts in values.items()
    )


def _settings(full: bool, cell_seconds: float | None, files: str | None) -> dict[str, Any]:
    """Settings that all cells of one table must share."""
    versions = machine.versions()
    kept = ("nelson", "source", "python", "numpy", "numba")
    return {
        "size": "full" if full else "quick",
        "cell seconds": cell_seconds,
        "formulas": files,
        **{name: versions[name] for name in kept},
        "processor": machine.processor(),
        "cores": machine.machine()["cores"],
    }


def _run(command: str) -> dict[str, Any]:
    return {
        "command": command,
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": machine.machine(),
        "versions": machine.versions(),
    }


def _require() -> None:
    """Fail before the first cell if the files could not be written after the last one."""
    missing = [name for name in ("pyarrow", "matplotlib") if find_spec(name) is None]
    if missing:
        raise NelsonError(
            f"results and plots need {' and '.join(missing)}: "
            "pip install 'nelson-mrf[parquet,plots]'"
        )
