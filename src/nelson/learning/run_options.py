"""How a run of `nelson.learn` is carried out and shown: what never changes what is learned."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from nelson.errors import FormulaError, NelsonError
from nelson.io.progress import Bar
from nelson.learning.group import ALONE, ProcessGroup


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
