"""Decisions that are kept with the formula, so that a second call need not decide again.

A decision depends on the evidence, theta, and the policy, which has the rounds and the steps that
are left out. Seeds, threads and the number of samples change nothing.

A decision made without a time limit serves every call. A decision made within `seconds=` may be
weaker, or just different, because of the clock. So it never serves a call without a limit. It
serves calls that have no more time than it had; if it is exact, all calls with a limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from nelson.budget import Budget
from nelson.chains.problem import Problem
from nelson.exact.compiled import kept_on_disk
from nelson.formula.memo import Recent, Slot
from nelson.policy import DEFAULT, Policy
from nelson.sampling.auto import ladder
from nelson.sampling.auto.decision import Decision
from nelson.sampling.auto.steps.circuit import Compilation
from nelson.sampling.auto.steps.solver import SolverChains


class Made(NamedTuple):
    """A decision, and the seconds that its call had."""

    decision: Decision
    seconds: float | None

    def serves(self, budget: Budget, exact: bool) -> bool:
        if self.seconds is None or budget.seconds is None:
            return self.seconds is None
        return exact or budget.seconds <= self.seconds


_DECISIONS: Slot[Recent[Hashable, Made]] = Slot("decisions of auto")
_LARGE_DECISIONS: Slot[Recent[Hashable, Made]] = Slot("large decisions of auto")


def decide(
    problem: Problem,
    theta: np.ndarray,
    budget: Budget,
    policy: Policy = DEFAULT,
    past_trial: bool = False,
) -> Decision:
    """theta (contexts, n) finite. Raises Unsatisfiable if a step proved it.

    past_trial: as in `ladder.decide`.
    """
    if policy.auto.reuse or (budget.deadline is not None and budget.seconds is None):
        return ladder.decide(problem, theta, budget, policy, past_trial)
    known, key = _known(problem, theta, policy, past_trial)
    made = known.get(key)
    if made is not None:
        exact = made.decision.guarantee == "exact"
        skipped = policy.auto.skips(Compilation.name)
        better = not exact and not skipped and kept_on_disk(problem.formula)
        if made.serves(budget, exact) and not better:
            return made.decision
    decision = ladder.decide(problem, theta, budget, policy, past_trial)
    unsolved = (
        isinstance(group.step, SolverChains) and not group.starts for group in decision.groups
    )
    if not any(unsolved):
        known.put(key, Made(decision, budget.seconds))  # else: a solver may find a solution later
    return decision


def leave_out_trial(problem: Problem, theta: np.ndarray, policy: Policy) -> None:
    """The trial of an extremal formula failed, and would with any seed: from now on the decision
    that was made after it is taken at once.
    """
    known, key = _known(problem, theta, policy, past_trial=True)
    if (made := known.get(key)) is not None:
        known.put(_known(problem, theta, policy, past_trial=False)[1], made)


def _known(
    problem: Problem, theta: np.ndarray, policy: Policy, past_trial: bool
) -> tuple[Recent[Hashable, Made], Hashable]:
    """The decisions kept with the formula, and the key of this one."""
    large = theta.size + len(problem.formula.literals) > 1 << 18  # it may take megabytes
    slot, most = (_LARGE_DECISIONS, 2) if large else (_DECISIONS, 32)
    digest = hashlib.blake2b(np.ascontiguousarray(theta).data, digest_size=16).digest()
    key = problem.evidence, theta.shape, digest, policy, past_trial
    return problem.formula.memo.recent(slot, most), key
