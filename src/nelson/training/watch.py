"""A run, for people: a progress bar on a terminal, TensorBoard if asked for."""

from __future__ import annotations

import math
import os
import sys
import time
from types import TracebackType
from typing import Any

from nelson.errors import NelsonError

PATIENCE = 0.4  # seconds before the bar appears; shorter runs never import rich
_EVERY = 0.05  # seconds between two updates of the bar


class Watcher:
    """`row(...)` after every iteration. progress None: if stderr is a terminal."""

    def __init__(
        self, total: int, progress: bool | None, tensorboard: str | os.PathLike[str] | None
    ) -> None:
        self._total = total
        self._show = sys.stderr.isatty() if progress is None else progress
        self._started = self._last = time.perf_counter()
        self._samples = 0
        self._bar: Any = None
        self._task: Any = None
        self._board = _board(tensorboard) if tensorboard is not None else None

    def __enter__(self) -> Watcher:
        return self

    def row(self, row: dict[str, Any]) -> None:
        self._samples += row["m"]
        if self._board is not None:
            for name, value in row.items():
                if isinstance(value, (int, float)) and math.isfinite(value):
                    self._board.add_scalar(f"learn/{name}", value, row["iteration"])
        now = time.perf_counter()
        if not self._show or now - self._started < PATIENCE or now - self._last < _EVERY:
            return
        self._last = now
        if self._bar is None:
            self._start()
        rate = self._samples / (now - self._started)
        text = f"gap {row['gap_l1']:.3g} · {row['rounds']} rounds · {rate:,.0f} samples/s"
        self._bar.update(self._task, completed=row["iteration"], text=text)

    def _start(self) -> None:
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.TextColumn("learning"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=self._total, text="")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._board is not None:
            self._board.close()


def _board(folder: str | os.PathLike[str]) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise NelsonError(
            "TensorBoard logs need torch and tensorboard: pip install tensorboard"
        ) from error
    return SummaryWriter(os.fspath(folder))
