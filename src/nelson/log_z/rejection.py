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
import time

import numpy as np

from nelson.errors import BudgetExceeded
from nelson.formula import Formula
from nelson.log_z.estimate import Estimate, independent_seed
from nelson.log_z.parts import Part
from nelson.log_z.result import Z95
from nelson.log_z.stages import log_ratio
from nelson.sampling.diagnosis.diagnose import rounding
from nelson.sampling.methods.rejection import gates_of, hits, kernel_for
from nelson.sampling.problem import prepare

#: A trial ends after this many valid proposals, or after that much work: words of 64 proposals
#: times literals, 0.3 ns each.
_ENOUGH, _TRIAL_WORK = 64, 1 << 31
#: Work for the whole estimate within "auto", about 20 s of one core.
WORK = 1 << 36
#: Words of one draw: at most this much work, so that the clock is looked at often.
_PIECE_WORK = 1 << 28
#: Formulas with more literals are not tried: the search for gates would take too long.
_MOST_LITERALS = 1_000_000
#: Aim at this share of the half width asked for.
_AIM = 0.97


def rejection(
    part: Part,
    half_width: float,
    seed: int,
    threads: int,
    seconds: float,
    work: float = math.inf,
) -> Estimate:
    """log P(part holds) with a 95% half width of at most `half_width`, or wider if the time ends.

    work: what all proposals together may take. Raises BudgetExceeded if too few are valid.
    """
    deadline = time.monotonic() + seconds
    if len(part.literals) > _MOST_LITERALS:
        raise BudgetExceeded(f"{len(part.literals):,} literals are too many for proposals")
    problem = prepare(Formula.from_arrays(part.literals, part.offsets, n_vars=part.n))
    gates, kernel = gates_of(problem), kernel_for(problem)
    table, each = kernel.laws(problem, part.theta[None]), max(1, len(part.literals))
    own_seed = independent_seed(seed, 0)

    def draw(first: int, words: int) -> int:
        return hits(problem, kernel, table, first, 64 * words, threads, own_seed)

    found = tried = 0
    while found < _ENOUGH and tried * each < _TRIAL_WORK and time.monotonic() < deadline:
        words = max(16, min(7 * tried, _PIECE_WORK // each))
        found += draw(tried, words)
        tried += words
    wanted = (Z95 / (_AIM * half_width)) ** 2
    words = math.ceil(tried * wanted / max(found, 1))
    if found < _ENOUGH // 4 or words * each > work:
        raise BudgetExceeded(f"only {found} of {64 * tried:,} proposals are valid")
    first, found, size = tried, 0, max(1, math.ceil(words / 8))
    while found < wanted and time.monotonic() < deadline:
        some = min(size, max(16, _PIECE_WORK // each))
        found += draw(tried, some)
        tried += some
    proposals = 64 * (tried - first)
    if found < _ENOUGH // 4:
        raise BudgetExceeded(f"{seconds:.3g} s were too short: {found} of {proposals:,} were valid")
    log_share, variance = log_ratio(found, proposals)
    weight = part.theta[gates.targets]
    noise, rounded = Z95 * math.sqrt(variance), float(rounding(part.theta))
    info = {
        "samples": found,
        "proposals": proposals,
        "noise": noise,
        "bias": 0.0,
        "rounding": rounded,
        "guarantee": "exact",
    }
    log_p = log_share + float((np.maximum(weight, 0.0) - np.logaddexp(0.0, weight)).sum())
    told = f"{found:,} of {proposals:,} proposals were valid"
    return Estimate(log_p, noise + rounded, info, told)
