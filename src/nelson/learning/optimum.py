"""The fitting core for exact laws: the minimum of a smooth convex function, from its gradients.

    f(theta) = log Z(theta) - theta . mu,    grad f = E_theta[x] - mu,    Hessian Cov_theta(x)

Each step goes along a direction d in which f falls. By default d is that of L-BFGS (Nocedal, Math.
Comp. 1980): its first matrix is a multiple of the identity, so every step is a combination of
gradients and never moves along a direction in which f is constant. Started at 0, the search
therefore ends at the minimum of least norm. `newton_step` is the direction where products with the
Hessian are known. Samples in place of the exact law: `loop.py`.

A step that overshoots (the slope along it has changed its sign) is cut by the secant rule, and one
that hardly changes the slope is prolonged. Values of f are not needed: near the minimum their
differences are below rounding, and the gradients still show the way.

SciPy's L-BFGS-B does the same, but its products of tiny matrices start the threads of BLAS at each
step: 50 times the processor time at 700 numbers on two cores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nelson.budget import Budget
from nelson.learning.moments import solve

Gradient = Callable[[np.ndarray], np.ndarray]
#: (theta, gradient) -> a step along which f falls.
Direction = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Minimum(NamedTuple):
    """The last point, its gradient, and how often a gradient was computed after the first."""

    at: np.ndarray
    gradient: np.ndarray
    evaluations: int
    converged: bool

    @property
    def slope(self) -> float:
        return _largest(self.gradient)


def minimise(
    gradient_of: Gradient,
    at: np.ndarray,
    *,
    direction: Direction | None = None,
    tolerance: float = 1e-8,
    evaluations: int = 1000,
    budget: Budget | None = None,
) -> Minimum:
    """Stops when max |gradient| <= tolerance, after this number of evaluations, when the steps are
    below rounding, or when the budget is spent. direction: None is L-BFGS."""
    budget, direction = budget or Budget(), direction or LBFGS()
    step, slope = np.zeros_like(at), 0.0  # slope: along the step, where it begins
    for count in range(evaluations + 1):
        gradient = gradient_of(at)
        converged = _largest(gradient) <= tolerance
        if converged or count == evaluations or budget.spent:
            break
        along = float(gradient @ step)
        factor = 1.0  # of the step
        if not along <= -0.5 * slope:  # too long, or the gradient is not finite
            factor = min(0.9, max(0.1, slope / (slope - along)))
            if _largest(step) <= 1e-15 * max(1.0, _largest(at)):
                break
        elif along < 0.9 * slope:  # too short
            factor = 4.0
        if factor != 1.0:
            at = at + (factor - 1) * step
            step, slope = factor * step, factor * slope
            continue
        step = direction(at, gradient)
        slope = float(gradient @ step)
        at = at + step
    return Minimum(at, gradient, count, converged)


class LBFGS:
    """The direction of L-BFGS, which remembers the last `memory` moves."""

    def __init__(self, memory: int = 20) -> None:
        self.moves: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=memory)
        self.before: tuple[np.ndarray, np.ndarray] | None = None

    def __call__(self, at: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        if self.before is not None:
            move, turn = at - self.before[0], gradient - self.before[1]
            if move @ turn > 1e-14 * (turn @ turn):
                self.moves.append((move, turn))
        self.before = at, gradient
        if not self.moves:
            return -gradient / max(1.0, float(np.linalg.norm(gradient)))
        q, shares = gradient.copy(), []
        for move, turn in reversed(self.moves):
            share = (move @ q) / (move @ turn)
            shares.append(share)
            q -= share * turn
        move, turn = self.moves[-1]
        q *= (move @ turn) / (turn @ turn)
        for (move, turn), share in zip(self.moves, reversed(shares), strict=True):
            q += (share - (turn @ q) / (move @ turn)) * move
        return -q


def newton_step(
    multiply: Callable[[np.ndarray], np.ndarray],
    gradient: np.ndarray,
    variance: np.ndarray,
    *,
    ridge: float = 1e-11,
    longest: float = 8.0,
) -> np.ndarray:
    """-(Cov + ridge)^-1 gradient, by conjugate gradients. multiply: v -> Cov v.

    variance  the diagonal of Cov, which scales the steps of the conjugate gradients
    ridge     Cov may be singular (the values of a field sum to 1), and differences of means on a
              circuit have an error near 1e-11. The gradient is then in the range of Cov, if the
              moments are possible at all
    longest   no theta_i moves further: far from the minimum a Newton step may be huge
    """
    scale = np.sqrt(variance.clip(0) + ridge)

    def correlate(v: np.ndarray) -> np.ndarray:
        return (multiply(v / scale) + ridge * (v / scale)) / scale

    step = -solve(correlate, gradient / scale) / scale
    return step * min(1.0, longest / max(_largest(step), 1e-300))


def _largest(x: np.ndarray) -> float:
    return float(np.abs(x).max(initial=0.0))
