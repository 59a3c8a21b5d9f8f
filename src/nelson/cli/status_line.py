"""One line on stderr that says what a command is doing, written over again and again."""

from __future__ import annotations

import sys
import time

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
