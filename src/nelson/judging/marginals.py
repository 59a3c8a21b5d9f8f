"""Marginals against exact ones: a necessary condition, on any number of variables.

    each variable       #(x_i = 1)        ~ Bin(m, P(x_i = 1))
    each pair           #(x_i = x_j = 1)  ~ Bin(m, P(x_i = x_j = 1))
    the score v . x     its mean and its variance, v = theta (uniform: all 1)

Binomial p-values are exact; those of the score are normal (m is large). Each of the three families
has a third of the level (a half, where there is no score or no pair), shared evenly among its tests
(Bonferroni): a right sampler is rejected with probability at most delta.

A sampler can have all of these right and still be wrong. What it shows is that no variable, no pair
and no score is off by much more than its standard error.

With a tolerance (`Band`) each binomial may have any probability that it allows, and the score is
not tested.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nelson.judging.band import Band
from nelson.judging.exact import Exact
from nelson.judging.source import Drawn
from nelson.judging.tails import normal_tail, two_sided
from nelson.judging.verdict import probability

#: Variables among which pairs are tested, at most.
_PAIRED = 256
#: Exact numbers are exact up to this: a probability so near to 0 or 1 allows a little more.
_ROUNDING = 1e-9
#: Samples from which on the score's mean is as good as normal.
_LARGE = 1000


def marginals(
    drawn: Drawn, theta: np.ndarray, exact: Exact, band: Band, delta: float, seed: int
) -> tuple[bool | None, str, dict[str, Any]]:
    """(accept, reason, evidence). theta (n,) finite."""
    m = len(drawn)
    known = np.isin(exact.variables, drawn.columns)
    variables, mean = exact.variables[known], exact.mean[known]
    if not len(variables) or m < 2:
        return None, f"{m} samples of {len(variables)} known variables say nothing", {"samples": m}
    place = np.searchsorted(drawn.columns, variables)
    x = drawn.x[:, place]
    found = [_singles(x, variables, mean, band)]
    if exact.joint is not None and len(variables) > 1:
        found.append(_pairs(x, variables, exact, band, seed))
    full = len(variables) == len(theta)
    if exact.variance is not None and full and band.exact and m >= _LARGE:
        found.append(_score(x, theta, mean, exact))
    worst = min(found, key=lambda family: family["p"])
    p = float(min(1.0, len(found) * worst["p"]))
    evidence: dict[str, Any] = {
        "samples": m,
        "compared_with": exact.how,
        "exact": True,
        "tests": {family["name"]: family["tests"] for family in found},
        "p_value": p,
        "level": delta,
        "worst": worst["worst"],
        "L1_error": float(np.abs(x.mean(axis=0) - mean).sum()),
        "L1_noise": float(np.sqrt(2 / np.pi * mean * (1 - mean) / m).sum()),
    }
    tests = sum(family["tests"] for family in found)
    reason = f"the worst of {tests:,} tests has {probability(p, delta)}, corrected for their number"
    return p >= delta, reason, evidence


def _room(p: np.ndarray, band: Band) -> tuple[np.ndarray, np.ndarray]:
    least, most = band.events(p)
    return np.maximum(least - _ROUNDING, 0.0), np.minimum(most + _ROUNDING, 1.0)


def _singles(x: np.ndarray, variables: np.ndarray, mean: np.ndarray, band: Band) -> dict[str, Any]:
    count = x.sum(axis=0)
    p = two_sided(count, len(x), *_room(mean, band))
    k = int(np.argmin(p))
    said = f"variable {variables[k] + 1}: {_against(count[k], mean[k], len(x))}"
    return {"name": "variables", "tests": len(p), "p": min(1.0, len(p) * p[k]), "worst": said}


def _pairs(
    x: np.ndarray, variables: np.ndarray, exact: Exact, band: Band, seed: int
) -> dict[str, Any]:
    most = min(_PAIRED, exact.most_pairs)
    chosen = np.arange(len(variables))
    if len(chosen) > most:
        chosen = np.sort(np.random.default_rng([seed, 11]).permutation(chosen)[: max(most, 2)])
    assert exact.joint is not None
    joint = exact.joint(variables[chosen])
    y = x[:, chosen].astype(np.float32)  # counts below 2^24 are exact
    count = sum(
        (y[k : k + (1 << 20)].T @ y[k : k + (1 << 20)]).astype(np.int64)
        for k in range(0, len(y), 1 << 20)
    )
    i, j = np.triu_indices(len(chosen), 1)
    count, joint = np.asarray(count)[i, j], joint[i, j].clip(0.0, 1.0)
    p = two_sided(count, len(x), *_room(joint, band))
    k = int(np.argmin(p))
    names = variables[chosen[i[k]]] + 1, variables[chosen[j[k]]] + 1
    said = f"variables {names[0]} and {names[1]}: {_against(count[k], joint[k], len(x))}"
    return {"name": "pairs", "tests": len(p), "p": min(1.0, len(p) * p[k]), "worst": said}


def _score(x: np.ndarray, theta: np.ndarray, mean: np.ndarray, exact: Exact) -> dict[str, Any]:
    """Mean and variance of v . x. The variance of a sample variance is (fourth central moment -
    variance^2) / m; the samples' own fourth moment is near enough.
    """
    v = theta if np.any(theta) else np.ones(len(theta))
    name = "theta . x" if np.any(theta) else "number of true variables"
    assert exact.variance is not None
    right = exact.variance(v)
    score = x @ v - mean @ v
    m = len(score)
    fourth = float(((score - score.mean()) ** 4).mean())
    spread = float(score.var())
    if right <= _ROUNDING:
        p, said = np.ones(1), f"{name}: constant"
    else:
        z = np.array([score.mean() * np.sqrt(m / right), 0.0])
        noise = (fourth - spread**2) / m
        z[1] = (spread - right) / np.sqrt(noise) if noise > 0 else 0.0
        p = normal_tail(z)
        k = int(np.argmin(p))
        found = (score.mean() + mean @ v, spread)[k]
        said = f"{('mean', 'variance')[k]} of {name}: {found:.5g}, "
        said += f"{(mean @ v, right)[k]:.5g} expected, z = {z[k]:.1f}"
    return {"name": "score", "tests": 2, "p": min(1.0, 2 * float(p.min())), "worst": said}


def _against(count: int, p: float, m: int) -> str:
    noise = np.sqrt(p * (1 - p) / m)
    z = (count / m - p) / noise if noise > 0 else np.inf * np.sign(count / m - p)
    return f"true in {count / m:.4f}, {p:.4f} expected, z = {z:.1f}"
