"""log Z of a law with terms over several variables, along a path from a law without them.

    P_b(x) ~ exp(base . x + b E(x)) C(x),     E(x) = (theta - base) . x + sum_S c_S prod_{i in S} x_i

P_0 has no terms: its log Z is known (`compute.py`). P_1 is the law in question. `base` is the mean
local field of P_1, so that P_0 has about the same marginals. Chains go along 0 = b_0 < .. < b_K = 1,
one sweep at each b, and each lane sums W = sum_k (b_k+1 - b_k) E(x_k) (annealed importance sampling,
Neal 2001):

    forward   x_0 from P_0        E[exp W]  = Z_1 / Z_0      underestimates log Z if lanes are few
    back      x_K from P_1        E[exp -W] = Z_0 / Z_1      overestimates it

The b_k lie where E varies most: the steps have equal thermodynamic length, measured by a pilot. K and
the number of lanes grow until the 95% interval is as narrow as asked for.

Lanes that never enter a region of large weight do not show that it is missing. A run back that starts
in a region A and does not leave it finds log Z + log P_1(A) / q(A), where q(A) is the share of forward
lanes that end in A: too large a value, if forward lanes miss A. So runs back start from resampled
forward lanes and from other states as well: local maxima of the potential that differ, and structures
that the caller knows (`starts`). The estimate is called heuristic if one of these runs disagrees, if
few lanes carry the weight, or if the states that were seen weigh more than the interval allows. Then
the half width covers bounds that always hold:

    log sum over distinct known x of exp(theta . x + phi(x))  <=  log Z
    log Z  <=  log Z without terms, at theta_i + sum over S with i in S of max(c_S, 0) / |S|

(prod_{i in S} x_i is at most the mean of its x_i).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from nelson.formula import Formula
from nelson.formula.polynomial import Polynomial
from nelson.kernels.core.bits import pack, unpack
from nelson.log_z.result import Z95, LogPartition
from nelson.log_z.walk import Walk
from nelson.sampling.guarantee import weakest

#: Words of 64 lanes of a run, at first and at most.
_WORDS, _MOST_WORDS = 8, 128
#: Points of the path of the pilot, of the first run, and at most.
_PILOT, _FIRST, _MOST = 64, 64, 4096
#: Points of the path of a quick estimate.
_QUICK = 256
#: Lanes times points of a run, at most, without a limit in seconds.
_WORK = 1 << 21
#: Local maxima from which runs back start; each fills a word of 64 lanes.
_MAXIMA = 6
#: Sweeps towards a local maximum, with all weights multiplied by this.
_QUENCH, _COLD = 24, 4.0
#: Effective lanes, as a share of all, that an estimate must have.
_EFFECTIVE = 0.1
#: Standard errors by which runs from different starts may differ, and nats that never matter.
_SIGMAS, _SLACK = 5.0, 0.02


@dataclass(frozen=True)
class Run:
    """One direction: log Z_1 / Z_0, its standard error, and the share of lanes that carry it."""

    value: float
    error: float
    effective: float

    @classmethod
    def of(cls, work: np.ndarray, sign: int) -> Run:
        """work: W of each lane; sign 1: forward, -1: back."""
        exponent = sign * work
        top = float(exponent.max())
        weight = np.exp(exponent - top)
        mean, m = float(weight.mean()), len(weight)
        error = float(weight.std(ddof=1)) / mean / math.sqrt(m)
        share = float(weight.sum() ** 2 / (weight**2).sum()) / m
        return cls(sign * (top + math.log(mean)), error, share)


@dataclass
class Annealed:
    """An estimate of log Z."""

    log_z: float
    half_width: float
    info: dict[str, Any] = field(default_factory=dict)


class Path:
    """The laws between P_0 and P_1 for one formula, theta (n,) finite, and terms."""

    def __init__(self, formula: Formula, theta: np.ndarray, phi: Polynomial, seed: int) -> None:
        products = phi.products
        self.walk = Walk(formula, list(products))
        self.theta, self.phi = phi.linear(formula.n_vars, theta), phi
        self.c = np.array(list(products.values()))
        self._streams = np.random.SeedSequence(seed)
        self.base, self.grid = self.theta, np.linspace(0.0, 1.0, _PILOT + 1)
        self._prepare()

    def seed(self) -> int:
        """A new seed at each call."""
        return int(self._streams.spawn(1)[0].generate_state(1, np.uint64)[0] >> 1)

    def _prepare(self) -> None:
        """Choose the base from the marginals of a first run, and the grid from the spread of E."""
        words, _ = self.walk.start(self.theta, _WORDS, self.seed())
        words, _, _ = self.along(words, self.grid)
        self.base = self._local_field(self.equilibrated(words, _PILOT // 4))
        words, self.guarantee = self.walk.start(self.base, _WORDS, self.seed())
        _, _, spread = self.along(words, self.grid)
        length = np.concatenate([[0.0], np.cumsum(spread / max(spread.sum(), 1e-300))])
        self.length = (length + self.grid) / 2  # never sparse anywhere

    def _local_field(self, words: np.ndarray) -> np.ndarray:
        """The mean over lanes of theta_v + d phi / d x_v, (n,)."""
        x = unpack(words, 64 * len(words)).astype(np.float64)
        table = self.walk.table(self.c)
        mean = x.mean(axis=0)
        out = self.theta + (mean @ (table + table.T))[: len(self.theta)]
        for monomial, c in self.phi.products.items():
            if len(monomial) > 2:
                for v in monomial:
                    others = [u - 1 for u in monomial if u != v]
                    out[v - 1] += c * x[:, others].prod(axis=1).mean()
        return out

    def points(self, k: int) -> np.ndarray:
        """A path of k steps."""
        return np.interp(np.linspace(0.0, 1.0, k + 1), self.length, np.linspace(0, 1, _PILOT + 1))

    def along(
        self, words: np.ndarray, grid: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lanes at grid[0] -> (their last states, W of each, the spread of E times each step)."""
        work, spread, seed = np.zeros(64 * len(words)), [], self.seed()
        shift = self.theta - self.base
        for k, (a, b) in enumerate(pairwise(grid)):
            energy = self.walk.potential(words, shift, self.c)
            work += abs(b - a) * energy
            spread.append(abs(b - a) * float(energy.std()))
            if k + 2 < len(grid):
                words = self.walk.sweep(words, self.base + b * shift, b * self.c, seed, k)
        return words, work, np.array(spread)

    def equilibrated(self, words: np.ndarray, sweeps: int) -> np.ndarray:
        """The states after sweeps of P_1."""
        return self.walk.sweep(words, self.theta, self.c, self.seed(), 0, sweeps)

    def resampled(self, words: np.ndarray, work: np.ndarray) -> np.ndarray:
        """Lanes chosen in proportion to exp(W), by one random number."""
        share = np.cumsum(np.exp(work - work.max()))
        u = (np.arange(len(work)) + np.random.default_rng(self.seed()).random()) / len(work)
        chosen = np.searchsorted(share / share[-1], u).clip(0, len(work) - 1)
        return pack(unpack(words, len(work))[chosen])

    def maxima(self) -> np.ndarray:
        """Local maxima of the potential, most likely first, (m, n) bool; m <= _MAXIMA."""
        seen = []
        for theta in (self.base, np.zeros_like(self.base)):
            words, _ = self.walk.start(theta, 2, self.seed())
            words = self.walk.sweep(
                words, _COLD * self.theta, _COLD * self.c, self.seed(), 0, _QUENCH
            )
            seen.append(unpack(words, 64 * len(words)))
        states = np.unique(np.concatenate(seen), axis=0)
        score = self.walk.potential(pack(states), self.theta, self.c)[: len(states)]
        order = np.argsort(-score, kind="stable")
        spread = np.linspace(0, len(order) - 1, min(_MAXIMA, len(order))).astype(int)
        return states[order[spread]]


def annealed(
    formula: Formula,
    theta: np.ndarray,
    phi: Polynomial,
    half_width: float,
    seed: int,
    seconds: float | None,
    base_log_z: Callable[[np.ndarray], LogPartition],
    starts: np.ndarray | None = None,
) -> Annealed:
    """log Z of formula, theta (n,) finite, and phi. base_log_z: log Z without terms, at a theta.

    starts: valid structures that are likely, (m, n) bool, from which runs back start as well.
    """
    began = time.monotonic()
    path = Path(formula, theta, phi, seed)
    base = base_log_z(path.base)
    others = _others(path, starts)
    words, k, lanes = _WORDS, _FIRST, 0
    while True:
        before = time.monotonic()
        found = _round(path, words, k, others)
        lanes += 64 * words * k
        value, error = found["value"], found["error"]
        half = Z95 * error + base.half_width
        trusted, why = _trusted(found)
        spent = time.monotonic() - before
        if trusted and half <= half_width:
            break
        grown = (min(4 * words, _MOST_WORDS), k) if trusted else (words, 4 * k)
        late = seconds is not None and time.monotonic() - began + 5 * spent > seconds
        most = seconds is None and 64 * grown[0] * grown[1] > _WORK
        if late or most or grown[1] > _MOST or grown == (words, k):
            break
        words, k = grown
    info: dict[str, Any] = {"seed": seed, "points": k, "lanes": 64 * words, "lane_sweeps": lanes}
    info |= {"effective": found["effective"], "starts": found["starts"], "base": base.method}
    value += base.value
    low = _log_sum(path, found["states"])
    if trusted and value + half < low:
        trusted, why = False, "states that were seen weigh more than the estimate"
    kinds = ["asymptotic", path.guarantee, base.info.get("guarantee", "exact")]
    info["guarantee"] = weakest(kinds) if trusted else "heuristic"
    info["reached"], info["noise"] = trusted and half <= half_width, Z95 * error
    if info["guarantee"] == "heuristic":
        info["reason"] = why or "the law without terms is heuristic"
        most_z = base_log_z(path.theta + _shares(path.phi, len(path.theta)))
        high = most_z.value + most_z.half_width
        info["bounds"], info["estimate"] = (low, high), value
        value = min(max(value, low), high)
        half = max(value - low, high - value)
    return Annealed(value + phi.constant, half, info)


def quick(
    formula: Formula,
    theta: np.ndarray,
    phi: Polynomial,
    seed: int,
    base_log_z: Callable[[np.ndarray], LogPartition],
) -> tuple[float, float, bool]:
    """(log Z, its standard error, do the two runs agree), from one run forward and one back."""
    path = Path(formula, theta, phi, seed)
    found = _round(path, _WORDS, _QUICK, [])
    base = base_log_z(path.base)
    return base.value + found["value"] + phi.constant, found["error"], _trusted(found)[0]


def _others(path: Path, starts: np.ndarray | None) -> list[tuple[str, np.ndarray]]:
    """Words of lanes that start elsewhere, and what to call them."""
    found = [(f"maximum {k + 1}", np.tile(x, (64, 1))) for k, x in enumerate(path.maxima())]
    if starts is not None and len(starts):
        x = np.zeros((128, path.walk.n), bool)
        random = np.random.default_rng(path.seed())
        x[:, : starts.shape[1]] = starts[random.integers(0, len(starts), len(x))]
        if path.walk.n == starts.shape[1]:  # auxiliary variables are not known
            found.append(("given", x))
    return [(name, pack(x)) for name, x in found]


def _round(path: Path, words: int, k: int, others: list[tuple[str, np.ndarray]]) -> dict[str, Any]:
    """One run forward, one back, and runs back from other starts, with k points each."""
    grid = path.points(k)
    first, _ = path.walk.start(path.base, words, path.seed())
    last, work, _ = path.along(first, grid)
    forward = Run.of(work, 1)
    top = path.equilibrated(path.resampled(last, work), k)
    sizes = [words] + [len(some) for _, some in others]
    elsewhere = np.zeros((0, path.walk.n), np.uint64)
    if others:
        elsewhere = path.equilibrated(np.concatenate([some for _, some in others]), 2 * k)
    _, work, _ = path.along(np.concatenate([top, elsewhere]), grid[::-1])
    ends = np.cumsum(sizes) * 64
    back = Run.of(work[: ends[0]], -1)
    runs = {
        name: Run.of(work[a:b], -1)
        for (name, _), a, b in zip(others, ends[:-1], ends[1:], strict=True)
    }
    # Inverse variances: forward is biased downwards, back upwards, by about error^2 / 2.
    share = back.error**2 / max(forward.error**2 + back.error**2, 1e-300)
    return {
        "value": share * forward.value + (1 - share) * back.value,
        "error": math.hypot(share * forward.error, (1 - share) * back.error),
        "forward": forward,
        "back": back,
        "others": runs,
        "effective": min(forward.effective, back.effective),
        "starts": {name: run.value - forward.value for name, run in runs.items()},
        "states": np.concatenate([last, top, elsewhere]),
    }


def _trusted(found: dict[str, Any]) -> tuple[bool, str]:
    """Do all runs agree? If not, why."""
    forward = found["forward"]
    if found["effective"] < _EFFECTIVE:
        return False, f"{found['effective']:.1%} of the lanes carry the weight"
    for name, run in {"forward lanes": found["back"], **found["others"]}.items():
        error = math.hypot(forward.error, run.error)
        if abs(run.value - forward.value) > _SIGMAS * error + _SLACK:
            return False, (
                f"a run back from {name} finds log Z {run.value - forward.value:+.2g} nats from "
                f"that of the run forward"
            )
    return True, ""


def _log_sum(path: Path, words: np.ndarray) -> float:
    """log sum of the weights of distinct states."""
    states = np.unique(unpack(words, 64 * len(words)), axis=0)
    score = path.walk.potential(pack(states), path.theta, path.c)[: len(states)]
    top = float(score.max())
    return top + math.log(float(np.exp(score - top).sum()))


def _shares(phi: Polynomial, n: int) -> np.ndarray:
    """(n,): the sum over S with i in S of max(c_S, 0) / |S|."""
    out = np.zeros(n)
    for monomial, c in phi.products.items():
        if c > 0:
            out[np.array(monomial) - 1] += c / len(monomial)
    return out
