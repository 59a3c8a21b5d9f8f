"""log P(C) and means of many theta at once, on threads. O(edges) for each theta."""

from __future__ import annotations

import numpy as np

from nelson.exact.circuit.decisions import DecisionCircuit
from nelson.kernels.circuit import passes
from nelson.kernels.core.threads import spread, usable_cores

#: Edges times theta below which starting a thread costs more than it saves.
_MIN_THREADED_VISITS = 200_000
#: Bytes of work space that all threads together may take.
_MAX_WORK_BYTES = 2 << 30


def solve(
    circuit: DecisionCircuit, theta: np.ndarray, means: bool
) -> tuple[np.ndarray, np.ndarray]:
    """theta (b, n) -> log P(C), (b,), and the means (b, n) if they are asked for, else (0, 0).

    theta = +-inf is evidence. log P(C) is -inf if no structure agrees with it; the means of that
    row are then meaningless.
    """
    theta = np.ascontiguousarray(theta, np.float64)
    log_p = np.zeros(len(theta))
    mean = np.zeros(theta.shape if means else (0, 0))
    n, decisions, threads = circuit.n, circuit.decisions, 1
    threaded = len(theta) > 1 and len(theta) * (circuit.edges + n) > _MIN_THREADED_VISITS
    if threaded:
        fit = max(1, _MAX_WORK_BYTES // (24 * decisions + 32 * n + 1))
        threads = min(usable_cores(), fit, len(theta))
    works = [passes.work(n, decisions) for _ in range(threads)]

    def some(thread: int, first: int, last: int) -> None:
        passes.solve(circuit.kernel, theta, works[thread], log_p, mean, first, last)

    if not threaded:
        some(0, 0, len(theta))
    elif spread(some, len(theta), threads, np.zeros(1, np.int32)):
        raise KeyboardInterrupt
    return log_p, mean
