"""log Z of a law with terms over several variables, along a path from a law without them.

    P_b(x) ~ exp(base . x + b E(x)) C(x),    E(x) = (theta - base) . x + sum_S c_S prod_{i in S} x_i

P_0 has no terms: its log Z is known (`compute.py`). P_1 is the law in question. In P_0, fields are
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
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nelson.formula import Formula
from nelson.formula.polynomial import Polynomial
from nelson.log_z.path import WORDS, Path
from nelson.log_z.result import Z95, LogPartition
from nelson.sampling.guarantee import weakest

#: Words of 64 lanes of a run, at most.
_MOST_WORDS = 128
#: Points of the path of the first run, and at most.
_FIRST, _MOST = 64, 4096
#: Points of the path of a quick estimate: more, if the runs do not agree.
_QUICK = (128, 512)
#: Lanes times points of a run, at most, without a limit in seconds.
_WORK = 1 << 19
#: A local maximum counts for a quick estimate if its known states weigh e^-3 of all or more.
_WEIGHTY = 3.0

#: log Z without terms, at a theta.
BaseLogZ = Callable[[np.ndarray], LogPartition]


@dataclass
class Annealed:
    """An estimate of log Z."""

    log_z: float
    half_width: float
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Quick:
    """log Z for validation: its standard error, and samples of the law as packed words."""

    log_z: float
    error: float
    trusted: bool
    samples: np.ndarray | None = None


def annealed(
    formula: Formula,
    theta: np.ndarray,
    phi: Polynomial,
    half_width: float,
    seed: int,
    seconds: float | None,
    base_log_z: BaseLogZ,
    starts: np.ndarray | None = None,
) -> Annealed:
    """log Z of formula, theta (n,) finite, and phi.

    starts: valid structures that are likely, (m, n) bool, from which runs back start as well.
    """
    began = time.monotonic()
    path = Path(formula, theta, phi, seed, starts)
    base = base_log_z(path.base)
    others = path.others()
    words, k, lanes = WORDS, _FIRST, 0
    while True:
        before = time.monotonic()
        found = path.round(words, k, others)
        lanes += 64 * words * k
        half = Z95 * found.error + found.bias + base.half_width
        doubt = found.doubt()
        if not doubt and half <= half_width:
            break
        grown = (words, 4 * k) if doubt else (min(4 * words, _MOST_WORDS), k)
        spent = time.monotonic() - before
        late = seconds is not None and time.monotonic() - began + 5 * spent > seconds
        most = seconds is None and 64 * grown[0] * grown[1] > _WORK
        if late or most or grown[1] > _MOST or grown == (words, k):
            break
        words, k = grown
    value, low = base.value + found.value, path.log_sum(found.seen)
    if not doubt and value + half < low:
        doubt = "states that were seen weigh more than the estimate"
    kinds = ["asymptotic", path.guarantee, base.info.get("guarantee", "exact")]
    info: dict[str, Any] = {
        "seed": seed,
        "points": k,
        "lanes": 64 * words,
        "lane_sweeps": lanes,
        "effective": found.effective,
        "starts": {name: run.value - found.forward.value for name, run in found.others.items()},
        "base": base.method,
        "guarantee": "heuristic" if doubt else weakest(kinds),
        "reached": not doubt and half <= half_width,
        "noise": Z95 * found.error,
        "bias": found.bias,
    }
    if info["guarantee"] == "heuristic":
        info["reason"] = doubt or "the law without terms is heuristic"
        most_z = base_log_z(path.theta + _shares(phi, len(path.theta)))
        high = most_z.value + most_z.half_width
        info["bounds"] = low + phi.constant, high + phi.constant
        info["estimate"] = value + phi.constant
        value = min(max(value, low), high)
        half = max(value - low, high - value)
    return Annealed(value + phi.constant, half, info)


def quick(
    formula: Formula,
    theta: np.ndarray,
    phi: Polynomial,
    seed: int,
    base_log_z: BaseLogZ,
    starts: np.ndarray,
) -> Quick:
    """log Z from few lanes. starts: as in `annealed`.

    If the runs do not agree, the largest value counts: log Z is not underestimated by missing a
    region that some run knows, and a likelihood is not overestimated. The samples are from P_1, or,
    if a local maximum was missed, half of them from there.
    """
    path = Path(formula, theta, phi, seed, starts)
    others = path.others()
    for k in _QUICK:
        found = path.round(WORDS, k, others)
        doubt = found.doubt()
        if not doubt:
            break
    base = base_log_z(path.base).value
    value, samples = base + found.value, found.top
    if doubt:
        value = base + max(found.forward.value, found.back.value)
        missed = []
        for name, run in found.others.items():
            known = path.log_sum(found.states[name])
            if run.value > found.forward.value + 1 and known > value - _WEIGHTY:
                missed.append((run.value, name))
        if missed:
            most, name = max(missed)
            value = max(value, base + most)
            half = found.states[name]
            samples = np.concatenate(
                [samples[: len(samples) // 2], half[np.arange(len(samples) // 2) % len(half)]]
            )
    value = max(value, path.log_sum(found.seen))
    return Quick(value + phi.constant, found.error, not doubt, samples)


def _shares(phi: Polynomial, n: int) -> np.ndarray:
    """(n,): the sum over S with i in S of max(c_S, 0) / |S|."""
    out = np.zeros(n)
    for monomial, c in phi.products.items():
        if c > 0:
            out[np.array(monomial) - 1] += c / len(monomial)
    return out
