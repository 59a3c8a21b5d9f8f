"""m samples drawn by several ranks, each a share of them, and counted together.

    sample i of (seed, iteration) is a function of i       (counter-based random numbers)
    rank r draws the samples of words W r / R .. W (r + 1) / R of all W = m / 64 (rounded up)
    E_model[x] = (sum over ranks of popcounts) / (sum over ranks of counts)

The shares together are the samples that one process would draw, and the sums are of integers: the
mean is the same bits for any R. That needs a sampler whose samples have numbers (`BY_NUMBER`) and,
where "auto" decides for each component, the same decision everywhere. Otherwise rank 0 draws all of
them: the same result, in the time of one.

If samples are missing (a budget of rounds ended) what is left may depend on R.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nelson.learning.draw import Draw
from nelson.learning.group import span
from nelson.sampling.device.samples import DeviceSamples
from nelson.sampling.guarantee import GUARANTEES
from nelson.sampling.plan import Plan, make_plan
from nelson.sampling.sample_stream import carry_out
from nelson.sampling.samples import Samples
from nelson.sampling.shards import NUMBERED

if TYPE_CHECKING:
    from nelson.learning.draw import Drawer

#: Sample i of a seed is the same bits whatever is drawn beside it, and found without a clock.
BY_NUMBER = frozenset(NUMBERED) - {"cdcl"}


def drawn_together(drawer: Drawer, theta: np.ndarray, m: int, key: int) -> Draw:
    """What `drawer.alone` draws, by all ranks; each holds its part."""
    group, started = drawer.group, time.perf_counter()
    plan = None
    if drawer.custom is None and drawer.method in BY_NUMBER | {"auto"}:
        plan = _planned(drawer, theta, m, key)
        if drawer.method == "auto" and not _agreed(plan, drawer):
            plan = None
    if plan is not None:
        drawn = _part(plan, *span(m, group, 64), drawer)
        held, ones = len(drawn), _ones(drawn)
        bits = drawn if isinstance(drawn, DeviceSamples) else drawn.packed
        rounds, worth = int(drawn.info.get("rounds") or 0), drawn.guarantee
    elif group.rank == 0:
        whole = drawer.alone(theta, m, key)
        held, ones = whole.count, np.rint(whole.mean * whole.count) if whole.count else 0
        bits, rounds, worth = whole.bits, whole.rounds, whole.guarantee
    else:
        held, ones, rounds, worth = 0, 0, 0, "exact"
        bits = np.zeros((0, drawer.formula.n_vars), np.uint64)
    # One sum for everything: popcounts, and a place for each rank's own numbers.
    n, size = drawer.formula.n_vars, group.size
    vector = np.zeros(n + 3 * size, np.int64)
    vector[:n] = ones
    vector[n + group.rank :: size] = held, rounds, GUARANTEES.index(worth)
    vector = group.sum(vector)
    counts, all_rounds, worths = vector[n:].reshape(3, size)
    total = int(counts.sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = vector[:n] / np.float64(total)
    return Draw(
        mean,
        bits,
        total,
        int(all_rounds.max()),
        time.perf_counter() - started,
        GUARANTEES[int(worths.min())],
        int(counts[: group.rank].sum()),
        held,
        group,
    )


def _planned(drawer: Drawer, theta: np.ndarray, m: int, key: int) -> Plan:
    """Of all m samples, so that what is decided does not depend on a share's size."""
    return make_plan(drawer.formula, theta, m, drawer.options(key))


def _agreed(plan: Plan, drawer: Drawer) -> bool:
    """Have all ranks decided the same, and for samplers that number their samples?

    They see the same formula and theta, but each its own clock.
    """
    parts = plan.choice.parts
    methods = {part["method"] for part in parts} or {plan.sampler.name}
    told = [(p["method"], p["sweeps"], p["variables"], p["components"]) for p in parts]
    text = repr((plan.sampler.name, plan.request.sweeps, told, plan.choice.steps))
    digest = hashlib.sha256(text.encode()).hexdigest()
    answers = drawer.group.gather(digest if methods <= BY_NUMBER else "")
    return "" not in answers and len(set(answers)) == 1


def _part(plan: Plan, first: int, last: int, drawer: Drawer) -> Samples:
    """Samples first..last of a plan; first is a multiple of 64."""
    count = last - first
    if not count:
        nothing = np.zeros((0, drawer.formula.n_vars), np.uint64)
        return Samples(nothing, 0, plan.variables, "exact")
    parts = [
        (problem, replace(request, start=first, count=count, block=count))
        for problem, request in plan.parts
    ]
    return carry_out(replace(plan, n=count, parts=parts), time.monotonic())


def _ones(drawn: Samples) -> np.ndarray | int:
    """Popcounts, (n,); exact, as a mean of fewer than 2^52 bits keeps its numerator."""
    return np.rint(drawn.mean() * len(drawn)).astype(np.int64) if len(drawn) else 0
