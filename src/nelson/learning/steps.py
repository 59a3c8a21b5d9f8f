"""First order: plain SGD (Algorithm 2 of the paper, with the sign that climbs) and Adam.

    theta <- theta + eta_t (E_data[x] - E_model[x]),     eta_t = eta / (1 + decay t)

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
from nelson.learning.moments import Draw
from nelson.learning.noise import gap_size
from nelson.learning.unary import Unary

_CHECK_EVERY = 100  # iterations between two tests of a run that may stop by itself
_CHECK_FACTOR = 16  # a test draws m times this many samples: its own noise must be small
_DEFAULT_M = 1024
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # Kingma and Ba, 2015


class FirstOrder(Unary):
    """SGD or Adam. Every 100 steps a larger draw tests the moments, if the run may stop."""

    ARRAYS = ("point", "theta", "target", "total", "first", "second")
    SCALARS = ("m", "t", "averaged", "checking", "done")

    t = 0  # steps done
    checking = False
    batches: Examples | None = None  # shuffled; None: every step sees all examples

    def begin(self, drawer: Drawer, saved: State | None) -> None:
        super().begin(drawer, saved)
        if self.settings.batch is not None and self.settings.batch < self.examples.count:
            self.batches = self.examples.shuffled(drawer.seed)

    def start_from(self, uniform: np.ndarray) -> None:
        self.m = self.settings.m or _DEFAULT_M
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
        if self.settings.stop and self.t % _CHECK_EVERY == 0:
            self.checking, self.m = True, self.m * _CHECK_FACTOR
        self.point = self.result() if self.checking else self.theta
        largest = float(np.abs(move).max(initial=0.0))
        return {"phase": self.settings.optimizer, **gap_size(g), "move": largest}

    def _move(self, g: np.ndarray) -> np.ndarray:
        eta = self.settings.eta / (1 + self.settings.decay * self.t)
        if self.settings.optimizer == "sgd":
            return eta * g
        self.first = _BETA1 * self.first + (1 - _BETA1) * g
        self.second = _BETA2 * self.second + (1 - _BETA2) * g * g
        first = self.first / (1 - _BETA1 ** (self.t + 1))
        second = self.second / (1 - _BETA2 ** (self.t + 1))
        return eta * first / (np.sqrt(second) + _EPSILON)

    def _check(self, draw: Draw) -> dict[str, Any]:
        self.checking, self.m = False, self.m // _CHECK_FACTOR
        behind = max(1, self.averaged) * self.m
        row = self.test(draw, behind)
        self.done = bool(row["within"])
        self.point = self.result() if self.done else self.theta
        return row

    def result(self) -> np.ndarray:
        if self.settings.average and self.averaged:
            return self.total / self.averaged
        return self.theta
