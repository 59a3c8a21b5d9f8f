"""The bridge between two laws of h, of which one is known up to a factor.

Of n_p draws of W / P(C) and n_q of Q, which is normalised, let

    f(h) = n_p W(h) / (n_p W(h) + n_q Q(h) P(C))

be the probability that h came from the first law. Of all P(C) the one is right for which as many
draws of Q look like draws of W as draws of W look like draws of Q (Bennett 1976; Meng, Wong 1996):

    sum over draws of Q of f  =  sum over draws of W of 1 - f

Since f lies between 0 and 1, no single draw decides, as it may in importance sampling. The variance
of log P(C) is Var_q(f) / (n_q E_q(f)^2) + Var_p(f) / (n_p (1 - E_p(f))^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit


@dataclass(frozen=True)
class Bridge:
    """log P(C) from both kinds of draws."""

    value: float
    variance: float
    overlap: float  # the sum of f (1 - f)
    log_miss: float  # log E_p(1 - f)

    @classmethod
    def between(cls, samples: np.ndarray, draws: np.ndarray) -> Bridge:
        """log W / Q of samples, which is finite, and of draws of Q, which may be -inf."""
        offset = math.log(len(samples) / len(draws))
        possible = draws[np.isfinite(draws)]
        if not len(possible):
            return cls(float(np.median(samples)), math.inf, 0.0, 0.0)
        # Draws that look like samples are fewer, and samples that look like draws are more, the
        # larger the value: bisect, from 50 nats beyond all ratios. A step of 2^-50 of the range is
        # below the noise.
        low = float(min(samples.min(), possible.min())) - 50.0
        high = float(max(samples.max(), possible.max())) + 50.0
        for _ in range(50):
            value = (low + high) / 2
            more = expit(offset + draws - value).sum() > expit(value - offset - samples).sum()
            low, high = (value, high) if more else (low, value)
        f_q, g_p = expit(offset + draws - value), expit(value - offset - samples)
        # An event that no draw has shown may have a probability of about two draws' share.
        variance = sum(
            float(share.var() / share.mean() ** 2) / len(share) + (2.0 / len(share)) ** 2
            for share in (f_q, g_p)
        )
        overlap = float((f_q * (1 - f_q)).sum() + (g_p * (1 - g_p)).sum())
        return cls(value, variance, overlap, math.log(float(g_p.mean())))

    def shift(self, early: np.ndarray, draws: np.ndarray, samples: int) -> tuple[float, float]:
        """(by how much log P(C) would differ with these samples, the variance of that)."""
        offset = math.log(samples / draws.size)
        g = expit(self.value - offset - early)
        mean = max(float(g.mean()), 0.5 / len(g))
        return math.log(mean) - self.log_miss, float(g.var()) / mean**2 / len(g)
