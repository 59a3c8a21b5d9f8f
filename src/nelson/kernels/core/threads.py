"""Kernels on threads: they run without the GIL and look at a stop cell, so that a deadline or
Ctrl-C ends them.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np

#: Seconds to wait at a time: the operating system's longest wait is finite.
_PATIENCE = 3600.0


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
    """work(thread, first, last) over all pieces, some at a time; -> was it interrupted (Ctrl-C).

    Past the deadline stop[0] is set; work is to return early then.
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
            _watch([pool.submit(take, thread) for thread in range(threads)], stop, deadline)
        except KeyboardInterrupt:
            stop[0] = 1
            # In the middle of `submit` it leaves a thread that the pool does not wait for.
            while inside:
                time.sleep(0.001)
            return True
        except BaseException:
            stop[0] = 1
            raise
    return False


def _watch(running: list[Future[None]], stop: np.ndarray, deadline: float | None) -> None:
    while not all(future.done() for future in running):
        left = _PATIENCE if deadline is None else min(_PATIENCE, deadline - time.monotonic())
        if left <= 0:
            stop[0] = 1
        wait(running, left if left > 0 else None)
    for future in running:
        future.result()
