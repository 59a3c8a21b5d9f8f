"""Decisions that are kept with the formula, so that a second call need not decide again.

A decision depends on the evidence, theta, the rounds, the steps that are left out, and the width of
a tile, which is all that the number of samples changes. Seeds and threads change nothing.

A decision made without a time limit serves every call. A decision made within `seconds=` may be
weaker, or just different, because of the clock. So it never serves a call without a limit. It
serves calls that have no more time than it had; if it is exact, all calls with a limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from nelson.exact.compiled import kept_on_disk
from nelson.formula.memo import Recent, Slot
from nelson.sampling.auto import ladder
from nelson.sampling.auto.decision import Decision, Limits
from nelson.sampling.engine import width_for
from nelson.sampling.problem import Problem


class Made(NamedTuple):
    """A decision, and the seconds that its call had."""

    decision: Decision
    seconds: float | None

    def serves(self, limits: Limits, exact: bool) -> bool:
        if self.seconds is None or limits.seconds is None:
            return self.seconds is None
        return exact or limits.seconds <= self.seconds


_DECISIONS: Slot[Recent[Hashable, Made]] = Slot("decisions of auto")
_LARGE_DECISIONS: Slot[Recent[Hashable, Made]] = Slot("large decisions of auto")
#: A decision is large if theta and the formula have more numbers than this: it may take megabytes.
_LARGE = 1 << 18
#: Decisions that are kept with a formula, and large ones.
_MOST, _MOST_LARGE = 32, 2


def decide(problem: Problem, theta: np.ndarray, limits: Limits) -> Decision:
    """theta (contexts, n) finite. Raises Unsatisfiable if a step proved it."""
    if limits.reuse or (limits.deadline is not None and limits.seconds is None):
        return ladder.decide(problem, theta, limits)
    large = theta.size + len(problem.formula.literals) > _LARGE
    slot, most = (_LARGE_DECISIONS, _MOST_LARGE) if large else (_DECISIONS, _MOST)
    known = problem.formula.memo.once(slot, lambda: Recent(most))
    key = _key(problem, theta, limits)
    made = known.get(key)
    if made is not None:
        exact = made.decision.guarantee == "exact"
        better = not exact and "circuit" not in limits.skip and kept_on_disk(problem.formula)
        if made.serves(limits, exact) and not better:
            return made.decision
    decision = ladder.decide(problem, theta, limits)
    if not any(group.method == "cdcl" and not group.starts for group in decision.groups):
        known.put(key, Made(decision, limits.seconds))  # else: a solver may find a solution later
    return decision


def _key(problem: Problem, theta: np.ndarray, limits: Limits) -> Hashable:
    width = width_for(1 << 20 if limits.count is None else limits.count)
    digest = hashlib.blake2b(np.ascontiguousarray(theta).data, digest_size=16).digest()
    return problem.evidence, theta.shape, digest, width, limits.max_rounds, limits.skip
