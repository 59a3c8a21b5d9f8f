"""`nelson.log_z`: the arguments, checked; `methods` and `with_terms` choose the method."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from nelson.budget import Budget
from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.checks import count, duration
from nelson.formula.polynomial import Polynomial
from nelson.log_z.method import LogZTask
from nelson.log_z.methods import METHODS, without_terms
from nelson.log_z.result import LogPartition
from nelson.log_z.with_terms import with_terms
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
