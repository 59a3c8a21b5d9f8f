"""`nelson.marginals`: P(x_i = 1) of all variables, exactly or from samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.budget import Budget, TimeUp
from nelson.errors import BudgetExceeded, FormulaError
from nelson.exact.law import Law, law
from nelson.formula import Formula
from nelson.formula.checks import evidence_literals, evidence_of, theta_rows, with_evidence
from nelson.policy import DEFAULT, Policy
from nelson.sampling.sample_stream import sample


@dataclass(frozen=True, eq=False)
class VariableMeans:
    """np.asarray(marginals) is `mean`."""

    mean: np.ndarray  # (n_vars,): P(x_i = 1)
    guarantee: str  # "exact", or that of the samples
    error: float  # largest standard error of a mean; 0 if exact
    why: str

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.mean, dtype, copy=copy)


def marginals(
    formula: Formula,
    theta: Any = None,
    given: Mapping[int, bool] | Iterable[int] | None = None,
    seconds: float | None = None,
    *,
    seed: int | None = 0,
    policy: Policy = DEFAULT,
) -> VariableMeans:
    """P(x_i = 1) of all variables under P_theta(x | C).

    theta    log-odds (n_vars,), +-inf being evidence; None: uniform
    given    more evidence: {3: True}, or literals
    seconds  a time limit; None: effort is counted
    seed     of the samples from which the means are estimated if there is no exact law

    Raises Unsatisfiable if that was proved, BudgetExceeded if there was no sample in time.

    >>> nelson.marginals(nelson.Formula([[1, 2], [-1, 3]])).mean.tolist()
    [0.5, 0.75, 0.75]
    """
    rows, single = theta_rows(formula, theta)
    if not single:
        raise FormulaError(f"theta of shape {rows.shape}", expected=f"({formula.n_vars},)")
    row = with_evidence(rows[0], evidence_literals(given or (), formula.n_vars).tolist())
    budget = Budget.of(seconds)
    half, why = budget.share(0.5), ""
    try:
        with half.enforced():
            exact = law(formula, evidence_of(formula, None, row), half, policy)
            if isinstance(exact, Law):
                return VariableMeans(exact.mean(row[None])[0], "exact", 0.0, exact.why)
            why = exact
    except TimeUp as late:
        why = str(late)
    count = 1 << 16  # standard errors up to 0.002
    drawn = sample(formula, row, count, project="all", seed=seed, seconds=budget.seconds_left)
    if not len(drawn):
        raise BudgetExceeded(f"no marginals: {why}; and no sample was drawn")
    error = 0.5 / float(np.sqrt(len(drawn)))
    return VariableMeans(drawn.mean(), drawn.guarantee, error, f"{len(drawn):,} samples: {why}")
