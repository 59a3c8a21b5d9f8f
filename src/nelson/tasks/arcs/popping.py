"""Popping on threads, under a budget; sample i is the same bits in any batch on any number of them.

A sample that reaches `max_pops`, or that time cut off, is left out. That biases nothing: what is
popped is independent of what is left at the end (`nelson.tasks.arcs.kernels.popping`). Only the clock is
outside that argument, as far as the time of a sample depends on anything but its pops.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError
from nelson.formula.checks import count
from nelson.kernels.core import rng
from nelson.kernels.core.threads import spread, usable_cores
from nelson.tasks.arcs.arcs import Arcs
from nelson.tasks.arcs.kernels import clusters, popping
from nelson.tasks.base import Drawn

#: Pops that one sample may take, and seconds that one call may, unless the caller says.
MAX_POPS = 10_000_000
SECONDS = 60.0
#: Which random numbers: those of samples, of examples, of learning; of log Z's stages from 3 on.
SAMPLES, EXAMPLES, LEARNING, STAGES = 0, 1, 2, 3


class Budget(NamedTuple):
    """What a call may take. A tree takes n - 1 draws that are no pops."""

    threads: int | None = None
    max_pops: int = MAX_POPS
    seconds: float | None = SECONDS


def budget_of(options: dict[str, Any]) -> tuple[int, Budget]:
    """The options of `sample`: start, threads, max_pops, seconds. -> (start, budget)"""
    known = ("start", *Budget._fields)
    for name in options:
        if name not in known:
            raise FormulaError(f"option {name!r}", expected=", ".join(known))
    told = {name: value for name, value in options.items() if name != "start"}
    return options.get("start", 0), Budget(**told)


class Counter(NamedTuple):
    """Which random numbers: sample i is start + i of the context."""

    seed: int
    context: int = SAMPLES
    start: int = 0


def pop(
    arcs: Arcs,
    law: np.ndarray,
    roots: np.ndarray | None,
    n: int,
    counter: Counter,
    budget: Budget = Budget(),  # noqa: B008 (immutable)
) -> Drawn:
    """n structures, their law `exact`. As `run`; unfinished samples are left out."""
    result, told = run(arcs, law, roots, n, counter, budget)
    finished = result.done == popping.FINISHED
    pops = result.pops[finished]
    told |= {
        "status": "ok" if finished.all() else "budget",
        "pops": int(pops.sum()),
        "pops_mean": float(pops.mean()) if len(pops) else None,
        "pops_most": int(pops.max(initial=0)),
    }
    reasons = []
    if spent := int((result.done == popping.SPENT).sum()):
        reasons.append(f"{spent:,} samples took more than {budget.max_pops:,} pops")
    if missing := int((result.done == popping.MISSING).sum()):
        reasons.append(f"{missing:,} samples were not finished after {budget.seconds:g} seconds")
    if reasons:
        told["reason"] = "; ".join(reasons)
    return Drawn(result.x[finished].view(np.bool_), "exact", told)


def run(
    arcs: Arcs,
    law: np.ndarray,
    roots: np.ndarray | None,
    n: int,
    counter: Counter,
    budget: Budget = Budget(),  # noqa: B008 (immutable)
    tell_arcs: bool = False,
) -> tuple[popping.Result, dict[str, Any]]:
    """n rows, finished or not, and how they were made.

    law (arcs,): cumulative choices (roots None: cycles) or probabilities (clusters); roots
    (vertices,) uint8: which vertices count as the root. tell_arcs: a column an arc, whatever the
    variables are.
    """
    n, start = count(n, "n"), count(counter.start, "start")
    most = count(budget.max_pops, "max_pops")
    if most > rng.MAX_ROUNDS:
        raise FormulaError(f"max_pops = {most:,}", expected=f"at most {rng.MAX_ROUNDS:,}")
    column = np.arange(len(arcs.tail)) if tell_arcs else arcs.column
    edges = roots is not None and arcs.per == "edge" and not tell_arcs
    twin = arcs.twin if edges else np.zeros(0, np.int64)
    graph = popping.Graph(arcs.out, arcs.head, np.ascontiguousarray(law), column, twin)
    most += arcs.n - 1 if roots is None else 0
    job = popping.Job(rng.spread_seed(counter.seed), counter.context, start, most)
    result = popping.Result(
        np.zeros((n, len(arcs.tail) if tell_arcs else arcs.n_vars), np.uint8),
        np.zeros(n, np.int64),
        np.zeros(n, np.uint8),
    )
    threads = max(1, min(budget.threads or usable_cores(), n))
    spaces = [popping.space(arcs.n, len(arcs.tail)) for _ in range(threads)]
    stop = np.zeros(1, np.int32)

    def work(thread: int, first: int, last: int) -> None:
        if roots is None:
            popping.pop_cycles(graph, arcs.root, job, spaces[thread], result, first, last, stop)
        else:
            clusters.pop_clusters(graph, roots, job, spaces[thread], result, first, last, stop)

    work(0, 0, 0)  # compiled before the clock starts
    started = time.monotonic()
    deadline = None if budget.seconds is None else started + budget.seconds
    if spread(work, n, threads, stop, deadline):
        raise KeyboardInterrupt
    took = time.monotonic() - started
    told = {"requested": n, "seed": counter.seed, "seconds": took, "threads": threads}
    return result, told


def all_of(drawn: Drawn) -> np.ndarray:
    """Its structures, or BudgetExceeded if there are fewer than were asked for."""
    if drawn.info["status"] != "ok":
        raise BudgetExceeded(drawn.info["reason"])
    return drawn.x
