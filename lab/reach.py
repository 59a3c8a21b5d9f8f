"""How fast and how large: one row for each kind of formula, a single call beside a batch.

    python -m lab page reach     writes the table of docs/reach.md; about ten minutes

For each formula, in CPU time of all threads and of all child processes:

    first call    one sample of a formula that was not seen before, the choice of a method included
    next call     one more sample, another seed: median of five, if they are short
    batch         samples per second of one call for BATCH samples, after the choice of a method

A first call gets SECONDS; no circuit is read from the disk. CPU time counts what a call costs on a
machine that does other work, too.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterator

import nelson
from lab.common import ksat
from nelson_paper.experiments.base import Table
from nelson_paper.experiments.samplers import nothing_kept
from tests.structured import public_suite, suite

#: Samples of a batch, and of one whose formula has more than LARGE variables.
BATCH, FEW, LARGE = 20_000, 1_000, 10_000
SECONDS = 20.0
#: A next call is repeated if the first one took less than SHORT seconds.
REPEATS, SHORT = 5, 2.0
#: Formulas of lab/auto.py, from those that compile to those that stay heuristic.
STRUCTURED = (
    "feature model of 100",
    "feature model of 500, weighted",
    "Kconfig of 900",
    "multiplier of 10 bits",
    "random circuit of 300 gates",
    "latin square of 9, 30 given",
    "3-colourings of 150 vertices, dense",
    "planted 3-SAT of 150",
    "feature model of 3000",
    "4-colourings of 200 vertices",
    "planted 3-SAT of 600",
)
#: n = L of random 5-SAT with theta ~ N(0, 1).
RANDOM = (50, 1_000, 20_000)


def cases() -> Iterator[tuple[str, Callable[[], tuple[nelson.Formula, object]]]]:
    for n in RANDOM:
        yield f"random 5-SAT, n = L = {n:,}, weighted", lambda n=n: ksat(n)
    made = dict([*suite(), *public_suite()])
    for name in STRUCTURED:
        yield name, made[name]


def cpu() -> float:
    """Seconds of this process and of its children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def spent(draw: Callable[[], object]) -> float:
    started = cpu()
    draw()
    return cpu() - started


def row(name: str, formula: nelson.Formula, theta: object) -> list[str]:
    count = BATCH if formula.n_vars <= LARGE else FEW

    def draw(n: int, seed: int) -> nelson.Samples:
        return nelson.sample(formula, theta, n, seed=seed, seconds=SECONDS)

    first = spent(lambda: draw(1, 0))
    repeats = REPEATS if first < SHORT else 1
    later = statistics.median(spent(lambda k=k: draw(1, k + 1)) for k in range(repeats))
    samples: list[nelson.Samples] = []
    plan = nelson.plan(formula, theta, seconds=SECONDS)
    plan.sample(1, seed=6)
    batch = spent(lambda: samples.append(plan.sample(count, seed=7)))
    made = len(samples[0])
    rate = f"{made / batch:,.3g}" if made else "none"
    if made >= 1000 * batch:
        rate = f"{round(made / batch, -3):,.0f}"
    shape = f"{formula.n_vars:,}", f"{formula.n_clauses:,}"
    method = str(samples[0].info.get("method", ""))
    return [name, *shape, samples[0].guarantee, method, in_ms(first), in_ms(later), rate]


def in_ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.2g}" if seconds < 0.1 else f"{1e3 * seconds:,.0f}"


def table() -> Table:
    """Kernels are compiled by a first round that does not count."""
    with nothing_kept():
        made = [(name, *make()) for name, make in cases()]
        for _, formula, theta in made:
            copy = nelson.Formula(formula.clauses(), n_vars=formula.n_vars)
            nelson.sample(copy, theta, FEW, seed=9, seconds=SECONDS)
        rows = [row(*one) for one in made]
    columns = (
        "formula", "variables", "clauses", "guarantee", "method",
        "first call for one sample, ms", "next call for one sample, ms", "samples/s in a batch",
    )  # fmt: skip
    return Table("", columns, rows)
