"""Have chains mixed? Split R-hat and effective sample size, for chains of any numbers.

Values are replaced by their normal scores z = Phi^-1((rank - 3/8) / (size + 1/4)), ties by their
mean rank. m chains of length t are cut in two halves each: 2 m sequences of length h. With

    W = mean of their variances,         B / h = variance of their means,
    var+ = (h - 1)/h W + B / h,          R-hat = sqrt(var+ / W)

R-hat is near 1 if all halves have the same law, and larger if chains disagree or drift.

    rho_k = 1 - (W - mean autocovariance at lag k) / var+
    ESS   = 2 m h / (1 + 2 sum_k rho_k)

The sum over k runs over pairs of neighbouring lags. It ends where a pair turns negative, and before
that each pair is at most the one before (Geyer 1992). Vehtari, Gelman, Simpson, Carpenter, Burkner,
Bayesian Analysis 16 (2021). Constant chains get R-hat = 1 and ESS = NaN.

Both judge only the numbers that are watched: a chain can be stuck in a way that none of them shows.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

from nelson.errors import FormulaError

#: Where the normal quantile function is tabulated; between, it is interpolated.
_GRID = np.linspace(1, 1023, 1023) / 1024


def mixing(values: Any) -> tuple[float, float]:
    """values (chains, length), length at least 4 -> (split R-hat, effective sample size)."""
    values = np.asarray(values, np.float64)
    if values.ndim != 2 or values.shape[1] < 4:
        raise FormulaError(
            f"chains of shape {values.shape}", expected="(chains, length), length at least 4"
        )
    if np.ptp(values) <= 1e-9 * np.abs(values).max():  # constant, but for rounding
        return 1.0, float("nan")
    z = _normal_scores(values)
    h = z.shape[1] // 2
    halves = np.concatenate([z[:, :h], z[:, -h:]])
    within, between = float(halves.var(1, ddof=1).mean()), float(halves.mean(1).var(ddof=1))
    spread = (h - 1) / h * within + between
    rhat = float(np.sqrt(spread / within)) if within else float("inf")
    rho = 1 - (within - _autocovariance(halves)) / spread
    rho[0] = 1.0
    pairs = rho[: h - h % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: negative[0]] if len(negative) else pairs)
    size = halves.size
    return rhat, float(size / max(2 * pairs.sum() - 1, 1 / np.log10(max(size, 10))))


def _normal_scores(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - (counts - 1) / 2  # of equal values: the mean of their ranks
    grid = [NormalDist().inv_cdf(q) for q in _GRID]
    scores = np.interp((rank - 0.375) / (values.size + 0.25), _GRID, grid)
    return scores[inverse.reshape(values.shape)]


def _autocovariance(halves: np.ndarray) -> np.ndarray:
    """Mean over the sequences of the autocovariance at lags 0..h-1, by Fourier transform."""
    h = halves.shape[1]
    size = 1 << (2 * h - 1).bit_length()
    centred = halves - halves.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(centred, size, axis=1)) ** 2
    return np.fft.irfft(power, size, axis=1)[:, :h].mean(axis=0) / (h - 1)
