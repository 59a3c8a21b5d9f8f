"""Chains on threads: the kernels run without the GIL, and Ctrl-C stops them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Work = Callable[[int, int, np.ndarray], None]


def on_threads(work: Work, count: int, threads: int | None) -> None:
    """work(first, last, stop) over all of 0..count-1, some at a time."""
    from nelson.kernels.core.threads import spread, usable_cores

    if threads is None:
        threads = usable_cores()
    stop = np.zeros(1, np.int64)
    if spread(lambda _, first, last: work(first, last, stop), count, threads, stop):
        raise KeyboardInterrupt
