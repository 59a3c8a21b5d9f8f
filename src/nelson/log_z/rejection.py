"""An estimate of log P(C) from the share of random proposals that are valid.

    log P(C) = log P(a proposal is valid) + sum over gates of log max(1, e^theta) / (1 + e^theta)

A proposal draws the inputs of a formula from the product law of theta and computes its gates; the
weight of a gate is met by a coin (`sampling/methods/rejection.py`). Without gates all variables are
drawn. Proposals are independent, so there are no chains and no bias: k valid ones of N give log P
with variance (1/p - 1) / N. That is little work for circuits, whose outputs say little about their
inputs: of 2^408 assignments that factor 4324320 with 12 bits one in 10^6 computations is right.
"""

from __future__ import annotations

import math

import numpy as np

from nelson.budget import Budget
from nelson.chains.problem import rounding
from nelson.errors import BudgetExceeded
from nelson.io.progress import phase
from nelson.log_z.method import AIM, LogProbability, LogZTask, MethodOutcome, independent_seed
from nelson.log_z.parts import WeightedClauses
from nelson.log_z.result import Z95
from nelson.policy import DEFAULT, Policy
from nelson.sampling.methods.rejection import gates_of, hits, kernel_for


def rejection(
    part: WeightedClauses,
    half_width: float,
    seed: int,
    budget: Budget,
    work: float = math.inf,
    policy: Policy = DEFAULT,
) -> LogProbability:
    """log P(part holds) with a 95% half width of at most `half_width`, or wider if the time ends.

    work: what all proposals together may take, in words of 64 proposals x literals. Raises
    BudgetExceeded if too few are valid. First comes a trial, which tells how many are needed.
    """
    # Valid proposals of a trial; an interval of a quarter of them still covers (`python -m lab
    # coverage`), so that many are drawn however wide an interval may be.
    seconds, enough, trial_work = budget.left, 64, policy.log_z.rejection_trial_work
    piece_work = trial_work // 8  # of one draw, so that the clock is looked at often
    if len(part.literals) > policy.rejection.large:
        raise BudgetExceeded(f"{len(part.literals):,} literals are too many for proposals")
    problem = part.problem
    gates, kernel = gates_of(problem), kernel_for(problem)
    table, each = kernel.laws(problem, part.theta[None]), max(1, len(part.literals))
    draw_seed = independent_seed(seed, 0)

    def draw(first: int, words: int) -> int:
        return hits(problem, kernel, table, first, 64 * words, budget.threads, draw_seed)

    n_valid = tried = 0
    while n_valid < enough and tried * each < trial_work and not budget.spent:
        words = max(16, min(7 * tried, piece_work // each))
        n_valid += draw(tried, words)
        tried += words
    wanted = max((Z95 / (AIM * half_width)) ** 2, enough / 4)
    words = math.ceil(tried * wanted / max(n_valid, 1))
    if n_valid < enough // 4 or words * each > work:
        raise BudgetExceeded(f"only {n_valid} of {64 * tried:,} proposals are valid")
    first, n_valid, size = tried, 0, max(1, math.ceil(words / 8))
    while n_valid < wanted and not budget.spent:
        some = min(size, max(16, piece_work // each))
        n_valid += draw(tried, some)
        tried += some
    proposals = 64 * (tried - first)
    if n_valid < enough // 4:
        raise BudgetExceeded(
            f"{seconds:.3g} s were too short: {n_valid} of {proposals:,} were valid"
        )
    log_share, variance = log_ratio(n_valid, proposals)
    weight = part.theta[gates.targets]
    noise, rounded = Z95 * math.sqrt(variance), float(rounding(part.theta))
    info = {
        "samples": n_valid,
        "proposals": proposals,
        "noise": noise,
        "bias": 0.0,
        "rounding": rounded,
        "guarantee": "exact",
    }
    log_p = log_share + float((np.maximum(weight, 0.0) - np.logaddexp(0.0, weight)).sum())
    source = f"{n_valid:,} of {proposals:,} proposals were valid"
    return LogProbability(log_p, noise + rounded, info, source)


def by_rejection(parts: list[WeightedClauses], task: LogZTask) -> MethodOutcome:
    """Each part by itself: parts whose proposals are too seldom valid are left."""
    solved: list[LogProbability] = []
    left, reason, total = [], "", len(parts)
    work = task.policy.log_z.rejection_work / total if task.is_auto else math.inf
    half_width, budget = task.half_width / math.sqrt(total), task.estimate_budget()
    with phase("log Z: counting valid proposals"):
        for k, part in enumerate(parts):
            seed = independent_seed(task.seed, 1, k)
            try:
                solved.append(rejection(part, half_width, seed, budget, work, task.policy))
            except BudgetExceeded as error:
                left.append(part)
                reason = str(error)
    return MethodOutcome(solved, left, reason)


def log_ratio(held: int, drawn: int) -> tuple[float, float]:
    """(estimate of log r, its variance): its bias is O(N^-2), its variance is never 0."""
    smooth = (held + 2) / (drawn + 4)
    return math.log((held + 0.5) / (drawn + 0.5)), (1 / smooth - 1) / drawn
