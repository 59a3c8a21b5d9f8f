"""log P(C) and means of many theta at once, on threads. O(edges) each."""

from __future__ import annotations

import numpy as np

from nelson.exact.circuit.flat import Flat
from nelson.kernels.circuit import passes
from nelson.kernels.core.threads import spread, usable_cores

#: Edges times rows below which no thread is worth its start.
_SMALL = 200_000
#: Bytes of work space that all threads together may take.
_BYTES = 2 << 30


def solve(
    flat: Flat, theta: np.ndarray, means: bool, threads: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """theta (b, n), +-inf being evidence -> log P(C) (b,), -inf if it is impossible, and the means
    (b, n) of the others if they are wanted.
    """
    theta = np.ascontiguousarray(theta, np.float64)
    log_p = np.zeros(len(theta))
    mean = np.zeros(theta.shape if means else (0, 0))
    c = flat.kernel
    if len(theta) * (flat.edges + flat.n) <= _SMALL or len(theta) < 2:
        passes.solve(c, theta, _work(flat), log_p, mean, 0, len(theta))
        return log_p, mean
    fit = max(1, _BYTES // (24 * flat.decisions + 32 * flat.n + 1))
    threads = min(threads or usable_cores(), fit, len(theta))
    works = [_work(flat) for _ in range(threads)]
    stop = np.zeros(1, np.int32)

    def work(thread: int, first: int, last: int) -> None:
        passes.solve(c, theta, works[thread], log_p, mean, first, last)

    if spread(work, len(theta), threads, stop):
        raise KeyboardInterrupt
    return log_p, mean


def _work(flat: Flat) -> passes.Work:
    return passes.work(flat.n, flat.decisions)
