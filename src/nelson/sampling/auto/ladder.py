"""Which step for which component: the first in STEPS that applies and fits the budget.

A formula is first looked at as a whole (`Step.whole`): extremal, compiled before by the user, or
often satisfied by random assignments. Else it is preprocessed, which keeps its law, and each
independent component goes down the list. Components keep the reasons why steps were not taken.

A gate that is resolved away leaves longer clauses behind. For sums and comparisons of binary
numbers this makes the formula wider and its circuit larger: four numbers of 16 bits in order, with
gaps of 4 bits, have width 16 with their carries and 29 without; D4 compiles them in 0.4 s with the
carries, and not in 20 s without. So gates stay if the formula is narrower with them and compiles.

Cost where resampling is the right method (random 5-SAT, n = L = 1000): preprocessing 1 ms, the
guess on compiling 1.5 ms, and chains as long as those of 6,000 samples.

*Kept with the formula.* A decision depends on the evidence, theta, and the policy, which has the
rounds and the steps that are left out. Seeds, threads and the number of samples change nothing. A
decision made without a time limit serves every call. One made within `seconds=` may be weaker, or
just different, because of the clock. So it never serves a call without a limit. It serves calls
that have no more time than it had; if it is exact, all calls with a limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from nelson.budget import Budget, TimeUp
from nelson.chains.problem import Problem
from nelson.errors import NelsonError
from nelson.exact.compiled import kept_on_disk
from nelson.formula.memo import Recent, Slot
from nelson.policy import DEFAULT, Policy
from nelson.sampling.auto.decision import Decision, FormulaPart
from nelson.sampling.auto.groups import TakenPart, group_of
from nelson.sampling.auto.search import StepSearch
from nelson.sampling.auto.steps.circuit import Compilation, LateCompilation
from nelson.sampling.auto.steps.coupling import Coupling
from nelson.sampling.auto.steps.enumeration import Enumeration, InputEnumeration
from nelson.sampling.auto.steps.extremal import Extremal, SlowExtremal
from nelson.sampling.auto.steps.rejection import Rejection
from nelson.sampling.auto.steps.resampling import Resampling
from nelson.sampling.auto.steps.solver import JointWithGates, SolverChains
from nelson.sampling.auto.steps.step import Step

#: All steps, in the order in which they are tried.
STEPS: list[Step] = [
    Extremal(),  # lovasz, exact
    Enumeration(),  # enumerate, exact
    Compilation(),  # circuit, exact
    Coupling(),  # cftp, exact
    Rejection(),  # rejection, exact
    InputEnumeration(),  # enumerate, exact
    SlowExtremal(),  # lovasz, exact
    Resampling(),  # lovasz and sweeps, diagnosed if the diagnostics pass
    SolverChains(),  # sweeps from solutions of a solver, diagnosed if the diagnostics pass
    JointWithGates(),  # the same with joint moves, on the formula with its gates
    LateCompilation(),  # circuit, exact: what looked hopeless
]


def decide(
    problem: Problem, theta: np.ndarray, budget: Budget, policy: Policy, past_trial: bool = False
) -> Decision:
    """theta (contexts, n) finite. Raises Unsatisfiable if a step proved it.

    past_trial: the first tile of a draw has shown that resampling the whole formula is too slow.
    """
    whole = FormulaPart(
        np.arange(problem.formula.n_total), theta, problem.formula, problem.evidence
    )
    steps = [step for step in STEPS if step.name not in policy.auto.without]
    for step in steps:
        if past_trial and isinstance(step, Extremal):
            continue
        if (verdict := step.whole(whole, budget, policy)) is not None:
            trial = isinstance(step, Extremal) and problem.rest.n_clauses > 0
            group = group_of(step, whole, [TakenPart(step, whole, verdict)])
            return Decision([group], None, on_trial=trial)
    search = StepSearch(problem, whole, budget, policy, [step for step in STEPS if step.early])
    try:
        try:
            for step in STEPS:
                if not search.done and not step.early:
                    search.attempt(step)
        except TimeUp:
            if search.decision is None:
                raise
        if search.done or search.decision is not None:
            return search.decision  # type: ignore[return-value]
    finally:
        search.stop()
    raise NelsonError(
        f"no step of method='auto' takes a component of {len(search.form.left[0].variables)} "
        f"variables; left out by the policy: {', '.join(policy.auto.without)}"
    )


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


def known_or_decided(
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
        return decide(problem, theta, budget, policy, past_trial)
    known, key = _known(problem, theta, policy, past_trial)
    made = known.get(key)
    if made is not None:
        exact = made.decision.guarantee == "exact"
        skipped = policy.auto.skips(Compilation.name)
        better = not exact and not skipped and kept_on_disk(problem.formula)
        if made.serves(budget, exact) and not better:
            return made.decision
    decision = decide(problem, theta, budget, policy, past_trial)
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
