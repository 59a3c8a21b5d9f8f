"""Two classical laws of rankings, to compare with: Plackett-Luce and Mallows.

Plackett-Luce: the next item is drawn from those left, with probability proportional to its worth w:

    P(r) = prod over i of w[r_i] / sum over j >= i of w[r_j]

Mallows: P(r) = exp(-t d(r, c)) / Z(t), where d counts the pairs of items that stand in another
order than in the centre c, and Z(t) = prod over j = 1..n of (1 - exp(-j t)) / (1 - exp(-t)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

#: Steps of the MM algorithm. It ends before if no log-worth moves by more than _CLOSE.
_STEPS = 2000
_CLOSE = 1e-9


@dataclass(frozen=True)
class PlackettLuce:
    """worth: (n,) positive, of sum 1."""

    worth: np.ndarray

    @classmethod
    def fit(cls, rankings: np.ndarray) -> PlackettLuce:
        """The worths of greatest likelihood, by the MM algorithm of Hunter (2004).

        w[a] <- (rows in which a is not last) / sum over the choices that a took part in of
        1 / (total worth of the items left). An item that is last in all rows gets the worth 0 in
        the limit; half a pseudo-choice for each item keeps it positive.
        """
        n = rankings.shape[1]
        wins = np.bincount(rankings[:, :-1].ravel(), minlength=n) + 0.5
        worth = np.full(n, 1 / n)
        for _ in range(_STEPS):
            left = worth[rankings][:, ::-1].cumsum(axis=1)[:, ::-1][:, :-1]
            # An item at place i takes part in the choices 0 to i, of which there are n - 1.
            rate = (1 / left).cumsum(axis=1)
            rate = np.concatenate([rate, rate[:, -1:]], axis=1)
            used = np.bincount(rankings.ravel(), weights=rate.ravel(), minlength=n)
            new = wins / (used + 0.5 * n)
            new /= new.sum()
            moved = float(np.abs(np.log(new / worth)).max())
            worth = new
            if moved < _CLOSE:
                break
        return cls(worth)

    def log_prob(self, rankings: np.ndarray) -> np.ndarray:
        w = self.worth[rankings]
        left = w[:, ::-1].cumsum(axis=1)[:, ::-1]
        return (np.log(w) - np.log(left)).sum(axis=1)

    @property
    def best(self) -> np.ndarray:
        return np.argsort(-self.worth, kind="stable")


@dataclass(frozen=True)
class Mallows:
    """centre: (n,) a ranking; spread: t >= 0."""

    centre: np.ndarray
    spread: float

    @classmethod
    def fit(cls, rankings: np.ndarray) -> Mallows:
        """The law of greatest likelihood: the Kemeny ranking, exactly, and its dispersion."""
        n = rankings.shape[1]
        centre = kemeny(rankings)
        mean = float(distances(rankings, centre).mean())
        low, high = 0.0, 50.0
        if mean >= n * (n - 1) / 4:
            return cls(centre, 0.0)
        for _ in range(200):  # the expected distance falls as t grows
            middle = (low + high) / 2
            low, high = (middle, high) if _expected(n, middle) > mean else (low, middle)
        return cls(centre, (low + high) / 2)

    def log_prob(self, rankings: np.ndarray) -> np.ndarray:
        n, t = len(self.centre), self.spread
        j = np.arange(1, n + 1)
        log_z = math.lgamma(n + 1)
        if t > 0:
            log_z = float(np.log(-np.expm1(-j * t)).sum() - n * math.log(-math.expm1(-t)))
        return -t * distances(rankings, self.centre) - log_z

    @property
    def best(self) -> np.ndarray:
        return self.centre


def _expected(n: int, t: float) -> float:
    """The mean distance under the Mallows law: -d log Z / dt."""
    if t < 1e-8:
        return n * (n - 1) / 4
    j = np.arange(1, n + 1)
    return float(n / math.expm1(t) - (j / np.expm1(j * t)).sum())


def distances(rankings: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Kendall's distance: pairs of items that stand in another order than in the centre."""
    place = np.argsort(rankings, axis=1)[:, centre]  # places of the items in the centre's order
    n = len(centre)
    first, second = np.triu_indices(n, 1)
    return (place[:, first] > place[:, second]).sum(axis=1)


def kemeny(rankings: np.ndarray) -> np.ndarray:
    """The ranking with the least total distance, by a dynamic programme over sets of items."""
    n = rankings.shape[1]
    place = np.argsort(rankings, axis=1)
    # worse[a, b]: rows in which b stands above a, the price of placing a above b
    worse = (place[:, :, None] > place[:, None, :]).sum(axis=0)
    best: dict[int, tuple[int, int]] = {0: (0, -1)}
    for chosen in range(1, 1 << n):
        inside = [a for a in range(n) if chosen >> a & 1]
        outside = [a for a in range(n) if not chosen >> a & 1]
        best[chosen] = min(
            (best[chosen ^ 1 << a][0] + int(worse[a, outside].sum()), a) for a in inside
        )
    order, chosen = [], (1 << n) - 1
    while chosen:
        order.append(best[chosen][1])
        chosen ^= 1 << order[-1]
    return np.array(order[::-1])
