"""log Z of a law with terms over several variables.

Products of variables become variables (`nelson.formula.polynomial.lift`), and the law has no terms
any more: all methods for such laws apply. `auto` asks in this order:

    enumerate   a sum over all structures, of few variables
    tables      of the law with products as variables
    law         its exact law, but no counter: it would take longer than a path
    anneal      an estimate along a path from a law without terms (`annealing.py`)
    bridge      of the law with products as variables, if the path is not trusted
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError
from nelson.exact.enumerated import MAX_LAW_VARIABLES, law
from nelson.exact.law import MOMENTS
from nelson.exact.routes import ENUMERATE
from nelson.formula.checks import evidence_of, theta_rows
from nelson.formula.polynomial import Polynomial, lift
from nelson.log_z.annealing import annealed
from nelson.log_z.method import LogZTask
from nelson.log_z.methods import EXACT, without_terms
from nelson.log_z.result import LogPartition


def with_terms(task: LogZTask, phi: Polynomial, starts: Any) -> LogPartition:
    """log Z of theta . x + phi(x). starts: as in `nelson.log_z`."""
    began, limits = time.monotonic(), task.policy.log_z
    rows, single = theta_rows(task.formula, task.theta)
    if not single:
        raise FormulaError(f"theta of shape {rows.shape}", expected=f"({task.formula.n_vars},)")
    given = task.formula.given(evidence_of(task.formula, None, rows[0]))
    task = replace(task, formula=given, theta=np.where(np.isinf(rows[0]), 0.0, rows[0]))
    small = given.n_vars <= MAX_LAW_VARIABLES and not given.n_aux
    if task.method == ENUMERATE or (task.is_auto and small):
        return _enumerated(task, phi, began)
    known = None if starts is None else np.asarray(starts) != 0
    if task.method == "anneal":
        return annealed(task, phi, known)
    lifted = lift(given, phi, task.theta)
    products = replace(task, formula=lifted.formula, theta=lifted.theta)
    if not task.is_auto:
        return without_terms(products).shifted(lifted.constant)
    try:
        return without_terms(replace(products, needs=MOMENTS), EXACT).shifted(lifted.constant)
    except BudgetExceeded as error:
        since = f"products as variables: {error}"
    share = 1 - limits.terms_bridge_share
    first = annealed(replace(task, budget=task.budget.share(share)), phi, known, since)
    if first.guarantee != "heuristic":
        return first
    budget = task.budget
    limit = budget.within(limits.terms_bridge_seconds) if budget.counted else budget
    try:
        second = without_terms(replace(products, method="bridge", budget=limit))
    except BudgetExceeded:
        return first
    if second.guarantee == "heuristic":
        return first
    why, seconds = f"{second.why}; before that, {first.why}", time.monotonic() - began
    return replace(second.shifted(lifted.constant), why=why, seconds=seconds)


def _enumerated(task: LogZTask, phi: Polynomial, began: float) -> LogPartition:
    """A sum over all structures."""
    states, _ = law(task.formula)
    score = states @ task.theta + phi(states)
    top = float(score.max())
    value = top + math.log(float(np.exp(score - top).sum()))
    why = f"enumerate: a sum over all {len(states):,} structures"
    return LogPartition(value, 0.0, ENUMERATE, why, time.monotonic() - began, True, {})
