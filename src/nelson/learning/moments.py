"""The samples drawn at one theta, their moments, and: is a gap between moments more than noise?

At the maximum, g = E_data[x] - mean of m samples has mean 0 and covariance C / m, C = Cov_theta(x).
With v = diag C and R the correlations,

    Q = sum_i g_i^2 / (v_i s),   s = 1/m   (+ 1/M if theta itself carries the noise of M samples)

has mean n and variance 2 tr R^2 + sum_i (1 - 6 v_i) / (m v_i). By Satterthwaite's approximation Q
is distributed as c chi^2_nu with the same mean and variance. A gap is called noise if Q is at most
the (1 - level) quantile of c chi^2_nu: at the maximum this holds with probability 1 - level.

R is estimated by popcounts of pairs of columns (`kernels.cpu.packed_samples`), never from unpacked
samples. Its sampling error, E||R^ - R||^2 = n^2/m, is known: it is subtracted from tr R^2, and
says how far to shrink R^ towards the identity before inverting it (Ledoit and Wolf, 2004).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, TypedDict

import numpy as np

from nelson.kernels.core.bits import words_for
from nelson.kernels.cpu.packed_samples import dot, pair_counts
from nelson.learning.group import ALONE, ProcessGroup
from nelson.sampling.device.samples import DeviceSamples
from nelson.sampling.samples import Samples


@dataclass
class Draw:
    """m samples of theta: their mean by popcount, and the packed bits themselves.

    With several ranks, `mean` and `count` are over the samples of all ranks. Each rank holds the
    bits of its own samples, which are numbered in order of the ranks.
    """

    mean: np.ndarray  # (n,); (contexts, n) if theta has a row for each context
    bits: np.ndarray | DeviceSamples  # packed, in the host's memory or on a GPU
    count: int  # samples of each context
    rounds: int
    seconds: float
    guarantee: str
    first: int = 0  # number of the first sample that this rank holds
    held: int | None = None  # samples that this rank holds; None: all of them
    group: ProcessGroup = ALONE

    @classmethod
    def of(cls, samples: Samples, started: float) -> Draw:
        """Samples that this process began to draw at `started` (`time.perf_counter`)."""
        mean = samples.mean()  # on a GPU this waits for the samples
        seconds = time.perf_counter() - started
        bits = samples if isinstance(samples, DeviceSamples) else samples.packed
        rounds = int(samples.info.get("rounds") or 0)
        return cls(mean, bits, len(samples), rounds, seconds, samples.guarantee)

    @cached_property
    def packed(self) -> np.ndarray:
        """(words, n) uint64, in the host's memory."""
        return self.bits.host().packed if isinstance(self.bits, DeviceSamples) else self.bits

    @property
    def _held(self) -> int:
        return self.count if self.held is None else self.held

    def pair_counts(self, columns: np.ndarray, most: int) -> tuple[np.ndarray, int]:
        """X^T X of the given columns over the first `most` samples; how many samples that were.

        The counts are integers, so they are the same for any number of ranks.
        """
        mine = min(self._held, max(0, most - self.first))
        words = self.packed[: words_for(mine)][:, columns]
        if mine % 64:
            words[-1] &= np.uint64((1 << mine % 64) - 1)
        return self.group.sum(pair_counts(words)), min(self.count, most)

    def spread(self, weights: np.ndarray) -> float:
        """The standard deviation of X w.

        A sum of floats depends on its order. So the ranks exchange their X w (8 bytes a sample),
        rank 0 alone computes the result, and the others receive it.
        """
        along = self.group.join(dot(self.packed, self._held, weights))
        deviation = float(along.std()) if self.group.rank == 0 else 0.0
        return float(self.group.sum(np.array([deviation]))[0])


@dataclass(frozen=True)
class Curvature:
    """Correlations of the free variables: the shrunk matrix (None: too large), and tr R^2."""

    matrix: np.ndarray | None  # (free, free), positive definite
    trace2: float


@dataclass(frozen=True)
class Gap:
    """A moment gap, its size and its test: columns of the history. NaN: there was no test."""

    gap_l1: float
    gap_max: float
    chi2: float = math.nan  # Q
    dof: float = math.nan  # the mean of Q if the gap is only noise
    bound: float = math.nan  # the (1 - level) quantile of Q if the gap is only noise
    within: bool = False  # Q <= bound

    def row(self, phase: str, move: float) -> dict[str, Any]:
        return {"phase": phase, **asdict(self), "move": move}


class GapSize(TypedDict):
    gap_l1: float
    gap_max: float


def gap_size(g: np.ndarray) -> GapSize:
    size = np.abs(g)
    return {"gap_l1": float(size.sum()), "gap_max": float(size.max(initial=0.0))}


def curvature(draw: Draw, free: np.ndarray, dense: int = 1024, samples: int = 16_384) -> Curvature:
    """Correlations of the variables that `free`, (n,) bool, selects.

    dense    with more variables the Fisher matrix is taken to be diagonal
    samples  of which the correlations are estimated, at most: more would hardly reduce their noise

    O(n^2 m / 128) word operations for n <= `dense`.
    """
    columns = np.flatnonzero(free)
    n = len(columns)
    if n == 0:
        return Curvature(np.zeros((0, 0)), 0.0)
    chosen = columns[:: -(-n // dense)]
    pairs, m = draw.pair_counts(chosen, samples)
    counts = pairs.astype(np.float64)
    mean = np.diag(counts) / m
    covariance = counts / m - np.outer(mean, mean)
    # The floor gives constant columns correlation 0.
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.5 / m))
    matrix = covariance / np.outer(spread, spread)
    np.fill_diagonal(matrix, 1.0)
    k = len(chosen)
    off = float((matrix**2).sum()) - k  # sum over i != j of R^_ij^2
    noise = k * (k - 1) / m
    trace2 = n + max(0.0, off - noise) * (n * (n - 1) / max(1, k * (k - 1)))
    if k < n:
        return Curvature(None, trace2)
    shrink = min(1.0, noise / off) if off > 0 else 1.0
    matrix *= 1 - shrink
    np.fill_diagonal(matrix, 1.0 + 1e-4)
    return Curvature(matrix, trace2)


def direction(g: np.ndarray, variance: np.ndarray, curve: Curvature) -> np.ndarray:
    """The natural gradient C^-1 g on the free variables; with the diagonal of C if n is large."""
    scale, matrix = np.sqrt(variance), curve.matrix
    if matrix is None:
        return g / variance
    return solve(lambda v: np.einsum("ij,j->i", matrix, v), g / scale) / scale


def solve(multiply: Callable[[np.ndarray], np.ndarray], b: np.ndarray) -> np.ndarray:
    """A^-1 b by conjugate gradients (Hestenes and Stiefel, 1952), to a relative residual of 1e-4.

    multiply: v -> A v. A is near the identity, so a few tens of products suffice. BLAS is not used:
    its sums, hence the bits of theta, depend on the number of its threads.
    """
    x, r = np.zeros_like(b), b.copy()
    p, rr = r, float((r * r).sum())
    goal = 1e-8 * rr
    for _ in range(min(2 * len(b), 500)):
        if rr <= goal:
            break
        q = multiply(p)
        along = float((p * q).sum())
        if along <= 0:  # rounding: A is singular along p
            break
        alpha = rr / along
        x, r = x + alpha * p, r - alpha * q
        before, rr = rr, float((r * r).sum())
        p = r + (rr / before) * p
    return x


def judge(g: np.ndarray, variance: np.ndarray, s: float, trace2: float, level: float) -> Gap:
    """Test the gap g of the free variables; noise alone has variance v_i s in variable i."""
    n = len(g)
    if n == 0:
        return Gap(0.0, 0.0, 0.0, 0.0, 0.0, True)
    if not variance.all():  # all data say one value of a variable, all samples say the other
        return Gap(**gap_size(g), chi2=math.inf, dof=float(n), bound=0.0, within=False)
    q = float((g**2 / variance).sum() / s)
    spread = 2 * max(trace2, float(n)) + float(((1 - 6 * variance) * s / variance).clip(0).sum())
    nu = 2 * n * n / spread
    bound = n / nu * chi2_quantile(nu, 1 - level)
    return Gap(**gap_size(g), chi2=q, dof=float(n), bound=bound, within=q <= bound)


def judge_draw(
    draw: Draw, target: np.ndarray, free: np.ndarray, behind: float, level: float
) -> tuple[Gap, np.ndarray, Curvature]:
    """Test the gap of a draw at a theta that carries the noise of `behind` samples (0: no noise).

    Returns the estimated variances and correlations as well. A variance is the larger of the
    data's and the model's: the model's may still be 0.
    """
    mean, mu = draw.mean[free], target[free]
    variance = np.maximum(mu * (1 - mu), mean * (1 - mean))
    curve = curvature(draw, free)
    s = noise_scale(draw, behind)
    return judge(mu - mean, variance, s, curve.trace2, level), variance, curve


def noise_scale(draw: Draw, behind: float) -> float:
    """s = 1/m + 1/M, M = `behind`; 1/m if M = 0."""
    return 1 / draw.count + (1 / behind if behind else 0.0)


def constant_variables(g: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Variables that have the same value in all data and in all samples of the model, (n,) bool."""
    return (g == 0) & ((target == 0) | (target == 1))


def chi2_quantile(nu: float, p: float) -> float:
    """Quantile of chi^2_nu by Wilson and Hilferty (1931); within 2% for nu >= 3 and p <= 0.99."""
    z = NormalDist().inv_cdf(p)
    return float(nu * max(0.0, 1 - 2 / (9 * nu) + z * math.sqrt(2 / (9 * nu))) ** 3)
