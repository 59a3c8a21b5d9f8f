"""Draws the samples of a case, and says which label they got.

chains      `auto` without enumeration and circuits: the label of a chain where the truth is known
auto        `nelson.sample` as a user calls it
lovasz      `nelson.sample(method="lovasz")` with the sweeps of the case
terms       `nelson.sample` by chains, with the terms of the case
log_z       `nelson.log_z(method="bridge")`
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import nelson
from lab.labels.case import SIGMAS, Case, Error, worst_error
from nelson.log_z import log_z
from nelson.log_z.result import Z95
from nelson.policy import Policy
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson.sampling.samples import Samples

#: Steps of the ladder that would answer a small case exactly.
EXACT_STEPS = frozenset({"enumerate", "circuit", "cftp", "rejection"})
#: Nats that an estimate of log Z may be off.
_NATS = 0.2
#: Seconds of an estimate of log Z.
_LOG_Z_SECONDS = 10.0


@dataclass(frozen=True)
class Outcome:
    """What was drawn, its label, its worst error, and the seconds of the whole call."""

    label: str
    error: Error | None
    seconds: float
    why: str = ""

    @property
    def claims(self) -> bool:
        """Does the label say that the law of the samples is known?"""
        return self.label != "heuristic"

    @property
    def false_label(self) -> bool:
        return self.claims and self.error is not None and self.error.wrong


def measure(case: Case, seed: int) -> Outcome:
    """Draw the samples of a case and compare them with its truth."""
    started = time.perf_counter()
    if case.call == "log_z":
        return _log_z(case, seed, started)
    if case.call == "chains":
        samples = by_chains(case, seed)
    elif case.call == "terms":
        samples = nelson.sample(
            case.formula, case.theta, case.count, method="lovasz", seed=seed, **case.options
        )
    else:
        samples = nelson.sample(
            case.formula, case.theta, case.count, method=case.call, seed=seed, **case.options
        )
    seconds = time.perf_counter() - started
    label = samples.guarantee if len(samples) else "heuristic"
    error = worst_error(case, samples.to_numpy(), samples.variables)
    return Outcome(label, error, seconds, str(samples.info.get("why", "")))


def by_chains(case: Case, seed: int) -> Samples:
    """What `nelson.sample` would draw if it could neither enumerate nor compile the formula."""
    policy = Policy().without(*sorted(EXACT_STEPS))
    options = Options(seed=seed, policy=policy, **case.options)
    return Plan(case.formula, case.theta, options).sample(case.count)


def _log_z(case: Case, seed: int, started: float) -> Outcome:
    assert case.log_z is not None
    try:
        result = log_z(case.formula, case.theta, method="bridge", seed=seed, seconds=_LOG_Z_SECONDS)
    except nelson.BudgetExceeded as refused:  # nothing is claimed
        return Outcome("heuristic", None, time.perf_counter() - started, str(refused))
    sigma = max(result.half_width / Z95, 1e-9)
    off = abs(result.value - case.log_z)
    wrong = off > SIGMAS * sigma and off > _NATS
    error = Error("log Z", result.value, case.log_z, off / sigma, wrong)
    label = "exact" if result.exact else str(result.info.get("guarantee", "heuristic"))
    return Outcome(label, error, time.perf_counter() - started, result.why)
