"""First order: plain SGD (Algorithm 2 of the paper, with the sign that climbs) and Adam.

    theta <- theta + eta_t (E_data[x] - E_model[x]),     eta_t = eta / (1 + decay t)

`average`: the answer is the mean of the latest iterates, at least a third of all (Polyak and
Ruppert): the mean forgets the start and averages the noise of the samples out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded
from nelson.learning.draw import Draw
from nelson.learning.noise import curvature, judge
from nelson.learning.settings import Settings

_CHECK_EVERY = 100  # iterations between two tests, where the run may stop
_CHECK_SAMPLES = 16  # times m
_DEFAULT_M = 1024
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # Kingma and Ba, 2015


class FirstOrder:
    """`point` and `m` say what to draw next; `update(draw, target)` takes it in."""

    ARRAYS = ("point", "theta", "target", "total", "first", "second")
    SCALARS = ("m", "t", "averaged", "checking", "done")

    def __init__(self, settings: Settings, target: np.ndarray, start: np.ndarray, count: int):
        self.settings = settings
        self.target = target  # of all the data; minibatches come with `update`
        self.theta = start.copy()
        self.point = self.theta
        self.m = settings.m or _DEFAULT_M
        self.t = 0
        self.total = np.zeros_like(start)
        self.averaged = 0
        self.first, self.second = np.zeros_like(start), np.zeros_like(start)
        self.checking = False
        self.done = False

    @property
    def batch_number(self) -> int:
        return self.t

    def update(self, draw: Draw, target: np.ndarray) -> dict[str, Any]:
        if draw.count == 0:
            raise BudgetExceeded("the sampler finds no valid sample at this theta")
        if self.checking:
            return self._check(draw)
        g = target - draw.mean
        move = self._move(g)
        theta = np.clip(self.theta + move, -self.settings.bound, self.settings.bound)
        self.theta = theta
        self.t += 1
        if self.settings.average:
            if self.t & (self.t - 1) == 0:  # a power of two: forget what is older
                self.total, self.averaged = np.zeros_like(theta), 0
            self.total = self.total + theta
            self.averaged += 1
        if self.settings.stop and self.t % _CHECK_EVERY == 0:
            self.checking, self.m = True, self.m * _CHECK_SAMPLES
        self.point = self.result() if self.checking else self.theta
        size = np.abs(g)
        return {
            "phase": self.settings.optimizer,
            "gap_l1": float(size.sum()),
            "gap_max": float(size.max(initial=0.0)),
            "move": float(np.abs(move).max(initial=0.0)),
        }

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
        behind = max(1, self.averaged) * self.m // _CHECK_SAMPLES
        row = check_row(draw, self.target, self.settings.level, behind)
        self.done = bool(row["within"])
        self.checking, self.m = False, self.m // _CHECK_SAMPLES
        self.point = self.result() if self.done else self.theta
        return row

    def result(self) -> np.ndarray:
        if self.settings.average and self.averaged:
            return self.total / self.averaged
        return self.theta


def check_row(draw: Draw, target: np.ndarray, level: float, behind: float) -> dict[str, Any]:
    """The test of `noise.judge` for a draw at a theta that `behind` samples stand behind."""
    g = target - draw.mean
    free = ~((g == 0) & ((target == 0) | (target == 1)))
    variance = np.maximum(target * (1 - target), draw.mean * (1 - draw.mean))[free]
    s = 1 / draw.count + 1 / behind
    gap = judge(g[free], variance, s, curvature(draw, free).trace2, level)
    return {
        "phase": "check",
        "gap_l1": gap.l1,
        "gap_max": gap.largest,
        "chi2": gap.chi2,
        "dof": gap.dof,
        "bound": gap.bound,
        "within": gap.within,
        "move": 0.0,
    }
