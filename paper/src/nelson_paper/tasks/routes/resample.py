"""Uniform routes by resampling, as in the paper: draw all positions, redraw those that clash.

Each of n positions holds a location, drawn uniformly. While some location stands at several
positions, all of these but the first are redrawn together: one round (errata 17). The procedure
treats all locations alike, so the law of its result does not change if locations are relabelled:
all n! orders are equally likely, and so are all (n - 1)! round trips. *Exact*.

If one position is left to settle, a round settles it with probability 1/n; if k are left, a round
settles at least one with probability about k^2/n. So the expected number of rounds is about
n (1 + 1/4 + 1/9 + ...) = 1.64 n.

- If *all* clashing positions are redrawn, a new clash also undoes a position that was settled, and
  the procedure practically never ends. `keep="none"` shows this, within `max_rounds`.
- If locations have unequal weights the symmetry is lost, and the result is biased: with a weight
  w_l for each location l every order has the same weight prod_l w_l, yet the orders are not equally
  frequent. `log_weights` shows this. Weighted routes need chains (`moves.py`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError
from nelson.kernels.core import rng
from nelson_paper.tasks.routes.convert import rotated
from nelson_paper.tasks.routes.kernels import routes as kernels
from nelson_paper.tasks.threads import on_threads

#: Budget of one route; the expected number of rounds is about 1.64 n.
MAX_ROUNDS = 100_000


@dataclass(frozen=True, eq=False)
class Resampled:
    """The state of m routes after resampling.

    orders   (m, n) the location at each position; -1 at some position if not finished
    rounds   (m,) rounds of redrawing; -1 if the budget was not enough
    redrawn  (m,) positions redrawn in all rounds together
    """

    orders: np.ndarray
    rounds: np.ndarray
    redrawn: np.ndarray
    seconds: float

    @property
    def finished(self) -> np.ndarray:
        return self.rounds >= 0

    @property
    def routes(self) -> np.ndarray:
        """The finished orders as round trips that start at location 0, (m', n)."""
        return rotated(self.orders[self.finished])


def resample(
    n: int,
    count: int,
    *,
    seed: int = 0,
    context: int = 0,
    keep: str = "first",
    log_weights: Any = None,
    max_rounds: int | None = None,
    threads: int | None = None,
) -> Resampled:
    """`count` orders of n locations. Order i is a function of (seed, context, i).

    keep: which of several positions with the same location is not redrawn, "first" or "none".
    log_weights: of the locations, (n,), or of the locations at each position, (n, n); None: equal.
    """
    if n < 1 or count < 0:
        raise FormulaError(f"{count} orders of {n} locations", expected="n >= 1, count >= 0")
    if keep not in ("first", "none"):
        raise FormulaError(f"keep {keep!r}", expected="'first' or 'none'")
    max_rounds = MAX_ROUNDS if max_rounds is None else max_rounds
    if not 0 <= max_rounds <= rng.MAX_ROUNDS:
        raise FormulaError(f"max_rounds {max_rounds}", expected=f"0..{rng.MAX_ROUNDS}")
    table = _cumulative(n, log_weights)
    orders = np.full((count, n), -1, np.int64)
    rounds, redrawn = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    spread = rng.spread_seed(seed)
    started = time.perf_counter()

    def work(first: int, last: int, stop: np.ndarray) -> None:
        seen = np.zeros(n, np.int64)
        kernels.resample(
            table, keep == "first", spread, context, first, last, orders, rounds, redrawn,
            max_rounds, seen, stop,
        )  # fmt: skip

    on_threads(work, count, threads)
    return Resampled(orders, rounds, redrawn, time.perf_counter() - started)


def uniform(
    n: int, count: int, *, seed: int = 0, context: int = 0, threads: int | None = None
) -> Resampled:
    """`count` uniform round trips; BudgetExceeded if one takes more than MAX_ROUNDS rounds."""
    drawn = resample(n, count, seed=seed, context=context, threads=threads)
    if not drawn.finished.all():
        left = int((~drawn.finished).sum())
        raise BudgetExceeded(f"{left} of {count} routes were not valid after {MAX_ROUNDS} rounds")
    return drawn


def _cumulative(n: int, log_weights: Any) -> np.ndarray:
    if log_weights is None:
        return np.empty(0)
    log = np.broadcast_to(np.asarray(log_weights, np.float64), (n, n))
    if not np.isfinite(log).all():
        raise FormulaError("log_weights that are not finite", expected="(n,) or (n, n) numbers")
    return np.exp(log - log.max(axis=1, keepdims=True)).cumsum(axis=1).reshape(-1)
