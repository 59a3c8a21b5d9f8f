"""log Z of a law without terms: a method for each independent part of a formula, and why."""

from __future__ import annotations

import math
import secrets
import time
from collections import Counter
from typing import Any

from nelson.errors import BudgetExceeded, NelsonError
from nelson.formula import Formula
from nelson.kernels.core.threads import usable_cores
from nelson.log_z import exact
from nelson.log_z.estimate import Estimate, error_told
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


def without_terms(
    formula: Formula,
    theta: Any = None,
    *,
    method: str = "auto",
    seconds: float | None = None,
    half_width: float = 0.05,
    seed: int | None = None,
    threads: int | None = None,
    device: Any = None,
) -> LogPartition:
    """As `nelson.log_z.log_partition`, which has checked the arguments."""
    started = time.monotonic()
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
        budget = budget_for(method, name, seconds, time.monotonic() - started)
        left = [parts[k] for k in open_parts]
        answers, tried[name] = _exact(name, left, budget, method == name, seconds is None, threads)
        for k, value in zip(open_parts, answers, strict=True):
            values[k] = value
            used[name] += value is not None
    left = [part for part, value in zip(parts, values, strict=True) if value is None]
    if left and method not in EXACT:
        budget = budget_for(method, "estimate", seconds, time.monotonic() - started)
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


def budget_for(method: str, name: str, seconds: float | None, gone: float) -> float:
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
        why += error_told(info, half_width)
    return why
