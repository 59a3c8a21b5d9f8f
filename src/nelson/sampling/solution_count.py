"""The number of projected solutions in the form of ApproxMC: c * 2^h."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nelson.errors import BudgetExceeded
from nelson.exact.queries import count
from nelson.formula import Formula
from nelson.sampling.sample_stream import sample

#: ApproxMC enumerates cells of at most this many solutions.
CELL = 72


def solution_count(formula: Formula, shown: Sequence[int], seed: int) -> tuple[int, int, str]:
    """(c, h, ""): there are c * 2^h projected solutions; h is 0 if they are few.

    Exact within the limits of `nelson.count`. Beyond them it is ApproxMC's count (of pyunigen), and
    instead of "" the reason why it is approximate.
    """
    try:
        cells, hashes = count(formula, project=shown), 0
    except BudgetExceeded as error:
        drawn = sample(
            formula, n=1, method="unigen", project=shown, project_law="solutions", seed=seed
        )
        log2 = drawn.info.get("log2_count")
        if log2 is None:
            raise
        hashes = max(0, math.floor(log2) - 6)
        return round(2 ** (log2 - hashes)), hashes, str(error)
    while cells > CELL and cells % 2 == 0:
        cells, hashes = cells // 2, hashes + 1
    return cells, hashes, ""
