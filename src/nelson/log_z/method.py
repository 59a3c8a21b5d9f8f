"""The shape of every method of log Z: what it is asked, and what it answers.

    run(parts, task) -> MethodOutcome

A method gets the parts that no method before it has solved. It returns log P(C) of those that it
takes, the parts that are left, and why they are. `methods.py` has the list of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from nelson.budget import Budget
from nelson.chains.guarantee import weakest
from nelson.exact.law import COUNT
from nelson.formula import Formula
from nelson.log_z.parts import WeightedClauses
from nelson.log_z.result import Z95
from nelson.policy import DEFAULT, Policy

#: Standard errors that a right estimate exceeds with probability 3e-7: further off is wrong.
SIGMAS = 5.0
#: An estimate aims at this share of the half width asked for, so that few need another round.
AIM = 0.97


@dataclass(frozen=True)
class LogZTask:
    """What a caller of `nelson.log_z` wants, checked, and what it may cost."""

    formula: Formula
    theta: Any
    method: str = "auto"  # or one of `nelson.log_z.METHODS`
    half_width: float = 0.05  # of the 95% interval that is wanted, in nats
    seed: int = 0
    budget: Budget = field(default_factory=Budget)
    policy: Policy = DEFAULT
    needs: str = COUNT  # what the exact law is asked for; MOMENTS: without an external counter

    @property
    def is_auto(self) -> bool:
        return self.method == "auto"

    def exact_budget(self) -> Budget:
        """Of one exact route among others. Without a deadline its effort is counted."""
        return self.budget.share(self.policy.log_z.exact_share)

    def estimate_budget(self) -> Budget:
        """Of estimates, and of an exact method that was asked for by name."""
        return self.budget.within(self.policy.log_z.seconds) if self.budget.counted else self.budget


@dataclass(frozen=True)
class LogProbability:
    """log P(C) of some parts, with its error.

    info is empty for values of exact methods. Otherwise info["guarantee"] is the weakest guarantee
    of the samples; if it is "heuristic", the half width is no 95% interval: it covers
    info["bounds"].
    """

    log_p: float
    half_width: float = 0.0
    info: dict[str, Any] = field(default_factory=dict)
    source: str = ""  # what it was computed from, in words
    exact: bool = False  # up to rounding: nothing was sampled
    parts: int = 1  # how many it is the sum of
    routes: Counter[str] = field(default_factory=Counter)  # of the exact law, by method

    @property
    def trusted(self) -> bool:
        return bool(self.info.get("guarantee") != "heuristic")


class MethodOutcome(NamedTuple):
    """What one method made of the parts."""

    solved: list[LogProbability]
    left: list[WeightedClauses]
    reason: str = ""  # why parts are left, or why an estimate is not trusted
    whole: bool = False  # `solved` is log Z of the whole formula, all parts and constants included


class Method(NamedTuple):
    """One way to compute log P(C). `name` is what a caller may ask for."""

    name: str
    run: Callable[[list[WeightedClauses], LogZTask], MethodOutcome]
    exact: bool


def added(estimates: Sequence[LogProbability], half_width: float) -> LogProbability:
    """The sum of independent estimates. half_width: what was asked for."""
    if len(estimates) == 1:
        (estimate,) = estimates
        estimate.info["reached"] = estimate.half_width <= half_width
        return estimate
    info: dict[str, Any] = {}
    for estimate in estimates:
        info |= estimate.info
    for name in ("samples", "bias", "rounding"):
        info[name] = sum(estimate.info[name] for estimate in estimates)
    info["noise"] = math.hypot(*(estimate.info["noise"] for estimate in estimates))
    info["guarantee"] = weakest(estimate.info["guarantee"] for estimate in estimates)
    log_p = sum(estimate.log_p for estimate in estimates)
    half = info["noise"] + info["bias"] + info["rounding"]
    if any("bounds" in estimate.info for estimate in estimates):
        ends = [estimate.info.get("bounds", _surely(estimate)) for estimate in estimates]
        low, high = (sum(each) for each in zip(*ends, strict=True))
        info["bounds"] = low, high
        info["estimate"] = sum(
            estimate.info.get("estimate", estimate.log_p) for estimate in estimates
        )
        if info["guarantee"] == "heuristic":
            half = max(log_p - low, high - log_p)
    info["reached"] = half <= half_width
    source = "; ".join(estimate.source for estimate in estimates)
    all_exact = all(estimate.exact for estimate in estimates)
    return LogProbability(log_p, half, info, source, all_exact)


def _surely(estimate: LogProbability) -> tuple[float, float]:
    """An interval that an estimate from exact samples leaves with probability 3e-7."""
    far = SIGMAS / Z95 * estimate.half_width
    return estimate.log_p - far, estimate.log_p + far


def error_in_words(info: dict[str, Any], half_width: float) -> str:
    """What a reader must know of the error of an estimate, "" if nothing. half_width: what was
    asked for.
    """
    text = ""
    if info["guarantee"] == "heuristic":
        low, high = info["bounds"]
        reason = info.get("reason", "the chains did not mix")
        text = (
            f"; the estimate is not trusted ({reason}), so the half width is no 95% interval: it "
            f"covers {low:.6g} to {high:.6g}, bounds on log Z that always hold"
        )
    if not info["reached"]:
        text += f"; a half width of {half_width:g} was not reached"
    return text


def independent_seed(*numbers: int) -> int:
    """A seed that is independent of those of other numbers."""
    words = np.random.SeedSequence(numbers).generate_state(2)
    return int(words[0]) << 31 ^ int(words[1])
