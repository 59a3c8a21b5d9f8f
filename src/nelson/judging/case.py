"""One question for the judge: the checked arguments, and the samples drawn so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from nelson.budget import Budget
from nelson.errors import FormulaError
from nelson.exact.enumerated import finite
from nelson.exact.law import Law, law
from nelson.exact.projection import Projected, projected
from nelson.exact.routes import Reason
from nelson.formula import Formula
from nelson.formula.checks import count, duration, evidence_of
from nelson.judging.pair_design import Design
from nelson.judging.source import JudgedSamples, Subject
from nelson.judging.tails import Band
from nelson.log_z.moments import condition
from nelson.policy import DEFAULT, JudgingPolicy, Policy

TESTS = ("validity", "chi-square", "marginals", "conditionals", "barbarik")


@dataclass(frozen=True)
class JudgeSettings:
    """Arguments of `judge`; FormulaError if one of them makes no sense."""

    test: str
    epsilon: float | None
    eta: float
    delta: float
    n: int | None
    seed: int
    seconds: float | None
    policy: Policy = DEFAULT

    def __post_init__(self) -> None:
        if self.test != "auto" and self.test not in TESTS:
            expected = "one of auto, " + ", ".join(TESTS)
            raise FormulaError(f"no test {self.test!r}", expected=expected)
        if self.epsilon is not None and not 0 <= self.epsilon < 1:
            raise FormulaError(f"epsilon = {self.epsilon}", expected="0 <= epsilon < 1")
        if not 0 < self.delta < 1:
            raise FormulaError(f"delta = {self.delta}", expected="0 < delta < 1")
        if self.n is not None:
            object.__setattr__(self, "n", count(self.n, "n"))  # 1e3 becomes 1000
        if self.n == 0:
            raise FormulaError("n = 0", expected="1 or more")
        object.__setattr__(self, "seed", count(self.seed, "seed"))
        if self.seconds is not None:
            duration(self.seconds, positive=True)
        if self.test == "barbarik":
            self.design(self.delta)

    def design(self, delta: float, epsilon: float = 0.1) -> Design:
        """Barbarik's constants; FormulaError if there are none for this epsilon and eta.

        epsilon: if the caller gave none.
        """
        return Design(epsilon if self.epsilon is None else self.epsilon, self.eta, delta)


@dataclass
class Case:
    """The claim (`formula`, `theta`), the `source` of the samples, and what the caller asked for.

    delta     level of the test that runs next: "auto" divides the caller's delta between tests
    started   of time.monotonic(), the begin of `budget`. Time to compile kernels, which happens
              once on a machine, is not counted.
    """

    formula: Formula
    theta: np.ndarray  # (n,), may be infinite
    source: Subject
    options: JudgeSettings
    say: Callable[[str], None]
    #: The projected variables if the claim is about projected solutions, each counted once.
    projection: tuple[int, ...] | None = None
    drawn: JudgedSamples | None = None
    delta: float = field(init=False)
    started: float = field(init=False)
    budget: Budget = field(init=False)

    def __post_init__(self) -> None:
        if self.source.ready:
            self.source.ready(self.options.n or self.rules.fewest_samples)
        self.delta = self.options.delta
        self.started = time.monotonic()
        self.budget = Budget.of(self.options.seconds or self.rules.seconds)

    @property
    def rules(self) -> JudgingPolicy:
        return self.options.policy.judging

    @property
    def auto(self) -> bool:
        return self.options.test == "auto"

    @property
    def seed(self) -> int:
        return int(self.options.seed)

    @cached_property
    def projected(self) -> Projected | None:
        """What has the projected solutions; None if the claim is about all solutions."""
        if self.projection is None:
            return None
        evidence = self.evidence.tolist()
        return projected(self.formula, self.projection, evidence, self.share(0.3))

    @cached_property
    def given(self) -> Formula | None:
        """A formula, conditioned on the infinities of theta, that has the claimed law; None if
        there is none, which can happen only for projected solutions.
        """
        if self.projected is None:
            return condition(self.formula, self.theta)
        if self.projected.formula is None or self.projected.in_circuit:
            return None
        evidence = self.evidence.tolist()
        return self.projected.formula.given(evidence) if evidence else self.projected.formula

    @cached_property
    def exact(self) -> Law | Reason:
        """The exact law that is claimed, or why it is not known."""
        budget, policy = self.share(self.rules.law_share), self.options.policy
        if self.projected is None:
            return law(condition(self.formula, self.theta), (), budget, policy)
        if self.projected.formula is None:
            return Reason(self.projected.why)
        return law(self.projected.formula, self.evidence.tolist(), budget, policy)

    @cached_property
    def weights(self) -> np.ndarray:
        """theta with 0 where it is infinite, and for variables that only `given` has."""
        formula = self.given if self.projected is None else self.projected.formula
        more = 0 if formula is None else formula.n_vars - len(self.theta)
        return np.pad(finite(self.theta), (0, more))

    @cached_property
    def evidence(self) -> np.ndarray:
        """The literals that the infinities of theta fix."""
        return np.array(evidence_of(self.formula, None, self.theta), np.int64)

    @property
    def sampler_theta(self) -> np.ndarray | None:
        """theta as samplers take it: None if the law is uniform."""
        return self.theta if np.any(self.theta) else None

    @property
    def band(self) -> Band:
        """The tolerance of every test but "barbarik", which has its own epsilon."""
        claimed = None if self.drawn is None else self.drawn.info.get("epsilon")
        return Band.of(self.options.epsilon, claimed)

    @property
    def law(self) -> str:
        """The law that is claimed, in words."""
        size = f"{self.formula.n_vars:,} variables, {self.formula.n_clauses:,} clauses"
        fixed = len(self.evidence)
        if fixed:
            size += f", given {fixed} literal{'s' * (fixed > 1)}"
        about = "" if self.band.exact else f"; {self.band}"
        if self.projection is not None:
            kind = "weighted" if np.any(self.weights) else "uniform"
            shown = f"{len(self.projection):,} of {size}"
            return f"{kind}, each projected solution counted once ({shown}){about}"
        if not np.any(self.weights):
            return f"uniform over the valid structures ({size}){about}"
        span = f"theta from {self.weights.min():.3g} to {self.weights.max():.3g}"
        return f"P_theta(x | C) ~ exp(sum_i theta_i x_i), {span} ({size}){about}"

    def share(self, part: float = 1.0) -> Budget:
        """That part of the time left, but at least 0.1 s."""
        return Budget.of(max(0.1, part * self.budget.left))

    def samples(self, wanted: int | None = None) -> JudgedSamples:
        """The samples under test. A sampler draws them once: `options.n`, or else `wanted` many."""
        if self.drawn is None and self.source.draw is None:
            self.drawn = self._shown(self.source.samples)
        if self.drawn is None and self.source.draw is not None:
            most = (1 << 28) // max(1, self.formula.n_vars)  # 256 MiB, one byte for each value
            n = min(self.options.n or wanted or self.rules.fewest_samples, max(1, most))
            self.say(f"drawing {n:,} samples with {self.source.name}")
            # Half of the time: the other half is for counting.
            seconds = self.share(0.5).left
            drawn = self.source.draw(self.formula, self.sampler_theta, n, self.seed, seconds)
            self.drawn = self._shown(drawn)
        assert self.drawn is not None
        return self.drawn

    def _shown(self, drawn: JudgedSamples | None) -> JudgedSamples | None:
        """The projected columns of the samples."""
        if drawn is None or self.projection is None:
            return drawn
        projected = np.isin(drawn.columns + 1, self.projection)
        return replace(drawn, x=drawn.x[:, projected], columns=drawn.columns[projected])
