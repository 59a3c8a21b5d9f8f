"""Which way `method="auto"` goes: the one place that decides, for the CPU, a GPU and learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nelson.formula import Formula
from nelson.formula.checks import evidence_of, theta_rows
from nelson.sampling import auto
from nelson.sampling.auto import Choice, Decision, Limits
from nelson.sampling.guarantee import weakest
from nelson.sampling.mixing import mixing
from nelson.sampling.problem import Problem, prepare
from nelson.sampling.registry import get
from nelson.sampling.sampler import Sampler

#: Steps of the ladder that a GPU cannot draw from.
_HOST_STEPS = frozenset({"enumerate", "circuit"})


@dataclass(frozen=True)
class Chosen:
    """One sampler for all problems of a call; what `auto` decided for each, by its evidence."""

    sampler: Sampler
    choice: Choice
    decisions: Mapping[tuple[int, ...], Decision] | None = None


def choose_sampler(
    problems: Sequence[Problem], theta: Sequence[np.ndarray], limits: Limits, gpu: bool = False
) -> Chosen:
    """theta: finite rows (contexts, n) for each problem.

    A GPU only resamples. It gets the sweeps and the guarantee that the ladder gives to resampling
    where it can neither enumerate nor compile the formula.
    """
    if gpu:
        limits = replace(limits, skip=limits.skip | _HOST_STEPS)
    decisions = {
        problem.evidence: auto.decide(problem, rows, limits)
        for problem, rows in zip(problems, theta, strict=True)
    }
    choices = [decision.choice for decision in decisions.values()]
    worst = weakest(choice.guarantee for choice in choices)
    choice = replace(max(choices, key=lambda choice: choice.sweeps), guarantee=worst)
    if all(choice.whole and choice.method == "lovasz" for choice in choices):
        return Chosen(get("lovasz"), choice, decisions)
    if gpu:
        sweeps = mixing(problems[0], theta[0], limits.threads, limits.deadline).sweeps
        why = f"a GPU only resamples; the host would take {choice.method} ({choice.why})"
        return Chosen(get("lovasz"), Choice("lovasz", sweeps, "heuristic", why))
    return Chosen(auto.sampler(decisions), choice, decisions)


def choose(formula: Formula, theta: Any = None, given: Any = None) -> Choice:
    """What `auto` takes for one theta vector. Measurements are kept with the formula."""
    problem, rows = _problem(formula, theta, given)
    return choose_sampler([problem], [rows], Limits()).choice


def sweeps_for(formula: Formula, theta: Any = None) -> int:
    """Sweeps that `lovasz` needs on the formula as given; 0 if it is extremal."""
    problem, rows = _problem(formula, theta)
    return 0 if problem.extremal else mixing(problem, rows, 1, None).sweeps


def _problem(formula: Formula, theta: Any, given: Any = None) -> tuple[Problem, np.ndarray]:
    rows, _ = theta_rows(formula, theta)
    return prepare(formula, evidence_of(formula, given, rows[0])), finite(rows[:1])


def finite(theta: np.ndarray) -> np.ndarray:
    """theta with 0 in place of +-inf, which `evidence_of` has turned into literals."""
    return np.where(np.isinf(theta), 0.0, theta)
