"""The tasks' kernels on threads: they run without the GIL; a deadline or Ctrl-C stops them."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from nelson.formula.checks import duration
from nelson.kernels.core.threads import spread, usable_cores

Work = Callable[[int, int, np.ndarray], None]


def on_threads(
    work: Work, count: int, threads: int | None = None, seconds: float | None = None
) -> None:
    """Call work(first, last, stop) on ranges that together cover 0..count-1.

    threads: None takes all cores. After `seconds`, stop[0] becomes 1 and kernels return early.
    """
    threads = usable_cores() if threads is None else threads
    stop = np.zeros(1, np.int32)
    deadline = None if seconds is None else time.monotonic() + duration(seconds)
    if spread(lambda _, first, last: work(first, last, stop), count, threads, stop, deadline):
        raise KeyboardInterrupt
