"""One ratio of the telescope: its conditional distribution, its sampler, and the samples that
satisfy the group.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nelson.formula import Formula
from nelson.formula.components import components
from nelson.formula.flat import select
from nelson.kernels.core.bits import tail_mask
from nelson.log_z.parts import Part
from nelson.sampling.device.samples import DeviceSamples
from nelson.sampling.diagnosis.diagnose import diagnose
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


def log_ratio(held: int, drawn: int) -> tuple[float, float]:
    """(estimate of log r, its variance): its bias is O(N^-2), its variance is never 0."""
    smooth = (held + 2) / (drawn + 4)
    return math.log((held + 0.5) / (drawn + 0.5)), (1 / smooth - 1) / drawn


@dataclass(frozen=True)
class Conditional:
    """The law given the clauses before a group, restricted to components that the group touches."""

    formula: Formula  # the clauses before the group
    theta: np.ndarray
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

    One OR per literal checks a clause for 64 samples. If less than the share `least` of all
    samples is left, the counts of further clauses stay 0.
    """
    alive, out = tail_mask(drawn.count), np.zeros(len(given.offsets) - 1, np.int64)
    for j in range(len(out)):
        holds = np.zeros_like(alive)
        for literal in given.literals[given.offsets[j] : given.offsets[j + 1]].tolist():
            row = drawn.rows[abs(literal) - 1]
            holds |= row if literal > 0 else ~row
        alive &= holds
        out[j] = np.bitwise_count(alive).sum(dtype=np.int64)
        if out[j] < least * drawn.count:
            break
    return out


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
    if verdict.guarantee == "heuristic":  # a slow exact sampler is better than such a chain
        left = min(max(deadline - time.monotonic(), 0.0), RESCUE_SECONDS)
        if draw(given, prs, TRIAL, seed, threads, left).count >= TRIAL // 2:
            return prs
    rho = min(max(verdict.more.get("rho", 1.0), LEAST_RHO), 0.99)
    lag = verdict.more.get("lag", verdict.sweeps)
    return StageSampler("lovasz", verdict.sweeps, verdict.guarantee, lag, rho)
