"""Have the chains of routes mixed? R-hat and effective sample size of numbers that are watched.

The statistics are those of `nelson.chains.diagnosis.mixing`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nelson.chains.diagnosis.mixing import mixing
from nelson_paper.tasks.base import JUDGING
from nelson_paper.tasks.routes.convert import edge_columns, rotated, summed
from nelson_paper.tasks.routes.moves import ANNEAL, SWEEPS, Chains


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
    rhat, size = mixing(values)
    return {"rhat": rhat, "ess": size, "time": thin * values.size / size}
