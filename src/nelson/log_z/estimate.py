"""What every estimate of log P(C) returns, and estimates of independent parts added up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.sampling.guarantee import weakest


@dataclass(frozen=True)
class Estimate:
    """info["guarantee"] is the weakest guarantee of the samples.

    If it is "heuristic", the half width is no 95% interval: it covers info["bounds"].
    """

    log_p: float
    half_width: float
    info: dict[str, Any]
    told: str = ""  # what it was computed from, in words

    @property
    def trusted(self) -> bool:
        return bool(self.info["guarantee"] != "heuristic")


def added(estimates: Sequence[Estimate], half_width: float) -> Estimate:
    """The sum of independent estimates. half_width: what was asked for."""
    if len(estimates) == 1:
        (one,) = estimates
        one.info["reached"] = one.half_width <= half_width
        return one
    info: dict[str, Any] = {}
    for one in estimates:
        info |= one.info
    for name in ("samples", "bias", "rounding"):
        info[name] = sum(one.info[name] for one in estimates)
    info["noise"] = math.hypot(*(one.info["noise"] for one in estimates))
    info["guarantee"] = weakest(one.info["guarantee"] for one in estimates)
    log_p = sum(one.log_p for one in estimates)
    half = info["noise"] + info["bias"] + info["rounding"]
    if any("bounds" in one.info for one in estimates):
        ends = [one.info.get("bounds", _surely(one)) for one in estimates]
        low, high = (sum(each) for each in zip(*ends, strict=True))
        info["bounds"] = low, high
        info["estimate"] = sum(one.info.get("estimate", one.log_p) for one in estimates)
        if info["guarantee"] == "heuristic":
            half = max(log_p - low, high - log_p)
    info["reached"] = half <= half_width
    return Estimate(log_p, half, info, "; ".join(one.told for one in estimates))


def _surely(one: Estimate) -> tuple[float, float]:
    """An interval of 5 standard deviations for an estimate from exact samples."""
    far = 5.0 / 1.96 * one.half_width
    return one.log_p - far, one.log_p + far


def error_told(info: dict[str, Any], half_width: float) -> str:
    """What a reader must know of the error of an estimate, "" if nothing. half_width: what was
    asked for.
    """
    told = ""
    if info["guarantee"] == "heuristic":
        low, high = info["bounds"]
        reason = info.get("reason", "the chains did not mix")
        told = (
            f"; the estimate is not trusted ({reason}), so the half width is no 95% interval: it "
            f"covers {low:.6g} to {high:.6g}, bounds on log Z that always hold"
        )
    if not info["reached"]:
        told += f"; a half width of {half_width:g} was not reached"
    return told


def independent_seed(*numbers: int) -> int:
    """A seed that is independent of those of other numbers."""
    words = np.random.SeedSequence(numbers).generate_state(2)
    return int(words[0]) << 31 ^ int(words[1])
