"""The default way up: natural gradient with samples that grow, line search, averaging, and a stop.

The log-likelihood  theta . mu_data - log Z(theta)  is concave, with gradient g = mu_data - mu_theta
and Hessian -C = -Cov_theta(x). A Newton step theta + C^-1 g from m samples lands at the maximum
plus noise of covariance C^-1 / m, which costs n / (2m) nats: N examples leave n / (2N), so m = 4 N
and the mean of eight such steps end within 1 + 1/32 of what any method can get from the data.

    grow      Newton steps; when the gap is noise at m, four times m, up to 4 N
    average   eight Newton results are averaged
    check     a fresh draw at the mean: noise? then done; else average again

A step that overshoots (the slope along it has turned) is cut by the secant rule: far from the
maximum that is a line search, on samples. Chains that persist from one theta to the next were left
out: fresh samples cost microseconds and owe nothing to the last theta.

Where the data say 0 or 1 of a variable (or lie on any other face) the maximum is at infinity. So
`prior` pseudo-examples of the uniform valid law are mixed in, mu = (N mu_data + a mu_0) / (N + a):
an interior point, whatever the data, hence a finite theta. `bound` is there for prior = 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded
from nelson.learning.draw import Draw
from nelson.learning.noise import curvature, direction, judge
from nelson.learning.settings import Settings

_AVERAGE = 8  # Newton results behind an answer
_MOST_BITS = 1 << 31  # of one draw: 256 MB
_FEWEST = 1024


class Newton:
    """`point` and `m` say what to draw next; `update(draw)` takes it in."""

    #: Kept in a checkpoint: everything that `update` reads and writes.
    ARRAYS = ("point", "theta", "step", "total", "target")
    SCALARS = ("m", "m_final", "phase", "slope", "averaged", "has_step", "relax", "done", "behind")

    def __init__(self, settings: Settings, target: np.ndarray, start: np.ndarray, count: int):
        n = len(target)
        self.settings = settings
        self.target = target
        most = max(64, _MOST_BITS // max(1, n) // 64 * 64)
        first = max(_FEWEST, min(4 * n, 8192))
        self.m_final = settings.m or min(max(4 * count, 2 * first), most)
        self.m = settings.m or min(first, self.m_final)
        self.theta = np.zeros(n)  # the last accepted point
        self.point = start.copy()
        self.step = start.copy()
        self.slope = float("nan")  # (mu - mu_theta) . step at the accepted point; nan: not known
        self.has_step = False
        self.relax = 1.0
        self.phase = "grow"
        self.total = np.zeros(n)
        self.averaged = 0
        self.behind = 0.0  # samples whose noise is in `point`; 0: none is
        self.done = False

    def began_at_zero(self, uniform: np.ndarray) -> None:
        """The start came as a step from theta = 0, where the model's mean is `uniform`."""
        self.slope = float(((self.target - uniform) * self.step).sum())
        self.has_step = self.slope > 0

    def update(self, draw: Draw) -> dict[str, Any]:
        if draw.count == 0:
            return self._retreat()
        g = self.target - draw.mean
        if self.phase == "grow" and self.has_step and (row := self._overshot(draw, g)):
            return row
        free = self._free(g)
        # The larger of the two variances: where the model has none yet, the data say how much.
        variance = np.maximum(self.target * (1 - self.target), draw.mean * (1 - draw.mean))[free]
        curve = curvature(draw, free)
        s = 1 / draw.count + (1 / self.behind if self.behind else 0.0)
        gap = judge(g[free], variance, s, curve.trace2, self.settings.level)
        phase = self.phase
        move = np.zeros_like(g)
        move[free] = direction(g[free], variance, curve)
        move *= min(self.settings.eta, 1.0) * (self.relax if phase == "grow" else 1.0)
        following = np.clip(self.point + move, -self.settings.bound, self.settings.bound)
        self._advance(g, following, gap.within, draw.count)
        return {
            "phase": phase,
            "gap_l1": gap.l1,
            "gap_max": gap.largest,
            "chi2": gap.chi2,
            "dof": gap.dof,
            "bound": gap.bound,
            "within": gap.within,
            "move": float(np.abs(move).max(initial=0.0)),
        }

    def _free(self, g: np.ndarray) -> np.ndarray:
        """Variables that can still move: not constant, not at the bound and pushed beyond it."""
        held = (np.abs(self.point) >= self.settings.bound) & (g * self.point > 0)
        constant = (g == 0) & ((self.target == 0) | (self.target == 1))
        return ~held & ~constant

    def _overshot(self, draw: Draw, g: np.ndarray) -> dict[str, Any] | None:
        """Has the slope along the last step turned by more than noise? Then cut the step."""
        s = 1 / draw.count + (1 / self.behind if self.behind else 0.0)
        noise = 3 * draw.spread(self.step) * np.sqrt(s)
        slope = float((g * self.step).sum())
        if not slope < -0.5 * self.slope - noise:
            self.relax = min(1.0, 1.3 * self.relax)
            return None
        cut = min(0.9, max(0.1, self.slope / (self.slope - slope)))
        self.relax = max(1e-3, self.relax * cut)
        return self._cut(cut, np.abs(g))

    def _retreat(self) -> dict[str, Any]:
        """No valid sample at this point: half the way back."""
        if not np.any(self.step) or np.abs(self.step).max() < 1e-6:
            raise BudgetExceeded("the sampler finds no valid sample at this theta")
        if self.phase != "grow":
            self.phase, self.averaged = "grow", 0
        return self._cut(0.5, np.full(len(self.target), np.nan))

    def _cut(self, by: float, gap: np.ndarray) -> dict[str, Any]:
        self.step *= by
        self.slope *= by
        self.point = self.theta + self.step
        return {
            "phase": "cut",
            "gap_l1": float(gap.sum()),
            "gap_max": float(gap.max(initial=0.0)),
            "chi2": float("nan"),
            "dof": float("nan"),
            "bound": float("nan"),
            "within": False,
            "move": float(np.abs(self.step).max(initial=0.0)),
        }

    def _advance(self, g: np.ndarray, following: np.ndarray, within: bool, count: int) -> None:
        self.theta = self.point
        self.step = following - self.point
        self.slope = float((g * self.step).sum())
        self.has_step = self.slope > 0
        self.point = following
        before, self.behind = self.behind, float(count)
        if self.phase == "grow":
            if within and self.m < self.m_final:
                self.m = min(4 * self.m, self.m_final)
            elif within:
                self.phase, self.total, self.averaged = "average", following.copy(), 1
        elif self.phase == "average":
            self.total = self.total + following
            self.averaged += 1
            if self.averaged % _AVERAGE == 0:
                self.point = self.total / self.averaged
                self.behind = float(self.averaged * self.m)
                self.phase = "check"
        else:
            if within and self.settings.stop:
                self.point, self.done, self.behind = self.theta, True, before
                return
            if within:  # told not to stop: the mean goes on
                self.total, self.averaged = self.total + following, self.averaged + 1
            else:
                self.total, self.averaged = following.copy(), 1
            self.phase = "average"

    def result(self) -> np.ndarray:
        """The best theta so far."""
        if self.done or self.phase == "check":
            return self.point
        return self.total / self.averaged if self.phase == "average" else self.point
