"""The result of `nelson.log_z`: a number with its error and its origin."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

#: Standard errors in half the width of a 95% confidence interval of a normal law.
Z95 = 1.959963984540054


@dataclass(frozen=True)
class LogPartition:
    """log Z in nats.

    value       log Z
    half_width  half the width of the 95% confidence interval; 0.0 if exact. If info["guarantee"] is
                "heuristic", value +- half_width covers bounds that always hold: it is wide
    guarantee   "exact", that of the samples of an estimate, or "heuristic"
    method      the last one of `nelson.log_z.METHODS` that some component of the formula needed
                (info["components"] counts them all)
    why         the methods used, and why the others were not
    seconds     wall-clock time
    exact       up to floating-point rounding
    info        log_probability (log P(C) under the product law), components (how many each method
                took), fixed (variables that propagation fixed), tried (how each method ended), and
                for an estimate: seed, samples, guarantee, noise, bias, rounding, reached, and,
                unless all samples are exact, bounds (low, high) on log Z and the estimate before it
                was clipped to them. `rejection`: proposals. `bridge`: draws, held, width, overlap,
                method and moves of the samples. `bounds`: nothing else
    """

    value: float
    half_width: float
    method: str
    why: str
    seconds: float
    exact: bool
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Nothing that is not exact has a half width of 0: bounds that meet are rounded sums."""
        if not self.exact:
            least = 1e-9 * max(1.0, abs(self.value))
            object.__setattr__(self, "half_width", max(self.half_width, least))

    def __float__(self) -> float:
        return self.value

    @property
    def guarantee(self) -> str:
        """ "exact" if exact, or if all samples of an estimate are; "heuristic": only bounds."""
        return "exact" if self.exact else str(self.info.get("guarantee", "exact"))

    @property
    def interval(self) -> tuple[float, float]:
        """value -+ half_width: see there."""
        return self.value - self.half_width, self.value + self.half_width

    def shifted(self, constant: float) -> LogPartition:
        """log Z of a potential that is larger by a constant: every number in nats moves with it."""
        info = dict(self.info)
        if "bounds" in info:
            info["bounds"] = tuple(constant + end for end in info["bounds"])
        if "estimate" in info:
            info["estimate"] += constant
        return replace(self, value=self.value + constant, info=info)

    def __str__(self) -> str:
        kind = "bounds" if self.guarantee == "heuristic" else "95%"
        error = "exact" if self.exact else f"+- {self.half_width:.2g}, {kind}"
        return f"log Z = {self.value:.10g} ({error}; {self.method}, {self.seconds:.2g} s)"
