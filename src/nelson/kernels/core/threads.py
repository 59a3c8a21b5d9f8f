"""Kernels on threads: they run without the GIL and look at a stop cell, so that a deadline or
Ctrl-C ends them.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from concurrent.futures import Future

#: Values of the stop cell besides 0. Past a deadline: begin nothing new, and end what has begun
#: unless that would bias it. After Ctrl-C or an error: end at once.
BEGIN_NO_MORE, END_AT_ONCE = range(1, 3)


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
    go_on: Callable[[], bool] | None = None,
    grace: float = math.inf,
) -> bool:
    """Run work(thread, first, last) over all pieces, several at a time; -> did Ctrl-C end it?

    Past the deadline stop[0] becomes BEGIN_NO_MORE, `grace` seconds later END_AT_ONCE, and work
    must return early. If `go_on` is given, piece 0 runs alone, and the other pieces run only if
    go_on() is true after it.
    """
    threads = max(1, min(threads, pieces))
    trial_pieces = 0 if go_on is None else 1
    chunk = max(1, (pieces - trial_pieces) // (8 * threads))
    starts = itertools.count(trial_pieces, chunk)
    inside: set[int] = set()

    def take(thread: int, trial: bool = False) -> None:
        inside.add(thread)
        try:
            if trial:
                work(thread, 0, 1)
                return
            while stop[0] == 0 and (first := next(starts)) < pieces:
                work(thread, first, min(pieces, first + chunk))
        finally:
            inside.discard(thread)

    from concurrent.futures import ThreadPoolExecutor  # 3 ms, of which a small draw needs none

    with ThreadPoolExecutor(threads) as pool:
        try:
            if go_on is not None:
                watch([pool.submit(take, 0, True)], stop, deadline, grace)
            if go_on is None or (stop[0] == 0 and go_on()):
                running = [pool.submit(take, thread) for thread in range(threads)]
                watch(running, stop, deadline, grace)
        except KeyboardInterrupt:
            stop[0] = END_AT_ONCE
            # Ctrl-C inside `submit` leaves a thread that the pool does not wait for.
            while inside:
                time.sleep(0.001)
            return True
        except BaseException:
            stop[0] = END_AT_ONCE
            raise
    return False


def watch(
    running: list[Future[None]],
    stop: np.ndarray,
    deadline: float | None,
    grace: float = math.inf,
    longest_wait: float = 3600.0,
) -> None:
    """Wait for the threads; past the deadline, tell them to stop.

    longest_wait: seconds of a single wait; operating systems refuse much longer ones.
    """
    from concurrent.futures import wait

    while not all(future.done() for future in running):
        left = longest_wait
        if deadline is not None:
            left = min(left, deadline - time.monotonic())
        if left <= 0:
            stop[0] = max(stop[0], BEGIN_NO_MORE)
            left += min(grace, longest_wait)
        if left <= 0 and grace < math.inf:
            stop[0] = END_AT_ONCE
        wait(running, left if left > 0 else None)
    for future in running:
        future.result()
