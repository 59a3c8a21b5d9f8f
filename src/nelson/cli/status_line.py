"""One line on stderr that says what a command is doing, written over again and again."""

from __future__ import annotations

import sys
import threading
import time

from nelson.io.progress import listening

_CLEAR = "\r\x1b[K"


class StatusLine:
    """Shows texts on a terminal, from `patience` seconds after its start; elsewhere nothing."""

    def __init__(self, wanted: bool = True, patience: float = 0.4) -> None:
        self.wanted = wanted and sys.stderr.isatty()
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
        self._line = StatusLine(wanted, patience)
        self._text, self._since = "", 0.0
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._listening = listening(self._tell if self._line.wanted else None)

    def __enter__(self) -> PhaseLine:
        self._listening.__enter__()
        if self._line.wanted:
            threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._listening.__exit__(None, None, None)

    def close(self) -> None:
        """Remove the line for good: what follows has its own display."""
        with self._lock:
            self._closed.set()
            self._line.clear()

    def _tell(self, text: str) -> None:
        with self._lock:
            self._text, self._since = text, time.perf_counter()
            self.show()

    def _tick(self) -> None:
        while not self._closed.wait(1.0):
            self.show()

    def show(self) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            if self._text:
                self._line.show(f"{self._text} ({time.perf_counter() - self._since:.0f} s)")
            else:
                self._line.clear()
