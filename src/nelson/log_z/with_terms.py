"""log Z of a law with terms over several variables.

Products of variables become variables (`nelson.formula.polynomial.lift`), and the law has no terms
any more: tables, circuits and bridges apply. Where these fail, log Z is estimated along a path from
a law without terms (`annealed.py`).
"""

from __future__ import annotations

import math
import secrets
import time
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError
from nelson.exact.compiled import not_worth_a_try
from nelson.exact.enumerated import MAX_LAW_VARIABLES, law
from nelson.formula import Formula
from nelson.formula.checks import evidence_of, theta_rows
from nelson.formula.polynomial import Lifted, Polynomial, lift
from nelson.kernels.core.threads import usable_cores
from nelson.log_z.annealed import annealed
from nelson.log_z.estimate import error_told
from nelson.log_z.parts import reduce
from nelson.log_z.plain import budget_for, without_terms
from nelson.log_z.result import LogPartition
from nelson.log_z.sums import WORK, by_tables

#: Seconds for a bridge, if the path is not trusted and the caller set no limit; with a limit, it
#: gets this share of the time, and the path the rest.
_BRIDGE_SECONDS, _BRIDGE_SHARE = 60.0, 0.4


def with_terms(
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
    """log Z of theta . x + phi(x). starts: as in `nelson.log_z.log_partition`."""
    began = time.monotonic()
    rows, single = theta_rows(formula, theta)
    if not single:
        raise FormulaError(f"theta of shape {rows.shape}", expected=f"({formula.n_vars},)")
    given = formula.given(evidence_of(formula, None, rows[0]))
    weights = np.where(np.isinf(rows[0]), 0.0, rows[0])
    if method == "telescope":
        raise FormulaError('method "telescope" with terms', expected='"anneal", or another method')
    small = formula.n_vars <= MAX_LAW_VARIABLES and not formula.n_aux
    if method == "enumerate" or (method == "auto" and small):
        states, _ = law(given)
        score = states @ weights + phi(states)
        top = float(score.max())
        value = top + math.log(float(np.exp(score - top).sum()))
        why = f"enumerate: a sum over all {len(states):,} structures"
        return LogPartition(value, 0.0, "enumerate", why, time.monotonic() - began, True, {})
    seed = secrets.randbits(63) if seed is None else int(seed)
    how: dict[str, Any] = {"half_width": half_width, "seed": seed, "threads": threads}
    if method == "anneal":
        return _along_a_path(given, weights, phi, starts, seconds, half_width, seed, "asked for")
    lifted = lift(given, phi, weights)
    if method != "auto":
        found = without_terms(lifted.formula, lifted.theta, method=method, seconds=seconds, **how)
        return shifted(found, lifted.constant)
    if narrow := _by_tables(lifted, threads):
        return narrow
    tried = not_worth_a_try(lifted.formula)
    if not tried:
        budget = None if seconds is None else budget_for("auto", "circuit", seconds, 0.0)
        try:
            found = without_terms(
                lifted.formula, lifted.theta, method="circuit", seconds=budget, threads=threads
            )
            return shifted(found, lifted.constant)
        except BudgetExceeded as error:
            tried = str(error)
    left = None if seconds is None else max(seconds - (time.monotonic() - began), 1e-3)
    share = None if left is None else left * (1 - _BRIDGE_SHARE)
    since = f"no circuit was made: {tried}"
    path = _along_a_path(given, weights, phi, starts, share, half_width, seed, since)
    if path.info["guarantee"] != "heuristic":
        return path
    limit = _BRIDGE_SECONDS if left is None else left * _BRIDGE_SHARE
    try:
        found = without_terms(lifted.formula, lifted.theta, method="bridge", seconds=limit, **how)
    except BudgetExceeded:
        return path
    if found.info["guarantee"] == "heuristic":
        return path
    why = f"{found.why}; before that, {path.why}"
    return replace(shifted(found, lifted.constant), why=why, seconds=time.monotonic() - began)


def _along_a_path(
    given: Formula,
    weights: np.ndarray,
    phi: Polynomial,
    starts: Any,
    seconds: float | None,
    half_width: float,
    seed: int,
    since: str,
) -> LogPartition:
    """By `annealed`. since: why it was not done otherwise."""
    began = time.monotonic()

    def base_log_z(at: np.ndarray) -> LogPartition:
        return without_terms(given, at, half_width=half_width / 4, seed=seed, seconds=seconds)

    known = None if starts is None else np.asarray(starts) != 0
    found = annealed(given, weights, phi, half_width, seed, seconds, base_log_z, known)
    info = found.info
    why = (
        f"anneal: {info['points']} points, {info['lanes']:,} lanes from the law without terms "
        f"({info['base']}); {since}{error_told(info, half_width)}"
    )
    spent = time.monotonic() - began
    return LogPartition(found.log_z, found.half_width, "anneal", why, spent, False, info)


def _by_tables(lifted: Lifted, threads: int | None) -> LogPartition | None:
    """Exactly by sums over tables, if that is little work."""
    began, reduced = time.monotonic(), reduce(lifted.formula, lifted.theta)
    values, _ = by_tables(reduced.parts, WORK, threads or usable_cores(), None)
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    value = reduced.constant + math.fsum(known) + lifted.constant
    spent = time.monotonic() - began
    return LogPartition(value, 0.0, "tables", "tables: the law is narrow", spent, True, {})


def shifted(found: LogPartition, constant: float) -> LogPartition:
    """log Z of a potential that is larger by a constant."""
    info = dict(found.info)
    if "bounds" in info:
        info["bounds"] = tuple(constant + end for end in info["bounds"])
        info["estimate"] += constant
    return replace(found, value=found.value + constant, info=info)
