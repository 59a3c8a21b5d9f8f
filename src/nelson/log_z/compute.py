"""`log_partition`: the arguments, checked; `plain.py` and `with_terms.py` choose the method."""

from __future__ import annotations

from typing import Any

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.checks import count, duration
from nelson.formula.polynomial import Polynomial
from nelson.log_z.plain import METHODS, without_terms
from nelson.log_z.result import LogPartition
from nelson.log_z.with_terms import shifted, with_terms
from nelson.sampling.options import gpu_number


def log_partition(
    formula: Formula,
    theta: Any = None,
    *,
    terms: Any = None,
    starts: Any = None,
    method: str = "auto",
    seconds: float | None = None,
    half_width: float = 0.05,
    seed: int | None = None,
    threads: int | None = None,
    device: Any = None,
) -> LogPartition:
    """log Z = log sum_x exp(sum_i theta_i x_i + phi(x)) C(x), over the visible variables.

    theta       None (uniform: Z counts the solutions) or n_vars log-odds. +-inf is hard evidence;
                such a variable has weight 1, so that Z stays finite.
    terms       phi: a `nelson.Polynomial`, or what `Polynomial.of` takes, {(1, 2): 0.7}; None: 0
    starts      with terms: structures that are likely, (m, n), such as examples that the law was
                fitted to. The estimate must agree with chains that start there
    method      one of the following; "auto" takes, for each independent component, the first that
                succeeds
                "enumerate"  exact; up to 22 variables per component
                "tables"     exact; sums over tables, for formulas that are narrow if the values of
                             a few variables are given
                "count"      exact; weighted model counting (ganak) in a child process
                "circuit"    exact; a d-DNNF compiled by D4 in a child process
                "rejection"  an estimate with a 95% confidence interval: the share of random
                             proposals that are valid, gates computed
                "bridge"     the same from samples of `nelson.sample`: compared with a law of a few
                             variables, given which all others are summed out. If the samples cannot
                             be trusted: bounds that always hold
                "telescope"  the same from samples of ever more clauses, by single flips
                "anneal"     the same for laws with terms: a path from the law without them
    seconds     the budget. None: "auto" gives 5 s to each exact method, and 300 s to the estimate.
    half_width  half the width wanted for the 95% interval of an estimate; the result says whether
                it was reached.
    seed, threads: of the samples of an estimate, as in `nelson.sample`. device: only "telescope"
                can draw its samples on a GPU.

    Raises Unsatisfiable only if that was proved, BudgetExceeded if no method gave an answer.
    """
    _check(method, seconds, half_width, seed, threads)
    gpu_number(device)  # raises if there is no such device
    phi = None if terms is None else Polynomial.of(terms)
    if phi is not None and phi.products:
        return with_terms(formula, theta, phi, starts, method, seconds, half_width, seed, threads)
    if method == "anneal":
        raise FormulaError('method "anneal" without terms', expected="terms, or another method")
    found = without_terms(
        formula,
        theta if phi is None else phi.linear(formula.n_vars, theta),
        method=method,
        seconds=seconds,
        half_width=half_width,
        seed=seed,
        threads=threads,
        device=device,
    )
    return found if phi is None else shifted(found, phi.constant)


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
