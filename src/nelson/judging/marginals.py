"""Marginals against exact ones: a necessary condition, on any number of variables.

    each variable       #(x_i = 1)        ~ Bin(m, P(x_i = 1))
    each pair           #(x_i = x_j = 1)  ~ Bin(m, P(x_i = x_j = 1))
    the score v . x     its mean and its variance, v = theta (uniform: all 1)

What is expected comes from the exact law, or, for some variables, from an external counter:
P(x_i = 1) = Z(C and x_i) / Z(C). Neither draws samples.

Binomial p-values are exact. A structure of small probability may have a score far from all others
(an XOR chain: all variables false), and m samples need not show it. So the mean of the score, and a
variance that is too small, are tested by bounds that hold for any law; a variance that is too large
by the normal limit, with the fourth moment of the samples, which then hold what makes it large.
The three families share the level evenly (`verdict.py`); pairs and the score are not always
tested.

A sampler can have all of these right and still be wrong. Acceptance means that no variable, no pair
and no score is off by much more than its standard error.

With a tolerance (`Band`) a binomial may have any probability in the band, and the score is not
tested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import NelsonError, Unsatisfiable
from nelson.exact.counter import GanakCounter, missing
from nelson.exact.law import Law
from nelson.exact.routes import Reason
from nelson.formula import Formula
from nelson.judging.source import JudgedSamples
from nelson.judging.tails import Band, normal_tail, two_sided
from nelson.judging.verdict import Counts, Family, Finding, combined, family


@dataclass(frozen=True)
class ExactMoments:
    how: str
    variables: np.ndarray  # from 0: the variables whose mean is known
    mean: np.ndarray  # P(x_i = 1) of these variables
    #: (k,) variables -> (k, k): P(x_i = x_j = 1). None: unknown
    joint: Callable[[np.ndarray], np.ndarray] | None = None
    #: direction (n,) -> Var(direction . x). None: unknown
    variance: Callable[[np.ndarray], float] | None = None
    most_pairs: int = 0  # `joint` is affordable for at most this many variables


def exact_moments(law: Law, theta: np.ndarray) -> ExactMoments:
    """theta (n,) finite."""
    mean = np.clip(law.mean(theta[None])[0], 0.0, 1.0)

    def joint(chosen: np.ndarray) -> np.ndarray:
        """P(x_i = x_j = 1) = P(x_i = 1) E[x_j | x_i = 1]."""
        out = np.zeros((len(chosen), len(chosen)))
        for k, i in enumerate(chosen):
            if mean[i] > 1e-12:  # a smaller mean is 0 up to rounding
                given = theta.copy()
                given[i] = np.inf
                out[k] = mean[i] * law.mean(given[None])[0][chosen]
        return (out + out.T) / 2

    def variance(direction: np.ndarray) -> float:
        return float(direction @ law.pull(theta[None], direction[None])[0])

    how, variables = law.why.removeprefix("exact: "), np.arange(len(theta))
    most_pairs = 400_000_000 // max(1, law.cost)  # operations of all means
    return ExactMoments(how, variables, mean, joint, variance, most_pairs)


def counted_means(
    formula: Formula, theta: np.ndarray, seed: int, budget: Budget, most: int = 64
) -> ExactMoments | Reason:
    """Means of `most` variables, chosen at random, by ganak. theta (n,) finite."""
    if lacking := missing():
        return Reason(lacking)
    counter = GanakCounter(formula, budget)

    def log_z(given: dict[int, float]) -> float:
        row = theta.copy()
        row[list(given)] = list(given.values())
        try:
            # A variable with evidence weighs 1 in this sum.
            return float(counter.log_z(row[None])[0]) + sum(theta[i] for i in given)
        except Unsatisfiable:
            return -np.inf

    try:
        total = log_z({})
    except NelsonError as error:
        return Reason(f"not counted in time: {error}")
    order = np.random.default_rng([seed, 7]).permutation(formula.n_vars)[:most]
    variables, mean = [], []
    for i in order.tolist():
        if budget.spent:
            break
        try:
            mean.append(float(np.exp(log_z({i: np.inf}) - total)))
        except NelsonError:
            break
        variables.append(i)
    if not variables:
        return Reason("a single weighted count takes too long")
    how = f"weighted counts (ganak), {len(variables)} of {formula.n_vars} variables"
    return ExactMoments(how, np.array(variables), np.clip(np.array(mean), 0.0, 1.0))


#: Rounding error of "exact" probabilities; matters for those near 0 and 1.
_ROUNDING = 1e-9


def marginals(
    drawn: JudgedSamples,
    theta: np.ndarray,
    exact: ExactMoments,
    band: Band,
    delta: float,
    seed: int,
    most_paired: int,
) -> Finding:
    """theta (n,) finite. most_paired: pairs are tested among at most this many variables."""
    m = len(drawn)
    known = np.isin(exact.variables, drawn.columns)
    variables, mean = exact.variables[known], exact.mean[known]
    if not len(variables) or m < 2:
        reason = f"{m} samples of {len(variables)} known variables say nothing"
        return Finding(None, reason, {"samples": m})
    x = drawn.x[:, np.searchsorted(drawn.columns, variables)]
    count = x.sum(axis=0)
    families = [
        _family("variables", count, mean, m, band, lambda k: f"variable {variables[k] + 1}")
    ]
    if exact.joint is not None and len(variables) > 1:
        families.append(_pairs(x, variables, exact, band, seed, most_paired))
    full = len(variables) == len(theta)
    normal = m >= 1000  # a variance that is too large is then close enough to normal
    if exact.variance is not None and full and band.exact and normal:
        families.append(_score(x, theta, mean, exact))
    answer = combined(families, delta)
    evidence: dict[str, Any] = {
        "samples": m,
        "compared_with": exact.how,
        "exact": True,
        **answer.evidence,
        "L1_error": float(np.abs(x.mean(axis=0) - mean).sum()),
        "L1_noise": float(np.sqrt(2 / np.pi * mean * (1 - mean) / m).sum()),
    }
    counts = Counts(count, mean * m, m, "each variable")
    return answer._replace(evidence=evidence, counts=counts)


def _family(
    name: str, count: np.ndarray, p: np.ndarray, m: int, band: Band, who: Callable[[int], str]
) -> Family:
    """One test for each entry: `count` of m samples, each with probability p."""

    def describe(k: int) -> str:
        gap, noise = count[k] / m - p[k], np.sqrt(p[k] * (1 - p[k]) / m)
        z = gap / noise if noise > 0 else np.inf * np.sign(gap)
        return f"{who(k)}: true in {count[k] / m:.4f}, {p[k]:.4f} expected, z = {z:.1f}"

    least, most = band.events(p)
    allowed = np.maximum(least - _ROUNDING, 0.0), np.minimum(most + _ROUNDING, 1.0)
    return family(name, two_sided(count, m, *allowed), describe)


def _pairs(
    x: np.ndarray,
    variables: np.ndarray,
    exact: ExactMoments,
    band: Band,
    seed: int,
    most_paired: int,
) -> Family:
    most = min(most_paired, exact.most_pairs)
    chosen = np.arange(len(variables))
    if len(chosen) > most:
        chosen = np.sort(np.random.default_rng([seed, 11]).permutation(chosen)[: max(most, 2)])
    variables = variables[chosen]
    assert exact.joint is not None
    y = x[:, chosen].astype(np.float32)
    both = np.zeros((len(chosen), len(chosen)), np.int64)
    chunk = 1 << 20  # samples: below 2^24, so that counts in float32 are exact
    for first in range(0, len(y), chunk):
        part = y[first : first + chunk]
        both += (part.T @ part).astype(np.int64)
    i, j = np.triu_indices(len(chosen), 1)
    count, joint = both[i, j], exact.joint(variables)[i, j].clip(0.0, 1.0)

    def names(k: int) -> str:
        return f"variables {variables[i[k]] + 1} and {variables[j[k]] + 1}"

    return _family("pairs", count, joint, len(x), band, names)


def _score(x: np.ndarray, theta: np.ndarray, mean: np.ndarray, exact: ExactMoments) -> Family:
    """Mean and variance of s = v . x, whose mean mu and variance V are known, and |s - mu| <= D.

        P(|mean of s - mu| >= t)         <= 2 exp(-m t^2 / (2 (V + D t / 3)))      (Bernstein)
        P(mean of (s - mu)^2 <= V - t)   <= exp(-m t^2 / (2 D^2 V))

    The second holds since (s - mu)^2 is not negative and E (s - mu)^4 <= D^2 V (Boucheron, Lugosi,
    Massart: Concentration inequalities, 2013, Exercise 2.9). Upwards: the mean of (s - mu)^2 has
    variance (fourth central moment - V^2) / m.
    """
    weighted = np.any(theta)
    v = theta if weighted else np.ones(len(theta))
    name = "theta . x" if weighted else "number of true variables"
    assert exact.variance is not None
    expected = float(mean @ v), exact.variance(v)
    square = (x @ v - expected[0]) ** 2
    seen, m = (float((x @ v).mean()), float(square.mean())), len(x)
    gap = np.array(seen) - expected
    if expected[1] <= _ROUNDING:
        return family("score", np.ones(2), lambda k: f"{name}: constant")
    ends = np.clip(v, 0, None).sum() - expected[0], expected[0] - np.clip(v, None, 0).sum()
    far = float(max(ends))
    p = np.ones(2)
    p[0] = 2 * np.exp(-m * gap[0] ** 2 / (2 * (expected[1] + far * abs(gap[0]) / 3)))
    noise = (float((square**2).mean()) - seen[1] ** 2) / m
    if gap[1] < 0:
        p[1] = 2 * np.exp(-m * gap[1] ** 2 / (2 * far**2 * expected[1]))
    elif noise > 0:
        p[1] = normal_tail(gap[1] / np.sqrt(noise))

    def describe(k: int) -> str:
        what = f"{('mean', 'variance')[k]} of {name}"
        return f"{what}: {seen[k]:.5g}, {expected[k]:.5g} expected, p = {min(1.0, p[k]):.2g}"

    return family("score", np.minimum(p, 1.0), describe)
