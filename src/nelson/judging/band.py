"""How far a sampler's law Q may be from P = P_theta(x | C) and still count as right.

    low P(x) <= Q(x) <= high P(x)   for every structure x,   low <= 1 <= high

An epsilon of the caller means (low, high) = (1 - epsilon, 1 + epsilon). A sampler that promises a
factor 1 + epsilon ("approximate") claims (1 / (1 + epsilon), 1 + epsilon). (1, 1) allows P only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Band(NamedTuple):
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
