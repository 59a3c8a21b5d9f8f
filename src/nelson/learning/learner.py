"""What the loop needs of a learner: `Conditional` (a net), or one of those with a single theta.

`NewtonSteps`, `FirstOrder` and `Penalised` say how a single theta moves; `Unary` has what they
share: the target moments, the first point, the verdict.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from nelson.budget import TimeUp
from nelson.chains.problem import prepare
from nelson.formula import Formula
from nelson.learning.data import Examples
from nelson.learning.draw import Drawer
from nelson.learning.group import OUTSIDE_ITERATIONS, State
from nelson.learning.moments import Draw, constant_variables, judge_draw
from nelson.learning.optimizers import Newton, Optimizer
from nelson.learning.run_options import History


class Learner(ABC):
    """The parameters that are learned, and how one step changes them."""

    m: int  # samples to draw at each theta of `draw_at`
    done = False
    drawer: Drawer

    def __init__(self, formula: Formula, examples: Examples, settings: Optimizer) -> None:
        self.formula, self.examples, self.settings = formula, examples, settings

    def begin(self, drawer: Drawer, saved: State | None) -> None:
        """Start from the data, or from the state in a checkpoint."""
        self.drawer = drawer
        if saved is None:
            self.start()
        else:
            self.restore(saved)

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Further values that must agree between a checkpoint and the run that resumes it."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def draw_at(self, k: int) -> np.ndarray:
        """Where iteration k (from 0) needs samples: theta (n,), or (contexts, n)."""

    @abstractmethod
    def update(self, draw: Draw) -> dict[str, Any]:
        """Move the parameters; the samples come from `draw_at`. Returns columns of the history."""

    @abstractmethod
    def result(self) -> np.ndarray | None:
        """The best theta so far, (n,); None if theta depends on a context."""

    @abstractmethod
    def verdict(self, history: History, ended: str) -> tuple[bool, str]:
        """Has the run converged, and why, in words; `ended` as `ProcessGroup.halt` returns it."""

    @abstractmethod
    def state(self) -> State:
        """All that `update` changes."""

    @abstractmethod
    def restore(self, state: State) -> None: ...

    def clipped(self, theta: np.ndarray) -> np.ndarray:
        return np.clip(theta, -self.settings.bound, self.settings.bound)


class Unary(Learner):
    """theta0: where to start, (n,), or a function that computes it, which is called only if the run
    is not resumed; None: the subclass chooses."""

    #: Attributes that a checkpoint keeps: all that `update` changes.
    ARRAYS: tuple[str, ...]
    SCALARS: tuple[str, ...]

    target: np.ndarray  # the moments to reach
    point: np.ndarray  # where to draw next
    averaged = 0  # iterates in the sum `total`

    def __init__(
        self,
        formula: Formula,
        examples: Examples,
        settings: Optimizer,
        theta0: np.ndarray | Callable[[], np.ndarray] | None = None,
    ) -> None:
        super().__init__(formula, examples, settings)
        self.computed = theta0 if callable(theta0) else None
        self.theta0 = None if callable(theta0) else theta0
        self.theta, self.total = np.zeros(formula.n_vars), np.zeros(formula.n_vars)

    @abstractmethod
    def start_from(self, uniform: np.ndarray) -> None:
        """Choose the first point; `uniform` is E[x] of the uniform law, if it was estimated."""

    def start(self) -> None:
        """Set the target: the data's moments, with the prior mixed in."""
        start = self.theta0
        if self.computed is not None:
            self.theta0 = self.computed()
        self.target = self.examples.mean()
        uniform = np.full(self.formula.n_vars, 0.5)
        prior = self.settings.prior
        if prior > 0 or isinstance(self.settings, Newton):
            uniform = self._uniform_moments(uniform)
            self.target = np.where(self.asked, self.target, uniform)
            weight = prior / (self.examples.count + prior)
            self.target = (1 - weight) * self.target + weight * uniform
        self.start_from(uniform)
        self.theta0 = start  # `identity` does not depend on what was computed

    @property
    def asked(self) -> np.ndarray:
        """Variables that have a target, (n,) bool: all of them if there are examples."""
        return self.examples.asked

    def _uniform_moments(self, default: np.ndarray, m: int = 4096) -> np.ndarray:
        """E[x] of the uniform law over the valid x; `default` if the sampler found none."""
        theta = np.zeros(self.formula.n_vars)
        alone = self.drawer.group.size == 1
        try:
            with self.drawer.budget.enforced() if alone else nullcontext():
                self.drawer.refresh(theta)
                draw = self.drawer(theta, m, OUTSIDE_ITERATIONS)
        except TimeUp:
            return default
        if not draw.count:
            return default
        # A value that no sample has is rare, not impossible, unless propagation excludes it: then
        # theta_i has no effect, and stays 0.
        fixed = np.zeros(self.formula.n_total, bool)
        fixed[np.abs(prepare(self.formula).fixed) - 1] = True
        edge = 0.5 / draw.count
        possible = np.clip(draw.mean, edge, 1 - edge)
        return np.where(fixed[: self.formula.n_vars], draw.mean, possible)

    def draw_at(self, k: int) -> np.ndarray:
        return self.point

    def test(self, draw: Draw, behind: float = 0.0) -> dict[str, Any]:
        """A test of the moments as a row of the history; `behind` as in `moments.judge_draw`."""
        free = self.asked & ~constant_variables(self.target - draw.mean, self.target)
        gap, _, _ = judge_draw(draw, self.target, free, behind, self.settings.level)
        return gap.row("check", 0.0)

    def verdict(self, history: History, ended: str) -> tuple[bool, str]:
        if self.done:
            row = history[-1]
        elif ended or not history:
            return False, "no claim is made about the moments"
        else:
            m = self.m if self.drawer.custom is not None else max(4096, self.m)
            draw = self.drawer(self.result(), m, OUTSIDE_ITERATIONS + 1)
            if not draw.count:
                return False, "no valid sample at the last theta"
            row = self.test(draw)
        figures = (
            f"chi2 = {row['chi2']:.4g}, {row['dof']:.0f} expected of noise alone, at most "
            f"{row['bound']:.4g} in {1 - self.settings.level:.0%} of cases"
        )
        gap = f"the gap between {self.examples.KIND} and model moments is"
        if row["within"]:
            return True, f"{gap} within its noise ({figures})"
        return False, f"{len(history):,} iterations done, and {gap} more than noise ({figures})"

    @abstractmethod
    def result(self) -> np.ndarray: ...

    def identity(self) -> dict[str, Any]:
        start = self.theta0
        return {"theta0": None if start is None else hashlib.sha256(start.tobytes()).hexdigest()}

    def state(self) -> State:
        arrays = {name: getattr(self, name) for name in self.ARRAYS}
        return arrays, {"scalars": {name: getattr(self, name) for name in self.SCALARS}}

    def restore(self, state: State) -> None:
        """A state may come from a file: ValueError if it does not fit this run."""
        arrays, rest = state
        for name in self.ARRAYS:
            array = np.array(arrays[name])
            same = array.shape == self.theta.shape and array.dtype == np.float64
            if not same or not np.isfinite(array).all():
                raise ValueError(f"{name} is not {len(self.theta)} finite numbers")
            if name == "target" and not ((array >= 0) & (array <= 1)).all():
                raise ValueError("the target is not a mean of zeros and ones")
            setattr(self, name, array)
        # Newton draws 4 samples for each example, and FirstOrder tests with 16 times its m.
        usual = max(4 * self.examples.count, 16_384)
        most = 16 * (self.settings.m or usual)
        for name in self.SCALARS:
            value, kind = rest["scalars"][name], type(getattr(type(self), name, 0))
            if type(value) is not kind and (type(value), kind) != (int, float):
                raise ValueError(f"{name} is not of type {kind.__name__}")
            if kind is int and not 0 <= value < 2**53:
                raise ValueError(f"{name} = {value}")
            if name in ("m", "m_final") and not 1 <= value <= most:
                raise ValueError(f"{name} = {value}: expected 1 to {most} samples")
            setattr(self, name, value)
        if rest["scalars"].get("phase") == "average" and not self.averaged:
            raise ValueError("a mean of 0 iterates")
        figures = {"chi2", "dof", "bound"}  # of the test that ended the run; `verdict` shows them
        for row in rest.get("history", ())[-1:] if self.done else ():
            if not all(isinstance(row.get(name), int | float) for name in figures | {"within"}):
                raise ValueError("a finished run without the figures of its test")
