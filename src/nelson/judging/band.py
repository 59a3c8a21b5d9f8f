"""How far a law may be from P_theta(x | C) and still be what was claimed.

    low P(x) <= Q(x) <= high P(x)   for every structure x,   low <= 1 <= high

A caller's epsilon is (1 - epsilon, 1 + epsilon); a sampler that promises a factor 1 + epsilon
("approximate") claims (1 / (1 + epsilon), 1 + epsilon); (1, 1) is the law itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Band(NamedTuple):
    low: float = 1.0
    high: float = 1.0

    @classmethod
    def of(cls, epsilon: float | None, claimed: float | None = None) -> Band:
        """The caller's tolerance, else the one that the sampler claims, else none."""
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
        """What the probability of an event, p under P, can be: it and its complement are sums."""
        least = np.maximum(self.low * p, 1 - self.high * (1 - p))
        most = np.minimum(self.high * p, 1 - self.low * (1 - p))
        return np.clip(least, 0.0, 1.0), np.clip(most, 0.0, 1.0)

    def choices(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the probability of one of two structures, given that it is one of them, can be."""
        if self.low <= 0:
            return np.zeros(len(p)), np.ones(len(p))
        factor = self.high / self.low
        return p / (p + factor * (1 - p)), factor * p / (factor * p + 1 - p)
