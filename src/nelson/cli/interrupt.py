"""Ctrl-C and SIGTERM: a stream of blocks ends with whole samples, other commands stop at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C. Python 3.11 ends a process with the signal itself, whatever exit code it asks for,
    if a KeyboardInterrupt proper left an `exec` of text (dataclasses use it); a subclass is safe.
    """


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. Whoever cleans up after Ctrl-C cleans up after this too."""


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
            raise Interrupted

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


#: Code of Python's import system. Some of it runs as a callback, where an exception is lost.
_IMPORTING = "<frozen importlib._bootstrap>"


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, SIGTERM (from a batch system, or a shutdown) `Terminated`.

    A signal that arrives inside the import system takes effect right after it. Handlers that
    somebody else has set stay.
    """

    def raised(number: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code.co_filename == _IMPORTING:
            signal.raise_signal(number)  # again, a few instructions later
            return
        raise Terminated if number == signal.SIGTERM else Interrupted

    usual: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }
    here = threading.current_thread() is threading.main_thread()  # elsewhere none can be set
    ours = [number for number in usual if here and signal.getsignal(number) == usual[number]]
    for number in ours:
        signal.signal(number, raised)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, usual[number])
