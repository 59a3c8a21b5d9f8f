"""The constants of Barbarik's test; `barbarik.py` says what they are for.

    t  = ceil(ln(2 / delta) / ln(10 / (10 - eta (eta - 6 epsilon))))      pairs
    lo = (1 + epsilon) / (1 - epsilon),  L = alpha lo / (1 + alpha lo)
    hi = 1 + (eta + 6 epsilon) / 4,      H = alpha hi / (1 + alpha hi)

N, the number of draws for a pair, is the smallest for which Chernoff's bound exp(-N KL(T | p)) is
at most delta / t at p = L and 1/5 at p = H, with the threshold T where both bounds meet. These are
the two errors that the paper's proof uses. The paper takes N = 8 ln(t / delta) H / (H - L)^2, from
a weaker bound: 4 times as many draws at alpha = 1, hundreds of times as many for large alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from scipy.special import expit, rel_entr

from nelson.errors import FormulaError


class PairPlan(NamedTuple):
    """How one pair is tested: reject if a share > threshold of the draws is the sampler's own."""

    draws: float  # may be infinite
    threshold: float
    low: float  # L: the largest share that a law within epsilon can have


@dataclass(frozen=True)
class Design:
    epsilon: float
    eta: float
    delta: float

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < 1 / 3:
            raise FormulaError(f"epsilon = {self.epsilon}", expected="0 <= epsilon < 1/3")
        if not 6 * self.epsilon < self.eta <= 2:
            raise FormulaError(f"eta = {self.eta}", expected="6 epsilon < eta <= 2 (L1 distance)")

    @property
    def pairs(self) -> int:
        far = self.eta * (self.eta - 6 * self.epsilon)
        return math.ceil(math.log(2 / self.delta) / math.log(10 / (10 - far)))

    def plan(self, log_alpha: float) -> PairPlan:
        """For a pair of structures whose weights have the ratio exp(log_alpha)."""
        low = float(expit(log_alpha + math.log((1 + self.epsilon) / (1 - self.epsilon))))
        high = float(expit(log_alpha + math.log(1 + (self.eta + 6 * self.epsilon) / 4)))
        if not 0 < low < high < 1:
            return PairPlan(math.inf, 1.0, low)
        false_alarm, missed = math.log(self.pairs / self.delta), math.log(5)
        a, b = low, high
        for _ in range(100):  # bisection
            mid = (a + b) / 2
            if false_alarm * _kl(mid, high) > missed * _kl(mid, low):
                a = mid
            else:
                b = mid
        gap = _kl(b, low)
        return PairPlan(math.ceil(false_alarm / gap) if gap > 0 else math.inf, b, low)


def _kl(a: float, p: float) -> float:
    """KL divergence, in nats, of a coin with probability a from a coin with probability p."""
    return float(rel_entr(a, p) + rel_entr(1 - a, 1 - p))
