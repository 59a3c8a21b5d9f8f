"""An estimate of log P(C): clauses are added in groups, and one ratio per group is sampled.

    log P(C) = log P(G_0) + sum_g log P(G_g | G_0, .., G_(g-1))

G_0 is a maximal set of clauses that share no variable: its factor is known. For each later group,
N_g samples are drawn given the groups before it, and the fraction k_g / N_g that satisfies group g
estimates the ratio r_g. A pilot run cuts the groups so that r_g is about 1/3: with ratios e^-a the
work for a given variance grows with (e^a - 1) / a^2, which is flat from a = 0.9 to 2.4. If a sample
costs c_g, the variance is least for the time with N_g ~ sqrt((1/r_g - 1) / c_g). Only the
components that a group touches are sampled. The method is Jerrum, Valiant, Vazirani 1986 with the
sampler of Guo, Jerrum, Liu 2019.

The half width of the interval is the sum of three terms:
- noise: 1.96 standard deviations of the sum of log r_g. Its terms are independent, since each has
  its own seed. log r has variance (1/r - 1)/N, with r = (k + 2)/(N + 4), which is positive even if
  k = N;
- bias of samples that are only asymptotically correct: `mixing` measures the lag at which
  correlations fall to rho, and chains run for 3 lags. A second, smaller run stops after 1 lag. If
  the bias falls by a factor rho per lag, the remaining bias is (difference of the two runs)
  rho^2 / (1 - rho^2); its absolute value is added, and 2 of its standard deviations;
- rounding: the sampler's probabilities are multiples of 2^-32, and |d log P / d theta_i| <= 1.

That is an interval only if the chains mix. So each stage that uses chains is run from other starts,
too: solutions of all clauses, the most likely one among them, are valid states of every stage. If
chains from different starts come to different marginals, or to another log P, or if log P of known
structures lies above the interval, the estimate is heuristic. Then the half width covers the bounds
of `nelson.log_z.bounds`, which always hold.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact import solver
from nelson.formula import Formula
from nelson.formula.flat import take
from nelson.kernels.core.bits import words_for
from nelson.log_z.bounds import lower_bound, valid_structures
from nelson.log_z.estimate import Estimate, independent_seed
from nelson.log_z.parts import Part
from nelson.log_z.result import Z95
from nelson.log_z.stages import (
    Conditional,
    GroupSamples,
    OtherStarts,
    Stage,
    StageSampler,
    choose,
    draw,
    from_other_starts,
    log_ratio,
    rescue,
    surviving,
)
from nelson.sampling.diagnosis.diagnose import rounding
from nelson.sampling.guarantee import weakest

#: A group ends before the clause that leaves a smaller share of the pilot's samples.
RATIO = 1 / 3
#: Samples of a pilot.
PILOT = 4096
#: Samples of a second pilot, if no sample of the first satisfies the next clause.
RARE_PILOT = 1 << 18
#: A ratio is estimated from at least this many samples.
LEAST = 1024
#: Samples drawn at once.
CHUNK = 1 << 17
#: The run that stops after one lag gets this share of a stage's samples.
EARLY_SHARE = 0.125
#: Aim at this share of the half width asked for, so that most runs need no extension.
AIM = 0.97
#: Runs that miss the half width are extended at most this often.
EXTENSIONS = 4
#: Share of the time left in which solvers look for valid structures.
START_SHARE = 0.2
#: Standard deviations by which log P from other starts may differ: a false alarm in 6e-5 of cases.
GAP_SIGMAS = 4.0
#: If rounding alone adds more nats than this, the interval would say nothing.
MAX_ROUNDING = 5.0


class Telescope:
    """One run: `cut` makes the stages, `extend` draws samples, `estimate` sums up."""

    def __init__(
        self, part: Part, seed: int, threads: int | None, deadline: float, device: Any = None
    ) -> None:
        self.part, self.known, self.base = ordered(part)
        self.seed, self.threads, self.deadline, self.device = seed, threads, deadline, device
        self.stages: list[Stage] = []

    @cached_property
    def structures(self) -> np.ndarray:
        """Valid structures of the part (m, n), found when a stage first needs chains."""
        return valid_structures(self.part, self.seed_of(0, 4), START_SHARE * self.left())

    @cached_property
    def low(self) -> float:
        """A lower bound on log P that always holds; -inf if no valid structure is known."""
        return lower_bound(self.part, self.structures)

    def seed_of(self, stage: int, purpose: int, chunk: int = 0) -> int:
        """An independent seed for each draw."""
        return independent_seed(self.seed, stage, purpose, chunk)

    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    # --- groups -----------------------------------------------------------------------------------

    def cut(self) -> None:
        """Cut the clauses into groups. The pilot's samples chose the groups, so they are not used
        for the ratios: that would bias them.
        """
        first, prs = self.known, True
        log_holds = np.log1p(-np.minimum(_violation(self.part), 1 - 1e-16))
        reach = np.concatenate([[0.0], np.cumsum(log_holds)])
        while first < self.part.n_clauses:
            if self.left() <= 0:
                done = f"{first} of {self.part.n_clauses} clauses"
                raise BudgetExceeded(f"the time was up after pilots for {done}")
            window = int(np.searchsorted(-reach, -reach[first] - 3 * math.log(RATIO), "right"))
            window = min(max(window, first + 1), self.part.n_clauses)
            stage = self._pilot(first, window, prs)
            prs = stage.sampler.guarantee == "exact"  # with more clauses prs only gets slower
            self.stages.append(stage)
            first = stage.last

    def _pilot(self, first: int, window: int, prs: bool) -> Stage:
        """The stage that begins with clause `first`; it ends before clause `window` or earlier."""
        given = Conditional.of(self.part, first, window)
        number, count = len(self.stages), PILOT
        sampler = choose(given, self.threads, self.left(), self.seed_of(number, 0), prs)
        sampler, other = self._checked(given, sampler)
        while True:
            began = time.monotonic()
            drawn = self._draw(given, sampler, count, self.seed_of(number, 1, count))
            if drawn.count == 0:
                raise BudgetExceeded(
                    f"no sample satisfied the first {first} of {self.part.n_clauses} clauses "
                    f"({drawn.reason})"
                )
            each = (time.monotonic() - began) / count
            alive = surviving(given, drawn, RATIO)
            if alive[0] > 0 or count == RARE_PILOT:
                break
            self._check_satisfiable()
            count = RARE_PILOT
        if alive[0] == 0:
            raise BudgetExceeded(
                f"clause {first + 1} (in the order used) held in none of {drawn.count} samples "
                "of the clauses before it"
            )
        clauses = max(int((alive >= RATIO * drawn.count).sum()), 1)  # `alive` never grows
        guess = (alive[clauses - 1] + 0.5) / (drawn.count + 1)
        cost = sampler.cost(given.formula)
        stage = Stage(first, first + clauses, sampler, float(guess), cost, each)
        if other is not None:
            stage.held_other, stage.drawn_other = int(other.surviving[clauses - 1]), other.count
        return stage

    def _checked(
        self, given: Conditional, sampler: StageSampler
    ) -> tuple[StageSampler, OtherStarts | None]:
        """The sampler with the guarantee that it keeps when its chains start elsewhere, and those
        chains. A stage after a heuristic one is not checked: it cannot save the estimate.
        """
        lost = any(stage.sampler.guarantee == "heuristic" for stage in self.stages)
        if sampler.guarantee == "exact" or lost:
            return sampler, None
        number = len(self.stages)
        if sampler.guarantee == "asymptotic" and len(self.structures):
            how = self.seed_of(number, 5), self.threads, self.deadline
            other = from_other_starts(given, self.structures, sampler.sweeps, *how)
            if other is not None and other.agree:
                return sampler, other
        return rescue(given, sampler, self.seed_of(number, 0), self.threads, self.left()), None

    def _draw(
        self, given: Conditional, sampler: StageSampler, count: int, seed: int
    ) -> GroupSamples:
        return draw(given, sampler, count, seed, self.threads, self.left(), device=self.device)

    def _check_satisfiable(self) -> None:
        """Raise Unsatisfiable if a solver proves it in the time that is left."""
        f = Formula.from_arrays(self.part.literals, self.part.offsets, n_vars=self.part.n)
        if solver.satisfiable(f, seconds=max(self.left(), 1.0)) is False:
            raise Unsatisfiable("a CDCL solver proved that the formula has no solution")

    # --- samples ----------------------------------------------------------------------------------

    def extend(self, totals: list[int]) -> bool:
        """Draw until stage g has totals[g] samples. False: the time was up first."""
        return all(self._extend(g, total) for g, total in enumerate(totals))

    def _extend(self, g: int, total: int) -> bool:
        stage = self.stages[g]
        if stage.drawn >= total:
            return True
        given = Conditional.of(self.part, stage.first, stage.last)
        while stage.drawn < total:
            count = min(CHUNK, words_for(total - stage.drawn) * 64)
            drawn = self._counted(given, stage.sampler, self.seed_of(g, 2, stage.chunks), count)
            if drawn is None:
                return False
            stage.held, stage.drawn = stage.held + drawn[0], stage.drawn + drawn[1]
            if drawn[2] == "heuristic":  # some variables could not move at all
                stage.sampler = replace(stage.sampler, guarantee="heuristic")
            if stage.sampler.lag:
                early = replace(stage.sampler, sweeps=stage.sampler.lag)
                count = max(words_for(int(EARLY_SHARE * count)) * 64, LEAST)
                drawn = self._counted(given, early, self.seed_of(g, 3, stage.chunks + 1), count)
                if drawn is None:
                    return False
                stage.held_early += drawn[0]
                stage.drawn_early += drawn[1]
            stage.chunks += 1
        return True

    def _counted(
        self, given: Conditional, sampler: StageSampler, seed: int, count: int
    ) -> tuple[int, int, str] | None:
        """(samples that satisfy the group, samples, guarantee), or None if the time was up: a
        draw that was cut short is not used.
        """
        if self.left() <= 0:
            return None
        drawn = self._draw(given, sampler, count, seed)
        if drawn.late or not drawn.count:
            return None
        return int(surviving(given, drawn)[-1]), drawn.count, drawn.guarantee

    # --- the answer -------------------------------------------------------------------------------

    def guarantee(self) -> str:
        """The weakest of all stages. It is heuristic, too, if other starts of the chains lead to
        another log P, over all stages together.
        """
        gaps = [stage.gap() for stage in self.stages]
        gap, variance = sum(one for one, _ in gaps), sum(one for _, one in gaps)
        if abs(gap) > GAP_SIGMAS * math.sqrt(variance):
            return "heuristic"
        return weakest(stage.sampler.guarantee for stage in self.stages)

    def estimate(self) -> Estimate:
        """The sum of all log ratios with its half width. If that cannot be trusted: clipped to the
        bounds that always hold, with a half width that covers them.
        """
        pairs = [log_ratio(stage.held, stage.drawn) for stage in self.stages]
        biases = [stage.bias() for stage in self.stages]
        noise = Z95 * math.sqrt(sum(variance for _, variance in pairs))
        bias = abs(sum(b for b, _ in biases)) + 2 * math.sqrt(sum(v for _, v in biases))
        rounded = float(rounding(self.part.theta))
        info = {
            "samples": sum(stage.drawn + stage.drawn_early for stage in self.stages),
            "stages": [
                {
                    "clauses": stage.last - stage.first,
                    "ratio": stage.held / stage.drawn,
                    "samples": stage.drawn,
                    "method": stage.sampler.method,
                    "sweeps": stage.sampler.sweeps,
                }
                for stage in self.stages
            ],
            "noise": noise,
            "bias": bias,
            "rounding": rounded,
            "guarantee": self.guarantee(),
        }
        log_p, half = self.base + sum(value for value, _ in pairs), noise + bias + rounded
        told = f"{len(pairs)} ratios from {info['samples']:,} samples ({info['guarantee']})"
        if info["guarantee"] == "exact":
            return Estimate(log_p, half, info, told)
        low, high = self.low, self.base
        info["bounds"], info["estimate"] = (low, high), log_p
        if low > log_p + half:
            info["guarantee"] = "heuristic"
        if info["guarantee"] == "heuristic":
            if low == -math.inf:
                raise BudgetExceeded(
                    "the chains did not mix, and no solver found a valid structure in time, so "
                    "that there is no lower bound on log Z either"
                )
            log_p = min(max(log_p, low), high)
            half = max(log_p - low, high - log_p)
        return Estimate(log_p, half, info, told)


def telescope(
    part: Part,
    half_width: float,
    seed: int,
    threads: int | None,
    seconds: float,
    device: Any = None,
) -> Estimate:
    """log P(part holds) with a 95% half width of at most `half_width`, or wider if the time ends.

    Raises BudgetExceeded if the time ends before every ratio has some samples.
    """
    if float(rounding(part.theta)) > MAX_ROUNDING:
        far = float(np.abs(part.theta).max())
        raise BudgetExceeded(f"|theta| = {far:.3g} is beyond the sampler's resolution")
    run = Telescope(part, seed, threads, time.monotonic() + seconds, device)
    run.cut()
    if not run.stages:
        estimate = run.estimate()
        estimate.info["reached"] = True
        return estimate
    if not run.extend([LEAST] * len(run.stages)):
        raise BudgetExceeded(f"{seconds:.3g} s were too short for {len(run.stages)} ratios")
    if run.guarantee() == "heuristic":  # more samples do not narrow the bounds
        estimate = run.estimate()
        estimate.info["reached"] = estimate.half_width <= half_width
        return estimate
    wanted = np.array([stage.wanted for stage in run.stages])
    each = np.array([stage.seconds for stage in run.stages])
    variance = np.array([1 / stage.guess - 1 for stage in run.stages])
    scale = (variance / wanted).sum() / (AIM * half_width / Z95) ** 2
    for _ in range(EXTENSIONS):
        affordable = 0.9 * run.left() / max(float(wanted @ each), 1e-12)
        totals = np.maximum(wanted * min(scale, affordable), LEAST).astype(np.int64)
        finished = run.extend(totals.tolist()) and scale <= affordable
        estimate = run.estimate()
        # More samples reduce the noise, and the bias of chains that mix: its bound is mostly noise.
        reducible = estimate.info["noise"] + estimate.info["bias"]
        room = half_width - estimate.info["rounding"]
        if reducible <= room or not finished or room <= 0:
            break
        if estimate.info["guarantee"] == "heuristic":  # more samples do not narrow the bounds
            break
        scale *= (reducible / (AIM * room)) ** 2
    estimate.info["reached"] = estimate.half_width <= half_width
    return estimate


def _violation(part: Part) -> np.ndarray:
    """The probability of violation of each clause under the product law."""
    literals = part.literals
    log_false = part.log_p[np.abs(literals) - 1, (literals < 0).astype(np.int64)]
    return np.exp(np.add.reduceat(log_false, part.offsets[:-1])) if len(literals) else np.zeros(0)


def ordered(part: Part) -> tuple[Part, int, float]:
    """(the part with the clauses of G_0 first, their number, log P(G_0)); G_0 is taken greedily."""
    taken = np.zeros(part.n, bool)
    front = np.zeros(part.n_clauses, bool)
    for j in range(part.n_clauses):
        own = np.abs(part.literals[part.offsets[j] : part.offsets[j + 1]]) - 1
        if not taken[own].any():
            taken[own] = front[j] = True
    order = np.argsort(~front, kind="stable")
    literals, offsets = take(part.literals, part.offsets, order)
    base = float(np.log1p(-_violation(part)[front]).sum())
    return Part(literals, offsets, part.theta), int(front.sum()), base
