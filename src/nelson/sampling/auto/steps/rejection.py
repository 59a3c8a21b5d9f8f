"""Two ways to `rejection`, which is exact: how often are random values valid?

A formula with few or long clauses is often satisfied by chance (random 5-SAT, n = L = 50: one
assignment in five). Then no other method is faster, for any number of samples, and none needs less
time before the first sample. `Rejection.whole` tries that before all other steps.

A formula of gates has few inputs, and all else is a function of them (`nelson.exact.inputs`).
`rejection` draws the inputs and keeps what satisfies all clauses. `Rejection.applies` tries that
before chains; a trial tells what a sample costs. It ends by counted work: the number of proposals
times the literals of the gates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.block import Block
from nelson.chains.diagnosis.diagnose import pilots
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.problem import Problem, beyond_resolution
from nelson.chains.request import Request
from nelson.exact.routes import Reason
from nelson.formula.memo import Recent, Slot
from nelson.io.progress import phase
from nelson.kernels.core.rng import MAX_ROUNDS
from nelson.policy import Policy, RejectionPolicy
from nelson.sampling.auto.decision import ComponentGroup, FormulaPart
from nelson.sampling.auto.steps.circuit import Compilation
from nelson.sampling.auto.steps.coupling import Coupling
from nelson.sampling.auto.steps.step import Step
from nelson.sampling.methods import rejection

if TYPE_CHECKING:
    from nelson.sampling.auto.search import StepSearch

#: (share of proposals that are valid, why that is too few), by evidence and theta.
_TRIALS: Slot[Recent[tuple[Any, ...], tuple[float, str]]] = Slot("trials of rejection")
#: The last trial, by evidence.
_LATEST: Slot[Recent[tuple[int, ...], tuple[float, str]]] = Slot("latest trial of rejection")
_LATE = "no time was left for a trial"


class Rejection(Step):
    name = rejection.SAMPLER.name
    sampler = rejection.SAMPLER
    turn = 4
    together = False  # the product of acceptances would be small

    def whole(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | None:
        """Are random assignments often valid?"""
        rules, formula = policy.rejection, part.formula
        if not rules.small < formula.n_total <= len(formula.literals) <= rules.short:
            return None
        if len(part.theta) > rules.contexts or beyond_resolution(part.theta):
            return None
        if max(_violated(part.problem, row) for row in part.theta) > rules.violated:
            return None
        kernel, accepted = rejection.PLAIN, 1.0
        for row in part.theta:
            table = kernel.laws(part.problem, row[None])
            hits = rejection.hits(part.problem, kernel, table, 0, rules.proposals)
            accepted = min(accepted, hits / rules.proposals)
        if accepted * rules.one_in < 1:
            return None
        why = f"of random assignments one in {1 / accepted:,.1f} is valid"
        return StepVerdict(0, "exact", why, {"accepted": accepted})

    def applies(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | Reason:
        """Are random inputs of its gates often valid? No word of parts without gates."""
        rules = policy.rejection
        if len(part.formula.literals) > rules.large:
            return Reason()
        gates = rejection.gates_of(part.problem)
        if not len(gates.targets):
            return Reason()
        rows = part.theta[pilots(part.theta)]
        if len(rows) > rules.contexts:
            return Reason(f"more than {rules.contexts} different contexts")
        latest = part.formula.memo.recent(_LATEST, 4)
        known = part.formula.memo.recent(_TRIALS, 64)
        key = part.evidence, rows.tobytes(), rules
        trial = latest.get(part.evidence) if policy.auto.reuse else None
        if (trial := trial or known.get(key)) is None:
            with phase("drawing inputs"):
                trial = _trial(part.problem, rows, len(gates.literals), budget, rules)
            if trial[1] != _LATE:
                known.put(key, trial)
        accepted, why = latest.put(part.evidence, trial)
        if why:
            return Reason(why)
        why = (
            f"{len(gates.targets)} of the variables are functions of the other "
            f"{len(gates.inputs)}; of random values of these one in {1 / accepted:,.0f} is valid"
        )
        return StepVerdict(0, "exact", why, {"accepted": accepted})

    def take(self, search: StepSearch) -> None:
        """Take the formula with its gates, if its inputs are often valid."""
        if not search.policy.auto.skips("gates") and not search.form.beyond:
            take_with_gates(self, search)

    def blocks(self, group: ComponentGroup, request: Request) -> Iterator[Block]:
        """A trial has shown how many proposals a sample takes: it gets all of them."""
        return super().blocks(group, replace(request, max_rounds=MAX_ROUNDS))


def take_with_gates(step: Step, search: StepSearch) -> None:
    """Take the formula with its gates, if a step applies to a component of it and all others have
    an exact method.
    """
    form = search.form
    if not form.left:
        return
    inner = search.on(search.gated.copy())
    Step.take(step, inner)
    if inner.form.taken and inner.form.taken[-1].step is step:
        if inner.form.left and not search.policy.auto.skips(Compilation.name):
            inner.compiler = None
            Compilation().compile(inner, inner.form)
            if inner.compiler is not None:
                inner.compiler.stop()
        inner.attempt(Coupling())
        if not inner.form.left:
            search.form = inner.form
            return
    reasons = (part.passed.get(step.name, "") for part in inner.form.left)
    form.pass_by(step.name, next(filter(None, reasons), ""))


def _violated(problem: Problem, theta: np.ndarray) -> float:
    """The sum over clauses of the probability that a proposal violates them. O(literals)."""
    clauses = problem.rest
    every = np.zeros(clauses.n_total)
    every[: len(theta)] = theta
    log_odds = np.sign(clauses.literals) * every[np.abs(clauses.literals) - 1]
    wrong = np.exp(-np.logaddexp(0.0, log_odds))  # P(the literal is false)
    return float(np.multiply.reduceat(wrong, clauses.offsets[:-1]).sum()) if len(wrong) else 0.0


def _trial(
    problem: Problem, theta: np.ndarray, literals: int, budget: Budget, rules: RejectionPolicy
) -> tuple[float, str]:
    """(the smallest share of valid proposals of all contexts, "") or (0, why not)."""
    budget = budget.share(rules.share)
    kernel, least = rejection.kernel_for(problem), 1.0
    most = rules.few * max(1, rules.work // max(1, literals))  # words of 64 proposals
    for row in theta:
        tried = hits = 0
        table = kernel.laws(problem, row[None])
        while hits < rules.enough and tried < most:
            if budget.spent:
                return 0.0, _LATE
            words = min(max(16, 7 * tried), most - tried)
            hits += rejection.hits(problem, kernel, table, tried, 64 * words, budget.threads)
            tried += words
        if hits < rules.few:
            return 0.0, f"{hits} of {64 * tried:,} random values of the inputs are valid"
        least = min(least, hits / (64 * tried))
    return least, ""
