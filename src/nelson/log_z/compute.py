"""`log_partition`: chooses a method for each independent part of a formula, and says why."""

from __future__ import annotations

import math
import secrets
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError, NelsonError
from nelson.exact.compiled import not_worth_a_try
from nelson.exact.enumerated import MAX_LAW_VARIABLES, law
from nelson.formula import Formula
from nelson.formula.checks import count, duration, evidence_of, theta_rows
from nelson.formula.polynomial import Polynomial, lift
from nelson.kernels.core.threads import usable_cores
from nelson.log_z import exact
from nelson.log_z.annealed import annealed
from nelson.log_z.estimate import Estimate
from nelson.log_z.estimates import ESTIMATES, Estimator
from nelson.log_z.parts import Part, reduce
from nelson.log_z.result import LogPartition
from nelson.log_z.sums import WORK, WORK_IF_ASKED, by_tables

#: In the order in which "auto" tries them; "anneal" is for laws with terms.
EXACT = ("enumerate", "tables", "count", "circuit")
METHODS = (*EXACT, *ESTIMATES, "anneal")
#: Without a limit by the caller, seconds for each exact method within "auto".
EXACT_SECONDS = 5.0
#: Without a limit by the caller, seconds for the estimate, or for an exact method chosen by name.
SECONDS = 300.0
#: With a limit, the share of the remaining time that "auto" gives to each exact method.
EXACT_SHARE = 0.2


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
    seed, threads, device: of the samples of an estimate, as in `nelson.sample`.

    Raises Unsatisfiable only if that was proved, BudgetExceeded if no method gave an answer.
    """
    started = time.monotonic()
    _check(method, seconds, half_width, seed, threads)
    if terms is not None:
        phi = Polynomial.of(terms)
        if phi.products:
            return _with_terms(
                formula, theta, phi, starts, method, seconds, half_width, seed, threads
            )
        theta = phi.linear(formula.n_vars, theta)
        found = log_partition(
            formula,
            theta,
            method=method,
            seconds=seconds,
            half_width=half_width,
            seed=seed,
            threads=threads,
            device=device,
        )
        return shifted(found, phi.constant)
    if method == "anneal":
        raise FormulaError('method "anneal" without terms', expected="terms, or another method")
    reduced = reduce(formula, theta)
    parts = reduced.parts
    values: exact.Values = [None] * len(parts)
    used: Counter[str] = Counter()
    tried: dict[str, str] = {}
    estimate: Estimate | None = None
    for name in EXACT if method == "auto" else {method} & {*EXACT}:
        open_parts = [k for k, value in enumerate(values) if value is None]
        if not open_parts:
            break
        budget = _budget(method, name, seconds, time.monotonic() - started)
        left = [parts[k] for k in open_parts]
        answers, tried[name] = _exact(name, left, budget, method == name, seconds is None, threads)
        for k, value in zip(open_parts, answers, strict=True):
            values[k] = value
            used[name] += value is not None
    left = [part for part, value in zip(parts, values, strict=True) if value is None]
    if left and method not in EXACT:
        budget = _budget(method, "estimate", seconds, time.monotonic() - started)
        seed = secrets.randbits(63) if seed is None else int(seed)
        how = Estimator(half_width, seed, threads, time.monotonic() + budget, device)
        estimate = how.run(left, method)
        used, tried = used + how.used, tried | how.tried
        if estimate is not None:
            estimate.info["seed"] = seed
    missing = sum(value is None for value in values)
    if missing and estimate is None:
        ends = "; ".join(f"{name}: {end}" for name, end in tried.items())
        raise BudgetExceeded(f"no value for {missing} of {len(parts)} components ({ends})")
    info: dict[str, Any] = {} if estimate is None else dict(estimate.info)
    known = math.fsum(value for value in values if value is not None) + reduced.constant
    log_z = known + (0.0 if estimate is None else estimate.log_p)
    if "bounds" in info:
        info["bounds"] = tuple(known + bound for bound in info["bounds"])
        info["estimate"] += known
    info["log_probability"] = log_z - reduced.product
    info["components"] = {name: used[name] for name in METHODS if used[name]}
    info["fixed"], info["tried"] = reduced.fixed, tried
    return LogPartition(
        log_z,
        0.0 if estimate is None else estimate.half_width,
        max(info["components"], key=METHODS.index, default="enumerate"),
        _why(method, half_width, info, "" if estimate is None else estimate.told),
        time.monotonic() - started,
        estimate is None,
        info,
    )


def _with_terms(
    formula: Formula,
    theta: Any,
    phi: Polynomial,
    starts: Any,
    method: str,
    seconds: float | None,
    half_width: float,
    seed: int | None,
    threads: int | None,
) -> LogPartition:
    """Exactly if the law can be enumerated, or if it compiles with its products as variables; else
    along a path."""
    began = time.monotonic()
    rows, single = theta_rows(formula, theta)
    if not single:
        raise FormulaError(f"theta of shape {rows.shape}", expected=f"({formula.n_vars},)")
    given = formula.given(evidence_of(formula, None, rows[0]))
    weights = np.where(np.isinf(rows[0]), 0.0, rows[0])
    if method in ESTIMATES:
        raise FormulaError(f'method "{method}" with terms', expected='"anneal", or another method')
    small = formula.n_vars <= MAX_LAW_VARIABLES and not formula.n_aux
    if method == "enumerate" or (method == "auto" and small):
        states, _ = law(given)
        score = states @ weights + phi(states)
        top = float(score.max())
        value = top + math.log(float(np.exp(score - top).sum()))
        why = f"enumerate: a sum over all {len(states):,} structures"
        return LogPartition(value, 0.0, "enumerate", why, time.monotonic() - began, True, {})
    tried = "anneal: asked for"
    if method != "anneal":
        lifted = lift(given, phi, weights)
        if method == "auto" and (narrow := _by_tables(lifted.formula, lifted.theta, threads)):
            return shifted(narrow, lifted.constant)
        tried = not_worth_a_try(lifted.formula)
        if method != "auto" or not tried:
            name = "circuit" if method == "auto" else method
            try:
                budget = _budget(method, name, seconds, time.monotonic() - began)
                found = log_partition(
                    lifted.formula,
                    lifted.theta,
                    method=name,
                    seconds=None if seconds is None else budget,
                    threads=threads,
                )
                return shifted(found, lifted.constant)
            except BudgetExceeded as error:
                if method != "auto":
                    raise
                tried = str(error)
    seed = secrets.randbits(63) if seed is None else int(seed)
    left = None if seconds is None else max(seconds - (time.monotonic() - began), 1e-3)

    def base_log_z(at: np.ndarray) -> LogPartition:
        return log_partition(given, at, half_width=half_width / 4, seed=seed, seconds=left)

    known = None if starts is None else np.asarray(starts) != 0
    found_z = annealed(given, weights, phi, half_width, seed, left, base_log_z, known)
    info = found_z.info
    why = (
        f"anneal: {info['points']} points, {info['lanes']:,} lanes from the law without terms "
        f"({info['base']})"
    )
    why += f", since no circuit was made: {tried}" if method == "auto" else ""
    if info["guarantee"] == "heuristic":
        low, high = info["bounds"]
        why += (
            f"; the estimate is not trusted ({info['reason']}), so the half width is no 95% "
            f"interval: it covers {low:.6g} to {high:.6g}, bounds on log Z that always hold"
        )
    elif not info["reached"]:
        why += f"; a half width of {half_width:g} was not reached"
    seconds_spent = time.monotonic() - began
    return LogPartition(
        found_z.log_z, found_z.half_width, "anneal", why, seconds_spent, False, info
    )


def _by_tables(formula: Formula, theta: np.ndarray, threads: int | None) -> LogPartition | None:
    """Exactly by sums over tables, if that is little work."""
    began, reduced = time.monotonic(), reduce(formula, theta)
    values, _ = by_tables(reduced.parts, WORK, threads or usable_cores(), None)
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    value, spent = reduced.constant + math.fsum(known), time.monotonic() - began
    return LogPartition(value, 0.0, "tables", "tables: the law is narrow", spent, True, {})


def shifted(found: LogPartition, constant: float) -> LogPartition:
    """log Z of a potential that is larger by a constant."""
    return replace(found, value=found.value + constant) if constant else found


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


def _budget(method: str, name: str, seconds: float | None, gone: float) -> float:
    """Seconds for method `name`, `gone` seconds after the start."""
    shared = method == "auto" and name in EXACT
    if seconds is None:
        return EXACT_SECONDS if shared else SECONDS
    return max(seconds - gone, 0.0) * (EXACT_SHARE if shared else 1.0)


def _exact(
    name: str,
    parts: list[Part],
    budget: float,
    asked: bool,
    counted: bool,
    threads: int | None,
) -> tuple[exact.Values, str]:
    """One exact method on all parts that are left. -> (values, how it ended).

    asked: the caller named this method, so that a missing package is an error.
    counted: the caller set no limit in seconds.
    """
    if name == "enumerate":
        return exact.by_enumeration(parts)
    if name == "tables":
        work = WORK_IF_ASKED if asked else WORK
        until = None if counted else time.monotonic() + budget
        return by_tables(parts, work, threads or usable_cores(), until)
    if lacking := exact.missing(name):
        if asked:
            raise NelsonError(lacking)
        return [None] * len(parts), lacking
    method = exact.by_counting if name == "count" else exact.by_circuits
    return method(parts, budget, counted=counted)


def _why(method: str, half_width: float, info: dict[str, Any], told: str) -> str:
    """In words: the methods used, how the methods before them ended, the error of an estimate."""
    taken = info["components"]
    if not taken:
        return "propagation and evidence left no clause"
    parts = [f"{name} ({times} component{'s' * (times > 1)})" for name, times in taken.items()]
    why = f"{', '.join(parts)}: " + ("the first that applied" if method == "auto" else "asked for")
    ends = [f"{name}: {end}" for name, end in info["tried"].items() if end != "done"]
    if ends:
        why += f" ({'; '.join(ends)})"
    if told:
        why += f"; {told}, noise {info['noise']:.2g}, bias at most {info['bias']:.2g}"
        if info["guarantee"] == "heuristic":
            low, high = info["bounds"]
            why += (
                f"; {info.get('reason', 'the chains did not mix')}, so the half width is no 95% "
                f"interval: it covers {low:.6g} to {high:.6g}, bounds on log Z that always hold"
            )
        if not info["reached"]:
            why += f"; a half width of {half_width:g} was not reached"
    return why
