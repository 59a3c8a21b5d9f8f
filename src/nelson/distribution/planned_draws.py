"""Samples for the torch modules, from a plan that they keep: all that were asked for, or an error.

`nelson.sample` may return fewer samples than asked for, and reports a guarantee with them. A torch
distribution can do neither, so a draw returns the full number or raises. If the plan returns too
few (training can drive theta against the constraints, and "auto" tries only some of the rows),
samples come from the exact law if there is one, else from more rounds. "heuristic" samples come
with a warning.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

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

    def __getstate__(self) -> dict[str, Any]:
        """Copies of a module decide anew: a plan holds functions."""
        return {**self.__dict__, "plan": None}

    @property
    def is_auto(self) -> bool:
        return self.method == "auto" and self.sweeps is None

    def draw(
        self, theta: np.ndarray, count: int, seed: int, device: Any = None, *, keep: bool = False
    ) -> tuple[Any, dict[str, Any]]:
        """`count` samples for each row of theta (b, n) -> (b, count, n) bool, and `Samples.info`.

        device: a torch.device. Samples drawn on a GPU are a tensor of bytes there; all others are a
        NumPy array. keep: take what "auto" decided for other rows, until a draw without `keep`.

        If all rows are equal they are drawn as one row with b * count samples, so an expanded batch
        costs no more than its samples.
        """
        shape = len(theta), count, self.formula.n_vars
        if not len(theta) or not count:
            return np.zeros(shape, bool), {}
        if len(theta) > 1 and (theta == theta[:1]).all():
            theta, count = theta[:1], count * len(theta)
        plan = self.planned(theta, device, keep)
        samples = plan.sample(count, seed=seed, strict=not self.is_auto)
        if self.is_auto and samples.status != "ok":
            if (exact := moments_of(self.formula)) is not None:
                why = {"method": exact.method, "why": samples.info["reason"], "guarantee": "exact"}
                info = {**samples.info, **why, "sweeps": 0}
                return exact.draw(theta, count, seed).reshape(shape), info
            options = Options(
                device=plan.options.device, max_rounds=MANY_ROUNDS, seconds=self.seconds
            )
            samples = Plan(self.formula, theta, options).sample(count, seed=seed, strict=True)
        if self.is_auto and samples.guarantee == "heuristic":
            why = samples.info["why"]
            warnings.warn(f"valid samples, but not from P_theta: {why}", stacklevel=4)
        x = samples.to_torch() if isinstance(samples, DeviceSamples) else samples.to_numpy()
        return x.reshape(shape), {**samples.info, "guarantee": samples.guarantee}

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
        plan = Plan(self.formula, theta, options).decide()
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
