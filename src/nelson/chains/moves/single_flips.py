"""Single flips, the default: a sweep redraws every variable once, given all others."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nelson.chains import engine
from nelson.chains.block import Block
from nelson.chains.moves.protocol import Moves
from nelson.chains.problem import Problem
from nelson.kernels.cpu import tiles
from nelson.policy import DiagnosisPolicy

if TYPE_CHECKING:
    from nelson.chains.request import Request

#: Up to this product of variables, lanes and sweeps a second thread costs more than it saves.
SMALL = 1 << 25


class SingleFlips(Moves):
    """Every variable once, given all others."""

    lags: ClassVar[tuple[int, ...]] = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    cheap_lag: ClassVar[int] = 64
    goes_on: ClassVar[bool] = False
    in_tiles: ClassVar[bool] = True

    @property
    def work(self) -> int:
        """As `Moves.work`, for each variable."""
        return 1

    @property
    def held(self) -> float:
        """All but one variable."""
        return 1.0

    @property
    def info(self) -> dict[str, object]:
        return {"moves": "single"}

    def affords(self, n: int, limits: DiagnosisPolicy) -> int:
        """As `Moves.affords`."""
        return limits.single_work // max(1, n)

    def moved(
        self,
        problem: Problem,
        request: Request,
        words: np.ndarray,
        done: int,
        first_word: int,
        count: int,
    ) -> Block:
        """As `Moves.moved`. Tiles that the deadline did not stop are complete."""
        n = problem.formula.n_total
        states = tiles.States(np.ascontiguousarray(words).reshape(-1, n), done)
        run = partial(tiles.resume, states)
        kernel = engine.Kernel(Problem.law, run=run, first_tells=False, sweeps_all=True)
        budget = request.of_block()
        if n * count * len(request.theta) * max(1, request.sweeps) <= SMALL:
            budget = replace(budget, threads=1)
        asked = replace(request, columns=np.arange(n), budget=budget)
        table = problem.law(request.theta)
        block = engine.draw(kernel, 0, problem, asked, table, request.contexts, first_word, count)
        if block.interrupted:
            raise KeyboardInterrupt
        return block


SINGLE = SingleFlips()
