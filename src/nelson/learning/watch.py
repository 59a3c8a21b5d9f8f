"""Shows a run to people: a progress bar on a terminal, TensorBoard if asked for."""

from __future__ import annotations

import math
import os
import sys
from contextlib import ExitStack
from typing import Any

from nelson.errors import NelsonError
from nelson.io.progress import Bar


class Watcher(ExitStack):
    """`row(...)` is called after every iteration.

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
