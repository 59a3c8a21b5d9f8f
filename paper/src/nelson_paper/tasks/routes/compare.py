"""Are two sets of routes alike? Edge frequencies, and a Kolmogorov-Smirnov test of lengths."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from nelson_paper.tasks.routes.convert import frequencies, summed

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def ks(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Largest distance of the two distribution functions, and its p-value under one common law.

    p = 2 sum_k (-1)^(k-1) exp(-2 k^2 z^2), z = D (s + 0.12 + 0.11/s), s = sqrt(m n / (m + n)):
    Stephens' form (1970) of Kolmogorov's limit, good from a few tens of values on.
    """
    a, b = np.sort(a), np.sort(b)
    both = np.concatenate([a, b])
    below = np.searchsorted(a, both, "right") / len(a), np.searchsorted(b, both, "right") / len(b)
    d = float(np.abs(below[0] - below[1]).max())
    s = math.sqrt(len(a) * len(b) / (len(a) + len(b)))
    z = d * (s + 0.12 + 0.11 / s)
    if z < 0.2:  # p is 1 to 12 digits, and the series would need many terms
        return d, 1.0
    terms = [(-1) ** (k - 1) * math.exp(-2 * (k * z) ** 2) for k in range(1, 101)]
    return d, min(1.0, max(0.0, 2 * math.fsum(terms)))


def halves_gap(routes: np.ndarray) -> float:
    """L1 distance of the edge frequencies of the even and the odd rows."""
    return float(np.abs(frequencies(routes[::2]) - frequencies(routes[1::2])).sum())


def alike(
    held: np.ndarray, generated: np.ndarray, distances: np.ndarray, trained_on: int = 0
) -> dict[str, Any]:
    """Comparison of held-out routes (m, n) with generated routes (m', n): plain numbers.

    edge_correlation  correlation of the two frequencies over all edges
    edge_gap          L1 distance of the frequencies
    edge_noise        the expected edge_gap of a perfect model. Measured as the gap between two
                      halves of the held-out data (variance 4/m), scaled to 1/m + 1/m' + 1/N, with
                      N = trained_on the examples that theta was learned from
    length_ks         Kolmogorov-Smirnov distance of the lengths; length_p: its p-value
    """
    lengths = [summed(distances, routes) for routes in (held, generated)]
    statistic, p = ks(*lengths)
    f = frequencies(held), frequencies(generated)
    m = len(held)
    share = 1 / m + 1 / len(generated) + (1 / trained_on if trained_on else 0.0)
    return {
        "edge_correlation": float(np.corrcoef(*f)[0, 1]),
        "edge_gap": float(np.abs(f[0] - f[1]).sum()),
        "edge_noise": halves_gap(held) * math.sqrt(share * m / 4) if m > 1 else math.nan,
        "length_ks": statistic,
        "length_p": p,
        "length_mean": _named(float(x.mean()) for x in lengths),
        "length_quantiles": _named(_quantiles(x) for x in lengths),
        "distinct": len(np.unique(generated, axis=0)),
    }


def _named(values: Iterable[Any]) -> dict[str, Any]:
    return dict(zip(("held_out", "model"), values, strict=True))


def _quantiles(x: np.ndarray) -> dict[str, float]:
    return {f"{q:.0%}": float(v) for q, v in zip(QUANTILES, np.quantile(x, QUANTILES), strict=True)}
