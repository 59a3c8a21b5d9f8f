"""Learning many correlated coefficients: proximal steps, averaged, with validation examples.

    maximise  theta . mu - log Z(theta) - l1 |c| - (l2 / 2) |c|^2,    c: coefficients of products

One step with the moments of the samples, scaled by the variance of each feature:

    theta <- shrink(theta + eta_t (mu - mean - l2 c) / v,  eta_t l1 / v),    v = mu (1 - mu) + 1 / N

Steps come in stages of growing length or of shrinking penalty. eta_t falls within a stage, and the
mean over its second half is its result: it averages out the noise of the samples.

With validation examples, l1 is multiplied by 0.7 from stage to stage, and the log-likelihood of the
validation examples is computed after each. The run ends after three stages without a new best, and
the best stage is the answer; stages in which no product is used yet do not count, since their
scores differ by noise. If the caller sets l1, it stays, and validation only says when to stop.

Steps that are too long for the chains to follow end far from the maximum, and the chains do not
show it: theta moves before they could. The validation examples show it. If a stage ends more than
one nat below the best, or below the first point, it is discarded: the run goes on from the best
point with steps a quarter as long and the same l1. Steps also become shorter if the chains differ
from the samples that came with log Z.

Without validation examples, stages of doubled length follow each other until a draw at the mean
shows that the gradient is noise (`moments.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded
from nelson.formula import Formula
from nelson.learning.data import Examples
from nelson.learning.draw import NamedSampler
from nelson.learning.group import VALIDATION, State, stream_seed
from nelson.learning.learner import Unary
from nelson.learning.moments import Draw, constant_variables, gap_size, judge_draw
from nelson.learning.optimizers import Proximal
from nelson.learning.run_options import History
from nelson.log_z.annealing import Quick

#: log Z at theta, with a seed for an estimate.
LogZ = Callable[[np.ndarray, int], Quick]

#: Computes the first theta and the first l1.
First = Callable[[], tuple[np.ndarray, float]]


class Penalised(Unary):
    """n: the variables; features behind them are products. score: None without validation."""

    ARRAYS = ("point", "theta", "target", "total", "best")
    SCALARS = (
        *("m", "t", "step", "stage", "averaged", "l1", "score", "error", "worse", "checking"),
        *("done", "pace", "first"),
    )

    settings: Proximal
    CHECK = 4  # a test draws this many times m samples
    LEAST_PACE = 1 / 64
    t = 0  # steps done
    step = 0  # of this stage
    stage = 0  # stages done
    l1 = 0.0
    score = -math.inf  # of `best`, over the validation examples
    error = 0.0  # of `score`: the standard error of log Z
    worse = 0
    checking = False
    pace = 1.0  # a factor of eta
    first = -math.inf  # the score of the first point

    def __init__(
        self,
        formula: Formula,
        examples: Examples,
        settings: Proximal,
        first: First,
        n: int,
        valid: Examples | None = None,
        log_z: LogZ | None = None,
    ) -> None:
        super().__init__(formula, examples, settings, self._computed)
        self.begin_at, self.n, self.valid, self.log_z = first, n, valid, log_z
        self.best = np.zeros_like(self.theta)

    def identity(self) -> dict[str, Any]:
        valid = None if self.valid is None else self.valid.fingerprint()
        return super().identity() | {"validation data": valid}

    def _computed(self) -> np.ndarray:
        theta, self.l1 = self.begin_at()
        return theta

    def start_from(self, uniform: np.ndarray) -> None:
        assert self.theta0 is not None
        self.m = self.settings.m or 1024
        self.theta = self.clipped(self.theta0)
        self.point = self.best = self.theta
        if isinstance(self.drawer.custom, NamedSampler):
            self.drawer.custom.forget()  # the moments of the uniform law came from it
        if self.valid is not None and self.log_z is not None:
            log_z = self.log_z(self.theta, stream_seed(self.drawer.seed, VALIDATION))
            self.first = float(self.valid.mean() @ self.theta) - log_z.log_z
            self.error = log_z.error

    @property
    def _scale(self) -> np.ndarray:
        return self.target * (1 - self.target) + 1 / self.examples.count

    @property
    def _length(self) -> int:
        """Steps of this stage."""
        steps = self.settings.stage
        return steps if self.valid is not None else steps << min(self.stage, 10)

    def update(self, draw: Draw) -> dict[str, Any]:
        if draw.count == 0:
            raise BudgetExceeded("the sampler finds no valid sample at this theta")
        if self.checking:
            return self._check(draw)
        g = self.target - draw.mean
        eta = self.pace * self.settings.rate / (1 + self.settings.fall * self.step / self._length)
        moved = self.theta + eta * (g - self._pull(self.theta)) / self._scale
        limit = eta * self.l1 / self._scale[self.n :]
        tail = moved[self.n :]
        moved[self.n :] = np.sign(tail) * np.maximum(np.abs(tail) - limit, 0.0)
        moved = self.clipped(moved)
        largest = float(np.abs(moved - self.theta).max(initial=0.0))
        self.theta = self.point = moved
        self.t, self.step = self.t + 1, self.step + 1
        row = {"phase": "step", **gap_size(g), "move": largest}
        if self.step > self._length // 2:
            self.total, self.averaged = self.total + moved, self.averaged + 1
        if self.step >= self._length:
            row |= self._ended()
        return row

    def _pull(self, theta: np.ndarray) -> np.ndarray:
        """The gradient of the L2 penalty."""
        out = self.settings.l2 * theta
        out[: self.n] = 0.0
        return out

    def _ended(self) -> dict[str, float]:
        """A stage is done: continue at its mean."""
        mean = self.total / self.averaged
        self.total, self.averaged, self.step = np.zeros_like(mean), 0, 0
        self.stage += 1
        self.theta = self.point = mean
        if self.valid is None or self.log_z is None:
            self.best, self.checking, self.m = mean, True, self.m * self.CHECK
            return {}
        seed = stream_seed(self.drawer.seed, VALIDATION + self.stage)
        log_z = self.log_z(mean, seed)
        lag = False
        if log_z.samples is not None and isinstance(self.drawer.custom, NamedSampler):
            lag = self.drawer.custom.renew(log_z.samples)
        score = float(self.valid.mean() @ mean) - log_z.log_z
        row = {"l1": self.l1, "validation": score, "validation_error": log_z.error}
        row["trusted"] = float(log_z.trusted)
        far = score < max(self.score, self.first) - self.settings.far
        slower = (lag or far) and self.pace > self.LEAST_PACE
        if slower:
            self.pace *= 0.25
        if far and slower:
            self.theta = self.point = self.best
            return row
        if score > self.score:
            self.score, self.error, self.best, self.worse = score, log_z.error, mean, 0
        elif self.settings.l1 is not None or mean[self.n :].any():
            self.worse += 1  # before the first product is used, scores differ by noise only
        self.done = self.worse >= self.settings.patience and self.settings.stop
        if self.settings.l1 is None:  # a penalty under which no product is used is far too strong
            factor = self.settings.factor
            self.l1 *= factor if mean[self.n :].any() else factor**3
        return row

    def _check(self, draw: Draw) -> dict[str, Any]:
        """Is the gradient at the mean of the stage noise?"""
        self.checking, self.m = False, self.m // self.CHECK
        shrunk = np.zeros_like(self.point)
        shrunk[self.n :] = self.l1 * np.sign(self.point[self.n :])
        target = self.target - self._pull(self.point) - shrunk
        free = ~constant_variables(target - draw.mean, target)
        if self.l1 > 0:
            free[self.n :] &= np.abs(self.point[self.n :]) > 0
        behind = float(self.m * max(1, self._length // 4))
        gap, _, _ = judge_draw(draw, target, free, behind, self.settings.level)
        row = gap.row("check", 0.0)
        self.done = bool(row["within"]) and self.settings.stop
        return row

    def result(self) -> np.ndarray:
        return self.best if self.stage else self.point

    def verdict(self, history: History, ended: str) -> tuple[bool, str]:
        if self.valid is None:
            if self.done:
                return super().verdict(history, ended)
            return False, f"{self.t:,} steps done, and the gradient is more than noise"
        if not self.stage:
            return False, "no claim is made about the validation examples"
        score = self.score if math.isfinite(self.score) else self.first  # no stage was kept
        used = int(np.count_nonzero(self.best[self.n :]))
        why = (
            f"{score:.6g} nats for each of {self.valid.count:,} validation examples (log Z "
            f"+- {2 * self.error:.2g}); {used:,} of {len(self.best) - self.n:,} products are used"
        )
        if self.done:
            worse = self.settings.patience
            return True, f"the best of {self.stage} stages, and the last {worse} are worse: {why}"
        return False, f"the best of {self.stage} stages, and more may help: {why}"

    def restore(self, state: State) -> None:
        super().restore(state)
        if not 0 <= self.l1 < 1e6:
            raise ValueError(f"l1 = {self.l1}")
