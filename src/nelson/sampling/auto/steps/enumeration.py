"""Structures are enumerated, and rows are drawn by their weights: few structures, or few inputs.

A formula of 14 inputs and 2,000 gates has at most 2^14 structures, however wide it is
(`nelson.exact.rows_by_inputs`). Where it compiles, a circuit is better: it is small, and many
structures cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nelson.budget import Budget
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact.inputs import gates_of
from nelson.exact.listing import MAX_STRUCTURES, structures
from nelson.exact.routes import Reason
from nelson.exact.rows_by_inputs import rows_by_inputs
from nelson.io.progress import phase
from nelson.policy import Policy
from nelson.sampling.auto.decision import FormulaPart
from nelson.sampling.auto.steps import circuit
from nelson.sampling.auto.steps.rejection import take_with_gates
from nelson.sampling.auto.steps.step import Step
from nelson.sampling.methods import enumeration

if TYPE_CHECKING:
    from nelson.sampling.auto.search import StepSearch

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
        if n > rules.up_to and circuit.installed():
            return Reason(f"{n} variables: more than {rules.up_to} are left to the circuit")
        if n > rules.always and circuit.installed():
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


class InputEnumeration(Step):
    name = "inputs"
    sampler = enumeration.SAMPLER

    def applies(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | Reason:
        """No word of parts without gates."""
        rules, formula = policy.enumeration, part.formula
        large = len(formula.literals) > policy.exact.gate_literals
        if large or not len(gates_of(formula).targets):
            return Reason()
        rows = rows_by_inputs(formula, budget.share(rules.input_share), policy)
        if isinstance(rows, Reason):
            return rows
        if not len(rows):
            raise Unsatisfiable("no values of the inputs satisfy the formula")
        if len(rows) > MAX_STRUCTURES or len(rows) * len(part.theta) > rules.weighed:
            return Reason(f"{len(rows):,} structures, for each row of theta, are too many")
        why = "the values of a few inputs decide all variables: all structures are enumerated"
        return StepVerdict(0, "exact", why)

    def take(self, search: StepSearch) -> None:
        """Take the formula with its gates, which show the inputs. Not without enumeration: samples
        that are to come from elsewhere would be enumerated after all.
        """
        if not search.policy.auto.skips(self.sampler.name):
            take_with_gates(self, search)
