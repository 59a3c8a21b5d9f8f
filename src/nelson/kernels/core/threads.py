"""Kernels on threads. They run without the GIL and poll a stop cell, so that a deadline or Ctrl-C
ends them.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np

#: Longest single wait in seconds: operating systems refuse much longer ones.
_LONGEST_WAIT = 3600.0


def usable_cores() -> int:
    """CPU cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def spread(
    work: Callable[[int, int, int], None],
    pieces: int,
    threads: int,
    stop: np.ndarray,
    deadline: float | None = None,
) -> bool:
    """Call work(thread, first, last) on `threads` threads until all pieces are done.

    Past the deadline stop[0] is set, and work must return early. -> interrupted by Ctrl-C?
    """
    threads = max(1, min(threads, pieces))
    chunk = max(1, pieces // (8 * threads))
    starts = itertools.count(0, chunk)
    inside: set[int] = set()

    def take(thread: int) -> None:
        inside.add(thread)
        try:
            while stop[0] == 0 and (first := next(starts)) < pieces:
                work(thread, first, min(pieces, first + chunk))
        finally:
            inside.discard(thread)

    with ThreadPoolExecutor(threads) as pool:
        try:
            watch([pool.submit(take, thread) for thread in range(threads)], stop, deadline)
        except KeyboardInterrupt:
            stop[0] = 1
            # Ctrl-C in the middle of `submit` leaves a thread for which the pool does not wait.
            while inside:
                time.sleep(0.001)
            return True
        except BaseException:
            stop[0] = 1
            raise
    return False


def watch(running: list[Future[None]], stop: np.ndarray, deadline: float | None) -> None:
    """Wait for the threads; past the deadline, set stop[0]."""
    while not all(future.done() for future in running):
        left = _LONGEST_WAIT
        if deadline is not None:
            left = min(left, deadline - time.monotonic())
        if left <= 0:
            stop[0] = 1
        wait(running, left if left > 0 else None)
    for future in running:
        future.result()
