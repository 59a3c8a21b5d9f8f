"""`auto`: what deciding costs where `lovasz` is right, and what it does with structured formulas.

The cost is that of `nelson.sample` on a formula object that nobody has seen, against
`method="lovasz"` with the same number of sweeps on another such object, in turns. The thirty
formulas of `tests.structured.suite` have 20 s each; `nelson.judge` then tests the samples against
the law. A guarantee that it rejects would be an over-claim; what it cannot decide is neither.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from tests.structured import suite

from benchmarks.common import Row, ksat, ratio, seconds
from nelson import Formula, Unsatisfiable, judge, sample

BUDGET, SAMPLES, JUDGE = 20.0, 20_000, 30.0
#: Seconds above the budget that starting, stopping and handing over may take.
GRACE = 2.0


def fresh(formula: Formula) -> Formula:
    """The same clauses in an object that nothing is kept with."""
    return Formula.from_arrays(
        formula.literals.copy(), formula.offsets.copy(), n_vars=formula.n_vars, n_aux=formula.n_aux
    )


def cost() -> Iterator[Row]:
    """Twice: CPU time of all threads, and the time that a caller waits."""
    formula, theta = ksat(1000)
    count = 100_000
    sweeps = sample(formula, theta, count, seed=1).info["sweeps"]
    for name, clock in (("CPU", time.process_time), ("wall-clock", time.perf_counter)):

        def automatic(clock: Callable[[], float] = clock) -> float:
            again = fresh(formula)
            return seconds(lambda: sample(again, theta, count, seed=1), clock)

        def named(clock: Callable[[], float] = clock) -> float:
            again = fresh(formula)
            how = {"method": "lovasz", "sweeps": sweeps, "seed": 1}
            return seconds(lambda: sample(again, theta, count, **how), clock)

        factor, ours, theirs = ratio(automatic, named, 21)
        note = f"{ours * 1e3:.0f} ms against {theirs * 1e3:.0f} ms, {sweeps} sweeps"
        title = f"auto, 100,000 samples of 5-SAT n=L=1000, over lovasz, {name}"
        yield Row(title, factor, 1.1, 1.1, at_most=True, note=note)


class Outcome(NamedTuple):
    name: str
    n: int
    clauses: int
    did: str
    guarantee: str
    status: str
    samples: int
    seconds: float
    verdict: str
    over: bool  # a guarantee was claimed that the test rejects


def outcome(name: str, formula: Formula, theta: np.ndarray | None) -> Outcome:
    size = name, formula.n_vars, formula.n_clauses
    wanted = SAMPLES if formula.n_vars <= 100_000 else 1000
    started = time.monotonic()
    try:
        drawn = sample(formula, theta, wanted, seed=1, seconds=BUDGET)
    except Unsatisfiable as error:
        spent = time.monotonic() - started
        return Outcome(*size, str(error), "", "UNSAT", 0, spent, "", False)
    spent = time.monotonic() - started
    did = drawn.info["method"] + (f", {drawn.info['sweeps']} sweeps" * bool(drawn.info["sweeps"]))
    if not len(drawn):
        why = drawn.info["reason"]
        return Outcome(*size, f"{did}: {why}", "", drawn.status, 0, spent, "", False)
    found = judge(formula, drawn, theta, seconds=JUDGE)
    over = found.accept is False and drawn.guarantee != "heuristic"
    told = f"{found.word} ({found.test})"
    return Outcome(*size, did, drawn.guarantee, drawn.status, len(drawn), spent, told, over)


def outcomes() -> Iterator[Outcome]:
    """Nothing comes from the disk: every circuit is compiled within the budget."""
    from nelson.sampling.auto import ready

    ready(SAMPLES, None)
    before = os.environ.get("NELSON_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NELSON_CACHE_DIR"] = folder
        try:
            for name, make in suite():
                yield outcome(name, *make())
        finally:
            os.environ.pop("NELSON_CACHE_DIR")
            if before is not None:
                os.environ["NELSON_CACHE_DIR"] = before


def table(found: list[Outcome]) -> Table:
    out = Table(title=f"auto on {len(found)} formulas, {BUDGET:g} s each")
    for column in ("formula", "n", "L", "what auto did", "guarantee", "status", "s", "judge"):
        out.add_column(column)
    for o in found:
        sizes = f"{o.n:,}", f"{o.clauses:,}"
        status = f"{o.status}, {o.samples:,}" if o.samples else o.status
        out.add_row(o.name, *sizes, o.did, o.guarantee, status, f"{o.seconds:.1f}", o.verdict)
    return out


def structured() -> Iterator[Row]:
    found = list(outcomes())
    Console(width=170).print(table(found))
    answered = sum(bool(o.samples) or o.status == "UNSAT" for o in found)
    yield Row("auto: samples or a proof", answered, 0, 30, "of 30", note="the rest is `budget`")
    slowest = max(o.seconds for o in found)
    yield Row("auto: slowest", slowest, BUDGET + GRACE, BUDGET, "s", at_most=True)
    over = sum(o.over for o in found)
    exact = sum(o.guarantee == "exact" for o in found)
    unknown = sum("undecided" in o.verdict for o in found)
    note = f"{exact} exact; {unknown} that the judge cannot decide"
    yield Row("auto: guarantees that the judge rejects", over, 0, 0, "", at_most=True, note=note)


def rows() -> Iterator[Row]:
    yield from cost()
    yield from structured()
