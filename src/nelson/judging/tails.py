"""Tail probabilities by SciPy, and how far a law may be off and still count as right.

    P(chi2_k > x)       = Q(k / 2, x / 2)        regularised upper incomplete gamma function
    P(Bin(m, p) >= k)   = I_p(k, m - k + 1)      regularised incomplete beta function
    P(|N(0, 1)| > |z|)  = erfc(|z| / sqrt(2))

Every tail is computed by itself, not as 1 minus the other one, so small tails keep their digits:
the relative error is below 1e-9 for tails down to 1e-290 and m up to 10^6.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import special


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


class Band(NamedTuple):
    """The laws Q that count as right for P = P_theta(x | C). (1, 1) allows P only.

    low P(x) <= Q(x) <= high P(x)   for every structure x,   low <= 1 <= high
    """

    low: float = 1.0
    high: float = 1.0

    @classmethod
    def of(cls, epsilon: float | None, claimed: float | None = None) -> Band:
        """The caller's tolerance if there is one, else the one that the sampler claims, if any."""
        if epsilon is not None:
            return cls(1 - epsilon, 1 + epsilon)
        if claimed:
            return cls(1 / (1 + claimed), 1 + claimed)
        return cls()

    @property
    def exact(self) -> bool:
        return self.low == self.high

    def __str__(self) -> str:
        return f"each probability {self.low:.4g} to {self.high:.4g} times that"

    def events(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Range of Q(event) for an event with P(event) = p.

        Both the event and its complement are sums of structures, and both sums must be in range.
        """
        least = np.maximum(self.low * p, 1 - self.high * (1 - p))
        most = np.minimum(self.high * p, 1 - self.low * (1 - p))
        return np.clip(least, 0.0, 1.0), np.clip(most, 0.0, 1.0)

    def choices(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Range of Q(x | x or y) for two structures with P(x | x or y) = p."""
        if self.low <= 0:
            return np.zeros(len(p)), np.ones(len(p))
        factor = self.high / self.low
        return p / (p + factor * (1 - p)), factor * p / (factor * p + 1 - p)
