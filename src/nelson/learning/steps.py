"""First order: plain SGD (Algorithm 2 of the paper, with the sign that climbs) and Adam.

    theta <- theta + rate_t (E_data[x] - E_model[x]),     rate_t = rate / (1 + decay t)

`average`: the answer is the mean of the latest iterates, at least a third of all (Polyak and
Ruppert). The mean forgets the start and averages out the noise of the samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded
from nelson.learning.data import Examples
from nelson.learning.draw import Drawer
from nelson.learning.group import State
from nelson.learning.learner import Unary
from nelson.learning.moments import Draw, gap_size
from nelson.learning.optimizers import SGD, Adam


class FirstOrder(Unary):
    """SGD or Adam. From time to time a larger draw tests the moments, if the run may stop."""

    ARRAYS = ("point", "theta", "target", "total", "first", "second")
    SCALARS = ("m", "t", "averaged", "checking", "done")

    settings: SGD  # or Adam
    t = 0  # steps done
    checking = False
    batches: Examples | None = None  # shuffled; None: every step sees all examples

    def begin(self, drawer: Drawer, saved: State | None) -> None:
        super().begin(drawer, saved)
        if self.settings.batch is not None and self.settings.batch < self.examples.count:
            self.batches = self.examples.shuffled(drawer.seed)

    def start_from(self, uniform: np.ndarray) -> None:
        self.m = self.settings.m or 1024
        if self.theta0 is not None:
            self.theta = self.clipped(self.theta0)
        self.point = self.theta
        self.first = self.second = np.zeros_like(self.theta)  # moments of Adam

    def update(self, draw: Draw) -> dict[str, Any]:
        if draw.count == 0:
            raise BudgetExceeded("the sampler finds no valid sample at this theta")
        if self.checking:
            return self._check(draw)
        target = self.target
        if self.batches is not None and self.settings.batch is not None:
            target = self.batches.batch_mean(self.t, self.settings.batch)
        g = target - draw.mean
        move = self._move(g)
        self.theta = self.clipped(self.theta + move)
        self.t += 1
        if self.settings.average:
            if self.t & (self.t - 1) == 0:  # a power of two: start a new mean
                self.total, self.averaged = np.zeros_like(self.theta), 0
            self.total = self.total + self.theta
            self.averaged += 1
        if self.settings.stop and self.t % self.settings.check_every == 0:
            self.checking, self.m = True, self.m * self.settings.check_factor
        self.point = self.result() if self.checking else self.theta
        largest = float(np.abs(move).max(initial=0.0))
        return {"phase": self.settings.NAME, **gap_size(g), "move": largest}

    def _move(self, g: np.ndarray) -> np.ndarray:
        adam = self.settings
        rate = adam.rate / (1 + adam.decay * self.t)
        if not isinstance(adam, Adam):
            return rate * g
        self.first = adam.beta1 * self.first + (1 - adam.beta1) * g
        self.second = adam.beta2 * self.second + (1 - adam.beta2) * g * g
        first = self.first / (1 - adam.beta1 ** (self.t + 1))
        second = self.second / (1 - adam.beta2 ** (self.t + 1))
        return rate * first / (np.sqrt(second) + adam.epsilon)

    def _check(self, draw: Draw) -> dict[str, Any]:
        self.checking, self.m = False, self.m // self.settings.check_factor
        behind = max(1, self.averaged) * self.m
        row = self.test(draw, behind)
        self.done = bool(row["within"])
        self.point = self.result() if self.done else self.theta
        return row

    def result(self) -> np.ndarray:
        if self.settings.average and self.averaged:
            return self.total / self.averaged
        return self.theta
