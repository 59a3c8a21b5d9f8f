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
"""

from __future__ import annotations

import numpy as np

from nelson.budget import Budget, TimeUp
from nelson.chains.problem import Problem
from nelson.errors import NelsonError
from nelson.policy import Policy
from nelson.sampling.auto.decision import Decision, FormulaPart
from nelson.sampling.auto.groups import Taken, group_of
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
            group = group_of(step, whole, [Taken(step, whole, verdict)])
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
