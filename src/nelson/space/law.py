"""What rows are drawn from: a law over the solutions of the formula of a space; its circuit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.exact.circuit.build import narrow
from nelson.exact.compiled import Compiled, compiled, not_worth_a_try
from nelson.formula import Formula
from nelson.formula.checks import with_evidence
from nelson.space.clauses.gates import TRUE
from nelson.space.language.expressions import Rule

#: Effort to compile a space, in units of `nelson.exact.circuit.build`: about 10 s.
COMPILE_EFFORT = 54.0
#: Effort to compile a space of small width, for which more is likely to help.
NARROW_EFFORT = 107.0
#: The share of a limit in seconds that the caller set.
COMPILE_SHARE = 0.5


@dataclass(frozen=True)
class Law:
    """What is drawn from: P(x) ~ exp(theta . x) over the solutions that agree with `given`.

    Every variable of the formula is a function of the fields, so a solution is a row.
    """

    formula: Formula
    theta: np.ndarray  # (n_vars,)
    given: tuple[int, ...]
    info: dict[str, Any]  # the achieved shares, if shares were asked for
    rules: tuple[Rule, ...] = ()  # rules that have a literal in the formula besides those stated

    @property
    def log_odds(self) -> np.ndarray:
        """theta, with infinite entries for `given`."""
        if -TRUE in self.given:
            raise Unsatisfiable("a condition that never holds")
        return with_evidence(self.theta, self.given)

    def padded(self, n: int, *, evidence: bool) -> np.ndarray:
        """The log-odds of this law for a formula with more variables, n in all.

        evidence: as infinite log-odds; else they are left out.
        """
        theta = self.log_odds if evidence else self.theta
        return np.concatenate([theta, np.zeros(n - len(theta))])


def circuit_of(formula: Formula, seconds: float | None = None) -> Compiled | None:
    """The circuit of a space, kept with the formula; None if it does not compile.

    A space gets more effort than a formula of unknown origin: one circuit then serves all draws,
    counts, marginals and shares.
    """
    if not_worth_a_try(formula):
        return None
    if seconds is not None:
        return compiled(formula, COMPILE_SHARE * seconds)
    return compiled(formula, effort=NARROW_EFFORT if narrow(formula) else COMPILE_EFFORT)


def chosen_method(formula: Formula, seconds: float | None) -> str:
    """The circuit of the whole space if there is one; else "auto" looks at its parts."""
    return "auto" if circuit_of(formula, seconds) is None else "circuit"
