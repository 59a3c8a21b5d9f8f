"""What rows are drawn from: a law over the solutions of the formula of a space; its circuit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import Unsatisfiable
from nelson.exact.circuit.build import narrow
from nelson.exact.compiled import Compiled, compiled, not_worth_a_try
from nelson.exact.routes import CIRCUIT
from nelson.formula import Formula
from nelson.formula.checks import with_evidence
from nelson.policy import DEFAULT
from nelson.space.clauses.gates import TRUE
from nelson.space.language.expressions import Rule

if TYPE_CHECKING:
    from nelson.space.declaration import Declaration


@dataclass(frozen=True)
class RowLaw:
    """What is drawn from: P(x) ~ exp(theta . x) over the solutions that agree with `given`.

    Every variable of the formula is a function of the fields, so a solution is a row.
    """

    formula: Formula
    theta: np.ndarray  # (n_vars,)
    given: tuple[int, ...]
    info: dict[str, Any]  # the achieved shares, if shares were asked for
    rules: tuple[Rule, ...] = ()  # rules that have a literal in the formula besides those stated
    missed: tuple[Rule, ...] = ()  # rules whose shares were asked for and not reached

    @property
    def evidence(self) -> tuple[int, ...]:
        """`given`. Raises Unsatisfiable if it has a condition that never holds."""
        if -TRUE in self.given:
            raise Unsatisfiable("a condition that never holds")
        return self.given

    @property
    def log_odds(self) -> np.ndarray:
        """theta, with infinite entries for `given`."""
        return with_evidence(self.theta, self.evidence)

    def padded(self, n: int, *, evidence: bool) -> np.ndarray:
        """The log-odds of this law for a formula with more variables, n in all.

        evidence: as infinite log-odds; else they are left out.
        """
        theta = self.log_odds if evidence else self.theta
        return np.concatenate([theta, np.zeros(n - len(theta))])


def extended_law(space: Declaration, law: RowLaw, rules: list[Rule]) -> tuple[Formula, list[int]]:
    """A formula with a literal for each rule, where the variables of `law` keep their numbers."""
    formula, literals = space.encoding.extended([*law.rules, *rules])
    return formula, literals[len(law.rules) :]


def circuit_of(formula: Formula, budget: Budget) -> Compiled | None:
    """The circuit of a space, kept with the formula; None if it does not compile.

    A space gets more effort than a formula of unknown origin: one circuit then serves all draws,
    counts, marginals and shares.
    """
    if not_worth_a_try(formula):
        return None
    limits = DEFAULT.space
    if not budget.counted:
        return compiled(formula, budget.share(limits.compile_share))
    effort = limits.narrow_effort if narrow(formula) else limits.compile_effort
    return compiled(formula, budget, effort=effort)


def chosen_method(formula: Formula, budget: Budget) -> str:
    """The circuit of the whole space if there is one; else "auto" looks at its parts."""
    if formula.n_total > DEFAULT.space.one_circuit:
        return "auto"
    return "auto" if circuit_of(formula, budget) is None else CIRCUIT
