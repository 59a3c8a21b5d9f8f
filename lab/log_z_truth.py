"""Are the intervals of log Z true? Without counters and circuits, against exact values.

The formulas are those of `auto_truth.py`, whose laws are known. A counter or a circuit gives log Z.
Then we estimate it without both: by sums over tables, valid proposals, a bridge, or bounds, in this
order, and the samples of a bridge come from `auto` without circuits and enumeration.

An estimate is wrong if it is trusted and misses by more than 3 half widths, or 5.9 standard
deviations: a right one does so with probability 4e-9. It is poor if only bounds are stated,
although the samples are better than heuristic.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lab.auto_truth import LEFT_OUT, entries
from lab.common import Row
from nelson import BudgetExceeded, Formula
from nelson.budget import Budget
from nelson.log_z import log_z
from nelson.log_z.bridge_draws import HEURISTIC
from nelson.log_z.method import LogZTask
from nelson.log_z.methods import AUTO, without_terms
from nelson.policy import AutoPolicy, Policy
from nelson.sampling.auto import ready
from nelson_paper.experiments.base import Table
from nelson_paper.experiments.report import markdown
from tests.structured import Entry

#: Seconds of each estimate.
SECONDS = 20.0
#: Seconds of each exact method.
EXACT_SECONDS = 90.0
HALF_WIDTH = 0.05
#: Samples of a bridge are drawn without these steps.
POLICY = Policy(auto=AutoPolicy(without=tuple(sorted(LEFT_OUT))))
#: Methods that know nothing of counters and circuits.
METHODS = tuple(method for method in AUTO if method.name not in ("enumerate", "law"))
#: Of the formulas, at least this many have a known log Z.
LEAST = 48


class Found(NamedTuple):
    """An estimate of log Z."""

    method: str
    guarantee: str  # "": there is none
    value: float
    half_width: float
    seconds: float
    reason: str = ""
    moves: str = ""

    @property
    def trusted(self) -> bool:
        return self.guarantee in ("exact", "diagnosed")

    def __str__(self) -> str:
        if not self.guarantee:
            return "none"
        return f"± {self.half_width:.2g}" + ("" if self.trusted else " (bounds)")


class Line(NamedTuple):
    """One formula of the table."""

    name: str
    n: int
    truth: float
    now: Found

    @property
    def error(self) -> float:
        return self.now.value - self.truth

    @property
    def wrong(self) -> bool:
        far = 3 if self.now.trusted else 1  # bounds always hold
        return bool(self.now.guarantee) and abs(self.error) > far * self.now.half_width + 1e-6

    @property
    def poor(self) -> bool:
        """Are there trusted samples, but only bounds?"""
        return not self.now.trusted and self.now.reason != HEURISTIC

    @property
    def verdict(self) -> str:
        return "WRONG" if self.wrong else "POOR" if self.poor else "covers"


def truth(formula: Formula, theta: np.ndarray | None) -> float | None:
    """None if neither a circuit nor a counter is done in time."""
    for method in ("circuit", "count"):
        try:
            return log_z(formula, theta, method=method, seconds=EXACT_SECONDS).value
        except BudgetExceeded:
            pass
    return None


def estimated(formula: Formula, theta: np.ndarray | None) -> Found:
    """Without counters and circuits."""
    began = time.monotonic()
    budget = Budget.of(SECONDS)
    task = LogZTask(formula, theta, "auto", HALF_WIDTH, 1, budget, POLICY)
    try:
        z = without_terms(task, METHODS)
    except BudgetExceeded as error:
        return Found("", "", 0.0, 0.0, time.monotonic() - began, str(error))
    methods = " + ".join(name for name in z.info["components"] if name != "tables") or "tables"
    reason, moves = z.info.get("reason", ""), z.info.get("moves", "")
    return Found(methods, z.guarantee, z.value, z.half_width, z.seconds, reason, moves)


def line(entry: Entry) -> Line | None:
    formula, theta = entry.make()
    known = truth(formula, theta)
    if known is None:
        return None
    return Line(entry.name, formula.n_vars, known, estimated(formula, theta))


def lines() -> Iterator[Line]:
    ready(20_000, None)
    for entry in entries():
        if (one := line(entry)) is not None:
            yield one


def table(found: list[Line]) -> Table:
    title = f"log Z without counters and circuits, {len(found)} formulas"
    columns = "formula", "n", "log Z", "now", "s", "error", "method", "moves"
    rows = []
    for one in found:
        now = "exact" if one.now.method == "tables" else str(one.now)
        shown = now, f"{one.now.seconds:.1f}", f"{one.error:+.2g}", one.now.method, one.now.moves
        told = one.now.guarantee, one.verdict
        rows.append([one.name, f"{one.n:,}", f"{one.truth:.3f}", *shown, *told])
    return Table(title, (*columns, "guarantee", "verdict"), rows)


def counts(found: list[Line]) -> str:
    tables = sum(one.now.method == "tables" for one in found)
    now = sum(one.now.trusted for one in found) - tables
    bounds = len(found) - now - tables
    return (
        f"{len(found)} formulas: {tables} exact values by "
        f"tables, {now} intervals at 95%, {bounds} bounds"
    )


def rows() -> Iterator[Row]:
    found = list(lines())
    print(markdown(table(found)))
    yield Row("log Z, formulas of known value", len(found), LEAST, LEAST, "", note=counts(found))
    wrong, poor = sum(one.wrong for one in found), sum(one.poor for one in found)
    yield Row("log Z: stated, but wrong", wrong, 0, 0, "", at_most=True)
    yield Row("log Z: bounds, though samples are trusted", poor, 0, 0, "", at_most=True)
