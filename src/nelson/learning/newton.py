"""The default optimizer: natural gradient with a growing number of samples m.

The log-likelihood  theta . mu_data - log Z(theta)  is concave, with gradient g = mu_data - mu_theta
and Hessian -C = -Cov_theta(x). A Newton step theta + C^-1 g from m samples lands at the maximum
plus noise of covariance C^-1 / m, which costs n / (2m) nats. N examples leave an error of n / (2N)
nats. So m = 4 N and the mean of eight such steps end within 1 + 1/32 of the error that no method
can avoid.

    grow      Newton steps; m is multiplied by 4 whenever the gap is noise, up to 4 N
    average   eight Newton results are averaged
    check     a fresh draw at the mean: if its gap is noise, done; else average again

A step that overshoots (the slope along it has changed its sign) is cut by the secant rule: far from
the maximum this is a line search on samples. Chains that persist from one theta to the next are not
used: fresh samples cost microseconds and do not depend on the last theta.

If the data say 0 or 1 of a variable (or lie on any other face) the maximum is at infinity. So
`prior` pseudo-examples of the uniform valid law are mixed in, mu = (N mu_data + a mu_0) / (N + a).
This is an interior point for any data, hence theta is finite. `bound` limits theta if prior = 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nelson.errors import BudgetExceeded
from nelson.learning.data import Targets
from nelson.learning.group import State
from nelson.learning.learner import Unary
from nelson.learning.moments import (
    Draw,
    Gap,
    constant_variables,
    direction,
    gap_size,
    judge_draw,
    noise_scale,
)
from nelson.learning.optimizers import Newton
from nelson.learning.run_options import History


class NewtonSteps(Unary):
    """In phase "grow", `point` = `theta` + `step`, where theta is the last accepted point."""

    ARRAYS = ("point", "theta", "step", "total", "target")
    SCALARS = (
        *("m", "m_final", "phase", "slope", "averaged", "has_step", "relax", "done", "behind"),
        *("prior_share", "held"),
    )

    settings: Newton
    phase = "grow"
    slope = math.nan  # (mu - mu_theta) . step at theta; NaN: not known
    has_step = False
    relax = 1.0  # factor of the next steps, below 1 after an overshoot
    behind = 0.0  # number of samples whose noise `point` carries; 0: no noise
    #: Variables (from 1) that the bound holds back: their moments are off by more than noise.
    held = ""
    prior_share = math.nan  # what the prior costs, as a share of n / (2N); NaN: not known

    def start_from(self, uniform: np.ndarray) -> None:
        """Without theta0: a step from theta = 0, where the model's mean is `uniform`."""
        n, m = self.formula.n_vars, self.settings.m
        most = max(64, (1 << 31) // max(1, n) // 64 * 64)  # of a draw of 256 MB
        first = max(1024, min(4 * n, 8192))
        self.m_final = m or min(max(4 * self.examples.count, 2 * first), most)
        self.m = m or min(first, self.m_final)
        start = self.theta0
        if start is None:
            with np.errstate(divide="ignore", invalid="ignore"):
                start = np.log(self.target / (1 - self.target)) - np.log(uniform / (1 - uniform))
            start = np.where(np.isnan(start), 0.0, start)
        self.point, self.step = self.clipped(start), self.clipped(start)
        if self.theta0 is None:
            self.slope = float(((self.target - uniform) * self.step).sum())
            self.has_step = self.slope > 0

    def update(self, draw: Draw) -> dict[str, Any]:
        if draw.count == 0:
            return self._retreat()
        g = self.target - draw.mean
        if self.phase == "grow" and self.has_step and (row := self._overshot(draw, g)):
            return row
        free = self._free(g)
        gap, variance, curve = judge_draw(draw, self.target, free, self.behind, self.settings.level)
        phase = self.phase
        move = np.zeros_like(g)
        move[free] = direction(g[free], variance, curve)
        move *= min(self.settings.rate, 1.0) * (self.relax if phase == "grow" else 1.0)
        self.held = self._held(g, draw)
        if phase == "check" and not isinstance(self.examples, Targets):
            shift, toward = self.target - self.examples.mean(), np.zeros_like(g)
            toward[free] = direction(shift[free], variance, curve)
            self.prior_share = self._prior_share(draw, shift, toward)
        self._advance(g, self.clipped(self.point + move), gap.within, draw.count)
        return gap.row(phase, float(np.abs(move).max(initial=0.0)))

    def _free(self, g: np.ndarray) -> np.ndarray:
        """Variables that can still move: they have a target, are not constant, and are not pushed
        against the bound."""
        held = (np.abs(self.point) >= self.settings.bound) & (g * self.point > 0)
        return self.asked & ~held & ~constant_variables(g, self.target)

    def _held(self, g: np.ndarray, draw: Draw, sigmas: float = 5.0) -> str:
        """The variables that the bound keeps from the data's moments: they are off by more than
        this many standard errors."""
        against = (np.abs(self.point) >= self.settings.bound) & (g * self.point > 0)
        mean = np.clip(draw.mean, 0.5 / draw.count, 1 - 0.5 / draw.count)
        noise = np.sqrt(mean * (1 - mean) * noise_scale(draw, self.behind))
        held = np.flatnonzero(against & (np.abs(g) > sigmas * noise)) + 1
        if not len(held):
            return ""
        named = ", ".join(map(str, held[:10])) + ", ..." * (len(held) > 10)
        return f"{len(held)} variable{'s' * (len(held) > 1)} ({named})"

    def _prior_share(self, draw: Draw, shift: np.ndarray, toward: np.ndarray) -> float:
        """What the prior's shift of the moments costs: shift . C^-1 shift / 2, over n / (2N).

        shift . C^-1 shift is the largest (shift . u)^2 / Var(u . x) over all u. `toward` is about
        that u. The samples give the variance: shrunk correlations exceed it where it is small. That
        is so if the examples lie on a face (all equal, for example), where the variance is of the
        order of the prior's weight, and the share of the order of `prior`.
        """
        moved = float((shift * toward).sum())
        if not moved:
            return 0.0
        spread, n = draw.spread(toward), int(np.count_nonzero(toward))
        return self.examples.count * moved**2 / (n * spread**2) if spread > 0 else math.inf

    def _overshot(self, draw: Draw, g: np.ndarray) -> dict[str, Any] | None:
        """Cut the last step if the slope along it has changed its sign by more than noise."""
        noise = 3 * draw.spread(self.step) * np.sqrt(noise_scale(draw, self.behind))
        slope = float((g * self.step).sum())
        if not slope < -0.5 * self.slope - noise:
            self.relax = min(1.0, 1.3 * self.relax)
            return None
        cut = min(0.9, max(0.1, self.slope / (self.slope - slope)))
        self.relax = max(1e-3, self.relax * cut)
        return self._cut(cut, g)

    def _retreat(self) -> dict[str, Any]:
        """There is no valid sample at this point: go back half of the step."""
        if not np.any(self.step) or np.abs(self.step).max() < 1e-6:
            raise BudgetExceeded("the sampler finds no valid sample at this theta")
        if self.phase != "grow":
            self.phase, self.averaged = "grow", 0
        return self._cut(0.5, np.full(len(self.target), np.nan))

    def _cut(self, by: float, g: np.ndarray) -> dict[str, Any]:
        self.step *= by
        self.slope *= by
        self.point = self.theta + self.step
        return Gap(**gap_size(g)).row("cut", float(np.abs(self.step).max(initial=0.0)))

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
            if self.averaged % self.settings.averaged == 0:
                self.point = self.total / self.averaged
                self.behind = float(self.averaged * self.m)
                self.phase = "check"
        else:
            if within and self.settings.stop:
                self.point, self.done, self.behind = self.theta, True, before
                return
            if within:  # stop=False: the mean continues
                self.total, self.averaged = self.total + following, self.averaged + 1
            else:
                self.total, self.averaged = following.copy(), 1
            self.phase = "average"

    def restore(self, state: State) -> None:
        older = {"prior_share": math.nan, "held": ""}  # checkpoints that lack them
        state[1]["scalars"] = older | state[1]["scalars"]
        super().restore(state)

    def result(self) -> np.ndarray:
        if self.done or self.phase == "check":
            return self.point
        return self.total / self.averaged if self.phase == "average" else self.point

    def verdict(self, history: History, ended: str) -> tuple[bool, str]:
        converged, why = super().verdict(history, ended)
        if self.done:
            count = self.examples.count
            share = count / self.behind if self.behind else 0.0
            bound = self.settings.bound
            at_bound = int((np.abs(self.point) >= bound).sum())
            if self.held:
                return False, (
                    f"theta of {self.held} stays at its bound of {bound:g}, and their moments "
                    f"differ from the {self.examples.KIND}'s by more than noise: a larger `bound` "
                    f"(at most 100) lets them go on; for the other variables {why}"
                )
            if at_bound:
                why += f"; theta of {at_bound} variables is at its bound of {bound:g}"
            elif self.prior_share <= share:
                why += f"; samples add {share:.1%} to the error that {count:,} examples leave"
            elif not math.isnan(self.prior_share):
                plural = "s" * (self.settings.prior != 1)
                why += (
                    f"; the prior ({self.settings.prior:g} pseudo-example{plural}) moves the fit "
                    f"more than the noise of the samples does: {count:,} examples are few, or some "
                    "values or combinations of values are rare in them or missing"
                )
        return converged, why
