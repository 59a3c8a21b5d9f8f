"""When the call that runs must end. `Budget.enforced` sets it, `check_time` looks at it.

Every call of a kernel begins with `check_time`. So work that goes from kernel to kernel ends soon
after the deadline, though it has nothing to show and no budget of its own. NumPy code that takes
more than some tenths of a second calls it between two steps. Compiling kernels does not count.
Threads that draw tiles never see the deadline: what they have drawn is kept.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

_Late = Callable[[], BaseException]  # makes the exception
NEVER: tuple[float, _Late] = (math.inf, RuntimeError)
DEADLINE: ContextVar[tuple[float, _Late]] = ContextVar("deadline", default=NEVER)
_NOTHING = nullcontext()


@contextmanager
def ending_at(deadline: float, late: _Late) -> Iterator[None]:
    """Inside, `check_time` raises late() after that time.monotonic(), or earlier if a caller said
    so.
    """
    mine = deadline - seconds_compiling(), late
    token = DEADLINE.set(min(DEADLINE.get(), mine, key=lambda pair: pair[0]))
    try:
        yield
    finally:
        DEADLINE.reset(token)


def without_deadline() -> AbstractContextManager[None]:
    """Inside, no deadline ends anything: what was drawn in time is put together."""
    return _NOTHING if DEADLINE.get() is NEVER else _without_deadline()


@contextmanager
def _without_deadline() -> Iterator[None]:
    token = DEADLINE.set(NEVER)
    try:
        yield
    finally:
        DEADLINE.reset(token)


def check_time() -> None:
    """Raise if the deadline of the call has passed."""
    deadline, late = DEADLINE.get()
    if deadline < math.inf and time.monotonic() > deadline + seconds_compiling():
        raise late()


class _Compiling:
    seconds = 0.0  # so far
    since: float | None = None


def compiling(begins: bool) -> None:
    """Compiling kernels begins or ends."""
    if _Compiling.since is not None:
        _Compiling.seconds += time.monotonic() - _Compiling.since
    _Compiling.since = time.monotonic() if begins else None


def seconds_compiling() -> float:
    """The time for which this process has compiled kernels, not loaded compiled ones."""
    return _Compiling.seconds
