"""log Z of a law with terms over several variables, along a path from a law without them.

    P_b(x) ~ exp(base . x + b E(x)) C(x),    E(x) = (theta - base) . x + sum_S c_S prod_{i in S} x_i

P_0 has no terms: its log Z is known (`methods.py`). P_1 is the law in question. In P_0, fields are
independent but for the rules, with about the marginals of P_1. Lanes go along the path (`path.py`),
and each sums the steps of E that it sees, W:

    forward   x_0 from P_0        E[exp W]  = Z_1 / Z_0      underestimates log Z if lanes are few
    back      x_K from P_1        E[exp -W] = Z_0 / Z_1      overestimates it

The points b lie where E varies most: the steps have equal thermodynamic length, measured by a
pilot. Points and lanes grow in number until the 95% interval is as narrow as asked for.

Lanes that never enter a region of large weight do not show that it is missing. A run back that
starts in a region A and does not leave it finds log Z + log P_1(A) / q(A), where q(A) is the share
of forward lanes that end in A: too large a value, if forward lanes miss A. So runs back start from
resampled forward lanes and from other states as well: local maxima of the potential that differ,
and structures that the caller knows (`starts`). The estimate is called heuristic if one of these
runs finds more than noise allows, if few lanes carry the weight, or if the states that were seen
weigh more than the interval allows. Then the half width covers bounds that always hold:

    log sum over distinct known x of exp(theta . x + phi(x))  <=  log Z
    log Z  <=  log Z without terms, at theta_i + sum over S with i in S of max(c_S, 0) / |S|

(prod_{i in S} x_i is at most the mean of its x_i).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nelson.chains.guarantee import weakest
from nelson.formula import Formula
from nelson.formula.polynomial import Polynomial
from nelson.log_z.method import LogZTask, error_in_words
from nelson.log_z.methods import without_terms
from nelson.log_z.path import PILOT_POINTS, WORDS, AnnealingPath
from nelson.log_z.result import Z95, LogPartition

#: log Z without terms, at a theta.
BaseLogZ = Callable[[np.ndarray], LogPartition]


@dataclass(frozen=True)
class Quick:
    """log Z for validation: its standard error, and samples of the law as packed words."""

    log_z: float
    error: float
    trusted: bool
    samples: np.ndarray | None = None


def annealed(
    task: LogZTask,
    phi: Polynomial,
    starts: np.ndarray | None = None,
    since: str = "asked for",
) -> LogPartition:
    """log Z of the formula, finite theta and phi.

    starts: valid structures that are likely, (m, n) bool, from which runs back start as well.
    since: why no other method was taken.
    """
    began, limits, budget = time.monotonic(), task.policy.log_z, task.budget
    base_task = replace(task, method="auto", half_width=task.half_width / 4)

    def base_log_z(theta: np.ndarray) -> LogPartition:
        return without_terms(replace(base_task, theta=theta))

    path = AnnealingPath(task.formula, task.theta, phi, task.seed, starts)
    base = base_log_z(path.base)
    others = path.others()
    words, points, lanes = WORDS, PILOT_POINTS, 0
    while True:
        before = time.monotonic()
        last_round = path.round(words, points, others)
        lanes += 64 * words * points
        half = Z95 * last_round.error + last_round.bias + base.half_width
        doubt = last_round.doubt(limits.path_effective)
        if not doubt and half <= task.half_width:
            break
        more = (words, 4 * points) if doubt else (min(4 * words, limits.path_words), points)
        out_of_time = 5 * (time.monotonic() - before) > budget.left
        out_of_work = budget.counted and 64 * more[0] * more[1] > limits.path_work
        is_longest = more[1] > limits.path_points or more == (words, points)
        if out_of_time or out_of_work or is_longest:
            break
        words, points = more
    value, low = base.value + last_round.value, path.log_sum(last_round.seen)
    if not doubt and value + half < low:
        doubt = "states that were seen weigh more than the estimate"
    kinds = ["diagnosed", path.guarantee, base.info.get("guarantee", "exact")]
    info: dict[str, Any] = {
        "seed": task.seed,
        "points": points,
        "lanes": 64 * words,
        "lane_sweeps": lanes,
        "effective": last_round.effective,
        "starts": {
            name: run.value - last_round.forward.value for name, run in last_round.others.items()
        },
        "base": base.method,
        "guarantee": "heuristic" if doubt else weakest(kinds),
        "reached": not doubt and half <= task.half_width,
        "noise": Z95 * last_round.error,
        "bias": last_round.bias,
    }
    if info["guarantee"] == "heuristic":
        info["reason"] = doubt or "the samples without terms are heuristic"
        most_z = base_log_z(path.theta + _shares(phi, len(path.theta)))
        high = most_z.value + most_z.half_width
        info["bounds"] = low + phi.constant, high + phi.constant
        info["estimate"] = value + phi.constant
        value = min(max(value, low), high)
        half = max(value - low, high - value)
    why = (
        f"anneal: {points} points, {64 * words:,} chains from the distribution without terms "
        f"({base.method}); {since}{error_in_words(info, task.half_width)}"
    )
    spent = time.monotonic() - began
    return LogPartition(value + phi.constant, half, "anneal", why, spent, False, info)


def quick(
    formula: Formula,
    theta: np.ndarray,
    phi: Polynomial,
    seed: int,
    base_log_z: BaseLogZ,
    starts: np.ndarray,
    grids: tuple[int, ...] = (128, 512),
) -> Quick:
    """log Z from few lanes. starts: as in `annealed`. grids: points of the path, and of a longer
    one if the runs do not agree.

    If the runs do not agree, the largest value counts: log Z is not underestimated by missing a
    region that some run knows, and a likelihood is not overestimated. The samples are from P_1, or,
    if a local maximum was missed, half of them from there.
    """
    path = AnnealingPath(formula, theta, phi, seed, starts)
    others = path.others()
    for points in grids:
        last_round = path.round(WORDS, points, others)
        doubt = last_round.doubt()
        if not doubt:
            break
    base = base_log_z(path.base).value
    value, samples = base + last_round.value, last_round.top
    if doubt:
        value = base + max(last_round.forward.value, last_round.back.value)
        missed = []
        for name, run in last_round.others.items():
            known = path.log_sum(last_round.states[name])
            # A local maximum counts if its known states weigh e^-3 of all or more.
            if run.value > last_round.forward.value + 1 and known > value - 3.0:
                missed.append((run.value, name))
        if missed:
            largest, name = max(missed)
            value = max(value, base + largest)
            half = last_round.states[name]
            samples = np.concatenate(
                [samples[: len(samples) // 2], half[np.arange(len(samples) // 2) % len(half)]]
            )
    value = max(value, path.log_sum(last_round.seen))
    return Quick(value + phi.constant, last_round.error, not doubt, samples)


def _shares(phi: Polynomial, n: int) -> np.ndarray:
    """(n,): the sum over S with i in S of max(c_S, 0) / |S|."""
    out = np.zeros(n)
    for monomial, c in phi.products.items():
        if c > 0:
            out[np.array(monomial) - 1] += c / len(monomial)
    return out
