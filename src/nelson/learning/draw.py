"""The model's side of the gradient: samples of the present theta, by any sampler.

A biased sampler gives a biased theta. So if the formula is not extremal and the caller set no
number of sweeps, a pilot run measures how many are needed, and again as theta moves. Solution lists
and circuits that "auto" makes are kept with the formula: a new theta costs one pass over them.

With several ranks, each draws its share of the m samples (`shares.py`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.problem import beyond_resolution
from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.kernels.core.bits import pack
from nelson.learning.group import ALONE, ProcessGroup, stream_seed
from nelson.learning.moments import Draw
from nelson.learning.shares import drawn_together
from nelson.policy import DEFAULT, Policy
from nelson.sampling.auto.ladder import STEPS
from nelson.sampling.method_choice import choose, verdict_for
from nelson.sampling.methods import lovasz
from nelson.sampling.options import Options, gpu_number
from nelson.sampling.plan import Plan
from nelson.sampling.registry import get, names
from nelson.sampling.samples import Samples

#: `sampler(formula, theta, m, seed)` -> Samples, or an (m, n) Boolean array.
Custom = Callable[[Formula, np.ndarray, int, int], Any]


class NamedSampler(ABC):
    """A custom sampler with a name, and perhaps with a state that a checkpoint keeps."""

    name: str
    sweeps: int | None = None
    unjudged = "heuristic"  # the guarantee of a run that ended before `judge` was called

    @abstractmethod
    def __call__(self, formula: Formula, theta: np.ndarray, m: int, seed: int) -> Any: ...

    @abstractmethod
    def judge(self, theta: np.ndarray) -> tuple[str, str]:
        """(the guarantee of samples at this theta, why)."""

    def renew(self, samples: np.ndarray) -> bool:
        """Packed samples of the present law, from elsewhere: chains may go on from them. True if
        they show that the chains have not followed the law."""
        return False

    def forget(self) -> None:
        """Begin anew at the next call: the samples before were of another law."""
        return

    def arrays(self) -> dict[str, np.ndarray]:
        return {}

    def take(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from the arrays of a checkpoint; ValueError if they do not fit."""
        return


#: Steps of `auto` that may end without samples when theta has moved.
_MAY_END = frozenset(step.name for step in STEPS if step.sampler.tried_on_theta)
#: `rejection` of inputs of gates may take 0.1 s for a sample, and longer when theta has moved.
_COSTLY = frozenset({"gates"})
#: The theta of the last choice, among the arrays of a checkpoint.
_CHOSEN_FOR = "chosen_for"


class Drawer:
    """Draws samples; `refresh(theta)` chooses the method again.

    Sample i of (seed, key) is always the same bits.
    """

    def __init__(
        self,
        formula: Formula,
        sampler: str | Custom,
        sweeps: int | None,
        seed: int,
        budget: Budget | None = None,
        device: Any = None,
        group: ProcessGroup = ALONE,
        policy: Policy = DEFAULT,
    ) -> None:
        self.formula, self.chosen_policy = formula, policy
        self.group = group
        self.custom = sampler if callable(sampler) else None
        self.sampler = "custom" if callable(sampler) else sampler
        self.asked = sweeps
        self.seed = seed
        self.budget = budget or Budget()
        self.device = device
        self.method, self.sweeps = self.sampler, sweeps
        if isinstance(sampler, NamedSampler):
            self.method, self.sweeps = sampler.name, sampler.sweeps
        self.why = "asked for"
        self.guarantee: str | None = None  # of the chosen method; None: the samples tell
        self.sure = False  # leave out methods that may end without samples: one did
        self.chosen_for: np.ndarray | None = None  # the theta of the last `refresh`
        self._plan: Plan | None = None  # for the chosen method; made at `chosen_for`
        if self.custom is None and self.sampler != "auto" and self.sampler not in names():
            get(self.sampler)  # raises an error that lists the names

    @cached_property
    def adaptive(self) -> bool:
        """Do the method or the number of sweeps depend on theta?"""
        if self.custom is not None or self.asked is not None or self.formula.is_extremal:
            return False
        return self.sampler == "auto" or get(self.sampler).needs_sweeps

    @property
    def policy(self) -> Policy:
        """Leaves out steps of `auto` that cost too much, or that may end without samples."""
        return self.chosen_policy.without(*sorted(_COSTLY | _MAY_END if self.sure else _COSTLY))

    def refresh(self, theta: np.ndarray) -> None:
        """Choose method and number of sweeps for this theta: a pilot run of some milliseconds.

        Rank 0 chooses, for all ranks.
        """
        if self.group.rank == 0:
            self._choose(theta)
        self.chosen_for = np.array(theta) if theta.ndim == 1 else None
        self.restore(self.group.tell(({}, self.state()))[1])

    def moved(self, theta: np.ndarray) -> float:
        """The largest change of a weight since the last `refresh`; infinite if theta has rows for
        contexts, which differ from step to step.
        """
        if self.chosen_for is None:
            return np.inf
        return float(np.abs(theta - self.chosen_for).max(initial=0.0))

    def judge(self, theta: np.ndarray) -> None:
        """Say how good samples at this theta are, the last one. Rank 0 says it, for all ranks."""
        if self.adaptive:
            self.refresh(theta)
        elif isinstance(self.custom, NamedSampler):
            if self.group.rank == 0:
                self.guarantee, self.why = self.custom.judge(theta)
            self.restore(self.group.tell(({}, self.state()))[1])

    def _choose(self, theta: np.ndarray) -> None:
        if self.custom is not None:
            return
        if not self.adaptive:
            self.method = lovasz.SAMPLER.name if self.sampler == "auto" else self.sampler
            if self.asked is None and get(self.method).needs_sweeps:
                self.sweeps = 0  # the formula is extremal: samples are exact without sweeps
            return
        if self.sampler != "auto":
            verdict = verdict_for(self.formula, theta, self.budget)
            self.sweeps, self.guarantee, self.why = verdict.sweeps, verdict.guarantee, verdict.why
            return
        gpu = gpu_number(self.device) is not None
        choice = choose(self.formula, theta, gpu=gpu, policy=self.policy, budget=self.budget)
        self.why, self.guarantee = choice.why, choice.guarantee
        # If one method draws the whole formula, it stays until the next refresh. If components
        # differ in their methods, "auto" combines them in every iteration.
        if choice.whole:
            able = get(choice.method).sweeps is not None
            self.method, self.sweeps = choice.method, choice.sweeps if able else None
        else:
            self.method, self.sweeps = "auto", None

    def plan(self, theta: np.ndarray) -> Plan:
        """The plan that is kept since the last `refresh`, for this theta: nothing is decided anew,
        unless theta is so large that random words do not resolve it. theta: (n,) or (contexts, n).
        """
        if self._plan is None:
            at = theta if self.chosen_for is None else self.chosen_for
            self._plan = Plan(self.formula, at, self._options()).decide(self.budget)
        return self._plan.at(theta, keep=not beyond_resolution(np.atleast_2d(theta)))

    def options(self, key: int) -> Options:
        """The options of a draw that ranks share; `key` (the iteration) selects the random bits."""
        seconds = None if self.budget.counted else self.budget.left
        return replace(self._options(), seed=stream_seed(self.seed, key), seconds=seconds)

    def _options(self) -> Options:
        verdict = None
        if self.guarantee is not None:
            verdict = StepVerdict(self.sweeps or 0, self.guarantee, self.why)
        return Options(
            verdict=verdict,
            reuse=True,
            method=self.method,
            sweeps=self.sweeps,
            threads=self.budget.threads,
            device=self.device,
            policy=self.policy,
        )

    def sample(self, theta: np.ndarray, m: int, key: int) -> Samples:
        """m samples; theta (n,) or (contexts, n)."""
        seconds = None if self.budget.counted else self.budget.left
        return self.plan(theta).sample(m, seed=stream_seed(self.seed, key), seconds=seconds)

    def __call__(self, theta: np.ndarray, m: int, key: int) -> Draw:
        """m samples, or fewer if no method of `auto` draws as many."""
        drawn = drawn_together if self.group.size > 1 else Drawer.alone
        draw = drawn(self, theta, m, key)
        able = self.adaptive and self.method in {*_MAY_END, "auto"}
        if draw.count < m and able and not self.sure:
            self.sure = True  # for the rest of the run
            self.refresh(theta)
            draw = drawn(self, theta, m, key)
        return draw

    def alone(self, theta: np.ndarray, m: int, key: int) -> Draw:
        """All m samples, drawn by this process."""
        started = time.perf_counter()
        if self.custom is not None:
            drawn = self.custom(self.formula, theta, m, stream_seed(self.seed, key))
        else:
            drawn = self.sample(theta, m, key)
        if not isinstance(drawn, Samples):
            drawn = _packed(self.formula, drawn)
        if len(drawn.variables) != self.formula.n_vars:
            raise FormulaError(
                f"a sampler that returns {len(drawn.variables)} variables",
                expected=f'{self.formula.n_vars}: nelson.sample(..., project="all")',
            )
        return Draw.of(drawn, started)

    def state(self) -> dict[str, Any]:
        names = ("method", "sweeps", "why", "guarantee", "sure")
        return {name: getattr(self, name) for name in names}

    def restore(self, state: dict[str, Any]) -> None:
        self._plan = None
        self.method, self.sweeps, self.why = state["method"], state["sweeps"], state["why"]
        self.guarantee, self.sure = state.get("guarantee"), bool(state.get("sure"))

    def arrays(self) -> dict[str, np.ndarray]:
        """The state of a custom sampler that has one, and the theta of the last `refresh`."""
        arrays = self.custom.arrays() if isinstance(self.custom, NamedSampler) else {}
        return arrays if self.chosen_for is None else {**arrays, _CHOSEN_FOR: self.chosen_for}

    def take(self, arrays: dict[str, np.ndarray]) -> None:
        self.chosen_for, self._plan = arrays.get(_CHOSEN_FOR), None
        if self.chosen_for is not None and self.chosen_for.shape != (self.formula.n_vars,):
            raise ValueError(f"{_CHOSEN_FOR} has shape {self.chosen_for.shape}")
        if isinstance(self.custom, NamedSampler):
            self.custom.take(arrays)


def _packed(formula: Formula, x: Any) -> Samples:
    """The Boolean matrix that a custom sampler returned, as samples without a guarantee."""
    x = np.asarray(x, bool)
    if x.ndim != 2 or x.shape[1] != formula.n_vars:
        raise FormulaError(
            f"a sampler that returns shape {x.shape}", expected=f"(m, {formula.n_vars})"
        )
    return Samples(pack(x), len(x), tuple(range(1, formula.n_vars + 1)), "heuristic")
