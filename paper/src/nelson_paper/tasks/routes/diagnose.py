"""Have the chains mixed? Split R-hat and effective sample size, for chains of any numbers.

m chains of length t are cut in two halves each: 2 m sequences of length h. With

    W = mean of their variances,         B / h = variance of their means,
    var+ = (h - 1)/h W + B / h,          R-hat = sqrt(var+ / W)

R-hat is near 1 if all halves have the same law, and larger if chains disagree or drift.

    rho_k = 1 - (W - mean autocovariance at lag k) / var+
    ESS   = 2 m h / (1 + 2 sum_k rho_k)

The sum over k runs over pairs of neighbouring lags. It ends where a pair turns negative, and before
that each pair is at most the one before (Geyer 1992). Gelman et al., Bayesian Data Analysis, 3rd
ed. (2013), 11.4-11.5. Constant chains get R-hat = 1 and ESS = NaN.

Both judge only the numbers that are watched: a chain can be stuck in a way that none of them shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson_paper.tasks.base import JUDGING
from nelson_paper.tasks.routes.convert import edge_columns, rotated, summed
from nelson_paper.tasks.routes.moves import ANNEAL, SWEEPS, Chains


def _split(values: Any) -> tuple[np.ndarray, float, float]:
    """values (chains, length) -> (all halves (2 chains, h), W, B / h)."""
    values = np.asarray(values, np.float64)
    if values.ndim != 2 or values.shape[1] < 4:
        raise FormulaError(
            f"chains of shape {values.shape}", expected="(chains, length), length at least 4"
        )
    if np.ptp(values) <= 1e-9 * np.abs(values).max():  # constant, but for rounding
        values = np.zeros_like(values)
    h = values.shape[1] // 2
    halves = np.concatenate([values[:, :h], values[:, -h:]])
    return halves, float(halves.var(1, ddof=1).mean()), float(halves.mean(1).var(ddof=1))


def split_rhat(values: Any) -> float:
    """values (chains, length) -> R-hat."""
    halves, within, between = _split(values)
    h = halves.shape[1]
    if within == 0:
        return 1.0 if between == 0 else float("inf")
    return float(np.sqrt((h - 1) / h + between / within))


def effective_size(values: Any) -> float:
    """values (chains, length) -> the number of independent draws whose mean is as precise."""
    halves, within, between = _split(values)
    m, h = halves.shape
    spread = (h - 1) / h * within + between
    if spread == 0:
        return float("nan")
    rho = 1 - (within - _autocovariance(halves)) / spread
    rho[0] = 1.0
    pairs = rho[: h - h % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: negative[0]] if len(negative) else pairs)
    return float(m * h / max(2 * pairs.sum() - 1, 1 / np.log10(max(m * h, 10))))


def _autocovariance(halves: np.ndarray) -> np.ndarray:
    """Mean over the sequences of the autocovariance at lags 0..h-1, by Fourier transform."""
    h = halves.shape[1]
    size = 1 << (2 * h - 1).bit_length()
    centred = halves - halves.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(centred, size, axis=1)) ** 2
    return np.fft.irfft(power, size, axis=1)[:, :h].mean(axis=0) / (h - 1)


def diagnose_chains(
    theta: np.ndarray,
    watched: dict[str, np.ndarray],
    *,
    chains: int = 32,
    length: int = 400,
    thin: int = 5,
    anneal: int = ANNEAL,
    sweeps: int = SWEEPS,
    edges: int = 40,
    seed: int = 0,
    threads: int | None = None,
) -> dict[str, Any]:
    """Run `chains` chains from uniform starts and record `length` routes of each, `thin` sweeps
    apart.

    Watched are: the sum of each matrix in `watched`, (n, n), over the edges of a route; the
    direction of the route, seen from three fixed locations; the `edges` edges whose
    presence varies most. -> {"statistics": {name: {"rhat", "ess", "time"}}, "rhat": the largest,
    "ess": the smallest, ...}; "time" is the autocorrelation time in sweeps.
    """
    n = len(theta)
    walkers = Chains(n, chains, seed=seed, context=JUDGING, threads=threads)
    walkers.anneal(theta, anneal, sweeps)
    trace = np.empty((length, chains, n), np.int64)
    for k in range(length):
        walkers.advance(theta, np.ones(thin))
        trace[k] = rotated(walkers.routes)
    values = {name: summed(matrix, trace).T for name, matrix in watched.items()}
    where = np.argsort(trace, axis=2)
    values["direction"] = (where[:, :, n // 3] < where[:, :, 2 * n // 3]).T.astype(float)
    driven = edge_columns(trace)
    p = np.bincount(driven.reshape(-1), minlength=n * (n - 1)) / (length * chains)
    for e in np.argsort(-p * (1 - p), kind="stable")[:edges].tolist():
        values[f"edge {e}"] = (driven == e).any(axis=2).T.astype(float)
    statistics = {name: _statistics(v, thin) for name, v in values.items()}
    sizes = [s["ess"] for s in statistics.values() if np.isfinite(s["ess"])]
    return {
        "statistics": statistics,
        "rhat": max(s["rhat"] for s in statistics.values()),
        "ess": min(sizes) if sizes else float("nan"),
        "draws": length * chains,
        "chains": chains,
        "moved": walkers.moved_share(),
    }


def _statistics(values: np.ndarray, thin: int) -> dict[str, float]:
    size = effective_size(values)
    return {"rhat": split_rhat(values), "ess": size, "time": thin * values.size / size}
