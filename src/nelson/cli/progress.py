"""A progress bar on stderr, for people: only on a terminal, only for runs that take a moment."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

PATIENCE = 0.4  # seconds before the bar appears; shorter runs never import rich


class Progress:
    """`total` samples (None: no end). Does nothing unless `wanted` and stderr is a terminal."""

    def __init__(self, total: int | None, *, wanted: bool = True) -> None:
        self._total = total
        self._show = wanted and sys.stderr.isatty()
        self._started = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        return self

    def update(self, done: int) -> None:
        if not self._show or time.perf_counter() - self._started < PATIENCE:
            return
        if self._bar is None:
            self._start()
        rate = done / (time.perf_counter() - self._started)
        self._bar.update(self._task, completed=done, rate=f"{rate:,.0f} samples/s")

    def _start(self) -> None:
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.TextColumn("sampling"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=self._total, rate="")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
