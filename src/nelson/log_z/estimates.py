"""Which estimate for which parts, if no exact method has taken them.

    rejection   each part by itself, if random proposals are valid often enough
    bridge      all other parts together
    telescope   the same parts, if the bridge is not trusted

Independent estimates add up: so do the squares of their noise, and a part gets its share of the
half width that the caller asked for.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from nelson.errors import BudgetExceeded
from nelson.io.progress import phase
from nelson.kernels.core.threads import usable_cores
from nelson.log_z.bridge import bridge
from nelson.log_z.estimate import Estimate, added, independent_seed
from nelson.log_z.parts import Part, merge
from nelson.log_z.rejection import WORK, rejection
from nelson.log_z.telescope import telescope

#: In the order in which "auto" tries them.
ESTIMATES = ("rejection", "bridge", "telescope")
#: The share of the time left that the bridge gets, if `telescope` may follow. A bridge that needs
#: so much time has samples that cost much, and single flips seldom do better there.
_BRIDGE_SHARE = 0.9


@dataclass
class Estimator:
    """How parts are to be estimated."""

    half_width: float
    seed: int
    threads: int | None
    deadline: float  # time.monotonic()
    device: Any = None  # draws the samples of a telescope
    skip: frozenset[str] = frozenset()  # steps of `auto` that must not draw samples for a bridge
    used: Counter[str] = field(default_factory=Counter)  # parts that each method took
    tried: dict[str, str] = field(default_factory=dict)  # why a method was not used

    def left(self) -> float:
        return self.deadline - time.monotonic()

    def run(self, parts: list[Part], method: str) -> Estimate | None:
        """log P of all parts; None if there is none: the reasons are in `tried`.

        method: one of ESTIMATES, or "auto".
        """
        found: list[Estimate] = []
        total = len(parts)
        if method in ("auto", "rejection"):
            for k, part in enumerate(parts):
                if (one := self._proposed(part, k, total, method)) is not None:
                    found.append(one)
                    self.used["rejection"] += 1
                    parts = [other for other in parts if other is not part]
        if parts:
            if method == "rejection":
                return None
            share = self.half_width * math.sqrt(len(parts) / total)
            one = self._merged(merge(parts), share, len(parts), method)
            if one is None:
                return None
            found.append(one)
        return added(found, self.half_width)

    def _proposed(self, part: Part, number: int, total: int, method: str) -> Estimate | None:
        work = WORK / total if method == "auto" else math.inf
        each = self.half_width / math.sqrt(total)
        seed, threads = independent_seed(self.seed, 1, number), self.threads or usable_cores()
        with phase("log Z: counting valid proposals"):
            return self._tried(
                "rejection", partial(rejection, part, each, seed, threads, self.left(), work)
            )

    def _merged(self, part: Part, half_width: float, parts: int, method: str) -> Estimate | None:
        """By a bridge, and by a telescope if that is not enough. Of two that are not trusted, the
        one with the narrower bounds.
        """
        best: Estimate | None = None
        how = part, half_width, self.seed, self.threads
        if method in ("auto", "bridge"):
            seconds = self.left() * (_BRIDGE_SHARE if method == "auto" else 1.0)
            with phase("log Z: a bridge between samples and sums"):
                best = self._tried("bridge", partial(bridge, *how, seconds, self.skip))
            name = "bridge"
        if method in ("auto", "telescope") and not (best and best.trusted):
            with phase("log Z: a ratio for each group of clauses"):
                other = self._tried("telescope", partial(telescope, *how, self.left(), self.device))
            if other and (best is None or other.trusted or other.half_width < best.half_width):
                best, name = other, "telescope"
        if best is not None:
            self.used[name] += parts
        return best

    def _tried(self, name: str, estimate: Callable[[], Estimate]) -> Estimate | None:
        try:
            found = estimate()
        except BudgetExceeded as error:
            self.tried[name] = str(error)
            return None
        if not found.trusted:
            self.tried[name] = found.info.get("reason", "the chains did not mix")
        return found
