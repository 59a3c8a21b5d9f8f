"""How a run of `nelson.learn` is carried out, shown and remembered; nothing here changes a fit."""

from __future__ import annotations

import csv
import io
import math
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from nelson.errors import FormulaError, NelsonError
from nelson.io import atomic
from nelson.io.arrow import load_pyarrow
from nelson.io.progress import Bar
from nelson.learning.group import ALONE, ProcessGroup
from nelson.pictures import Panel, curve, figure


@dataclass(frozen=True, kw_only=True)
class Run:
    """Checkpoints, and what is shown on the way.

    checkpoint  a folder. A killed run continues from there and ends with the same bits
    every       iterations between two checkpoints
    resume      False: start over, even if there is a checkpoint
    progress    show a bar: True, False, or None (if stderr is a terminal)
    tensorboard a folder for TensorBoard's files
    callback    called with the row of the history after each iteration. If it returns False, the
                run ends as if its time were up
    group       processes that learn together, each of which calls `learn`: see
                `nelson.cli.train`
    """

    checkpoint: str | os.PathLike[str] | None = None
    every: int = 25
    resume: bool = True
    progress: bool | None = False
    tensorboard: str | os.PathLike[str] | None = None
    callback: Callable[[dict[str, Any]], Any] | None = None
    group: ProcessGroup = ALONE

    def __post_init__(self) -> None:
        if self.every < 1:
            raise FormulaError(f"every = {self.every}", expected="1 or more")


class Watcher(ExitStack):
    """A progress bar on a terminal, and TensorBoard. `row(...)` is called after every iteration.

    progress: None shows the bar if stderr is a terminal.
    """

    def __init__(
        self, total: int, progress: bool | None, tensorboard: str | os.PathLike[str] | None
    ) -> None:
        super().__init__()
        shown = sys.stderr.isatty() if progress is None else progress
        self._bar = self.enter_context(Bar("learning", total, shown))
        self._samples = 0
        self._board = _board(tensorboard) if tensorboard is not None else None
        if self._board is not None:
            self.callback(self._board.close)

    def row(self, row: dict[str, Any]) -> None:
        self._samples += row["m"]
        if self._board is not None:
            for name, value in row.items():
                if isinstance(value, (int, float)) and math.isfinite(value):
                    self._board.add_scalar(f"learn/{name}", value, row["iteration"])
        text = f"gap {row['gap_l1']:.3g} · {row['rounds']} rounds · "
        self._bar.update(row["iteration"], text, self._samples)


def _board(folder: str | os.PathLike[str]) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise NelsonError(
            "TensorBoard logs need torch and tensorboard: pip install tensorboard"
        ) from error
    return SummaryWriter(os.fspath(folder))


class History(list[dict[str, Any]]):
    """One dict for each iteration.

    iteration         from 1
    phase             the purpose of the iteration: grow, average, check, cut; sgd, adam, net
    gap_l1, gap_max   |E_data[x] - E_model[x]|: sum and maximum over the variables
    chi2, dof, bound  the test of the gap, if there was one; dof is the mean of chi2 for noise alone
    within            chi2 <= bound: the gap is noise
    move              the largest change of a theta_i
    m, rounds, sweeps samples drawn; rounds and sweeps of the sampler
    sampling, update  seconds
    missing           samples that the sampler did not find, if any
    """

    def columns(self) -> list[str]:
        return list(dict.fromkeys(key for row in self for key in row))

    def to_pandas(self) -> Any:
        try:
            import pandas
        except ImportError as error:
            raise NelsonError("a DataFrame needs pandas: pip install pandas") from error
        return pandas.DataFrame(list(self), columns=self.columns())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        atomic.write(path, self.as_csv())

    def as_csv(self) -> bytes:
        """The content of a CSV file."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns())
        writer.writeheader()
        writer.writerows(self)
        return text.getvalue().encode()

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        pa, pq = load_pyarrow()
        columns = {name: [row.get(name) for row in self] for name in self.columns()}
        with atomic.writing(path) as out:
            pq.write_table(pa.table(columns), out)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """The learning curves: moment gap, and chi^2 over its expectation, against the iteration.

        Returns the figure, and writes it to `path` if given.
        """
        return figure(self.panels(), path)

    def panels(self) -> list[Panel]:
        """The learning curves; a preset that does not test in every iteration has one."""
        gaps = [(row["iteration"], row.get("gap_l1")) for row in self]
        tests = [(row["iteration"], _ratio(row)) for row in self]
        title = "Do data and model have the same shares?"
        drawn = [curve(gaps, y="gap of the shares, summed over variables", title=title)]
        if any(y for _, y in tests):
            title = "At 1 the gap is noise"
            drawn.append(curve(tests, y="χ² / its expectation", title=title, at=1.0))
        return drawn


def _ratio(row: dict[str, Any]) -> float | None:
    chi2, dof = row.get("chi2"), row.get("dof")
    return chi2 / dof if chi2 is not None and dof else None
