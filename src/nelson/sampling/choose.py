"""Which way `method="auto"` goes: the one place that decides, for the CPU, a GPU and learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nelson.formula import Formula
from nelson.formula.checks import evidence_of, theta_rows
from nelson.sampling import advice, auto
from nelson.sampling.auto import Choice, Decision, Limits
from nelson.sampling.diagnosis.diagnose import diagnose
from nelson.sampling.diagnosis.verdict import Verdict
from nelson.sampling.guarantee import weakest
from nelson.sampling.problem import Problem, prepare
from nelson.sampling.registry import get
from nelson.sampling.sampler import Sampler

#: Steps of the ladder that a GPU cannot draw from.
_HOST_STEPS = frozenset({"enumerate", "circuit", "fields", "joint"})
#: Steps that a GPU can draw from, if one of them draws the whole formula.
_GPU_STEPS = frozenset({"lovasz", "cftp"})


@dataclass(frozen=True)
class Chosen:
    """One sampler for all problems of a call; what `auto` decided for each, by its evidence."""

    sampler: Sampler
    choice: Choice
    decisions: Mapping[tuple[int, ...], Decision] | None = None
    on_host: bool = False  # a GPU was asked for, but the host has a better way


def choose_sampler(
    problems: Sequence[Problem], theta: Sequence[np.ndarray], limits: Limits, gpu: bool = False
) -> Chosen:
    """theta: finite rows (contexts, n) for each problem.

    A GPU resamples, or couples chains, the whole formula. If that gives heuristic samples, or none,
    and the host has a stronger way, the host draws as it would without a GPU.
    """
    if not gpu:
        return _chosen(problems, theta, limits)
    for left_out in ((), ("cftp",)):  # it may draw some components only, and the host the others
        skip = limits.skip.union(_HOST_STEPS, left_out)
        chosen = _chosen(problems, theta, replace(limits, skip=skip))
        able = chosen.sampler.name in _GPU_STEPS and len(problems) == 1
        if able and chosen.choice.guarantee != "heuristic":
            return chosen
    host = _chosen(problems, theta, limits)
    if able and host.choice.guarantee == "heuristic":
        return replace(chosen, choice=replace(chosen.choice, advice=host.choice.advice))
    return replace(host, on_host=True)


def _chosen(problems: Sequence[Problem], theta: Sequence[np.ndarray], limits: Limits) -> Chosen:
    decisions = {
        problem.evidence: auto.decide(problem, rows, limits)
        for problem, rows in zip(problems, theta, strict=True)
    }
    choices = [decision.choice for decision in decisions.values()]
    worst = weakest(choice.guarantee for choice in choices)
    told = advice.for_decisions(decisions.values(), limits)
    most = max(choices, key=lambda choice: choice.sweeps)
    choice = replace(most, guarantee=worst, advice=told)
    if choice.method in _GPU_STEPS and all(
        own.whole and own.method == choice.method for own in choices
    ):
        return Chosen(get(choice.method), choice, decisions)
    return Chosen(auto.sampler(decisions), choice, decisions)


def choose(
    formula: Formula,
    theta: Any = None,
    given: Any = None,
    gpu: bool = False,
    skip: frozenset[str] = frozenset(),
) -> Choice:
    """What `auto` takes for theta, a vector or rows of finite numbers. Kept with the formula.

    skip: steps of the ladder to leave out.
    """
    problem, rows = _problem(formula, theta, given)
    chosen = choose_sampler([problem], [rows], Limits(skip=skip), gpu)
    return replace(chosen.choice, whole=chosen.choice.whole and not chosen.on_host)


def verdict_for(formula: Formula, theta: Any = None) -> Verdict:
    """The sweeps that `lovasz` needs on the formula as given, and the guarantee they give."""
    problem, rows = _problem(formula, theta)
    if problem.extremal:
        return Verdict(0, "exact", "extremal (Condition 1 holds)")
    return diagnose(problem, rows, 1, None)


def _problem(formula: Formula, theta: Any, given: Any = None) -> tuple[Problem, np.ndarray]:
    rows, _ = theta_rows(formula, theta)
    return prepare(formula, evidence_of(formula, given, rows[0])), finite(rows)


def finite(theta: np.ndarray) -> np.ndarray:
    """theta with 0 in place of +-inf, which `evidence_of` has turned into literals."""
    return np.where(np.isinf(theta), 0.0, theta)
