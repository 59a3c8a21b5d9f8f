"""An estimate of log P(C) by a bridge between samples and a law of a few units that is known.

    P(C) = sum over h of W(h)             W: exact sums, given the values h of the held units
    Q(h)                                  a law of h with known probabilities, fitted to samples

The samples have h ~ W / P(C). Q is normalised, and W is not: that is what a bridge needs
(`bennett.py`). The samples are those of `auto`, whatever moves its chains make
(`source.py`). W comes from tables (`sums.py`), Q is a tree (`hub_law.py`). One set of samples is
enough, where `telescope` needs one for each ratio.

The half width of the interval is the sum of three terms:
- noise: 1.96 standard deviations;
- bias, if the samples come from chains. These ran for 3 lags. Fewer others stop after 1 lag, and
  the difference between the two, times rho^2 / (1 - rho^2), is what may be left (`telescope.py`);
- rounding: the sampler's probabilities are multiples of 2^-32.

The estimate is heuristic if the samples are, or if Q and W overlap too little. So it is if chains
miss a region: draws of Q alone, E_Q(W / Q) = P(C), find more than noise allows, or the known h, of
solutions from solvers among others, weigh more. Then the half width covers bounds that always hold:

    log sum over distinct known h of W(h)  <=  log P(C)  <=  log P(G_0)
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded
from nelson.formula import Formula
from nelson.kernels.core.threads import usable_cores
from nelson.log_z.bennett import Bridge
from nelson.log_z.bounds import valid_structures
from nelson.log_z.estimate import Estimate, independent_seed
from nelson.log_z.hub_law import HubLaw
from nelson.log_z.parts import Part
from nelson.log_z.result import Z95
from nelson.log_z.source import Source
from nelson.log_z.sums import Sums
from nelson.log_z.telescope import ordered
from nelson.sampling.auto import ready
from nelson.sampling.diagnosis.diagnose import rounding
from nelson.sampling.problem import prepare

#: Samples that Q is fitted to: this many for each value of a held unit, but at least, and at most.
_FIT_EACH, _FIT_LEAST, _FIT_MOST = 8, 2048, 16384
#: Values of all held units, at most: the fit takes their square.
_MOST_VALUES = 3072
#: Samples of the first round; each sample comes with this many draws of Q, which cost less.
_FIRST, _DRAWS_EACH = 2048, 2
#: Samples of one draw, at most; and of chains, which take their time: a deadline loses one draw.
_CHUNK, _CHUNK_OF_CHAINS = 16384, 1024
#: Fewer samples are not enough for any statement, where the time ends early.
_LEAST = 512
#: Aim at this share of the half width asked for, so that most runs need no further round.
_AIM = 0.97
#: Rounds, the first one included; each makes at most _GROWTH times as many samples as there are.
_ROUNDS, _GROWTH = 8, 8.0
#: Samples of chains that stop after one lag, as a share of the others.
_EARLY_SHARE = 0.125
#: The share of the time left in which solvers look for solutions elsewhere.
_ELSEWHERE = 0.2
#: Samples that must lie where Q and W overlap: sum of f (1 - f) over all of them.
_OVERLAP = 50.0
#: Standard deviations by which draws of Q alone may find more: a false alarm in 3e-7 of the cases.
_SIGMAS = 5.0
#: Nats by which two sums of the same numbers may differ.
_SLACK = 1e-6
#: If fewer draws of Q than this share carry W / Q, they may find this many nats more: the mean is
#: e^9.2 times too large with probability 1e-4 at most (Markov).
_CARRIED, _FAR = 0.02, 9.2


#: Why an estimate cannot be trusted.
HEURISTIC = "the samples are heuristic"


class Run:
    """Samples and draws of Q for one part, as many as asked for."""

    def __init__(self, part: Part, sums: Sums, source: Source, seed: int, threads: int) -> None:
        self.part, self.sums, self.source = part, sums, source
        self.seed, self.threads = seed, threads
        self.number = 0  # of the next seed
        wanted = int(np.clip(_FIT_EACH * sums.sizes.sum(), _FIT_LEAST, _FIT_MOST))
        fit = sums.values(self._samples(wanted))
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
        most = _CHUNK_OF_CHAINS if self.source.lag else _CHUNK
        while count > 0:
            size = min(count, most)
            try:
                x = self._samples(size)
                self.samples = np.append(self.samples, self._ratios(self.sums.values(x)))
                values, log_q = self.law.draw(_DRAWS_EACH * len(x), self.next_seed())
                self.draws = np.append(self.draws, self._ratios(values, log_q))
                if self.source.lag:
                    few = self._samples(max(64, int(_EARLY_SHARE * size)), early=True)
                    self.early = np.append(self.early, self._ratios(self.sums.values(few)))
            except BudgetExceeded:
                return False
            if len(x) < size:
                return False
            count -= size
        return True

    def look_elsewhere(self) -> None:
        """Weigh solutions that solvers find: the chains may never have been there."""
        left = self.source.deadline - time.monotonic()
        found = valid_structures(self.part, self.next_seed(), _ELSEWHERE * left)
        if len(found):
            self._ratios(self.sums.values(found))

    def _ratios(self, values: np.ndarray, log_q: np.ndarray | None = None) -> np.ndarray:
        """log W / Q of values of the held units; W is computed once for equal values."""
        names, first, place = np.unique(self._names(values), return_index=True, return_inverse=True)
        distinct = np.asfortranarray(values[first])
        log_w = self.sums.log_w(distinct, self.threads, self.source.deadline)
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
        for j, own in enumerate(random):
            names ^= own[values[:, j]]
        return names

    # --- the answer -------------------------------------------------------------------------------

    def doubt(self, found: Bridge) -> str:
        """Why the estimate cannot be trusted; "" if it can."""
        if self.source.guarantee == "heuristic":
            return HEURISTIC
        if found.overlap < _OVERLAP:
            return f"only {found.overlap:.2g} samples lie where both laws overlap"
        weight = np.exp(self.draws - self.draws.max())
        mean, square = float(weight.mean()), float((weight**2).mean())
        alone = float(self.draws.max()) + math.log(mean)
        spread = math.sqrt((square / mean**2 - 1) / len(weight) + found.variance)
        if mean**2 < _CARRIED * square:  # few draws carry the mean: its error is not known
            spread = _FAR / _SIGMAS
        if alone > found.value + _SIGMAS * spread + _SLACK:
            return f"draws without chains find {alone - found.value:.2g} nats more"
        return ""

    def estimate(self) -> Estimate:
        """log P with its half width. If that cannot be trusted: clipped to the bounds that always
        hold, with a half width that covers them.
        """
        found = Bridge.between(self.samples, self.draws)
        bias = 0.0
        if len(self.early):
            factor = self.source.rho**2 / (1 - self.source.rho**2)
            shift, variance = found.shift(self.early, self.draws, len(self.samples))
            bias = factor * (abs(shift) + 2 * math.sqrt(variance + found.variance))
        noise, rounded = Z95 * math.sqrt(found.variance), float(rounding(self.part.theta))
        log_p, half = found.value, noise + bias + rounded
        low = float(np.logaddexp.reduce(list(self.known.values())))
        doubt = self.doubt(found)
        if not doubt and low > log_p + _SIGMAS / Z95 * half + _SLACK:
            doubt = "known solutions weigh more than the estimate"
        log_p = max(log_p, low)  # which is certain, and close if there are few h
        info: dict[str, Any] = {
            "samples": len(self.samples) + len(self.early),
            "draws": len(self.draws),
            "held": len(self.sums.held),
            "width": self.sums.width,
            "overlap": found.overlap,
            "method": self.source.method,
            "noise": noise,
            "bias": bias,
            "rounding": rounded,
            "guarantee": "heuristic" if doubt else self.source.guarantee,
        }
        if self.source.lag:
            info["moves"] = self.source.moves
        if info["guarantee"] != "exact":
            high = ordered(self.part)[2]
            info["bounds"], info["estimate"] = (low, high), found.value
        if doubt:
            info["reason"] = doubt
            log_p = min(log_p, high)
            half = max(log_p - low, high - log_p)
        told = (
            f"a bridge between {len(self.samples):,} samples ({self.source.method}, "
            f"{self.source.guarantee}) and sums that hold {len(self.sums.held)} units"
        )
        return Estimate(log_p, half, info, told)


def bridge(
    part: Part,
    half_width: float,
    seed: int,
    threads: int | None,
    seconds: float,
    skip: frozenset[str] = frozenset(),
) -> Estimate:
    """log P(part holds) with a 95% half width of at most `half_width`, or wider if the time ends.

    skip: steps of `auto` that must not draw the samples. Raises BudgetExceeded if the formula is
    too wide, or if the time ends before there are enough samples.
    """
    deadline = time.monotonic() + seconds
    if (far := float(rounding(part.theta))) > half_width:
        raise BudgetExceeded(f"rounding to 2^-32 may change log Z by {far:.2g}")
    problem = prepare(Formula.from_arrays(part.literals, part.offsets, n_vars=part.n))
    sums = Sums.cheap(problem, part.theta)
    if sums is None:
        raise BudgetExceeded("no few variables leave a narrow formula if they are held")
    if sums.sizes.sum() > _MOST_VALUES:
        raise BudgetExceeded(f"the formula stays wide unless {len(sums.held):,} variables are held")
    if not len(sums.held):  # there is nothing to sample
        none = {"samples": 0, "held": 0, "noise": 0.0, "bias": 0.0, "rounding": 0.0}
        log_p, info = sums.total(1, deadline), {**none, "guarantee": "exact", "reached": True}
        return Estimate(log_p, 0.0, info, "sums that hold no unit")
    began = time.monotonic()
    ready(_FIRST, None)  # compiling kernels in a first call is not the user's time
    deadline += time.monotonic() - began
    source = Source(part, seed, threads, deadline, skip)
    run = Run(part, sums, source, seed, threads or usable_cores())
    if source.guarantee == "asymptotic":
        run.look_elsewhere()
    count = _FIRST
    for _ in range(_ROUNDS):
        finished = run.extend(count)
        if min(len(run.samples), len(run.draws)) < _LEAST:
            raise BudgetExceeded(f"{seconds:.3g} s were too short for {_LEAST} samples")
        found = run.estimate()
        room = half_width - found.info["rounding"]
        reducible = found.info["noise"] + found.info["bias"]
        hopeless = source.guarantee == "heuristic" or found.info["overlap"] * _GROWTH**2 < _OVERLAP
        if reducible <= room or not finished or hopeless:
            break
        missing = min((reducible / (_AIM * room)) ** 2 - 1, _GROWTH)
        count = max(64, math.ceil(missing * len(run.samples) / 64) * 64)
    found.info["reached"] = found.half_width <= half_width
    return found
