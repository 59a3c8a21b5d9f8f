"""Tail probabilities of chi-square, normal and binomial distributions, by SciPy.

    P(chi2_k > x)       = Q(k / 2, x / 2)        regularised upper incomplete gamma function
    P(Bin(m, p) >= k)   = I_p(k, m - k + 1)      regularised incomplete beta function
    P(|N(0, 1)| > |z|)  = erfc(|z| / sqrt(2))

Every tail is computed by itself, not as 1 minus the other one, so small tails keep their digits:
the relative error is below 1e-9 for tails down to 1e-290 and m up to 10^6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special  # not scipy.stats, which takes half a second longer to load


def chi_square_tail(statistic: float, degrees: int) -> float:
    """P(chi2 with `degrees` degrees of freedom > statistic)."""
    return float(special.chdtrc(degrees, statistic))


def normal_tail(z: Any) -> np.ndarray:
    """Two-sided: P(|N(0, 1)| > |z|)."""
    return special.erfc(np.abs(z) / np.sqrt(2))


def binomial_tails(k: Any, m: Any, p: Any) -> tuple[np.ndarray, np.ndarray]:
    """P(X <= k) and P(X >= k) for X ~ Bin(m, p)."""
    k, m, p = (np.asarray(value, np.float64) for value in (k, m, p))
    at_most = np.where(k < m, special.betainc(m - k, k + 1, 1 - p), 1.0)
    at_least = np.where(k > 0, special.betainc(k, m - k + 1, p), 1.0)
    return at_most, at_least


def two_sided(k: Any, m: Any, low_p: Any, high_p: Any) -> np.ndarray:
    """p-value of k successes in m trials if a success may have any probability in [low_p, high_p].

    Twice the smaller tail; each tail is taken at the end of the interval where it is largest.
    """
    at_most, _ = binomial_tails(k, m, low_p)
    _, at_least = binomial_tails(k, m, high_p)
    return np.minimum(1.0, 2 * np.minimum(at_most, at_least))
