"""The outcome of a test: accept, reject or cannot decide, with the evidence."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from nelson.errors import NelsonError
from nelson.io.json_values import plain
from nelson.pictures import agreement, figure, noise, ratios

#: Evidence that `reason` repeats, or that only programs need: not printed.
_HIDDEN = {"skipped", "statistic", "degrees_of_freedom", "p_value", "level", "exact"}
WORDS = {True: "accept", False: "reject", None: "undecided"}


class Counts(NamedTuple):
    """What a test compared: how often each event was seen, and how often it was expected."""

    seen: np.ndarray
    expected: np.ndarray
    m: int  # samples
    events: str  # what they are


class Finding(NamedTuple):
    """What one test returns; the fields are those of `Verdict`."""

    accept: bool | None
    reason: str
    evidence: dict[str, Any]
    counts: Counts | None = None


@dataclass(frozen=True)
class Verdict:
    """
    accept    True, False, or None: the test cannot decide (`reason` says why)
    test      the test that decided: "validity" | "chi-square" | "marginals" | "conditionals" |
              "barbarik"
    law       the law that was claimed, in words
    reason    one sentence: why the test accepts, rejects or cannot decide
    evidence  the measurements: samples, statistic, p_value, worst, support, exact, ...; "skipped"
              maps each test that did not apply to the reason
    shows     what an acceptance by this test proves, and what it does not; printed on acceptance
    counts    what was seen and what was expected, for `plot`; None if the test compares no counts
    """

    accept: bool | None
    test: str
    law: str
    reason: str
    evidence: dict[str, Any] = field(default_factory=dict)
    shows: str = ""
    counts: Counts | None = None

    @property
    def word(self) -> str:
        return WORDS[self.accept]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        entries = {name: value for name, value in vars(self).items() if name != "counts"}
        return {"verdict": self.word} | plain(entries)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """A picture: what was seen against what the law expects, and the band of noise.

        path: a file to write (.png, .svg, .pdf). Returns the matplotlib figure. Only "chi-square"
        and "marginals" compare counts; NelsonError for other tests.
        """
        if self.counts is None:
            raise NelsonError(
                f"the test {self.test!r} compares no counts, so there is no picture of it; "
                'test="chi-square" and test="marginals" have one'
            )
        seen, expected, m, events = self.counts
        who = self.evidence.get("sampler", self.evidence.get("samples_from", "samples"))
        title = f"{who}: {self.word} ({m:,} samples)"
        if self.test == "chi-square":
            return figure([ratios(expected, seen, what=events, title=title)], path)
        share = expected / m
        panel = agreement(
            share,
            seen / m,
            noise(share, m),
            x=f"exact share of {events}",
            y="share of the samples",
            title=title,
        )
        return figure([panel], path)

    def __str__(self) -> str:
        rows = [("claim", self.law), ("test", self.test), ("because", self.reason)]
        for name, value in self.evidence.items():
            if name not in _HIDDEN:
                rows.append((name.replace("_", " "), _shown(value)))
        for name, why in self.evidence.get("skipped", {}).items():
            rows.append((f"not {name}", why))
        if self.shows and self.accept:
            rows.append(("shows", self.shows))
        width = max(len(name) for name, _ in rows)
        lines = [self.word.upper()] + [f"  {name:<{width}}  {text}" for name, text in rows]
        return "\n".join(lines)


def probability(p: float, level: float | None = None) -> str:
    """A p-value in words, with the level to which it is compared."""
    text = f"p = {p:.3g}" if p else "p < 1e-300"
    return text if level is None else f"{text}, level {level:g}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_shown(item)}" for name, item in value.items())
    return str(value)


# --- many tests at one level ----------------------------------------------------------------------
# Bonferroni: the level is divided among families, then among tests.
#
#     p of a family of t tests = t * its smallest p-value
#     p of f families          = f * the smallest p of a family
#
# Samples of the law that is claimed give p < delta with probability at most delta.


class Family(NamedTuple):
    """Tests of one kind."""

    name: str
    tests: int
    p: float  # corrected for the number of tests
    worst: str  # the test with the smallest p-value, in words


def family(name: str, p_values: np.ndarray, describe: Callable[[int], str]) -> Family:
    """p_values (t,), t > 0; describe(k) says in words what test k saw."""
    k = int(np.argmin(p_values))
    return Family(name, len(p_values), min(1.0, len(p_values) * float(p_values[k])), describe(k))


def combined(families: Sequence[Family], delta: float) -> Finding:
    """Accept unless p of all families together is below delta."""
    worst = min(families, key=lambda family: family.p)
    p = min(1.0, len(families) * worst.p)
    tests = sum(family.tests for family in families)
    reason = f"the worst of {tests:,} tests has {probability(p, delta)}, corrected for their number"
    evidence = {"tests": {family.name: family.tests for family in families}}
    return Finding(
        p >= delta, reason, evidence | {"p_value": p, "level": delta, "worst": worst.worst}
    )
