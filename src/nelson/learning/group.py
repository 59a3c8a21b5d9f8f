"""The processes that learn together, and the random streams that they share. With a single process
every collective is a no-op.

Random bits depend on a sample's number only, and sums are over integers. So theta is the same for
any number of ranks (`nelson.cli.train`). Sample i of (seed, key) is the same bits, whatever was
drawn before it. Iteration k = 1, 2, ... draws its samples with key k; all other keys are far above.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

#: What a checkpoint holds, and what rank 0 tells the others: arrays, and values for JSON.
State = tuple[dict[str, np.ndarray], dict[str, Any]]
T = TypeVar("T")


class ProcessGroup:
    """One process. `learning.ranks.Ranks` is several; all of them must call every method."""

    rank = 0
    size = 1

    def sum(self, x: np.ndarray) -> np.ndarray:
        """The sum over the ranks, int64 or float64."""
        return x

    def join(self, x: np.ndarray) -> np.ndarray:
        """The vectors of all ranks concatenated in rank order; their lengths may differ."""
        return x

    def gather(self, value: T) -> list[T]:
        """The values of all ranks in rank order. JSON must be able to hold them."""
        return [value]

    def tell(self, state: State) -> State:
        """Rank 0's state, on every rank."""
        return state

    def halt(self, late: bool) -> str:
        """Why the run must end before its next iteration.

        "late" by rank 0's clock, "interrupted" if any rank was; "" if the run goes on.
        """
        return "late" if late else ""


ALONE = ProcessGroup()


def span(count: int, group: ProcessGroup, unit: int = 1) -> tuple[int, int]:
    """This rank's range (first, last) of 0..count.

    The ranges follow each other in rank order, are cut at multiples of `unit`, and their sizes
    differ by at most one unit.
    """
    units = -(-count // unit)
    ends = (units * (group.rank + k) // group.size * unit for k in (0, 1))
    first, last = (min(count, end) for end in ends)
    return first, last


OUTSIDE_ITERATIONS = 1 << 40  # first key of draws that belong to no iteration
MINIBATCHES = 1 << 41  # first key of the random choice of examples
VALIDATION = 1 << 42  # first key of estimates of log Z


def stream_seed(seed: int, key: int) -> int:
    """63 bits from (seed, key)."""
    words = np.random.SeedSequence([abs(seed), int(seed < 0), key]).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))
