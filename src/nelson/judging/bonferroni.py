"""Many tests at one level (Bonferroni): the level is divided among families, then among tests.

    p of a family of t tests = t * its smallest p-value
    p of f families          = f * the smallest p of a family

Samples of the law that is claimed give p < delta with probability at most delta.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from nelson.judging.verdict import Answer, probability


class Family(NamedTuple):
    """Tests of one kind."""

    name: str
    tests: int
    p: float  # corrected for the number of tests
    worst: str  # the test with the smallest p-value, in words


def family(name: str, p_values: np.ndarray, describe: Callable[[int], str]) -> Family:
    """p_values (t,), t > 0; describe(k) says in words what test k saw."""
    k = int(np.argmin(p_values))
    return Family(name, len(p_values), min(1.0, len(p_values) * float(p_values[k])), describe(k))


def combined(families: Sequence[Family], delta: float) -> Answer:
    """Accept unless p of all families together is below delta."""
    worst = min(families, key=lambda one: one.p)
    p = min(1.0, len(families) * worst.p)
    tests = sum(one.tests for one in families)
    reason = f"the worst of {tests:,} tests has {probability(p, delta)}, corrected for their number"
    evidence = {"tests": {one.name: one.tests for one in families}}
    return Answer(
        p >= delta, reason, evidence | {"p_value": p, "level": delta, "worst": worst.worst}
    )
