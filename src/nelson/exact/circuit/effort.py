"""The effort of a compilation, which no clock measures.

One unit is 131,072 recursive calls of D4, or a MiB of its cache: D4 prints a line for both. It
makes about five units a second. D4 prints nothing while it decomposes a formula, or looks for a
first solution. If that takes too long, a limit in seconds of CPU time ends it, and the result says
so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nelson.process.child import Effort

#: The effort of a compiler unless the caller sets a limit: about 3 s of D4.
EFFORT = 16.0
#: About the seconds that D4 takes for one unit.
SECONDS_PER_EFFORT = 3.0 / EFFORT
#: CPU seconds after which a child ends whatever its effort is: for each unit of the limit, and at
#: least. D4 prints nothing while it decomposes the formula or looks for a first solution. This is
#: three to five times what the effort takes, so that a call without a limit ends within a minute.
SAFETY_PER_EFFORT, SAFETY = 0.6, 15.0
#: Bytes of a page of D4's cache, at least: one unit of effort. D4 does not clean this cache.
PAGE_BYTES = 1 << 20
#: A limit in seconds above this one makes D4 clean its cache, which would outgrow the memory. The
#: cache then has pages of this many bytes, and effort is not counted.
LONG_SECONDS, LONG_PAGE_BYTES = 300.0, 1 << 26


def safety_seconds(effort: float) -> float:
    """CPU seconds of an attempt, if effort is counted."""
    return max(SAFETY, SAFETY_PER_EFFORT * effort)


def effort_of(parts: Sequence[tuple[np.ndarray, np.ndarray]], most: float = math.inf) -> Effort:
    """What D4's lines on these parts add up to, with a limit."""
    page = page_of(parts) / PAGE_BYTES

    def of_line(line: bytes) -> float:
        if line.startswith(b"c Allocate a new page"):
            return page
        return float(line.startswith(b"c |") and b"time" not in line)

    return Effort(of_line, most)


def page_of(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> int:
    """Bytes of a page of D4's cache; an entry takes up to some bytes for each literal."""
    longest = max((len(literals) for literals, _ in parts), default=0)
    return PAGE_BYTES * max(1, -(-16 * longest // PAGE_BYTES))
