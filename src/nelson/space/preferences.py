"""Soft rules: which of them can hold together, the most important ones first."""

from __future__ import annotations

from collections.abc import Sequence

from nelson.budget import Budget
from nelson.errors import BudgetExceeded
from nelson.exact.solver import SECONDS, satisfiable
from nelson.formula import Formula
from nelson.formula.memo import Recent, Slot
from nelson.space.clauses.gates import TRUE

#: By (evidence, literals of the rules): what was kept.
_KEPT: Slot[Recent[tuple[tuple[int, ...], tuple[int, ...]], list[int]]] = Slot("soft rules kept")
#: Conditions whose answers are kept.
_MOST = 4096


def compatible(
    formula: Formula, evidence: Sequence[int], literals: Sequence[int], budget: Budget
) -> list[int]:
    """The literals that are kept: each one that can hold with the evidence and those before it.

    TRUE and -TRUE are constants. At most one call of a solver for each literal.
    """
    if not literals:
        return []
    known = formula.memo.once(_KEPT, lambda: Recent(_MOST))
    key = tuple(evidence), tuple(literals)
    return known.once(key, lambda: _compatible(formula, list(evidence), literals, budget))


def _compatible(
    formula: Formula, evidence: list[int], literals: Sequence[int], budget: Budget
) -> list[int]:
    kept: list[int] = []
    for x in literals:
        if abs(x) == TRUE or -TRUE in evidence:
            continue
        answer = satisfiable(formula, [*evidence, *kept, x], seconds=min(budget.left, SECONDS))
        if answer is None:
            raise BudgetExceeded("it was not decided in time which preferred rules can hold")
        if answer:
            kept.append(x)
    return kept
