"""Is a gap between moments more than noise?

At the maximum, g = E_data[x] - mean of m samples has mean 0 and covariance C / m, C = Cov_theta(x).
With v = diag C and R the correlations,

    Q = sum_i g_i^2 / (v_i s),   s = 1/m   (+ 1/M if theta itself carries the noise of M samples)

has mean n and variance 2 tr R^2 + sum_i (1 - 6 v_i) / (m v_i). Satterthwaite: Q ~ c chi^2_nu with
the same mean and variance. A gap is called noise if Q is at most the (1 - level) quantile of that:
a run that has arrived is told so with probability 1 - level.

R is estimated by popcounts of pairs of columns (`kernels.moments`), never from unpacked samples.
Its sampling error, E||R^ - R||^2 = n^2/m, is known: it is taken off tr R^2, and says how far to
shrink R^ towards the identity before inverting it (Ledoit and Wolf, 2004).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from nelson.learning.draw import Draw

#: Variables beyond which the Fisher matrix is taken to be diagonal.
DENSE = 1024
#: Samples that correlations are estimated from, at most: their noise matters little.
_MOST = 16384


@dataclass(frozen=True)
class Curvature:
    """Correlations of the free variables: shrunk matrix (None: too many), and tr R^2."""

    matrix: np.ndarray | None  # (free, free), positive definite
    trace2: float


@dataclass(frozen=True)
class Gap:
    """A moment gap: its size, and the test of it."""

    l1: float
    largest: float
    chi2: float  # Q
    dof: float  # its mean if there is nothing but noise
    bound: float  # its (1 - level) quantile then
    within: bool

    @property
    def ratio(self) -> float:
        """Q over its mean: 1 is pure noise."""
        return self.chi2 / self.dof if self.dof else 0.0


def curvature(draw: Draw, free: np.ndarray) -> Curvature:
    """From packed samples; `free` (n,) bool selects the variables. O(n^2 m / 128) for n <= 1024."""
    columns = np.flatnonzero(free)
    n = len(columns)
    if n == 0:
        return Curvature(np.zeros((0, 0)), 0.0)
    chosen = columns if n <= DENSE else columns[:: -(-n // DENSE)]
    pairs, m = draw.pair_counts(chosen, _MOST)
    counts = pairs.astype(np.float64)
    mean = np.diag(counts) / m
    covariance = counts / m - np.outer(mean, mean)
    # A column that never varied here has no correlation that could be seen.
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
    """C^-1 g: the natural gradient on the free variables; by the diagonal of C if n is large."""
    scale = np.sqrt(variance)
    if curve.matrix is None:
        return g / variance
    return _solve(curve.matrix, g / scale) / scale


def _solve(matrix: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Conjugate gradients (Hestenes and Stiefel, 1952), to a relative residual of 1e-4.

    R is near the identity, so a few tens of n^2 do. No BLAS: its sums, hence the bits of theta,
    depend on how many threads it takes.
    """
    x, r = np.zeros_like(b), b.copy()
    p, rr = r, float((r * r).sum())
    goal = 1e-8 * rr
    for _ in range(min(2 * len(b), 500)):
        if rr <= goal:
            break
        q = np.einsum("ij,j->i", matrix, p)
        alpha = rr / float((p * q).sum())
        x, r = x + alpha * p, r - alpha * q
        before, rr = rr, float((r * r).sum())
        p = r + (rr / before) * p
    return x


def judge(g: np.ndarray, variance: np.ndarray, s: float, trace2: float, level: float) -> Gap:
    """The test above, of the free variables' gap g with model variances v and noise v s."""
    n = len(g)
    if n == 0:
        return Gap(0.0, 0.0, 0.0, 0.0, 0.0, True)
    q = float((g**2 / variance).sum() / s)
    spread = 2 * max(trace2, float(n)) + float(((1 - 6 * variance) * s / variance).clip(0).sum())
    nu = 2 * n * n / spread
    bound = n / nu * chi2_quantile(nu, 1 - level)
    return Gap(float(np.abs(g).sum()), float(np.abs(g).max()), q, float(n), bound, q <= bound)


def chi2_quantile(nu: float, p: float) -> float:
    """Quantile of chi^2_nu by Wilson and Hilferty (1931); within 2% for nu >= 3 and p <= 0.99."""
    z = NormalDist().inv_cdf(p)
    return float(nu * max(0.0, 1 - 2 / (9 * nu) + z * math.sqrt(2 / (9 * nu))) ** 3)
