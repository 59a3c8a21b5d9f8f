"""Moment matching with exact moments: damped Newton steps on the concave dual.

    D(theta) = theta . mu - log Z(theta),    grad D = mu - E_theta[x],    Hessian -Cov_theta(x)

theta moves in some variables only. A step that overshoots (the slope along it has changed its sign)
is cut by the secant rule, as in `newton`, which does the same with samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nelson.learning.noise import solve
from nelson.log_z.moments import Moments

_MAX_ITERATIONS = 300
#: No theta_i moves further in one step: far from the maximum a Newton step may be huge.
_MAX_STEP = 8.0
#: D may be unbounded if some theta_i has moved further than this.
_SUSPICIOUS_MOVE = 40.0
#: D may be unbounded if this many iterations have not been enough.
_SUSPICIOUS_ITERATIONS = 50
#: Added to the diagonal of the covariance. It may be singular (the values of a field sum to 1), and
#: differences of means on a circuit have an error near 1e-11.
_RIDGE = 1e-11


@dataclass
class Climb:
    """The last theta (n,), its E[x] (n,), and how it was reached.

    last_move  the largest |change of theta_i| in the last full step. Near a maximum these shrink
               quadratically. If the maximum is at infinity they stay near 1 or above.
    """

    theta: np.ndarray
    mean: np.ndarray
    iterations: int
    last_move: float
    late: bool = False  # the time was up


def climb(
    source: Moments,
    start: np.ndarray,
    free: np.ndarray,
    mu: np.ndarray,
    tolerance: float,
    until: float,
    suspect: Callable[[], None],
) -> Climb:
    """Move theta, from `start` (n,), in the variables `free` (k,) until |mu - E[x]| <= tolerance.

    suspect: called at most once, if D seems to be unbounded; it may raise. until:
    `time.monotonic()`.
    """
    theta = start.copy()
    mean = source.mean(theta[None])[0]
    step = _logit(mu) - _logit(mean[free])
    step[~np.isfinite(step)] = 0.0
    slope, suspected = float((mu - mean[free]) @ step), False
    theta[free] += step
    move = 0.0  # the first step is none of Newton's
    for iteration in range(_MAX_ITERATIONS + 1):
        mean = source.mean(theta[None])[0]
        g = mu - mean[free]
        late = time.monotonic() > until
        if np.abs(g).max(initial=0.0) <= tolerance or late or iteration == _MAX_ITERATIONS:
            break
        along = float(g @ step)
        if along < -0.5 * slope:
            cut = min(0.9, max(0.1, slope / (slope - along)))
            theta[free] -= (1 - cut) * step
            step, slope = cut * step, cut * slope
            continue
        far = np.abs(theta[free] - start[free]).max() > _SUSPICIOUS_MOVE
        if not suspected and (far or iteration >= _SUSPICIOUS_ITERATIONS):
            suspected = True
            suspect()
        step = _newton_step(source, theta, free, mean[free], g)
        step *= min(1.0, _MAX_STEP / max(np.abs(step).max(), 1e-300))
        slope, move = float(g @ step), float(np.abs(step).max())
        theta[free] += step
    return Climb(theta, mean, iteration, move, late)


def _logit(p: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):  # a computed mean may be 1 + 1e-16
        return np.log(p) - np.log1p(-p)


def _newton_step(
    source: Moments, theta: np.ndarray, free: np.ndarray, mean: np.ndarray, g: np.ndarray
) -> np.ndarray:
    """(Cov + ridge)^-1 g on the free variables; two passes for each product with Cov.

    Cov may be singular. g is then in its range, if the moments are possible at all.
    """
    scale = np.sqrt((mean * (1 - mean)).clip(0) + _RIDGE)

    def correlate(v: np.ndarray) -> np.ndarray:
        wide = np.zeros(len(theta))
        wide[free] = v / scale
        pulled = source.pull(theta[None], wide[None])[0][free]
        return (pulled + _RIDGE * wide[free]) / scale

    return solve(correlate, g / scale) / scale
