"""Popping on threads, under a budget. Sample i is the same bits in any batch, on any thread count.

A sample that reaches `max_pops`, or that the clock cuts off, is left out. `max_pops` causes no
bias: a result is independent of what was popped on the way (`examples.arcs.kernels.popping`).
The clock causes none either, as long as the time of a sample depends on its pops alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from examples.arcs.arcs import Arcs
from examples.arcs.kernels import clusters, popping
from nelson.errors import BudgetExceeded, FormulaError
from nelson.formula.checks import count
from nelson.kernels.core import rng
from nelson.kernels.core.threads import usable_cores
from nelson_paper.tasks.base import SAMPLES, Generated
from nelson_paper.tasks.threads import on_threads


class Budget(NamedTuple):
    """The limits of one call; threads None: all cores, seconds None: no limit."""

    threads: int | None = None
    max_pops: int = 10_000_000  # per sample
    seconds: float | None = 60.0


class RandomStream(NamedTuple):
    """Which random numbers: sample i of a call is sample start + i of this seed and context."""

    seed: int
    context: int = SAMPLES
    start: int = 0


DEFAULT_BUDGET = Budget()


def budget_of(options: dict[str, Any]) -> tuple[int, Budget]:
    """The options of `sample`: start, threads, max_pops, seconds. -> (start, budget)"""
    refuse_unknown(options, ("start", *Budget._fields))
    limits = {name: value for name, value in options.items() if name != "start"}
    return options.get("start", 0), Budget(**limits)


def refuse_unknown(options: Iterable[str], known: Sequence[str]) -> None:
    for name in options:
        if name not in known:
            raise FormulaError(f"option {name!r}", expected=", ".join(known))


def finished(result: popping.Result, info: dict[str, Any], budget: Budget) -> Generated:
    """The finished samples of `run`, exact; info says why others are missing."""
    done = result.done == popping.FINISHED
    pops = result.pops[done]
    info |= {
        "status": "ok" if done.all() else "budget",
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
        info["reason"] = "; ".join(reasons)
    return Generated(result.x[done].view(np.bool_), "exact", info)


def run(
    arcs: Arcs,
    law: np.ndarray,
    roots: np.ndarray | None,
    n: int,
    stream: RandomStream,
    budget: Budget = DEFAULT_BUDGET,
    tell_arcs: bool = False,
) -> tuple[popping.Result, dict[str, Any]]:
    """n rows, finished or not, and how they were made.

    roots      None: pop cycles. (vertices,) uint8: pop clusters; vertices with 1 count as the root
    law        (arcs,) cycles: cumulative probabilities among the arcs of a vertex; clusters: the
               probability to keep each arc
    tell_arcs  rows of the result have one column per arc, not one per variable
    """
    n, start = count(n, "n"), count(stream.start, "start")
    most = count(budget.max_pops, "max_pops")
    if most > rng.MAX_ROUNDS:
        raise FormulaError(f"max_pops = {most:,}", expected=f"at most {rng.MAX_ROUNDS:,}")
    column = np.arange(len(arcs.tail)) if tell_arcs else arcs.column
    edges = roots is not None and arcs.per == "edge" and not tell_arcs
    twin = arcs.twin if edges else np.zeros(0, np.int64)
    graph = popping.Graph(arcs.out, arcs.head, np.ascontiguousarray(law), column, twin)
    most += arcs.n - 1 if roots is None else 0  # a tree's first n - 1 draws are no pops
    job = popping.Job(rng.spread_seed(stream.seed), stream.context, start, most)
    result = popping.Result(
        np.zeros((n, len(arcs.tail) if tell_arcs else arcs.n_vars), np.uint8),
        np.zeros(n, np.int64),
        np.zeros(n, np.uint8),
    )
    threads = max(1, min(budget.threads or usable_cores(), n))

    def work(first: int, last: int, stop: np.ndarray) -> None:
        space = popping.space(arcs.n, len(arcs.tail))
        if roots is None:
            popping.pop_cycles(graph, arcs.root, job, space, result, first, last, stop)
        else:
            clusters.pop_clusters(graph, roots, job, space, result, first, last, stop)

    work(0, 0, np.zeros(1, np.int32))  # compiles, before the clock starts
    started = time.monotonic()
    on_threads(work, n, threads, budget.seconds)
    took = time.monotonic() - started
    return result, {"requested": n, "seed": stream.seed, "seconds": took, "threads": threads}


def all_of(generated: Generated) -> np.ndarray:
    """All structures asked for; BudgetExceeded if there are fewer."""
    if generated.info["status"] != "ok":
        raise BudgetExceeded(generated.info["reason"])
    return generated.x
