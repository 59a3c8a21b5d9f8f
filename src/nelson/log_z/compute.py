"""`nelson.log_z.log_partition`: which method, for which part, and why."""

from __future__ import annotations

import math
import secrets
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from nelson.errors import BudgetExceeded, FormulaError, NelsonError
from nelson.exact.reduce import Part, merge, reduce
from nelson.formula import Formula
from nelson.formula.checks import count
from nelson.log_z import exact
from nelson.log_z.result import LogPartition

if TYPE_CHECKING:
    from nelson.log_z.telescope import Estimate

#: In the order in which "auto" tries them.
METHODS = ("enumerate", "count", "circuit", "telescope")
#: Seconds if the caller set no limit: for each exact method within "auto", and for the estimate.
EXACT_SECONDS, SECONDS = 5.0, 300.0
#: With a limit, the share of what is left of it that "auto" gives to each exact method.
EXACT_SHARE = 0.2


def log_partition(
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
    """log Z = log sum_x exp(sum_i theta_i x_i) C(x), over the visible variables.

    theta       None (uniform: Z counts the solutions) or n_vars log-odds. +-inf is hard evidence;
                such a variable weighs 1, so that Z stays finite.
    method      "auto": per independent component the first of these that succeeds, or one of them
                "enumerate"  exact; up to 22 variables a component
                "count"      exact; weighted model counting (ganak) in a child process
                "circuit"    exact; a d-DNNF compiled by D4 in a child process
                "telescope"  an estimate from samples, with a 95% confidence interval
    seconds     the budget. None: "auto" gives 5 s to each exact method, the estimate 300 s.
    half_width  of the 95% interval of an estimate; the result says what was reached.
    seed        of an estimate; threads: default all cores; device: where its samples are drawn, as
                in `nelson.sample`.

    Raises Unsatisfiable only if that was proved, BudgetExceeded if no method gave an answer.
    """
    started = time.monotonic()
    _check(method, seconds, half_width, seed, threads)
    reduced = reduce(formula, theta)
    parts = reduced.parts
    values: exact.Values = [None] * len(parts)
    used: Counter[str] = Counter()
    tried: dict[str, str] = {}
    chosen = METHODS if method == "auto" else (method,)
    estimated: Estimate | None = None
    for name in chosen:
        left = [k for k, value in enumerate(values) if value is None]
        if not left:
            break
        budget = _budget(method, name, seconds, time.monotonic() - started)
        if name == "telescope":
            try:
                estimated = _estimate(
                    [parts[k] for k in left], half_width, seed, threads, budget, device
                )
            except BudgetExceeded as error:
                tried[name] = str(error)
                break
            used[name] += len(left)
            break
        found, tried[name] = _exact(name, [parts[k] for k in left], budget, method == name)
        for k, value in zip(left, found, strict=True):
            values[k] = value
            used[name] += value is not None
    missing = sum(value is None for value in values)
    if missing and estimated is None:
        ends = "; ".join(f"{name}: {end}" for name, end in tried.items())
        raise BudgetExceeded(f"no value for {missing} of {len(parts)} components ({ends})")
    info: dict[str, Any] = {} if estimated is None else dict(estimated.info)
    value = math.fsum(value for value in values if value is not None) + reduced.constant
    value += 0.0 if estimated is None else estimated.log_p
    info["log_probability"] = value - reduced.product
    info["components"] = {name: used[name] for name in METHODS if used[name]}
    info["fixed"], info["tried"] = reduced.fixed, tried
    return LogPartition(
        value,
        0.0 if estimated is None else estimated.half_width,
        max(info["components"], key=METHODS.index, default="enumerate"),
        _why(method, half_width, info),
        time.monotonic() - started,
        estimated is None,
        info,
    )


def _check(
    method: str, seconds: float | None, half_width: float, seed: int | None, threads: int | None
) -> None:
    if method != "auto" and method not in METHODS:
        raise FormulaError(f"no method {method!r}", expected="one of auto, " + ", ".join(METHODS))
    if seconds is not None and not seconds > 0:
        raise FormulaError(f"seconds = {seconds}", expected="a positive duration")
    if not half_width > 0:
        raise FormulaError(f"half_width = {half_width}", expected="a positive number of nats")
    if seed is not None:
        count(seed, "seed")
    if threads is not None and not count(threads, "threads"):
        raise FormulaError("threads = 0", expected="1 or more")


def _budget(method: str, name: str, seconds: float | None, gone: float) -> float:
    """Seconds for one method."""
    shared = method == "auto" and name != "telescope"
    if seconds is None:
        return EXACT_SECONDS if shared else SECONDS
    return max(seconds - gone, 0.0) * (EXACT_SHARE if shared else 1.0)


def _exact(name: str, parts: list[Part], budget: float, asked: bool) -> tuple[exact.Values, str]:
    """One exact method on all parts that are left. -> (values, how it ended)."""
    if name == "enumerate":
        return exact.enumerate_parts(parts)
    if lacking := exact.missing(name):
        if asked:
            raise NelsonError(lacking)
        return [None] * len(parts), lacking
    return exact.in_child(name, parts, budget)


def _estimate(
    parts: list[Part],
    half_width: float,
    seed: int | None,
    threads: int | None,
    budget: float,
    device: Any = None,
) -> Estimate:
    """All parts that are left in one run: they share the half width as it costs least."""
    from nelson.log_z.telescope import telescope

    seed = secrets.randbits(63) if seed is None else int(seed)
    estimate = telescope(merge(parts), half_width, seed, threads, budget, device)
    estimate.info["seed"] = seed
    return estimate


def _why(method: str, half_width: float, info: dict[str, Any]) -> str:
    """In words: what was used, how everything before it ended, what an estimate is worth."""
    taken = info["components"]
    if not taken:
        return "propagation and evidence left no clause"
    parts = [f"{name} ({times} component{'s' * (times > 1)})" for name, times in taken.items()]
    why = f"{', '.join(parts)}: " + ("the first that applied" if method == "auto" else "asked for")
    ends = [f"{name}: {end}" for name, end in info["tried"].items() if end != "done"]
    if ends:
        why += f" ({'; '.join(ends)})"
    if "telescope" in taken:
        why += (
            f"; {len(info['stages'])} ratios from {info['samples']:,} samples "
            f"({info['guarantee']}), noise {info['noise']:.2g}, bias at most {info['bias']:.2g}"
        )
        if info["guarantee"] == "heuristic":
            why += "; the chains did not mix: the interval is a guess"
        if not info["reached"]:
            why += f"; a half width of {half_width:g} was not reached"
    return why
