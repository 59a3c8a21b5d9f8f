"""Progress: what a long call is doing (`phase`), and a bar on stderr if it takes a while (`Bar`).

    with phase("compiling a circuit"):     # in any room: says what is being done
        ...
    with listening(show):                  # in a command: show(text), show("") at the end
        nelson.sample(...)

The listener is a context variable, so another thread hears nothing of it. Phases may be nested:
when an inner one ends, the outer one is told again. Without a listener, those of the main thread
are shown on stderr after two seconds, if that is a terminal or a notebook.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)
_CLEAR = "\r\x1b[K"
_PHASE: ContextVar[str] = ContextVar("phase", default="")


@contextlib.contextmanager
def phase(text: str, seconds: float | None = None) -> Iterator[None]:
    """Tell the listener, if there is one, what is being done until the block ends.

    seconds: how long it may take, if that is known.
    """
    tell = _LISTENER.get() or _shown.tell
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

    None: phases are not shown. Compiling kernels is a phase in any thread: they do not know who
    waits for them.
    """
    if tell is None:
        silent = _LISTENER.set(lambda text: None)
        try:
            yield
        finally:
            _LISTENER.reset(silent)
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


def is_watched(stream: Any) -> bool:
    """Is it a terminal, or the output of a cell of a notebook? Not a pipe."""
    if stream is None:
        return False
    return stream.isatty() or type(stream).__module__.startswith("ipykernel")


class StatusLine:
    """Shows texts on a terminal, from `patience` seconds after its start; elsewhere nothing."""

    def __init__(self, wanted: bool = True, patience: float = 0.4) -> None:
        self.wanted = wanted and is_watched(sys.stderr)
        self._from = time.perf_counter() + patience
        self._shown = False

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def show(self, text: str) -> None:
        if self.wanted and time.perf_counter() >= self._from:
            print(f"{_CLEAR}nelson: {text[:100]}", end="", file=sys.stderr, flush=True)
            self._shown = True

    def clear(self) -> None:
        if self._shown:
            print(_CLEAR, end="", file=sys.stderr, flush=True)
            self._shown = False


class PhaseLine:
    """Shows the current phase (`nelson.io.progress.phase`) and its seconds, until `close`.

    The first text appears two seconds after the start. A thread writes the line anew every second,
    as the phases themselves do not return in the meantime.
    """

    def __init__(self, wanted: bool = True, patience: float = 2.0) -> None:
        self._wanted, self._patience = wanted, patience
        self._text, self._since = "", 0.0
        self._lock = threading.RLock()
        self._ticking: threading.Thread | None = None
        self.begin()
        self._listening = listening(self.tell if self._line.wanted else None)

    def begin(self) -> None:
        """A call begins: its first text appears after `patience` seconds."""
        self._line = StatusLine(self._wanted, self._patience)
        self._closed = threading.Event()

    def __enter__(self) -> PhaseLine:
        self._listening.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._listening.__exit__(None, None, None)

    def close(self) -> None:
        """Remove the line for good: what follows has its own display."""
        with self._lock:
            self._closed.set()
            self._line.clear()

    def tell(self, text: str) -> None:
        with self._lock:
            self._text, self._since = text, time.perf_counter()
            self.show()
            if text and self._line.wanted and self._ticking is None:
                self._ticking = threading.Thread(target=self._tick, daemon=True)
                self._ticking.start()

    def _tick(self) -> None:
        """Write the line anew each second, until no phase has been there for a second."""
        while self._text and not self._closed.wait(1.0):
            self.show()
        with self._lock:
            self._ticking = None

    def show(self) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            if self._text:
                self._line.show(f"{self._text} ({time.perf_counter() - self._since:.0f} s)")
            else:
                self._line.clear()


class _ShownPhases:
    """The phases of a call in Python: a line on stderr from its third second on."""

    #: A call goes on if its next phase begins so soon after the last one.
    PAUSE = 1.0

    def __init__(self) -> None:
        self._line: PhaseLine | None = None
        self._silent_since = -math.inf

    def tell(self, text: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if self._line is None:
            if not text or not is_watched(sys.stderr):
                return
            self._line = PhaseLine()
        elif text and time.perf_counter() - self._silent_since > self.PAUSE:
            self._line.begin()
        self._silent_since = math.inf if text else time.perf_counter()
        self._line.tell(text)


_shown = _ShownPhases()


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
