"""Draws for the bridge (`bridge.py`): samples of a part, draws of Q, and log P(C) from both.

Of n_p draws of W / P(C) and n_q of Q, which is normalised, let

    f(h) = n_p W(h) / (n_p W(h) + n_q Q(h) P(C))

be the probability that h came from the first law. Of all P(C) the one is right for which as many
draws of Q look like draws of W as draws of W look like draws of Q (Bennett 1976; Meng, Wong 1996):

    sum over draws of Q of f  =  sum over draws of W of 1 - f

Since f lies between 0 and 1, no single draw decides, as it may in importance sampling. The variance
of log P(C) is Var_q(f) / (n_q E_q(f)^2) + Var_p(f) / (n_p (1 - E_p(f))^2).

Samples of a part: `auto` decides once, as for `nelson.sample`, and is then drawn from at will. So
where single flips freeze, the chains make joint moves, jumps, or sweeps of fields, and the samples
have the guarantee that `nelson.sample` would state.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from nelson.budget import Budget
from nelson.chains.guarantee import weakest
from nelson.chains.problem import rounding
from nelson.errors import BudgetExceeded
from nelson.kernels.core.bits import unpack
from nelson.log_z.bounds import upper_bound, valid_structures
from nelson.log_z.hub_law import HubLaw
from nelson.log_z.method import SIGMAS, LogProbability, independent_seed
from nelson.log_z.parts import WeightedClauses
from nelson.log_z.result import Z95
from nelson.log_z.sums import LostEntries, Sums
from nelson.policy import DEFAULT, LogZPolicy, Policy
from nelson.sampling import auto
from nelson.sampling.auto import Decision
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan, carry_out

#: Samples of the first round. Each sample comes with two draws of Q, which cost less.
FIRST, _DRAWS_EACH = 2048, 2
#: Nats by which two sums of the same numbers may differ.
_SLACK = 1e-6
#: Why an estimate cannot be trusted.
HEURISTIC = "the samples are heuristic"


@dataclass(frozen=True)
class Bridge:
    """log P(C) from both kinds of draws."""

    value: float
    variance: float
    overlap: float  # the sum of f (1 - f)
    log_miss: float  # log E_p(1 - f)

    @classmethod
    def between(cls, samples: np.ndarray, draws: np.ndarray) -> Bridge:
        """log W / Q of samples, which is finite, and of draws of Q, which may be -inf."""
        offset = math.log(len(samples) / len(draws))
        possible = draws[np.isfinite(draws)]
        if not len(possible):
            return cls(float(np.median(samples)), math.inf, 0.0, 0.0)
        # Draws that look like samples are fewer, and samples that look like draws are more, the
        # larger the value: bisect, from 50 nats beyond all ratios. A step of 2^-50 of the range is
        # below the noise.
        low = float(min(samples.min(), possible.min())) - 50.0
        high = float(max(samples.max(), possible.max())) + 50.0
        for _ in range(50):
            value = (low + high) / 2
            more = expit(offset + draws - value).sum() > expit(value - offset - samples).sum()
            low, high = (value, high) if more else (low, value)
        f_q, g_p = expit(offset + draws - value), expit(value - offset - samples)
        # An event that no draw has shown may have a probability of about two draws' share.
        variance = sum(
            float(share.var() / share.mean() ** 2) / len(share) + (2.0 / len(share)) ** 2
            for share in (f_q, g_p)
        )
        overlap = float((f_q * (1 - f_q)).sum() + (g_p * (1 - g_p)).sum())
        return cls(value, variance, overlap, math.log(float(g_p.mean())))

    def shift(self, early: np.ndarray, draws: np.ndarray, samples: int) -> tuple[float, float]:
        """(by how much log P(C) would differ with these samples, the variance of that)."""
        offset = math.log(samples / draws.size)
        g = expit(self.value - offset - early)
        mean = max(float(g.mean()), 0.5 / len(g))
        return math.log(mean) - self.log_miss, float(g.var()) / mean**2 / len(g)


class PartSampler:
    """Samples of one part, under theta."""

    def __init__(
        self,
        part: WeightedClauses,
        seed: int,
        budget: Budget,
        policy: Policy = DEFAULT,
        starts: int = 1024,
    ) -> None:
        """starts: of chains that a solver is asked for; default: as many as `nelson.sample`."""
        self.budget = budget
        options = Options(
            seed=seed,
            threads=budget.threads,
            seconds=budget.left,  # of which `auto` leaves some for drawing
            policy=policy,
        )
        drawing = Plan(part.formula, part.theta, options).drawing(starts).confirmed()
        assert drawing.decisions is not None
        self.decision = auto.settled(drawing.decisions[()], drawing.request)
        self.drawing = drawing
        self.guarantee = drawing.guarantee  # the weakest of all samples so far

    @property
    def method(self) -> str:
        return self.decision.choice.method

    @property
    def moves(self) -> str:
        """What a sweep of the chains is: "single", "fields", "joint" or "jumps"."""
        chains = [group for group in self.decision.groups if _measured(group.records, "lag")]
        names = [str(g.moves.info["moves"]) if g.moves else "single" for g in chains]
        return " + ".join(dict.fromkeys(names))

    @property
    def lag(self) -> int:
        """Sweeps after which correlations fall to `rho`; 0: no sample comes from chains."""
        return max((_measured(group.records, "lag") for group in self.decision.groups), default=0)

    @property
    def rho(self) -> float:
        """The correlation that is left after a lag. Below 0.1 it cannot be told from noise."""
        measured = [_measured(group.records, "rho") for group in self.decision.groups]
        return float(np.clip(max(measured, default=0.0), 0.1, 0.99))

    def draw(self, count: int, seed: int, early: bool = False) -> np.ndarray:
        """Up to `count` samples (lanes, n) bool. early: chains stop after one lag.

        Raises BudgetExceeded if there is none.
        """
        decision = _hasty(self.decision) if early else self.decision
        problem, request = self.drawing.parts[0]
        request = replace(request, count=count, block=count, seed=seed, budget=self.budget)
        decided: dict[tuple[int, ...], Decision] = {(): decision}
        drawing = replace(
            self.drawing,
            sampler=auto.sampler(decided),
            decisions=decided,
            n=count,
            parts=[(problem, request)],
        )
        samples = carry_out(drawing, time.monotonic())
        if not samples.count:
            raise BudgetExceeded(f"no sample was drawn ({samples.info.get('reason', '')})")
        self.guarantee = weakest([self.guarantee, samples.guarantee])
        return unpack(samples.packed, samples.count)


def _measured(records: list[dict[str, Any]], name: str) -> Any:
    """The largest of the measurements of chains that a group draws from."""
    return max((record.get(name, 0) for record in records if record["sweeps"]), default=0)


def _hasty(decision: Decision) -> Decision:
    """The same with chains that stop after one lag."""
    groups = [
        replace(group, sweeps=_measured(group.records, "lag") or group.sweeps)
        for group in decision.groups
    ]
    return replace(decision, groups=groups)


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
        fit = sums.values(self._samples(int(np.clip(8 * sums.sizes.sum(), FIRST, 8 * FIRST))))
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
        most = FIRST // 2 if self.source.lag else 8 * FIRST
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
            except LostEntries:
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
