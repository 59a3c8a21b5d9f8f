"""Progress: what a long call is doing (`phase`), and a bar on stderr if it takes a while (`Bar`).

    with phase("compiling a circuit"):     # in any room: says what is being done
        ...
    with listening(show):                  # in a command: show(text), show("") at the end
        nelson.sample(...)

Without a listener `phase` does nothing. The listener is a context variable, so another thread hears
nothing of it. Phases may be nested: when an inner one ends, the outer one is told again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)
_PHASE: ContextVar[str] = ContextVar("phase", default="")


@contextlib.contextmanager
def phase(text: str, seconds: float | None = None) -> Iterator[None]:
    """Tell the listener, if there is one, what is being done until the block ends.

    seconds: how long it may take, if that is known.
    """
    tell = _LISTENER.get() or (lambda text: None)
    if seconds is not None:
        text = f"{text} (at most {max(1, round(seconds))} s)"
    outer = _PHASE.get()
    _PHASE.set(text)
    tell(text)
    try:
        yield
    finally:
        _PHASE.set(outer)
        tell(outer)


def what_is_done() -> str:
    """The text of the innermost phase, "" outside of all."""
    return _PHASE.get()


@contextlib.contextmanager
def listening(tell: Callable[[str], None] | None) -> Iterator[None]:
    """Call `tell` with the text of every phase that begins inside, and "" when none is left.

    Compiling kernels is a phase in any thread: they do not know who waits for them.
    """
    if tell is None:
        yield
        return
    from nelson.kernels.core import kernel_cache

    last = ""

    def phases(text: str) -> None:
        nonlocal last
        last = text
        tell(text)

    token = _LISTENER.set(phases)
    before = kernel_cache.listen(lambda text: tell(text or last))
    try:
        yield
    finally:
        kernel_cache.listen(before)
        _LISTENER.reset(token)


class Bar:
    """`total` steps (None: endless), followed by a text. Does nothing unless `shown`.

    patience    seconds before the bar appears; shorter runs never import rich
    interval    seconds between two updates
    """

    def __init__(
        self,
        label: str,
        total: int | None,
        shown: bool,
        patience: float = 0.4,
        interval: float = 0.05,
    ) -> None:
        self._patience, self._interval = patience, interval
        self._label, self._total, self._shown = label, total, shown
        self._started = self._last = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        return self

    def update(self, done: int, text: str = "", samples: int | None = None) -> None:
        """`done` steps are finished; `samples` were drawn, if that is not the number of steps."""
        now = time.perf_counter()
        early = now - self._started < self._patience or now - self._last < self._interval
        if not self._shown or early:
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
