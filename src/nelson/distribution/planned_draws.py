"""Samples for the torch modules, from a plan that they keep: all that were asked for, or an error.

`nelson.sample` may return fewer samples than asked for, and reports a guarantee with them. A torch
distribution can do neither, so a draw returns the full number or raises. If the plan returns too
few (training can drive theta against the constraints, and "auto" tries only some of the rows),
samples come from the exact law if there is one, else from more rounds. "heuristic" samples come
with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded
from nelson.formula import Formula
from nelson.log_z.moments import moments_of
from nelson.sampling.device.gpu import available
from nelson.sampling.device.samples import DeviceSamples
from nelson.sampling.options import Options, gpu_number
from nelson.sampling.plan import Plan
from nelson.sampling.registry import get

#: Rounds of the second attempt, which is the last one.
MANY_ROUNDS = 20_000


class PlannedDraws:
    """Draws from one formula. method, sweeps, seconds: as in `nelson.sample`.

    If the caller left both open, another method steps in where the first returns too few samples.
    """

    def __init__(
        self,
        formula: Formula,
        method: str = "auto",
        sweeps: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self.formula, self.method, self.sweeps, self.seconds = formula, method, sweeps, seconds
        self.plan: Plan | None = None  # of the last draw
        self.rows = np.zeros((0, formula.n_vars))  # of theta, for which the plan was decided
        self._budget: Budget | None = None  # of the call that is running

    def __getstate__(self) -> dict[str, Any]:
        """Copies of a module decide anew: a plan holds functions."""
        return {**self.__dict__, "plan": None, "_budget": None}

    @property
    def budget(self) -> Budget:
        """Of the call that is running, or of one that begins now."""
        return self._budget or Budget.of(self.seconds)

    @contextmanager
    def limited(self) -> Iterator[None]:
        """One call of the user, however many decisions, laws and draws it needs."""
        if self._budget is not None or self.seconds is None:
            yield
            return
        self._budget = Budget.of(self.seconds)
        try:
            with self._budget.enforced():
                yield
        finally:
            self._budget = None

    @property
    def is_auto(self) -> bool:
        return self.method == "auto" and self.sweeps is None

    def draw(
        self,
        theta: np.ndarray,
        count: int,
        seed: int,
        device: Any = None,
        *,
        keep: bool = False,
        fewer: bool = False,
    ) -> tuple[Any, dict[str, Any]]:
        """`count` samples for each row of theta (b, n) -> (b, count, n) bool, and `Samples.info`.

        device: a torch.device. Samples drawn on a GPU are a tensor of bytes there; all others are a
        NumPy array. keep: take what "auto" decided for other rows, until a draw without `keep`.
        fewer: if a limit ended the draw, return the samples there are, with a warning.

        If all rows are equal they are drawn as one row with b * count samples, so an expanded batch
        costs no more than its samples.
        """
        contexts, n = len(theta), self.formula.n_vars
        if not contexts or not count:
            return np.zeros((contexts, count, n), bool), {}
        if contexts > 1 and (theta == theta[:1]).all():
            theta, count = theta[:1], count * contexts
        with self.limited():
            plan = self.planned(theta, device, keep)
            left = self.budget.seconds_left
            samples = plan.sample(count, seed=seed, strict=not self.is_auto, seconds=left)
            if self.is_auto and samples.status != "ok" and not (fewer and len(samples)):
                if (exact := moments_of(self.formula, budget=self.budget)) is not None:
                    why = {
                        "method": exact.method,
                        "why": samples.info["reason"],
                        "guarantee": "exact",
                    }
                    info = {**samples.info, **why, "sweeps": 0}
                    return exact.draw(theta, count, seed).reshape(contexts, -1, n), info
                options = Options(
                    device=plan.options.device,
                    max_rounds=MANY_ROUNDS,
                    seconds=self.budget.seconds_left,
                )
                again = Plan(self.formula, theta, options)
                samples = again.sample(count, seed=seed, strict=not fewer)
        if len(samples) < count:
            count = len(samples) - len(samples) % (contexts // len(theta))
            if not count:
                raise BudgetExceeded(f"no samples: {samples.info['reason']}")
            warnings.warn(f"only {count} samples: {samples.info['reason']}", stacklevel=4)
        if self.is_auto and samples.guarantee == "heuristic":
            why = samples.info["why"]
            warnings.warn(f"valid samples, but not from P_theta: {why}", stacklevel=4)
        x = samples.to_torch() if isinstance(samples, DeviceSamples) else samples.to_numpy()
        x = x[..., :count, :].reshape(contexts, -1, n)
        return x, {**samples.info, "guarantee": samples.guarantee}

    def planned(self, theta: np.ndarray, device: Any = None, keep: bool = False) -> Plan:
        """The plan of `draw` for these rows, decided."""
        device, plan = self._device(theta, device), self.plan
        if plan is not None and plan.options.device == device:
            if np.array_equal(theta, self.rows):
                return plan
            if keep and self.is_auto:
                # An exact plan is looked at again: it may not be exact for every theta.
                return plan.at(theta, keep=plan.guarantee != "exact")
        options = Options(self.method, self.sweeps, device=device, seconds=self.seconds)
        plan = Plan(self.formula, theta, options)
        plan.decide(self._budget)
        self.rows = np.array(theta)
        # Whoever goes on from here goes on from the last verdicts on chains.
        self.plan = plan.at(theta, keep=True)
        return plan

    def _device(self, theta: np.ndarray, device: Any) -> Any:
        """The device, if it is a GPU that can draw these rows."""
        if gpu_number(device) is None or not available():
            return None
        able = self.method == "auto" or get(self.method).gpu_method is not None
        return device if able and bool(np.isfinite(theta).all()) else None
