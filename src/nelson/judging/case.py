"""One question to be judged: its arguments, checked, and what is known so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.exact.enumerated import finite
from nelson.formula import Formula
from nelson.formula.checks import count
from nelson.judging.band import Band
from nelson.judging.barbarik import Design
from nelson.judging.source import Drawn, Source, source_of
from nelson.log_z.moments import condition

TESTS = ("validity", "chi-square", "marginals", "conditionals", "barbarik")
#: Defaults.
SECONDS, EPSILON, ETA, DELTA = 60.0, 0.1, 1.6, 0.01
#: Samples that are drawn where nothing asks for more.
FEWEST = 20_000
#: Bytes of samples held at once.
_BYTES = 1 << 28


@dataclass
class Case:
    formula: Formula
    theta: np.ndarray  # (n,), may be infinite
    source: Source
    epsilon: float | None
    eta: float
    delta: float
    n: int | None
    seed: int
    started: float
    deadline: float
    say: Callable[[str], None]
    drawn: Drawn | None = None

    @cached_property
    def given(self) -> Formula:
        """The formula, conditioned on the infinities of theta."""
        return condition(self.formula, self.theta)

    @cached_property
    def weights(self) -> np.ndarray:
        """theta with 0 where it is infinite."""
        return finite(self.theta)

    @cached_property
    def evidence(self) -> np.ndarray:
        """The literals that the infinities fix."""
        literals = np.arange(1, len(self.theta) + 1) * np.sign(self.theta)
        return literals[np.isinf(self.theta)].astype(np.int64)

    @property
    def band(self) -> Band:
        """What is tolerated; "barbarik" has its own epsilon."""
        claimed = None if self.drawn is None else self.drawn.info.get("epsilon")
        return Band.of(self.epsilon, claimed)

    @property
    def law(self) -> str:
        """In words."""
        size = f"{self.formula.n_vars:,} variables, {self.formula.n_clauses:,} clauses"
        fixed = len(self.evidence)
        if fixed:
            size += f", given {fixed} literal{'s' * (fixed > 1)}"
        about = "" if self.band.exact else f"; {self.band}"
        if not np.any(self.weights):
            return f"uniform over the valid structures ({size}){about}"
        span = f"theta from {self.weights.min():.3g} to {self.weights.max():.3g}"
        return f"P_theta(x | C) ~ exp(sum_i theta_i x_i), {span} ({size}){about}"

    def left(self, share: float = 1.0) -> float:
        """A share of the seconds that are left, but some."""
        return max(0.1, share * (self.deadline - time.monotonic()))

    def untimed(self, job: Callable[[], None]) -> None:
        """Run what is not the caller's time: kernels that are compiled once on a machine."""
        before = time.monotonic()
        job()
        self.deadline += time.monotonic() - before

    def samples(self, wanted: int = FEWEST) -> Drawn:
        """Those there are, or `wanted` of the sampler under test; drawn once."""
        if self.drawn is None and self.source.draw is None:
            self.drawn = self.source.samples
        if self.drawn is None and self.source.draw is not None:
            n = min(self.n or wanted, max(1, _BYTES // max(1, self.formula.n_vars)))
            self.say(f"drawing {n:,} samples with {self.source.name}")
            theta = self.theta if np.any(self.theta) else None
            # A sampler that took all of the time would leave none to count anything.
            self.drawn = self.source.draw(self.formula, theta, n, self.seed, self.left(0.5))
        assert self.drawn is not None
        return self.drawn


def make_case(
    formula: Formula,
    sampler: Any,
    theta: Any,
    *,
    test: str,
    epsilon: float | None,
    eta: float,
    delta: float,
    n: int | None,
    seed: int,
    seconds: float | None,
    sweeps: int | None,
    progress: Callable[[str], None] | None,
) -> Case:
    """Raises FormulaError for what makes no sense."""
    from nelson.formula.checks import theta_rows

    if test != "auto" and test not in TESTS:
        raise FormulaError(f"no test {test!r}", expected="one of auto, " + ", ".join(TESTS))
    if epsilon is not None and not 0 <= epsilon < 1:
        raise FormulaError(f"epsilon = {epsilon}", expected="0 <= epsilon < 1")
    if not 0 < delta < 1:
        raise FormulaError(f"delta = {delta}", expected="0 < delta < 1")
    if n is not None and not count(n, "n"):
        raise FormulaError("n = 0", expected="1 or more")
    if seconds is not None and not seconds > 0:
        raise FormulaError(f"seconds = {seconds}", expected="a positive duration")
    if test == "barbarik":
        Design(EPSILON if epsilon is None else epsilon, eta, delta)
    rows, single = theta_rows(formula, theta)
    if not single:
        raise FormulaError(f"theta of shape {rows.shape}", expected=f"({formula.n_vars},)")
    source = source_of(formula, sampler, sweeps)
    if source.ready:  # compiling kernels, once on a machine, is not the caller's time
        source.ready(n or FEWEST)
    started = time.monotonic()
    return Case(
        formula,
        rows[0],
        source,
        epsilon,
        eta,
        delta,
        n,
        count(seed, "seed"),
        started,
        started + (SECONDS if seconds is None else seconds),
        progress or (lambda _: None),
    )
