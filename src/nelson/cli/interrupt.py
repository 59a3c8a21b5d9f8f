"""Ctrl-C and SIGTERM: a stream of blocks ends with whole samples, other commands stop at once.

| when                                  | what a signal does                                     |
|---------------------------------------|--------------------------------------------------------|
| before and after a command            | the process ends at once: there is nothing to clean up |
| in a command (`signals_raise`)        | raises `Interrupted`: files and child processes go     |
| in a stream (`Interruptible`)         | takes effect between two blocks                        |
| last, while Python takes itself apart | nothing: the exit code of the command stands           |

A command that was interrupted waits for none of its threads.

The exit code is 128 + the number of the signal in each case.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: The signals that came during this command, in their order.
_arrived: list[int] = []


class Interrupted(KeyboardInterrupt):
    """A signal arrived; whoever cleans up after Ctrl-C cleans up after SIGTERM too.

    A subclass: Python 3.11 ends a process with the signal itself, whatever exit code it asks for,
    if a KeyboardInterrupt proper left an `exec` of text, which dataclasses use.
    """


def arrived() -> int:
    """The last signal of this command, or 0."""
    return _arrived[-1] if _arrived else 0


def interrupted_code() -> int:
    """The exit code of a command that was interrupted: 143 after SIGTERM, else 130."""
    return 128 + (arrived() or signal.SIGINT)


def leave_on_signals() -> None:
    """From now on a signal ends this process at once, except within `signals_raise`."""
    for number in _SIGNALS:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _leave)
    # The first to be registered is the last to run. Then Python would put the default back, and a
    # late signal would end the process as if the command had been cut off.
    atexit.register(_ignore)


@contextlib.contextmanager
def interruption_waits_for_no_thread() -> Iterator[None]:
    """Around a program: if it was interrupted, the process ends after its exit functions at once.

    A signal that comes inside `Thread.start` raises while a lock of the new thread is held, which
    then waits for it for ever; and Python waits at its end for all threads.
    """
    try:
        yield
    except SystemExit as end:
        if not (arrived() and isinstance(end.code, int)):
            raise
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(end.code)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


def _ignore() -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is _leave:
            signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """Ctrl-C, and SIGTERM (from a batch system, or a shutdown), raise `Interrupted`.

    Python loses an exception that is raised in a callback: of a weak reference (its import system
    has some), of the garbage collector, of C. Then the signal is sent again. Handlers that somebody
    else has set stay.
    """
    _arrived.clear()
    main = threading.current_thread() is threading.main_thread()  # elsewhere none can be set
    usual = (signal.default_int_handler, signal.SIG_DFL, _leave)
    before: dict[int, Any] = {n: signal.getsignal(n) for n in _SIGNALS}
    ours = [number for number in _SIGNALS if main and before[number] in usual]
    shown = sys.unraisablehook

    def lost(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, Interrupted):
            shown(unraisable)
            return
        threading.Thread(target=_send_again, args=(_arrived[-1:],), daemon=True).start()

    try:
        sys.unraisablehook = lost
        for number in ours:
            signal.signal(number, _raise)
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
        sys.unraisablehook = shown


def _raise(number: int, frame: FrameType | None) -> None:
    _arrived.append(number)
    raise Interrupted


def _send_again(numbers: list[int], after: float = 0.01) -> None:
    """Send the signal to the main thread, if the command still runs, when the callback is over."""
    time.sleep(after)
    for number in numbers:
        if signal.getsignal(number) not in (signal.default_int_handler, signal.SIG_DFL, None):
            signal.pthread_kill(threading.main_thread().ident or 0, number)


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

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again = bool(_arrived)
        _arrived.append(number)
        if self._drawing or again:
            raise Interrupted

    def __enter__(self) -> Interruptible[T]:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __iter__(self) -> Iterator[T]:
        while not _arrived:
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
