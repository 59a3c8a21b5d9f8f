"""What one call may use: time, counted effort, threads, memory.

A call at the top makes one `Budget`. Every phase below gets it, or a share of it, and nothing else
that limits it. Without a deadline only counted effort ends a phase, so that the same call gives the
same answer on any machine.

A phase that is given a share ends by itself when the share is spent, and says what it has. The
deadline of the call ends all else: within `budget.enforced()` every call of a kernel raises
`TimeUp` once it has passed (`kernels/core/deadline.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from nelson.errors import BudgetExceeded
from nelson.formula.checks import duration
from nelson.io.progress import what_is_done
from nelson.kernels.core.deadline import DEADLINE, ending_at, seconds_compiling
from nelson.kernels.core.threads import usable_cores
from nelson.process import MEMORY

#: `Budget.seconds` of the outermost call that has a limit.
_OUTERMOST: ContextVar[float | None] = ContextVar("seconds of the call", default=None)
_NO_DEADLINE = nullcontext()


class TimeUp(BudgetExceeded):
    """The deadline of the call has passed."""


def seconds_left() -> float:
    """Until `check_time` raises; infinite where no call around this one has a limit."""
    return DEADLINE.get()[0] + seconds_compiling() - time.monotonic()


@dataclass(frozen=True)
class Budget:
    """The limits of a call or of one of its phases.

    >>> budget = Budget.of(seconds=10.0)
    >>> budget.share(0.3).left <= 3.0
    True
    """

    #: time.monotonic() at the end; None: the clock ends nothing, effort is counted.
    deadline: float | None = None
    #: Multiplies every counted limit of `Policy`; it matters only without a deadline.
    effort: float = 1.0
    threads: int = field(default_factory=usable_cores)
    #: Bytes of address space of a child process.
    memory: int = MEMORY
    #: What the caller gave for the whole call: a decision within it may serve calls with less.
    seconds: float | None = None

    @classmethod
    def of(cls, seconds: float | None = None, threads: int | None = None) -> Budget:
        """The budget of a public call: its `seconds=` and `threads=`, checked."""
        until = None if seconds is None else time.monotonic() + duration(seconds)
        return cls(deadline=until, threads=threads or usable_cores(), seconds=seconds)

    @property
    def asked(self) -> float | None:
        """The seconds of the outermost call that is running: those that its caller can change."""
        outer = _OUTERMOST.get()
        return self.seconds if outer is None else outer

    @property
    def counted(self) -> bool:
        """Is effort counted, and the clock ignored?"""
        return self.deadline is None

    @property
    def left(self) -> float:
        """Seconds until the deadline, 0 if it has passed; infinite without a deadline."""
        return math.inf if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def seconds_left(self) -> float | None:
        """`left` for those who take a number of seconds, or None for no limit."""
        return None if self.deadline is None else self.left

    @property
    def spent(self) -> bool:
        return self.left <= 0.0

    def share(self, part: float) -> Budget:
        """That part of the time left. Counted effort is not divided: each phase counts its own."""
        if self.deadline is None:
            return self
        return replace(self, deadline=time.monotonic() + part * self.left)

    def within(self, seconds: float) -> Budget:
        """At most this many seconds from now; also without a deadline."""
        return replace(self, deadline=time.monotonic() + min(seconds, self.left))

    def enforced(self) -> AbstractContextManager[None]:
        """Inside, `check_time` raises TimeUp some time after the deadline, and so does each kernel.

        Whoever looks at the budget ends at the deadline, with what there is; the others later.
        Without a deadline that of the call around this one stays in force.
        """
        return _NO_DEADLINE if self.deadline is None else self._enforced(self.deadline)

    @contextmanager
    def _enforced(self, deadline: float) -> Iterator[None]:
        # Of the 10% and half a second by which a call may be late; what is left is for one kernel.
        grace = 0.05 + 0.04 * (self.seconds or 0.0)

        def late() -> TimeUp:
            doing = what_is_done()
            return TimeUp("the time was up" + (f" while {doing}" if doing else ""))

        token = _OUTERMOST.set(self.asked)
        try:
            with ending_at(deadline + grace, late):
                yield
        finally:
            _OUTERMOST.reset(token)
