"""A progress bar on stderr, shown only if a run takes more than a moment."""

from __future__ import annotations

import time
from typing import Any

PATIENCE = 0.4  # seconds before the bar appears; shorter runs never import rich
_INTERVAL = 0.05  # seconds between two updates


class Bar:
    """`total` steps (None: endless), followed by a text. Does nothing unless `shown`."""

    def __init__(self, label: str, total: int | None, shown: bool) -> None:
        self._label, self._total, self._shown = label, total, shown
        self._started = self._last = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        return self

    def update(self, done: int, text: str = "", samples: int | None = None) -> None:
        """`done` steps are finished; `samples` were drawn, if that is not the number of steps."""
        now = time.perf_counter()
        if not self._shown or now - self._started < PATIENCE or now - self._last < _INTERVAL:
            return
        self._last = now
        if self._bar is None:
            self._start()
        rate = (done if samples is None else samples) / (now - self._started)
        self._bar.update(self._task, completed=done, text=f"{text}{rate:,.0f} samples/s")

    def _start(self) -> None:
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.TextColumn(self._label),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[text]}"),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=self._total, text="")

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
