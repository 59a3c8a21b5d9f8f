"""`nelson.count` and `nelson.mode`: one question to the exact law of a formula each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, FormulaError, Unsatisfiable
from nelson.exact import counter
from nelson.exact.law import COUNT, MODE, law
from nelson.exact.projection import projected
from nelson.exact.routes import Reason
from nelson.formula import Formula
from nelson.formula.checks import checked_projection, evidence_literals, theta_rows, with_evidence
from nelson.policy import DEFAULT, Policy

Given = Mapping[int, bool] | Iterable[int]


def count(
    formula: Formula,
    given: Given | None = None,
    seconds: float | None = None,
    project: Iterable[int] | str | None = None,
    *,
    policy: Policy = DEFAULT,
) -> int:
    """The number of solutions that agree with `given`, as an exact integer of any size.

    given    evidence: {3: True, 5: False}, or literals [3, -5]
    seconds  a minute if None
    project  count the assignments of these variables that some solution extends

    Auxiliary variables are variables like all others here: a structure counts once for each of its
    completions. Those that an encoder introduced have exactly one. Raises BudgetExceeded if the
    solutions were not counted in time.

    >>> nelson.count(nelson.Formula([[1, 2], [-1, 3]]))
    4
    """
    budget = _budget(seconds, policy)
    evidence = evidence_literals(given or (), formula.n_vars).tolist()
    try:
        with budget.enforced():
            if project is not None:
                formula = _projected(formula, project, evidence, budget)
            exact = law(formula, evidence, budget, policy, needs=COUNT)
            if not isinstance(exact, Reason):
                return exact.count()
            why: str = exact
    except Unsatisfiable:
        return 0
    except BudgetExceeded as error:
        why = str(error)
    advice = 'or install ganak: pip install "nelson-mrf[samplers]"' if counter.missing() else ""
    advice = advice or "give it more seconds"
    raise BudgetExceeded(f"the solutions of {formula!r} were not counted: {why}; {advice}")


def mode(
    formula: Formula,
    theta: Any = None,
    given: Given | None = None,
    seconds: float | None = None,
    *,
    policy: Policy = DEFAULT,
) -> np.ndarray:
    """A structure of greatest probability, (n_vars,) bool; of several always the same one.

    theta    log-odds (n_vars,), +-inf being evidence; None: all structures are equally likely
    given    more evidence
    seconds  a minute if None

    Raises Unsatisfiable if there is no structure, BudgetExceeded if none was proved to be the best
    in time.

    >>> nelson.mode(nelson.Formula([[1, 2], [-1, 3]]), [2.0, 1.0, -1.0]).tolist()
    [True, True, True]
    """
    rows, single = theta_rows(formula, theta)
    if not single:
        raise FormulaError(f"theta of shape {rows.shape}", expected=f"({formula.n_vars},)")
    budget = _budget(seconds, policy)
    row = with_evidence(rows[0], evidence_literals(given or (), formula.n_vars).tolist())
    with budget.enforced():
        exact = law(formula, (), budget, policy, needs=MODE)
        assert not isinstance(exact, Reason)  # a search is always possible
        return exact.mode(row)


def _budget(seconds: float | None, policy: Policy) -> Budget:
    return Budget.of(policy.exact.seconds if seconds is None else seconds)


def _projected(
    formula: Formula, project: Iterable[int] | str, evidence: list[int], budget: Budget
) -> Formula:
    """A formula that has each projected solution once. Raises BudgetExceeded."""
    shown = checked_projection(project, formula.n_vars)
    if shown is None:  # "all"
        return formula
    projection = projected(formula, shown, evidence, budget.share(0.5))
    if projection.formula is None:
        raise BudgetExceeded(projection.why)
    return projection.formula
