"""Weighted routes: many chains of moves inside the space of routes; every state is a valid route.

    P_theta(route) = exp(sum over its edges i -> j of theta_ij) / Z

Every chain starts at a uniform route (`resample.py`), an exact draw at inverse temperature 0.
`anneal` sweeps raise beta from 0 to 1, then `sweeps` sweeps stay at 1. A sweep is n moves: 1/2
insertions of a segment by heat bath, 3/8 reversals, 1/8 swaps (`kernels.routes` says why P_theta is
stationary under each). Insertions and reversals reach every route, so the remaining bias shrinks
with every sweep at beta = 1: *diagnosed*.

A reversal turns edges around, and theta_ij != theta_ji, so its gain is summed over the segment in
O(n). A sweep costs O(n^2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.kernels.core.rng import spread_seed
from nelson_paper.tasks.base import SAMPLES
from nelson_paper.tasks.routes.convert import rotated
from nelson_paper.tasks.routes.kernels.routes import advance
from nelson_paper.tasks.routes.resample import uniform
from nelson_paper.tasks.threads import on_threads

#: Sweeps of rising beta.
ANNEAL = 100
#: Sweeps at beta = 1.
SWEEPS = 200
#: A move is an insertion if u < MIX[0], a reversal if u < MIX[1], else a swap.
MIX = (0.5, 0.875)
_MOVES = ("insert", "reverse", "swap")
#: The random numbers count the moves of a chain in 32 bits.
_MAX_STEPS = 2**32


class Chains:
    """`count` chains over the routes of n locations; chain i is a function of (seed, context, i).

    routes   (count, n) the present state of each chain, not rotated
    steps    moves that each chain has made
    moved    (count, 3) moves of each kind that changed the route
    rounds   (count,) rounds of resampling for the start; None if the start was given
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
        self.n, self.count = n, count
        self.rounds: np.ndarray | None = None
        if start is None:
            drawn = uniform(n, count, seed=seed, context=context, threads=threads)
            self.routes, self.rounds = drawn.orders, drawn.rounds
        else:
            self.routes = np.array(start, np.int64, order="C")
        self.steps = 0
        self.moved = np.zeros((count, len(_MOVES)), np.int64)
        self._seed, self._context, self._threads = spread_seed(seed), context, threads

    def advance(self, theta: np.ndarray, betas: Any, mix: tuple[float, float] = MIX) -> None:
        """One sweep at each inverse temperature of `betas`, with theta (n, n)."""
        betas = np.atleast_1d(np.asarray(betas, np.float64))
        if self.steps + self.n * len(betas) > _MAX_STEPS:
            raise FormulaError("more than 2^32 moves of a chain", expected="fewer sweeps")
        flat, share = np.ascontiguousarray(theta, np.float64).reshape(-1), np.array(mix, float)

        def work(first: int, last: int, stop: np.ndarray) -> None:
            space, weight = np.empty(self.n, np.int64), np.empty(self.n)
            advance(
                flat, betas, share, self._seed, self._context, self.steps, first, last,
                self.routes, self.moved, space, weight, stop,
            )  # fmt: skip

        on_threads(work, self.count, self._threads)
        self.steps += self.n * len(betas)

    def anneal(self, theta: np.ndarray, anneal: int = ANNEAL, sweeps: int = SWEEPS) -> None:
        """`anneal` sweeps with beta rising from 0, then `sweeps` sweeps at beta = 1."""
        self.advance(theta, np.arange(anneal) / max(anneal, 1))
        self.advance(theta, np.ones(sweeps))

    def moved_share(self) -> dict[str, float]:
        """For each kind of move, the share of its moves that changed the route."""
        share = (MIX[0], MIX[1] - MIX[0], 1 - MIX[1])
        done = self.moved.sum(axis=0) / max(1, self.steps * self.count)
        return {kind: float(d / s) for kind, d, s in zip(_MOVES, done, share, strict=True)}

    def rotated(self) -> np.ndarray:
        """The routes, each starting at location 0."""
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
    """`count` independent chains for theta (n, n), after `anneal` + `sweeps` sweeps."""
    if anneal < 0 or sweeps < 0:
        raise FormulaError(f"anneal {anneal}, sweeps {sweeps}", expected="0 or more")
    chains = Chains(len(theta), count, seed=seed, context=context, threads=threads)
    chains.anneal(theta, anneal, sweeps)
    return chains
