"""An estimate of log P(C) by a bridge between samples and a law of a few units that is known.

    P(C) = sum over h of W(h)             W: exact sums, given the values h of the held units
    Q(h)                                  a law of h with known probabilities, fitted to samples

The samples have h ~ W / P(C). Q is normalised, and W is not: that is what a bridge needs
(`bridge_draws.py`). The samples are those of `auto`, whatever moves its chains make. W comes from
tables (`sums.py`), Q is a tree (`hub_law.py`).

The half width of the interval is the sum of three terms:
- noise: 1.96 standard deviations;
- bias, if the samples come from chains. A lag is the number of sweeps after which correlations
  fall to rho, and chains run for 3 lags. Fewer others stop after 1 lag. If the bias falls by a
  factor rho a lag, the difference between the two, times rho^2 / (1 - rho^2), may be left;
- rounding: the sampler's probabilities are multiples of 2^-32.

The estimate is heuristic if the samples are, or if Q and W overlap too little. So it is if chains
miss a region: draws of Q alone, E_Q(W / Q) = P(C), find more than noise allows, or the known h, of
solutions from solvers among others, weigh more. Then the half width covers bounds that always hold:

    log sum over distinct known h of W(h)  <=  log P(C)  <=  log P(G_0)
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

from nelson.budget import Budget
from nelson.chains.problem import rounding
from nelson.errors import BudgetExceeded
from nelson.io.progress import phase
from nelson.log_z.bridge_draws import FIRST, BridgeDraws, PartSampler
from nelson.log_z.method import AIM, LogProbability, LogZTask, MethodOutcome
from nelson.log_z.parts import WeightedClauses, merge
from nelson.log_z.sums import Sums
from nelson.policy import DEFAULT, Policy
from nelson.sampling.auto import ready


def bridge(
    part: WeightedClauses, half_width: float, seed: int, budget: Budget, policy: Policy = DEFAULT
) -> LogProbability:
    """log P(part holds) with a 95% half width of at most `half_width`, or wider if the time ends.

    budget: with a deadline. Steps of `auto` that `policy.auto.without` names do not draw the
    samples. Raises BudgetExceeded if the formula is too wide, or if the time ends before there are
    enough samples.
    """
    limits, seconds = policy.log_z, budget.left
    if (far := float(rounding(part.theta))) > half_width:
        raise BudgetExceeded(f"rounding to 2^-32 may change log Z by {far:.2g}")
    sums = Sums.cheap(part.problem, part.theta, limits)
    if sums is None:
        raise BudgetExceeded("its tables are too large, whichever few variables are kept fixed")
    if sums.sizes.sum() > limits.bridge_values:
        raise BudgetExceeded(
            f"its tables are too large unless {len(sums.held):,} variables are fixed"
        )
    if not len(sums.held):
        return _without_samples(sums, budget)
    began = time.monotonic()
    ready(FIRST, None)  # compiling kernels in a first call is not the user's time
    if budget.deadline is not None:
        budget = replace(budget, deadline=budget.deadline + time.monotonic() - began)
    source = PartSampler(part, seed, budget, policy)
    draws = BridgeDraws(part, sums, source, seed, limits)
    if source.guarantee == "diagnosed":
        draws.look_elsewhere()
    count, growth, least = FIRST, limits.bridge_growth, FIRST // 4
    for _ in range(limits.bridge_rounds):
        finished = draws.extend(count)
        if min(len(draws.samples), len(draws.draws)) < least:
            raise BudgetExceeded(f"{seconds:.3g} s were too short for {least} samples")
        latest = draws.estimate()
        room = half_width - latest.info["rounding"]
        reducible = latest.info["noise"] + latest.info["bias"]
        no_overlap = latest.info["overlap"] * growth**2 < limits.bridge_overlap
        hopeless = source.guarantee == "heuristic" or no_overlap
        if reducible <= room or not finished or hopeless:
            break
        missing = min((reducible / (AIM * room)) ** 2 - 1, growth)
        count = max(64, math.ceil(missing * len(draws.samples) / 64) * 64)
    latest.info["reached"] = latest.half_width <= half_width
    return latest


def _without_samples(sums: Sums, budget: Budget) -> LogProbability:
    """The sums hold no unit: one sum is log P."""
    none = {"samples": 0, "held": 0, "noise": 0.0, "bias": 0.0, "rounding": 0.0}
    info = {**none, "guarantee": "exact", "reached": True}
    log_p = sums.total(replace(budget, threads=1))
    return LogProbability(log_p, 0.0, info, "sums that keep no variable fixed", exact=True)


def by_bridge(parts: list[WeightedClauses], task: LogZTask) -> MethodOutcome:
    """All parts together. Within "auto" some time is left for bounds."""
    budget = task.estimate_budget()
    if task.is_auto:
        budget = budget.share(task.policy.log_z.bridge_share)
    with phase("log Z: a bridge between samples and sums"):
        try:
            estimate = bridge(merge(parts), task.half_width, task.seed, budget, task.policy)
        except BudgetExceeded as error:
            return MethodOutcome([], parts, str(error))
    result = replace(estimate, parts=len(parts))
    reason = "" if estimate.trusted else estimate.info.get("reason", "the chains did not mix")
    return MethodOutcome([result], [], reason)
