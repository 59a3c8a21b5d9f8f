"""The processes that learn together. One process is a group of one, and all of this is nothing.

What is random belongs to a sample's number, and what is summed is integers, so a run is the same
theta for any size of the group (`nelson.cli.train`).
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

State = tuple[dict[str, np.ndarray], dict[str, Any]]  # arrays, and what JSON can hold: a checkpoint
T = TypeVar("T")


class Group:
    """One process. `cluster.ranks.Ranks` is several; every method is called by all of them."""

    rank = 0
    size = 1

    def sum(self, x: np.ndarray) -> np.ndarray:
        """The sum over the ranks, int64 or float64."""
        return x

    def join(self, x: np.ndarray) -> np.ndarray:
        """The ranks' vectors one behind the other; their lengths may differ."""
        return x

    def gather(self, value: T) -> list[T]:
        """The values of all ranks, in their order: what JSON can hold."""
        return [value]

    def tell(self, state: State) -> State:
        """What rank 0 holds."""
        return state

    def halt(self, late: bool) -> str:
        """Is the run to end before its next iteration: "late" (by rank 0's clock), "interrupted"
        (some rank was), or ""?
        """
        return "late" if late else ""


ALONE = Group()


def span(count: int, group: Group, unit: int = 1) -> tuple[int, int]:
    """This rank's part of 0..count, from and to: in order of the ranks, cut at multiples of unit,
    of sizes that differ by one unit at most.
    """
    units = -(-count // unit)
    ends = (units * (group.rank + k) // group.size * unit for k in (0, 1))
    first, last = (min(count, end) for end in ends)
    return first, last
