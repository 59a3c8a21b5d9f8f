"""How `learn` fits products of variables: which sampler, which learner, which first point."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from nelson.formula import Formula
from nelson.formula.polynomial import Lifted
from nelson.learning.data import Examples
from nelson.learning.draw import Custom
from nelson.learning.newton import Newton
from nelson.learning.penalised import Penalised
from nelson.learning.persistent import Persistent
from nelson.learning.settings import Settings
from nelson.learning.steps import FirstOrder
from nelson.learning.terms import (
    Source,
    completed_examples,
    exact_sampler,
    exact_source,
    log_z_of,
    start_at,
)
from nelson.learning.unary import Unary


class Products:
    """One fit with products."""

    def __init__(
        self,
        formula: Formula,
        shape: Lifted,
        examples: Examples,
        valid: Examples | None,
        settings: Settings,
        threads: int | None,
    ) -> None:
        self.formula, self.shape, self.settings, self.threads = formula, shape, settings, threads
        self.examples, self.valid = examples, valid
        self.source: Source | None = exact_source(shape.formula)

    @cached_property
    def rows(self) -> np.ndarray:
        return self.examples.to_numpy()

    @cached_property
    def sampler(self) -> Custom:
        if self.source is not None:
            return exact_sampler(self.shape, self.source)
        sweeps = self.settings.sweeps
        return Persistent(self.formula, self.shape, self.rows, sweeps, self.threads)

    def learner(self, theta0: np.ndarray | None) -> Unary:
        """theta0: where to start, over variables and products; None: chosen."""
        shape, settings = self.shape, self.settings
        seen = completed_examples(shape, self.examples)
        if settings.optimizer != "proximal":
            kind = Newton if settings.optimizer == "newton" else FirstOrder
            if theta0 is None and self.source is None:
                return kind(shape.formula, seen, settings, lambda: self._start(0.0)[0])
            return kind(shape.formula, seen, settings, theta0)
        valid = None if self.valid is None else completed_examples(shape, self.valid)
        l1 = settings.l1
        if l1 is None and valid is None:
            l1 = 0.0  # nothing could choose it

        def first() -> tuple[np.ndarray, float]:
            theta, penalty = self._start(l1)
            return theta if theta0 is None else theta0, penalty if l1 is None else l1

        log_z = log_z_of(self.formula, shape, self.source)
        return Penalised(shape.formula, seen, settings, first, shape.n, valid, log_z)

    def _start(self, l1: float | None) -> tuple[np.ndarray, float]:
        valid = None if self.valid is None else self.valid.to_numpy()
        least = None if l1 is None else max(l1, 0.5 / self.examples.count)
        return start_at(self.formula, self.shape, self.rows, valid, least)
