"""Ctrl-C and SIGTERM: a stream of blocks ends with whole samples, other commands stop at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Generic, NoReturn, TypeVar

T = TypeVar("T")


class Interruptible(Generic[T]):
    """Iterate over blocks so that a signal takes effect between two of them.

    While a block is being *drawn*, a signal raises KeyboardInterrupt inside the stream, which then
    yields its finished samples as a last block. While the caller *writes* a block, the signal is
    only remembered, and the iteration ends after the write. A second signal takes effect at once.
    """

    def __init__(self, blocks: Iterator[T]) -> None:
        self._blocks = blocks
        self._drawing = False
        self._before: dict[int, Any] = {}
        self.signal = 0  # the signal that arrived, or 0

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        again, self.signal = self.signal, number
        if self._drawing or again:
            raise KeyboardInterrupt

    def __enter__(self) -> Interruptible[T]:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._arrived)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __iter__(self) -> Iterator[T]:
        while not self.signal:
            try:
                self._drawing = True
                block = next(self._blocks, None)
            except KeyboardInterrupt:
                return
            finally:
                self._drawing = False
            if block is None:
                return
            yield block


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. Whoever cleans up after Ctrl-C cleans up after this too."""


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """SIGTERM (from a batch system, or a shutdown) raises `Terminated`.

    A handler that somebody else has set stays.
    """

    def raised(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated

    here = threading.current_thread() is threading.main_thread()  # elsewhere it cannot be set
    if not here or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    before = signal.signal(signal.SIGTERM, raised)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
