"""Tail probabilities: chi-square, normal, binomial. SciPy is not asked for.

    Q(a, x)    = 1/Gamma(a) int_x^inf t^(a-1) e^-t dt       P(chi2_k > x) = Q(k/2, x/2)
    I_p(a, b)  = 1/B(a, b) int_0^p t^(a-1) (1-t)^(b-1) dt   P(Bin(m, p) >= k) = I_p(k, m - k + 1)

Both by power series or continued fraction (Lentz), whichever converges there: O(sqrt(a + b)) terms.
Relative error below 1e-8 for a, b up to 10^6; tails below 1e-300 are 0. Abramowitz and Stegun 6.5,
26.5; Thompson and Barnett 1986 for the fractions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_TINY = 1e-300
_EPS = 1e-15
_MOST = 200_000  # terms; sqrt(10^10) are enough

_lgamma = np.vectorize(math.lgamma, otypes=[np.float64])


def chi_square_tail(statistic: float, degrees: int) -> float:
    """P(chi2 with `degrees` degrees of freedom > statistic)."""
    return gamma_tail(degrees / 2, statistic / 2)


def gamma_tail(a: float, x: float) -> float:
    """Q(a, x) for a > 0."""
    if x <= 0:
        return 1.0
    front = a * math.log(x) - x - math.lgamma(a)
    if x < a + 1:
        term = total = 1 / a
        for k in range(1, _MOST):
            term *= x / (a + k)
            total += term
            if term < total * _EPS:
                break
        return max(0.0, 1.0 - math.exp(front + math.log(total)))
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    h = d
    for k in range(1, _MOST):
        an = -k * (k - a)
        b += 2
        d = an * d + b
        d = 1 / (d if abs(d) > _TINY else _TINY)
        c = b + an / c
        c = c if abs(c) > _TINY else _TINY
        h *= d * c
        if abs(d * c - 1) < _EPS:
            break
    return min(1.0, math.exp(front + math.log(h)))


def normal_tail(z: Any) -> np.ndarray:
    """Two-sided: P(|N(0, 1)| > |z|)."""
    return np.array([math.erfc(abs(v) / math.sqrt(2)) for v in np.ravel(z)]).reshape(np.shape(z))


def binomial_tails(k: Any, m: Any, p: Any) -> tuple[np.ndarray, np.ndarray]:
    """P(X <= k), P(X >= k) for X ~ Bin(m, p); arrays of one shape."""
    k, m, p = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (k, m, p)))
    low, high = np.ones(k.shape), np.ones(k.shape)
    upper = k > 0
    high[upper] = beta_inc(k[upper], m[upper] - k[upper] + 1, p[upper])
    lower = k < m
    low[lower] = beta_inc(m[lower] - k[lower], k[lower] + 1, 1 - p[lower])
    return low, high


def two_sided(k: Any, m: Any, low_p: Any, high_p: Any) -> np.ndarray:
    """p-value of k successes in m trials under "success has a probability in [low_p, high_p]":
    twice the smaller tail, each at the end of the interval that makes it largest.
    """
    at_most, _ = binomial_tails(k, m, low_p)
    _, at_least = binomial_tails(k, m, high_p)
    return np.minimum(1.0, 2 * np.minimum(at_most, at_least))


def beta_inc(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """I_x(a, b) for a, b > 0 and x in [0, 1], elementwise on 1-d arrays."""
    out = np.where(x >= 1, 1.0, 0.0)
    inside = np.flatnonzero((x > 0) & (x < 1))
    a, b, x = a[inside], b[inside], x[inside]
    swap = x > (a + 1) / (a + b + 2)
    a, b, x = np.where(swap, b, a), np.where(swap, a, b), np.where(swap, 1 - x, x)
    front = _lgamma(a + b) - _lgamma(a) - _lgamma(b) if len(a) else a
    front = np.exp(front + a * np.log(x) + b * np.log1p(-x)) / a
    value = np.clip(front * _fraction(a, b, x), 0.0, 1.0)
    out[inside] = np.where(swap, 1 - value, value)
    return out


def _fraction(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    left = np.arange(len(a))
    c = np.ones(len(a))
    d = 1 / _away(1 - (a + b) * x / (a + 1))
    h = d.copy()
    for k in range(1, _MOST):
        a_, b_, x_ = a[left], b[left], x[left]
        for numerator in (
            k * (b_ - k) * x_ / ((a_ + 2 * k - 1) * (a_ + 2 * k)),
            -(a_ + k) * (a_ + b_ + k) * x_ / ((a_ + 2 * k) * (a_ + 2 * k + 1)),
        ):
            d[left] = 1 / _away(1 + numerator * d[left])
            c[left] = _away(1 + numerator / c[left])
            step = c[left] * d[left]
            h[left] *= step
        left = left[np.abs(step - 1) > _EPS]
        if not len(left):
            break
    return h


def _away(v: np.ndarray) -> np.ndarray:
    """Not 0: the fraction divides by it."""
    return np.where(np.abs(v) < _TINY, _TINY, v)
