"""Samples of a part for an estimate of log Z: the method is decided once, then drawn from at will.

`auto` decides, as for `nelson.sample`. So where single flips freeze, the chains make joint moves,
jumps, or sweeps of fields, and the samples have the guarantee that `nelson.sample` would state.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.guarantee import weakest
from nelson.errors import BudgetExceeded
from nelson.kernels.core.bits import unpack
from nelson.log_z.parts import WeightedClauses
from nelson.policy import DEFAULT, Policy
from nelson.sampling import auto
from nelson.sampling.auto import Decision
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan, carry_out


class PartSampler:
    """Samples of one part, under theta."""

    def __init__(
        self,
        part: WeightedClauses,
        seed: int,
        budget: Budget,
        policy: Policy = DEFAULT,
        starts: int = 1024,
    ) -> None:
        """starts: of chains that a solver is asked for; default: as many as `nelson.sample`."""
        self.budget = budget
        options = Options(
            seed=seed,
            threads=budget.threads,
            seconds=budget.left,  # of which `auto` leaves some for drawing
            policy=policy,
        )
        drawing = Plan(part.formula, part.theta, options).drawing(starts).confirmed()
        assert drawing.decisions is not None
        self.decision = auto.settled(drawing.decisions[()], drawing.request)
        self.drawing = drawing
        self.guarantee = drawing.guarantee  # the weakest of all samples so far

    @property
    def method(self) -> str:
        return self.decision.choice.method

    @property
    def moves(self) -> str:
        """What a sweep of the chains is: "single", "fields", "joint" or "jumps"."""
        chains = [group for group in self.decision.groups if _measured(group.records, "lag")]
        names = [str(g.moves.info["moves"]) if g.moves else "single" for g in chains]
        return " + ".join(dict.fromkeys(names))

    @property
    def lag(self) -> int:
        """Sweeps after which correlations fall to `rho`; 0: no sample comes from chains."""
        return max((_measured(group.records, "lag") for group in self.decision.groups), default=0)

    @property
    def rho(self) -> float:
        """The correlation that is left after a lag. Below 0.1 it cannot be told from noise."""
        measured = [_measured(group.records, "rho") for group in self.decision.groups]
        return float(np.clip(max(measured, default=0.0), 0.1, 0.99))

    def draw(self, count: int, seed: int, early: bool = False) -> np.ndarray:
        """Up to `count` samples (lanes, n) bool. early: chains stop after one lag.

        Raises BudgetExceeded if there is none.
        """
        decision = _hasty(self.decision) if early else self.decision
        problem, request = self.drawing.parts[0]
        request = replace(request, count=count, block=count, seed=seed, budget=self.budget)
        decided: dict[tuple[int, ...], Decision] = {(): decision}
        drawing = replace(
            self.drawing,
            sampler=auto.sampler(decided),
            decisions=decided,
            n=count,
            parts=[(problem, request)],
        )
        samples = carry_out(drawing, time.monotonic())
        if not samples.count:
            raise BudgetExceeded(f"no sample was drawn ({samples.info.get('reason', '')})")
        self.guarantee = weakest([self.guarantee, samples.guarantee])
        return unpack(samples.packed, samples.count)


def _measured(records: list[dict[str, Any]], name: str) -> Any:
    """The largest of the measurements of chains that a group draws from."""
    return max((record.get(name, 0) for record in records if record["sweeps"]), default=0)


def _hasty(decision: Decision) -> Decision:
    """The same with chains that stop after one lag."""
    groups = [
        replace(group, sweeps=_measured(group.records, "lag") or group.sweeps)
        for group in decision.groups
    ]
    return replace(decision, groups=groups)
