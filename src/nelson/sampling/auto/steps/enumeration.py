"""Few structures: all of them are enumerated, and rows are drawn by their weights."""

from __future__ import annotations

from nelson.budget import Budget
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact.listing import MAX_STRUCTURES, structures
from nelson.exact.routes import Reason
from nelson.io.progress import phase
from nelson.policy import Policy
from nelson.sampling.auto import compiler
from nelson.sampling.auto.decision import FormulaPart
from nelson.sampling.auto.steps.step import Step
from nelson.sampling.methods import enumeration

ENUMERATED = StepVerdict(0, "exact", "few structures: all of them are enumerated")


class Enumeration(Step):
    name = enumeration.SAMPLER.name
    sampler = enumeration.SAMPLER
    turn = 0
    early = True

    def applies(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | Reason:
        rules, n, limit = policy.enumeration, len(part.variables), MAX_STRUCTURES
        if policy.auto.skips(self.name):
            return Reason("left out")
        if n > rules.up_to and compiler.installed():
            return Reason(f"{n} variables: more than {rules.up_to} are left to the circuit")
        if n > rules.always and compiler.installed():
            limit = rules.structures
        try:
            with phase("enumerating solutions"):
                rows = structures(part.formula, limit, budget.share(rules.share))
        except BudgetExceeded as error:
            return Reason(error)
        if rows is None:
            return Reason(f"more than {limit:,} structures, or no order of search that finds them")
        if not len(rows):
            raise Unsatisfiable("enumeration proved that the formula has no solution")
        if len(rows) * len(part.theta) > rules.weighed:
            contexts = len(part.theta)
            return Reason(f"{len(rows):,} structures for each of {contexts} contexts are too many")
        return ENUMERATED
