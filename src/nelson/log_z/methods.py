"""log Z of a law without terms: the list of methods, and the walk along it.

`auto` asks in this order, and stops as soon as no part is left:

    enumerate   each part of few variables, in microseconds
    tables      each part that is narrow, if that is little work and loses nothing
    law         the exact law of the formula as a whole: circuits, inputs, a counter
    rejection   each part by itself, if random proposals are valid often enough
    bridge      all other parts together
    bounds      the same parts, if there is no bridge: they always hold, and are wide

Independent estimates add up: so do the squares of their noise, and a part gets its share of the
half width that the caller asked for.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from nelson.errors import BudgetExceeded
from nelson.exact.routes import CIRCUIT, ENUMERATE
from nelson.log_z.bounds import by_bounds
from nelson.log_z.bridge import by_bridge
from nelson.log_z.exact import by_circuit, by_counting, by_enumeration, by_law
from nelson.log_z.method import LogProbability, LogZTask, Method, added, error_in_words
from nelson.log_z.parts import WeightedClauses, reduce
from nelson.log_z.rejection import by_rejection
from nelson.log_z.result import LogPartition
from nelson.log_z.sums import by_tables

#: In the order in which "auto" tries them.
EXACT = (
    Method(ENUMERATE, by_enumeration, exact=True),
    Method("tables", by_tables, exact=True),
    Method("law", by_law, exact=True),
)
ESTIMATES = (
    Method("rejection", by_rejection, exact=False),
    Method("bridge", by_bridge, exact=False),
    Method("bounds", by_bounds, exact=False),
)
AUTO = (*EXACT, *ESTIMATES)
#: What a caller may ask for besides: "auto" leaves these to the law.
BY_NAME = (
    Method("count", by_counting, exact=True),
    Method(CIRCUIT, by_circuit, exact=True),
)
#: The names that a result may have, the cheapest first. "anneal" is for laws with terms.
METHODS = (*(method.name for method in (*EXACT[:2], *BY_NAME, *ESTIMATES)), "anneal")


class Solved(NamedTuple):
    """Where a walk along some methods ended."""

    values: list[LogProbability]
    left: list[WeightedClauses]
    used: Counter[str]  # the number of parts that each method took
    tried: dict[str, str]  # how each method ended
    whole: bool  # the value is log Z of the whole formula


def solve(parts: list[WeightedClauses], task: LogZTask, methods: Iterable[Method] = AUTO) -> Solved:
    """Ask these methods one after the other, until no part is left."""
    values: list[LogProbability] = []
    used: Counter[str] = Counter()
    left, tried, whole, timed = parts, {}, False, False
    for method in methods:
        if not left:
            break
        if not method.exact and not timed:  # all estimates together have one budget
            task, timed = replace(task, budget=task.estimate_budget()), True
        outcome = method.run(left, task)
        if outcome.reason:
            tried[method.name] = outcome.reason
        if outcome.whole:
            values, used, whole = [], Counter(), True
        for value in outcome.solved:
            values.append(value)
            used += value.routes or Counter({method.name: value.parts})
        if not method.exact:
            share = math.sqrt(len(outcome.left) / len(left))
            task = replace(task, half_width=task.half_width * share)
        left = outcome.left
    return Solved(values, left, used, tried, whole)


def without_terms(task: LogZTask, methods: Sequence[Method] = AUTO) -> LogPartition:
    """log Z of theta . x. methods: those that "auto" may use.

    Raises BudgetExceeded if parts are left.
    """
    started = time.monotonic()
    reduced = reduce(task.formula, task.theta, task.budget, task.policy)
    if not task.is_auto:
        methods = [method for method in (*AUTO, *BY_NAME) if method.name == task.method]
    solved = solve(reduced.parts, task, methods)
    if solved.left:
        ends = "; ".join(f"{name}: {end}" for name, end in solved.tried.items())
        missing = f"{len(solved.left)} of {len(reduced.parts)} components"
        raise BudgetExceeded(f"no value for {missing} ({ends})")
    known = math.fsum(part.log_p for part in solved.values if not part.info)
    known += 0.0 if solved.whole else reduced.constant
    estimates = [part for part in solved.values if part.info]
    info: dict[str, Any] = {}
    value, half_width, exact = known, 0.0, True
    if estimates:
        estimate = added(estimates, task.half_width)
        info = estimate.info | {"seed": task.seed}
        value, half_width, exact = known + estimate.log_p, estimate.half_width, estimate.exact
        if "bounds" in info:
            info["bounds"] = tuple(known + bound for bound in info["bounds"])
            info["estimate"] += known
    info["log_probability"] = value - reduced.product
    info["components"] = {name: solved.used[name] for name in METHODS if solved.used[name]}
    info["fixed"], info["tried"] = reduced.fixed, solved.tried
    return LogPartition(
        value,
        half_width,
        max(info["components"], key=METHODS.index, default=ENUMERATE),
        _why(task, info, [part.source for part in solved.values if part.source]),
        time.monotonic() - started,
        exact,
        info,
    )


def _why(task: LogZTask, info: dict[str, Any], sources: list[str]) -> str:
    """In words: the methods used, how the methods before them ended, the error of an estimate."""
    taken = info["components"]
    if not taken:
        return "propagation and evidence left no clause"
    parts = [f"{name} ({times} component{'s' * (times > 1)})" for name, times in taken.items()]
    why = f"{', '.join(parts)}: " + (
        "the first method that applied" if task.is_auto else "asked for"
    )
    ends = [f"{name}: {end}" for name, end in info["tried"].items() if end != "done"]
    if ends:
        why += f" ({'; '.join(ends)})"
    if sources:
        why += "; " + "; ".join(sources)
    if "noise" in info:
        why += f", noise {info['noise']:.2g}, bias at most {info['bias']:.2g}"
        why += error_in_words(info, task.half_width)
    return why
