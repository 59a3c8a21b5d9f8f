"""Resampling converges in a pilot run: sweeps of the valid space follow, diagnosed."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nelson.budget import Budget
from nelson.chains.chain import Chains
from nelson.chains.diagnosis.diagnose import diagnose, pilot_request, pilots
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.request import Request
from nelson.exact.routes import Reason
from nelson.policy import Policy
from nelson.sampling.auto import chains
from nelson.sampling.auto.decision import FormulaPart
from nelson.sampling.auto.steps.step import Step
from nelson.sampling.methods import lovasz

if TYPE_CHECKING:
    from nelson.sampling.auto.search import StepSearch


class Resampling(Step):
    name = "resampling"
    sampler = lovasz.SAMPLER
    turn = 3  # one group with extremal parts

    def applies(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | Reason:
        """The verdict on chains from resampling, if it converges."""
        if policy.auto.reuse and (latest := chains.latest_verdict(part)) is not None:
            if latest[0] == self.name:
                return replace(latest[1], rows=())
            return Reason("it did not converge when it was last tried")
        size, began, rules = len(part.formula.literals), time.monotonic(), policy.chains
        large = size > rules.large
        if large and not _converges(part, budget):
            return Reason("it did not converge in a trial of 64 samples")
        if size > rules.huge and budget.deadline is not None:
            now = time.monotonic()
            wanted = rules.pilot_trials * (now - began)
            left = rules.pilot_share * (budget.deadline - now)
            if wanted > left:
                why = f"a pilot run would take about {wanted:.2g} s: more than "
                why += f"{rules.pilot_share:.0%} of the time left"
                return StepVerdict(3, "heuristic", f"3 sweeps over valid structures follow ({why})")
        verdict = diagnose(part.problem, part.theta, budget, policy.diagnosis)
        if not verdict.converged and not (large and not verdict.complete):
            return Reason(verdict.why)

        def start(asked: Request, row: np.ndarray) -> Chains:
            return Chains.resampled(part.problem, asked, row[None])

        moved = chains.better_moves(part, budget, policy, verdict, start)
        if moved is not None:
            sweeps = f"{moved.sweeps} {chains.name_of_moves(moved)}"
        else:
            moved, swept = verdict, len(part.problem.program.order)
            sweeps = f"{moved.sweeps} sweeps over valid structures and {swept} variables"
        why = f"not extremal: {sweeps} follow ({moved.why})"
        return chains.keep_verdict(part, self.name, replace(moved, why=why))

    def take(self, search: StepSearch) -> None:
        with search.beside_the_compiler():
            self._take(search)

    def _take(self, search: StepSearch) -> None:
        form, budget, policy = search.form, search.chain_budget, search.chain_policy
        exact = any(member.step.sampler is not self.sampler for member in form.taken)
        if form.left and not form.reduced.changed and not exact:
            # All parts at once: the formula as given.
            answer = self.applies(form.whole, budget, policy)
            if isinstance(answer, StepVerdict):
                for part in list(form.left):
                    part.passed |= form.whole.passed
                    form.take(self, part, answer)
                return
            if len(form.left) == 1:
                form.left[0].passed |= form.whole.passed | {self.name: answer}
                return
        for part in form.few():
            answer = self.applies(part, budget, policy)
            if isinstance(answer, StepVerdict):
                form.take(self, part, answer)
            else:
                part.pass_by(self.name, answer)


def _converges(part: FormulaPart, budget: Budget) -> bool:
    """Does resampling converge in a trial of one word of samples?"""
    rows = part.theta[pilots(part.theta)]
    request = pilot_request(rows, 64, budget.share(0.2))
    return 2 * Chains.resampled(part.problem, request, rows).lanes() >= 64 * len(rows)
