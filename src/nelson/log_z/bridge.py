"""An estimate of log P(C) by a bridge between samples and a law of a few units that is known.

    P(C) = sum over h of W(h)             W: exact sums, given the values h of the held units
    Q(h)                                  a law of h with known probabilities, fitted to samples

The samples have h ~ W / P(C). Q is normalised, and W is not: that is what a bridge needs
(`bennett.py`). The samples are those of `auto`, whatever moves its chains make
(`part_sampler.py`). W comes from tables (`sums.py`), Q is a tree (`hub_law.py`).

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
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.resolution import rounding
from nelson.errors import BudgetExceeded
from nelson.io.progress import phase
from nelson.log_z.bennett import Bridge
from nelson.log_z.bounds import upper_bound, valid_structures
from nelson.log_z.hub_law import HubLaw
from nelson.log_z.method import (
    AIM,
    SIGMAS,
    LogProbability,
    LogZTask,
    MethodOutcome,
    independent_seed,
)
from nelson.log_z.part_sampler import PartSampler
from nelson.log_z.parts import WeightedClauses, merge
from nelson.log_z.result import Z95
from nelson.log_z.sums import Lost, Sums
from nelson.policy import DEFAULT, LogZPolicy, Policy
from nelson.sampling.auto import ready

#: Samples of the first round. Each sample comes with two draws of Q, which cost less.
_FIRST, _DRAWS_EACH = 2048, 2
#: Nats by which two sums of the same numbers may differ.
_SLACK = 1e-6
#: Why an estimate cannot be trusted.
HEURISTIC = "the samples are heuristic"


class BridgeDraws:
    """Samples and draws of Q for one part, as many as asked for."""

    def __init__(
        self,
        part: WeightedClauses,
        sums: Sums,
        source: PartSampler,
        seed: int,
        limits: LogZPolicy,
    ) -> None:
        self.part, self.sums, self.source, self.limits = part, sums, source, limits
        self.seed, self.budget = seed, source.budget
        self.number = 0  # of the next seed
        # Q is fitted to 8 samples for each value of a held unit, within limits.
        fit = sums.values(self._samples(int(np.clip(8 * sums.sizes.sum(), _FIRST, 8 * _FIRST))))
        self.law = HubLaw.fitted(fit, sums.sizes, sums.rules)
        self.known: dict[int, float] = {}  # log W of distinct values, by their names
        self.samples, self.early, self.draws = (np.zeros(0) for _ in range(3))

    def next_seed(self) -> int:
        self.number += 1
        return independent_seed(self.seed, self.number)

    def _samples(self, count: int, early: bool = False) -> np.ndarray:
        return self.source.draw(count, self.next_seed(), early)

    def extend(self, count: int) -> bool:
        """Add this many samples; -> False if the time was up first."""
        # Chains take their time, and a deadline loses one draw.
        most = _FIRST // 2 if self.source.lag else 8 * _FIRST
        while count > 0:
            size = min(count, most)
            try:
                x = self._samples(size)
                self.samples = np.append(self.samples, self._ratios(self.sums.values(x)))
                values, log_q = self.law.draw(_DRAWS_EACH * len(x), self.next_seed())
                self.draws = np.append(self.draws, self._ratios(values, log_q))
                if self.source.lag:
                    early = self._samples(max(64, size // 8), early=True)
                    self.early = np.append(self.early, self._ratios(self.sums.values(early)))
            except Lost:
                raise  # what is left would be another law
            except BudgetExceeded:
                return False
            if len(x) < size:
                return False
            count -= size
        return True

    def look_elsewhere(self, share: float = 0.2) -> None:
        """Weigh solutions that solvers find in a share of the time left: the chains may never have
        been there.
        """
        budget = self.budget.share(share)
        states = valid_structures(self.part, self.next_seed(), budget, self.limits)
        if len(states):
            self._ratios(self.sums.values(states))

    def _ratios(self, values: np.ndarray, log_q: np.ndarray | None = None) -> np.ndarray:
        """log W / Q of values of the held units; W is computed once for equal values."""
        names, first, place = np.unique(self._names(values), return_index=True, return_inverse=True)
        distinct = np.asfortranarray(values[first])
        log_w = self.sums.log_w(distinct, self.budget)
        self.known.update(zip(names.tolist(), log_w.tolist(), strict=True))
        if log_q is None:
            log_q = self.law.log_q(distinct)[place]
        return log_w[place] - log_q

    def _names(self, values: np.ndarray) -> np.ndarray:
        """(lanes,) uint64, equal for equal values: the exclusive or of a random number for each
        value (Zobrist 1970). Others are equal with probability 2^-64.
        """
        random = np.random.default_rng(0).integers(0, 1 << 64, (values.shape[1], 128), np.uint64)
        names = np.zeros(len(values), np.uint64)
        for j, numbers in enumerate(random):
            names ^= numbers[values[:, j]]
        return names

    # --- the answer -------------------------------------------------------------------------------

    def doubt(self, balance: Bridge) -> str:
        """Why the estimate cannot be trusted; "" if it can."""
        if self.source.guarantee == "heuristic":
            return HEURISTIC
        if balance.overlap < self.limits.bridge_overlap:
            return f"only {balance.overlap:.2g} samples lie where both distributions overlap"
        weight = np.exp(self.draws - self.draws.max())
        mean, square = float(weight.mean()), float((weight**2).mean())
        alone = float(self.draws.max()) + math.log(mean)
        spread = math.sqrt((square / mean**2 - 1) / len(weight) + balance.variance)
        if mean**2 < 0.02 * square:
            # Fewer than 2% of the draws carry the mean: its error is not known. It is e^9.2 times
            # too large with probability 1e-4 at most (Markov).
            spread = 9.2 / SIGMAS
        if alone > balance.value + SIGMAS * spread + _SLACK:
            return f"draws without chains find {alone - balance.value:.2g} nats more"
        return ""

    def estimate(self) -> LogProbability:
        """log P with its half width. If that cannot be trusted: clipped to the bounds that always
        hold, with a half width that covers them.
        """
        balance = Bridge.between(self.samples, self.draws)
        bias = 0.0
        if len(self.early):
            factor = self.source.rho**2 / (1 - self.source.rho**2)
            shift, variance = balance.shift(self.early, self.draws, len(self.samples))
            bias = factor * (abs(shift) + 2 * math.sqrt(variance + balance.variance))
        noise, rounded = Z95 * math.sqrt(balance.variance), float(rounding(self.part.theta))
        log_p, half = balance.value, noise + bias + rounded
        low = float(np.logaddexp.reduce(list(self.known.values())))
        doubt = self.doubt(balance)
        if not doubt and low > log_p + SIGMAS / Z95 * half + _SLACK:
            doubt = "known solutions weigh more than the estimate"
        log_p = max(log_p, low)  # which is certain, and close if there are few h
        info: dict[str, Any] = {
            "samples": len(self.samples) + len(self.early),
            "draws": len(self.draws),
            "held": len(self.sums.held),
            "width": self.sums.width,
            "overlap": balance.overlap,
            "method": self.source.method,
            "noise": noise,
            "bias": bias,
            "rounding": rounded,
            "guarantee": "heuristic" if doubt else self.source.guarantee,
        }
        if self.source.lag:
            info["moves"] = self.source.moves
        if info["guarantee"] != "exact":
            high = upper_bound(self.part)
            info["bounds"], info["estimate"] = (low, high), balance.value
        if doubt:
            info["reason"] = doubt
            log_p = min(log_p, high)
            half = max(log_p - low, high - log_p)
        source = (
            f"a bridge between {len(self.samples):,} samples ({self.source.method}, "
            f"{self.source.guarantee}) and exact sums over all but {len(self.sums.held)} variables"
        )
        return LogProbability(log_p, half, info, source)


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
    ready(_FIRST, None)  # compiling kernels in a first call is not the user's time
    if budget.deadline is not None:
        budget = replace(budget, deadline=budget.deadline + time.monotonic() - began)
    source = PartSampler(part, seed, budget, policy)
    draws = BridgeDraws(part, sums, source, seed, limits)
    if source.guarantee == "diagnosed":
        draws.look_elsewhere()
    count, growth, least = _FIRST, limits.bridge_growth, _FIRST // 4
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
