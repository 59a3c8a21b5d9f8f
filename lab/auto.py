"""`auto`: the cost of choosing a method, its results on fifty formulas, and whether they are true.

Second call: decisions are kept with the formula. We time further calls of `nelson.sample` on the
same formula, with other seeds, against carrying out the plan of such a call, in turns. A plan is
what is left to do once the method is known.

Cost: `auto` chooses `lovasz` for a random 5-SAT formula. We time `nelson.sample` on a new formula
object against `method="lovasz"` with the same number of sweeps on another new object, in turns.

Results: each formula of `tests.structured.suite` (thirty) and of `public_suite` (twenty) gets 20 s;
then `nelson.judge` tests the samples against the law, unless they are called heuristic. A guarantee
that the test rejects is an over-claim. If all guarantees are right, one of the fifty is rejected
with probability 0.01 at most. A test that cannot decide counts neither for nor against the
guarantee.

Truth: `lab.auto_truth` compares chains with circuits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lab import auto_truth
from lab.common import Row, ksat, ratio, seconds
from nelson import Formula, Unsatisfiable, judge, sample
from nelson.sampling.auto import ready
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan, carry_out
from nelson_paper.experiments.base import Table
from nelson_paper.experiments.report import markdown
from nelson_paper.experiments.samplers import nothing_kept
from tests.structured import Entry, public_suite, suite

#: Seconds that `auto` gets for each structured formula.
DRAW_SECONDS = 20.0
#: Seconds beyond DRAW_SECONDS that starting, stopping and returning the samples may take.
GRACE_SECONDS = 2.0
#: Seconds that the test of the samples gets.
JUDGE_SECONDS = 30.0
#: The probability that a table of right samples has a guarantee that the test rejects ...
FALSE_ALARM = 0.01
#: ... and the number of tests that share it.
FORMULAS = len(suite()) + len(public_suite())
#: Formulas of both suites that were heuristic before joint moves and coupling from the past. All
#: others were exact, or had no solution.
HEURISTIC_BEFORE = frozenset(
    {
        "feature model of 3000",
        "feature model of 20000, weighted",
        "random circuit of 3000 gates",
        "4-colourings of 200 vertices",
        "cardinality of 300, weighted",
        "knapsack of 40",
        "planted 3-SAT of 600",
        "random 4-SAT, a million clauses",
        "Kconfig of 2500, weighted",
        "Kconfig of 6000",
        "product line of 2000",
        "shift register of 40 bits, 20 steps",
        "automaton of 60 latches, 12 steps",
        "planar 4-colourings of 15 x 15",
        "3-colourings of a 14 x 14 grid, weighted",
        "timetable of 40 events",
        "sudoku, 20 given",
        "cipher of 5 rounds",
        "path of 12 branches, 16 bits",
    }
)
#: The aim: at most a third of them.
HEURISTIC_AIM = len(HEURISTIC_BEFORE) // 3
GUARANTEES = "exact", "approximate", "diagnosed", "heuristic"
SAMPLES = 20_000
#: The formula of `ksat`.
KSAT = "5-SAT, n=L=1000"
#: Formulas that are drawn twice.
SECOND_CALL = (
    KSAT,
    "feature model of 500, weighted",
    "random circuit of 300 gates",
    "3-colourings of 150 vertices, dense",
    "cardinality of 60",
    "factors of 3599, 8 bits",
    "4-colourings of 200 vertices",
)
WALL = time.perf_counter
#: Samples of a formula with more than 100,000 variables, so that they fit into memory.
SAMPLES_IF_LARGE = 1000


def fresh(formula: Formula) -> Formula:
    """The same clauses in a new object, for which nothing is memoised."""
    return Formula.from_arrays(
        formula.literals.copy(), formula.offsets.copy(), n_vars=formula.n_vars, n_aux=formula.n_aux
    )


def cost() -> Iterator[Row]:
    """Measured twice: as CPU time of all threads, and as the time that the caller waits."""
    formula, theta = ksat(1000)
    count = 100_000
    sweeps = sample(formula, theta, count, seed=1).info["sweeps"]
    for name, clock in (("CPU", time.process_time), ("wall-clock", time.perf_counter)):

        def automatic(clock: Callable[[], float] = clock) -> float:
            again = fresh(formula)
            return seconds(lambda: sample(again, theta, count, seed=1), clock)

        def lovasz(clock: Callable[[], float] = clock) -> float:
            again = fresh(formula)
            options = {"method": "lovasz", "sweeps": sweeps, "seed": 1}
            return seconds(lambda: sample(again, theta, count, **options), clock)

        factor, with_auto, with_lovasz = ratio(automatic, lovasz, 21)
        note = f"{with_auto * 1e3:.0f} ms against {with_lovasz * 1e3:.0f} ms, {sweeps} sweeps"
        title = f"auto, 100,000 samples of 5-SAT, n=L=1000: {name} time against lovasz"
        yield Row(title, factor, 1.1, 1.1, at_most=True, note=note)


def second_call() -> Iterator[Row]:
    """Formulas whose samples are cheap beside the decision."""
    formulas = dict(suite())
    for name in SECOND_CALL:
        formula, theta = ksat(1000) if name == KSAT else formulas[name]()
        seeds = iter(range(10**9))
        sample(fresh(formula), theta, SAMPLES, seed=0)  # compiles kernels, and the circuit
        first = seconds(lambda: sample(formula, theta, SAMPLES, seed=next(seeds)), WALL)  # noqa: B023
        plan = Plan(formula, theta, Options()).drawing(SAMPLES)

        def again() -> float:
            return seconds(lambda: sample(formula, theta, SAMPLES, seed=next(seeds)), WALL)  # noqa: B023

        def decided() -> float:
            request = replace(plan.request, seed=next(seeds))  # noqa: B023
            own = replace(plan, parts=[(plan.problem, request)])  # noqa: B023
            return seconds(lambda: carry_out(own, time.monotonic()), WALL)

        factor, second, direct = ratio(again, decided, 21)
        note = (
            f"first call {first * 1e3:.1f} ms, second {second * 1e3:.1f} ms, without a decision "
            f"{direct * 1e3:.1f} ms; {plan.sampler.name}, {plan.guarantee}"
        )
        title = f"auto, second call, {SAMPLES:,} samples of {name}: against no decision"
        yield Row(title, factor, 1.5, 1.1, at_most=True, note=note)


class Outcome(NamedTuple):
    """The result of `auto` on one structured formula."""

    name: str
    n: int
    clauses: int
    action: str  # the method, or the proof that no solution exists
    guarantee: str
    status: str
    samples: int
    seconds: float
    verdict: str
    overclaimed: bool  # the test rejects the guarantee

    @property
    def before(self) -> str:
        """The guarantee before joint moves and coupling from the past."""
        if self.status == "UNSAT":
            return ""
        return "heuristic" if self.name in HEURISTIC_BEFORE else "exact"


def outcome(name: str, formula: Formula, theta: np.ndarray | None) -> Outcome:
    size = name, formula.n_vars, formula.n_clauses
    wanted = SAMPLES if formula.n_vars <= 100_000 else SAMPLES_IF_LARGE
    started = time.monotonic()
    try:
        samples = sample(formula, theta, wanted, seed=1, seconds=DRAW_SECONDS)
    except Unsatisfiable as error:
        spent = time.monotonic() - started
        return Outcome(*size, str(error), "", "UNSAT", 0, spent, "", False)
    spent = time.monotonic() - started
    info, guarantee, status = samples.info, samples.guarantee, samples.status
    action = info["method"] + (f", {info['sweeps']} sweeps" if info["sweeps"] else "")
    if not len(samples):
        return Outcome(*size, f"{action}: {info['reason']}", "", status, 0, spent, "", False)
    told, overclaimed = "", False
    if guarantee != "heuristic":
        delta = FALSE_ALARM / FORMULAS
        verdict = judge(formula, samples, theta, delta=delta, seconds=JUDGE_SECONDS)
        overclaimed = verdict.accept is False
        told = f"{verdict.word} ({verdict.test})"
    return Outcome(*size, action, guarantee, status, len(samples), spent, told, overclaimed)


def outcomes(entries: Iterable[Entry]) -> Iterator[Outcome]:
    """No circuit is read from the disk: each is compiled within the time of its formula."""
    ready(SAMPLES, None)
    with nothing_kept():
        for name, make in entries:
            yield outcome(name, *make())


def counts(results: list[Outcome]) -> str:
    """How many formulas have which guarantee, in words."""
    found = {name: sum(o.guarantee == name for o in results) for name in GUARANTEES}
    found["without a solution"] = sum(o.status == "UNSAT" for o in results)
    found["without samples"] = len(results) - sum(found.values())
    return ", ".join(f"{count} {name}" for name, count in found.items() if count)


def table(results: list[Outcome]) -> Table:
    title = f"auto on {len(results)} formulas, {DRAW_SECONDS:g} s each"
    columns = "formula", "n", "L", "before", "now", "method", "samples", "seconds", "test"
    rows = []
    for o in results:
        sizes = f"{o.n:,}", f"{o.clauses:,}"
        made = f"{o.samples:,}" if o.samples else o.status
        labels = o.before, o.guarantee
        shown = o.action, made, f"{o.seconds:.1f}", o.verdict
        rows.append([o.name, *sizes, *labels, *shown])
    return Table(title, columns, rows)


def structured() -> Iterator[Row]:
    thirty, twenty = (list(outcomes(entries)) for entries in (suite(), public_suite()))
    for results in (thirty, twenty):
        print(markdown(table(results)), counts(results), sep="\n\n")
    results = thirty + twenty
    answered = sum(bool(o.samples) or o.status == "UNSAT" for o in results)
    note = "on the others the time ran out (status `budget`)"
    title = "auto: formulas with samples or a proof of UNSAT"
    yield Row(title, answered, 0, len(results), f"of {len(results)}", note=note)
    slowest = max(o.seconds for o in results)
    limit = DRAW_SECONDS + GRACE_SECONDS
    yield Row("auto: slowest formula", slowest, limit, DRAW_SECONDS, "s", at_most=True)
    heuristic = sum(o.guarantee == "heuristic" for o in results)
    note = f"thirty of ours: {counts(thirty)}; twenty like public ones: {counts(twenty)}"
    goals = len(HEURISTIC_BEFORE), HEURISTIC_AIM
    yield Row("auto: formulas that stay heuristic", heuristic, *goals, "", at_most=True, note=note)
    rejected = sum(o.overclaimed for o in results)
    undecided = sum("undecided" in o.verdict for o in results)
    note = f"the test could not decide on {undecided}"
    yield Row("auto: guarantees that the test rejects", rejected, 0, 0, "", at_most=True, note=note)


def rows() -> Iterator[Row]:
    for part in PARTS.values():
        yield from part()


#: `python -m lab auto` runs all of them.
PARTS = {
    "auto-second-call": second_call,
    "auto-cost": cost,
    "auto-suites": structured,
    "auto-truth": auto_truth.rows,
}
