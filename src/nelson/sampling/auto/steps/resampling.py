"""Resampling converges in a pilot run: sweeps of the valid space follow, diagnosed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nelson.budget import Budget
from nelson.chains.diagnosis.verdict import StepVerdict
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
        verdict = chains.by_resampling(part, budget, policy)
        return Reason(part.passed.get(self.name, "")) if verdict is None else verdict

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
                form.left[0].passed |= form.whole.passed
                return
        for part in form.few():
            answer = self.applies(part, budget, policy)
            if isinstance(answer, StepVerdict):
                form.take(self, part, answer)
            else:
                part.pass_by(self.name, answer)
