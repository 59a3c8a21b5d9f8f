"""Ctrl-C (or SIGTERM) ends a stream with what is finished, never in the middle of a sample."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Interruptible(Generic[T]):
    """Iterate over blocks so that a signal is honoured between two of them.

    While a block is being *drawn*, a signal raises KeyboardInterrupt inside the stream, which then
    yields its finished samples as a last block. While the caller *writes* a block, the signal only
    leaves a note, and the iteration ends after the write. A second signal is obeyed at once.
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
                self._drawing = False
            except KeyboardInterrupt:
                self._drawing = False
                return
            if block is None:
                return
            yield block
