"""One ratio of the telescope: its conditional distribution, its sampler, and the samples that
satisfy the group.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import chdtri

from nelson.formula import Formula
from nelson.formula.components import components
from nelson.formula.flat import select
from nelson.kernels.core.bits import tail_mask
from nelson.log_z.parts import Part
from nelson.sampling.chain import Chains
from nelson.sampling.device.samples import DeviceSamples
from nelson.sampling.diagnosis.diagnose import diagnose, pilot_request
from nelson.sampling.diagnosis.verdict import Verdict
from nelson.sampling.options import Options
from nelson.sampling.problem import prepare
from nelson.sampling.sample_stream import draw as draw_samples

#: Samples of a trial of `prs`, which is exact. It is used if all of them converge.
TRIAL = 1024
#: Rounds within which they must. The cost rises abruptly: random 5-SAT, n = 1000, takes 29 rounds
#: with 150 clauses and 513 with 200.
TRIAL_ROUNDS = 32
#: Seconds for a second trial, without a limit on rounds, if chains do not mix.
RESCUE_SECONDS = 2.0
#: Cost of one sweep, relative to drawing a new sample (measured, n = 1000).
SWEEP_COST = 0.4
#: Words of 64 chains that start by resampling when starts are compared.
REFERENCE = 16
#: Probability of a false alarm when the starts of one stage are compared.
ALPHA = 1e-5
#: The variance of a nearly constant variable counts as this: its counts have heavier tails than a
#: normal law.
LEAST_VARIANCE = 0.05
#: A smaller measured correlation cannot be told from noise.
LEAST_RHO = 0.1


@dataclass(frozen=True)
class StageSampler:
    """A sampler and the quality of its samples."""

    method: str
    sweeps: int
    guarantee: str
    lag: int = 0  # sweeps after which correlations fall to rho; 0: no bias to allow for
    rho: float = 0.0

    def cost(self, formula: Formula) -> float:
        """The cost of one sample, in a unit that is the same for all stages."""
        return (formula.n_vars + formula.literals.size) * (1 + SWEEP_COST * self.sweeps)


@dataclass
class Stage:
    """One ratio: clauses [first, last) of the ordered list, given the clauses before them."""

    first: int
    last: int
    sampler: StageSampler
    guess: float  # the ratio in the pilot
    cost: float  # of a sample, relative to the other stages
    seconds: float  # of a sample in the pilot; used for budgets only
    held: int = 0  # samples that satisfy the group
    drawn: int = 0  # samples
    held_early: int = 0  # the same for the run that stops after one lag
    drawn_early: int = 0
    held_other: int = 0  # the same for chains that start at solutions of all clauses
    drawn_other: int = 0
    chunks: int = field(default=0, repr=False)

    @property
    def wanted(self) -> float:
        """Numbers of samples in proportion to this give the least variance for the time."""
        return math.sqrt((1 / self.guess - 1) / self.cost)

    def bias(self) -> tuple[float, float]:
        """(the remaining bias of log r, the variance of this estimate)."""
        if not self.drawn_early:
            return 0.0, 0.0
        factor = self.sampler.rho**2 / (1 - self.sampler.rho**2)
        late, late_variance = log_ratio(self.held, self.drawn)
        early, early_variance = log_ratio(self.held_early, self.drawn_early)
        return factor * (early - late), factor**2 * (late_variance + early_variance)

    def gap(self) -> tuple[float, float]:
        """(log r from other starts - log r, the variance of this difference)."""
        if not self.drawn_other:
            return 0.0, 0.0
        one, variance = log_ratio(self.held, self.drawn)
        other, other_variance = log_ratio(self.held_other, self.drawn_other)
        return other - one, variance + other_variance


def log_ratio(held: int, drawn: int) -> tuple[float, float]:
    """(estimate of log r, its variance): its bias is O(N^-2), its variance is never 0."""
    smooth = (held + 2) / (drawn + 4)
    return math.log((held + 0.5) / (drawn + 0.5)), (1 / smooth - 1) / drawn


@dataclass(frozen=True)
class Conditional:
    """The law given the clauses before a group, restricted to components that the group touches."""

    formula: Formula  # the clauses before the group
    theta: np.ndarray
    variables: np.ndarray  # of the part, from 0: those of the formula
    columns: np.ndarray  # variables of the group, from 1
    literals: np.ndarray  # the clauses of the group; literal k is column k - 1
    offsets: np.ndarray

    @classmethod
    def of(cls, part: Part, first: int, last: int) -> Conditional:
        """Condition on clauses [0, first); the group is [first, last). O(total literals)."""
        offsets = part.offsets
        before = part.literals[: offsets[first]]
        group = part.literals[offsets[first] : offsets[last]]
        label = components(Formula.from_arrays(before, offsets[: first + 1], n_vars=part.n))
        wanted = np.zeros(part.n, bool)
        wanted[label[np.abs(group) - 1]] = True
        inside = wanted[label]  # variables kept
        kept = inside[np.abs(before[offsets[:first]]) - 1]
        name = np.cumsum(inside)  # from 1
        clauses, ends = select(before, offsets[: first + 1], kept)
        clauses = np.sign(clauses) * name[np.abs(clauses) - 1]
        formula = Formula.from_arrays(clauses, ends, n_vars=int(inside.sum()))
        columns, place = np.unique(np.abs(group), return_inverse=True)
        return cls(
            formula,
            part.theta[inside],
            np.flatnonzero(inside),
            name[columns - 1],
            np.sign(group) * (place + 1),
            offsets[first : last + 1] - offsets[first],
        )


@dataclass(frozen=True)
class GroupSamples:
    """Samples of the variables of a group."""

    rows: np.ndarray  # (columns, words) uint64; bits behind the last sample are 0
    count: int
    late: bool  # fewer than asked for, because the time is up
    guarantee: str
    reason: str


def draw(
    given: Conditional,
    sampler: StageSampler,
    count: int,
    seed: int,
    threads: int | None,
    seconds: float,
    max_rounds: int = 1000,
    device: Any = None,
) -> GroupSamples:
    """`count` samples, or fewer if the seconds or the rounds do not suffice."""
    deadline = time.monotonic() + seconds
    options = Options(
        method=sampler.method,
        sweeps=sampler.sweeps,
        project=given.columns.tolist(),
        seed=seed,
        threads=threads,
        max_rounds=max_rounds,
        seconds=max(seconds, 0.0),
        device=device,
        verdict=Verdict(sampler.sweeps, sampler.guarantee, "diagnosed for this stage"),
    )
    samples = draw_samples(given.formula, given.theta, count, options)
    if isinstance(samples, DeviceSamples):
        samples = samples.host()
    late = samples.status != "ok" and time.monotonic() >= deadline
    rows = np.ascontiguousarray(samples.packed.T)
    reason = samples.info.get("reason", "")
    return GroupSamples(rows, samples.count, late, samples.guarantee, reason)


def surviving(given: Conditional, drawn: GroupSamples, least: float = 0.0) -> np.ndarray:
    """How many samples satisfy the first 1, 2, .. clauses of the group, int64 (clauses,).

    If less than the share `least` of all samples is left, the counts of further clauses stay 0.
    """
    return _surviving(given, drawn.rows, tail_mask(drawn.count), least * drawn.count)


def _surviving(
    given: Conditional, rows: np.ndarray, valid: np.ndarray, least: float = 0.0
) -> np.ndarray:
    """The same for packed rows (columns, words) and valid lanes (words,): one OR per literal checks
    a clause for 64 samples.
    """
    alive, out = valid.copy(), np.zeros(len(given.offsets) - 1, np.int64)
    for j in range(len(out)):
        holds = np.zeros_like(alive)
        for literal in given.literals[given.offsets[j] : given.offsets[j + 1]].tolist():
            row = rows[abs(literal) - 1]
            holds |= row if literal > 0 else ~row
        alive &= holds
        out[j] = np.bitwise_count(alive).sum(dtype=np.int64)
        if out[j] < least:
            break
    return out


@dataclass(frozen=True)
class OtherStarts:
    """Chains that started at solutions of all clauses, after the sweeps of a sample."""

    agree: bool  # with each other, and with chains that started by resampling
    count: int  # valid lanes
    surviving: np.ndarray  # of them: as from the function of that name


def from_other_starts(
    given: Conditional,
    structures: np.ndarray,
    sweeps: int,
    seed: int,
    threads: int | None,
    deadline: float,
) -> OtherStarts | None:
    """Do chains from solutions of all clauses come to the law that resampling comes to?

    A solution of all clauses satisfies the clauses of every stage. 64 chains start at each of the
    solutions (m, n) bool, and 64 x REFERENCE chains start by resampling. After `sweeps` sweeps, the
    start of a chain must not show any more. For each swept variable v,

        sum over words w of (k_w - 64 p)^2 / (64 p (1 - p))

    is compared with the chi-square law, where k_w counts x_v = 1 in word w and p is the mean over
    all words. Words of one start that stay in another region of the valid space make the sum large.

    None if resampling does not find enough states, or if the time was up.
    """
    problem = prepare(given.formula)
    swept = problem.program.name[problem.program.order]
    mine = np.unique(structures[:, given.variables[swept]], axis=0)
    words = len(mine) + REFERENCE
    request = pilot_request(given.theta[None], 64 * words, threads or 1, deadline, seed)
    chains = Chains.resampled(problem, request, request.theta)
    if 2 * chains.lanes() < 64 * words:
        return None
    # Sweeps leave out extremal components, which resampling has drawn exactly.
    chains.words[0, : len(mine), swept] = np.where(mine, ~np.uint64(0), np.uint64(0)).T
    chains.sweep_to(sweeps)
    if not chains.complete:
        return None
    valid = chains.valid[0]
    ones = np.bitwise_count(chains.words[0][:, swept] & valid[:, None]).astype(np.float64)
    lanes = np.bitwise_count(valid).astype(np.float64)[:, None]
    p = ones.sum(axis=0) / lanes.sum()
    spread = np.maximum(p * (1 - p), LEAST_VARIANCE) * np.maximum(lanes, 1.0)
    sums = ((ones - lanes * p) ** 2 / spread).sum(axis=0)
    agree = sums.max(initial=0.0) <= chdtri(words - 1, ALPHA / max(1, len(swept)))
    rows = np.ascontiguousarray(chains.words[0, : len(mine), given.columns - 1])
    kept = valid[: len(mine)]
    count = int(np.bitwise_count(kept).sum())
    return OtherStarts(bool(agree), count, _surviving(given, rows, kept))


def choose(
    given: Conditional, threads: int | None, seconds: float, seed: int, try_prs: bool
) -> StageSampler:
    """The sampler for a stage. It depends on the seed, not on the clock."""
    deadline = time.monotonic() + seconds
    problem = prepare(given.formula)
    if problem.extremal:
        return StageSampler("lovasz", 0, "exact")
    prs = StageSampler("prs", 0, "exact")
    if try_prs and draw(given, prs, TRIAL, seed, threads, seconds, TRIAL_ROUNDS).count == TRIAL:
        return prs
    verdict = diagnose(problem, given.theta[None], threads or 1, deadline)
    rho = min(max(verdict.more.get("rho", 1.0), LEAST_RHO), 0.99)
    lag = verdict.more.get("lag", verdict.sweeps)
    return StageSampler("lovasz", verdict.sweeps, verdict.guarantee, lag, rho)


def rescue(
    given: Conditional, sampler: StageSampler, seed: int, threads: int | None, seconds: float
) -> StageSampler:
    """A slow exact sampler is better than chains that do not mix: `prs` if it converges in time,
    else the given sampler as a heuristic.
    """
    prs = StageSampler("prs", 0, "exact")
    left = min(max(seconds, 0.0), RESCUE_SECONDS)
    if draw(given, prs, TRIAL, seed, threads, left).count >= TRIAL // 2:
        return prs
    return replace(sampler, guarantee="heuristic")
