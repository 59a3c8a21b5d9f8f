"""`nelson.log_z`: the arguments, checked, and the ways for laws with terms over several variables.
`methods.py` has those for laws without terms.

With terms, products of variables become variables (`nelson.formula.polynomial.lift`), and the law
has no terms any more: all methods for such laws apply. `auto` asks in this order:

    enumerate   a sum over all structures, of few variables
    tables      of the law with products as variables
    law         its exact law, but no counter: it would take longer than a path
    anneal      an estimate along a path from a law without terms (`annealing.py`)
    bridge      of the law with products as variables, if the path is not trusted
"""

from __future__ import annotations

import math
import secrets
import time
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, FormulaError
from nelson.exact.enumerated import MAX_LAW_VARIABLES, law
from nelson.exact.law import MOMENTS
from nelson.exact.routes import ENUMERATE
from nelson.formula import Formula
from nelson.formula.checks import count, duration, evidence_of, theta_rows
from nelson.formula.polynomial import Polynomial, lift
from nelson.log_z.annealing import annealed
from nelson.log_z.method import LogZTask
from nelson.log_z.methods import EXACT, METHODS, without_terms
from nelson.log_z.result import LogPartition
from nelson.policy import DEFAULT, Policy


def log_z(
    formula: Formula,
    theta: Any = None,
    *,
    terms: Any = None,
    given: Any = None,
    starts: Any = None,
    method: str = "auto",
    seconds: float | None = None,
    half_width: float = 0.05,
    seed: int | None = None,
    threads: int | None = None,
    policy: Policy = DEFAULT,
) -> LogPartition:
    """log Z = log sum_x exp(sum_i theta_i x_i + phi(x)) C(x), over the visible variables.

    theta       None (uniform: Z counts the solutions) or n_vars log-odds. +-inf is hard evidence;
                such a variable has weight 1, so that Z stays finite.
    terms       phi: a `nelson.Polynomial`, or what `Polynomial.of` takes, {(1, 2): 0.7}; None: 0
    given       evidence: {3: True, 5: False}, or literals [3, -5]. These variables keep their
                weights: log Z given the evidence minus log Z is log P(evidence)
    starts      with terms: structures that are likely, (m, n), such as examples that the law was
                fitted to. The estimate must agree with chains that start there
    method      one of the following, or "auto": the exact law of the formula (`nelson.exact.law`),
                else for each independent component the first that succeeds
                `enumerate`  exact; up to 22 variables per component
                `tables`     exact; sums over tables, for formulas that are narrow if the values of
                             a few variables are given
                `count`      exact; weighted model counting (ganak) in a child process
                `circuit`    exact; a d-DNNF compiled by D4 in a child process
                `rejection`  an estimate with a 95% confidence interval: the share of random
                             proposals that are valid, gates computed
                `bridge`     the same from samples of `nelson.sample`: compared with a law of a few
                             variables, given which all others are summed out. If the samples cannot
                             be trusted: bounds that always hold
                `bounds`     no estimate: a valid structure and disjoint clauses bound log Z
                `anneal`     as `bridge` for laws with terms: a path from the law without them
    seconds     the budget. None: counted work for exact methods, and 300 s for the estimate.
    half_width  half the width wanted for the 95% interval of an estimate; the result says whether
                it was reached.
    seed, threads: of the samples of an estimate, as in `nelson.sample`.
    policy      the numbers that choose the method: `policy.log_z`, `policy.exact`

    Raises Unsatisfiable only if that was proved, BudgetExceeded if no method gave an answer.

    >>> z = nelson.log_z(nelson.Formula([[1, 2], [-1, 3]]), given=[1])
    >>> round(float(np.exp(z.value))), z.exact, z.guarantee  # x1 and x3 are true, x2 is free
    (2, True, 'exact')
    """
    _check(method, seconds, half_width, seed, threads)
    if given is not None:
        formula = formula.given(given)
    task = LogZTask(
        formula,
        theta,
        method,
        half_width,
        secrets.randbits(63) if seed is None else int(seed),
        Budget.of(seconds, threads),
        policy,
    )
    phi = None if terms is None else Polynomial.of(terms)
    with task.budget.enforced():
        return _of_task(task, phi, starts)


def _of_task(task: LogZTask, phi: Polynomial | None, starts: Any) -> LogPartition:
    formula, theta = task.formula, task.theta
    if phi is not None and phi.products:
        return with_terms(task, phi, starts)
    if task.method == "anneal":
        raise FormulaError('method "anneal" without terms', expected="terms, or another method")
    if phi is None:
        return without_terms(task)
    linear = phi.linear(formula.n_vars, theta)
    return without_terms(replace(task, theta=linear)).shifted(phi.constant)


def _check(
    method: str, seconds: float | None, half_width: float, seed: int | None, threads: int | None
) -> None:
    if method != "auto" and method not in METHODS:
        raise FormulaError(f"no method {method!r}", expected="one of auto, " + ", ".join(METHODS))
    if seconds is not None:
        duration(seconds, positive=True)
    if not half_width > 0:
        raise FormulaError(f"half_width = {half_width}", expected="a positive number of nats")
    if seed is not None:
        count(seed, "seed")
    if threads is not None and not count(threads, "threads"):
        raise FormulaError("threads = 0", expected="1 or more")


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
