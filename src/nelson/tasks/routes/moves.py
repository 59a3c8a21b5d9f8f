"""Weighted routes: many chains of moves inside the space of routes, all valid at every moment.

    P_theta(route) = exp(sum over its edges i -> j of theta_ij) / Z

Every chain starts at a uniform route (`resample.py`), an exact draw at inverse temperature 0.
`anneal` sweeps raise beta from 0 to 1, `sweeps` more stay at 1. A sweep is n moves: half of them
insertions of a segment by heat bath, three in eight reversals, one in eight swaps (`kernels.routes`
says why P_theta is stationary under each). Insertions and reversals reach every route, so the bias
that is left shrinks with every sweep at beta = 1: *asymptotic*.

Reversals turn edges around, and theta_ij != theta_ji: their gain is summed over the segment, O(n).
A sweep costs O(n^2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.tasks.routes.convert import rotated
from nelson.tasks.routes.resample import uniform
from nelson.tasks.routes.threads import on_threads

#: Sweeps of rising beta, and at beta = 1.
ANNEAL, SWEEPS = 100, 200
#: A move is an insertion if u < MIX[0], a reversal if u < MIX[1], else a swap.
MIX = (0.5, 0.875)
#: Contexts of the random words: of one seed, samples, training data and learning share none.
SAMPLES, EXAMPLES, LEARNING, JUDGING = 0, 1, 2, 3
KINDS = ("insert", "reverse", "swap")
_MOST_STEPS = 2**32


class Chains:
    """`count` chains over the routes of n locations; chain i is a function of (seed, context, i).

    routes   (count, n) where they stand, not rotated
    steps    moves that each has behind it
    moved    (count, 3) moves of each kind that changed the route
    rounds   (count,) rounds of resampling that the start took; None if the start was given
    """

    def __init__(
        self,
        n: int,
        count: int,
        *,
        seed: int = 0,
        context: int = 0,
        start: np.ndarray | None = None,
        threads: int | None = None,
    ) -> None:
        from nelson.kernels.core.rng import spread_seed

        self.n, self.count = n, count
        self.rounds: np.ndarray | None = None
        if start is None:
            drawn = uniform(n, count, seed=seed, context=context, threads=threads)
            self.routes, self.rounds = drawn.orders, drawn.rounds
        else:
            self.routes = np.array(start, np.int64, order="C")
        self.steps = 0
        self.moved = np.zeros((count, len(KINDS)), np.int64)
        self._seed, self._context, self._threads = spread_seed(seed), context, threads

    def advance(self, theta: np.ndarray, betas: Any, mix: tuple[float, float] = MIX) -> None:
        """One sweep for each of betas, theta (n, n)."""
        from nelson.tasks.routes.kernels import routes as kernels

        betas = np.atleast_1d(np.asarray(betas, np.float64))
        if self.steps + self.n * len(betas) > _MOST_STEPS:
            raise FormulaError("more than 2^32 moves of a chain", expected="fewer sweeps")
        flat, share = np.ascontiguousarray(theta, np.float64).reshape(-1), np.array(mix, float)

        def work(first: int, last: int, stop: np.ndarray) -> None:
            space, weight = np.empty(self.n, np.int64), np.empty(self.n)
            kernels.advance(
                flat, betas, share, self._seed, self._context, self.steps, first, last,
                self.routes, self.moved, space, weight, stop,
            )  # fmt: skip

        on_threads(work, self.count, self._threads)
        self.steps += self.n * len(betas)

    def anneal(self, theta: np.ndarray, anneal: int = ANNEAL, sweeps: int = SWEEPS) -> None:
        """`anneal` sweeps from beta = 0 up, then `sweeps` at beta = 1."""
        self.advance(theta, np.arange(anneal) / max(anneal, 1))
        self.advance(theta, np.ones(sweeps))

    def moved_share(self) -> dict[str, float]:
        """Of all moves, how many of each kind changed a route, over the share of that kind."""
        share = (MIX[0], MIX[1] - MIX[0], 1 - MIX[1])
        done = self.moved.sum(axis=0) / max(1, self.steps * self.count)
        return {kind: float(d / s) for kind, d, s in zip(KINDS, done, share, strict=True)}

    def found(self) -> np.ndarray:
        """The routes, written from location 0 on."""
        return rotated(self.routes)


def weighted(
    theta: np.ndarray,
    count: int,
    *,
    seed: int = 0,
    context: int = SAMPLES,
    anneal: int = ANNEAL,
    sweeps: int = SWEEPS,
    threads: int | None = None,
) -> Chains:
    """`count` independent chains, theta (n, n), at their end."""
    if anneal < 0 or sweeps < 0:
        raise FormulaError(f"anneal {anneal}, sweeps {sweeps}", expected="no fewer than 0")
    chains = Chains(len(theta), count, seed=seed, context=context, threads=threads)
    chains.anneal(theta, anneal, sweeps)
    return chains
