"""m samples drawn by several ranks: each draws a share, and all count together.

    sample i of (seed, iteration) is a function of i       (counter-based random numbers)
    rank r draws the samples of words W r / R .. W (r + 1) / R of all W = m / 64 (rounded up)
    E_model[x] = (sum over ranks of popcounts) / (sum over ranks of counts)

Together the shares are the samples that one process would draw, and the sums are over integers: the
mean is the same bits for any R. This needs a sampler that numbers its samples (`by_number`) and, if
"auto" decides for each component, the same decision on every rank. Otherwise rank 0 draws all m
samples: the same result, but no faster than one process.

If a budget of rounds ends and samples are missing, which ones are missing may depend on R.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from nelson.chains.guarantee import GUARANTEES
from nelson.learning.group import span
from nelson.learning.moments import Draw
from nelson.sampling.drawing import Drawing
from nelson.sampling.plan import carry_out
from nelson.sampling.registry import get, names
from nelson.sampling.samples import Samples

if TYPE_CHECKING:
    from nelson.learning.draw import Drawer


@cache
def by_number() -> frozenset[str]:
    """Samplers whose sample i of a seed depends neither on the batch around it nor on a clock."""
    return frozenset(n for n in names() if get(n).keyed and not get(n).may_be_invalid)


def drawn_together(drawer: Drawer, theta: np.ndarray, m: int, key: int) -> Draw:
    """The samples of `drawer.alone`, drawn by all ranks; each rank holds its share."""
    group, started = drawer.group, time.perf_counter()
    plan = None
    if drawer.custom is None and drawer.method in by_number() | {"auto"}:
        # For all m samples, so that decisions do not depend on the size of a share.
        plan = drawer.plan(theta).drawing(m, drawer.options(key)).confirmed()
        if drawer.method == "auto" and not _agreed(plan, drawer):
            plan = None
    first, last = span(m, group, 64)
    if plan is not None and first < last:
        mine = Draw.of(_share(plan, first, last), started)
    elif plan is None and group.rank == 0:
        mine = drawer.alone(theta, m, key)
    else:
        nothing = np.zeros((0, drawer.formula.n_vars), np.uint64)
        mine = Draw(np.zeros(drawer.formula.n_vars), nothing, 0, 0, 0.0, "exact")
    # One collective sum: the popcounts, then three numbers of each rank, each in its own place.
    n, size = drawer.formula.n_vars, group.size
    vector = np.zeros(n + 3 * size, np.int64)
    if mine.count:  # exact: the mean of fewer than 2^52 bits determines its numerator
        vector[:n] = np.rint(mine.mean * mine.count)
    vector[n + group.rank :: size] = mine.count, mine.rounds, GUARANTEES.index(mine.guarantee)
    vector = group.sum(vector)
    counts, rounds, guarantees = vector[n:].reshape(3, size)
    total = int(counts.sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = vector[:n] / np.float64(total)
    return Draw(
        mean,
        mine.bits,
        total,
        int(rounds.max()),
        time.perf_counter() - started,
        GUARANTEES[int(guarantees.min())],
        int(counts[: group.rank].sum()),
        mine.count,
        group,
    )


def _agreed(plan: Drawing, drawer: Drawer) -> bool:
    """Have all ranks decided the same, and only for samplers that number their samples?

    They see the same formula and theta, but each rank has another clock.
    """
    parts = plan.choice.parts
    methods = {part["method"] for part in parts} or {plan.sampler.name}
    decisions = [(p["method"], p["sweeps"], p["variables"], p["components"]) for p in parts]
    text = repr((plan.sampler.name, plan.request.sweeps, decisions, plan.choice.steps))
    digest = hashlib.sha256(text.encode()).hexdigest()
    answers = drawer.group.gather(digest if methods <= by_number() else "")
    return "" not in answers and len(set(answers)) == 1


def _share(plan: Drawing, first: int, last: int) -> Samples:
    """Samples first..last of a plan; first is a multiple of 64."""
    count = last - first
    parts = [
        (problem, replace(request, start=first, count=count, block=count))
        for problem, request in plan.parts
    ]
    return carry_out(replace(plan, n=count, parts=parts), time.monotonic())
