"""Which way `method="auto"` goes: the one place that decides, for the CPU, a GPU and learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.diagnosis.diagnose import diagnose
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.guarantee import weakest
from nelson.chains.problem import Problem, prepare
from nelson.exact.enumerated import finite
from nelson.formula import Formula
from nelson.formula.checks import evidence_of, theta_rows
from nelson.policy import DEFAULT, Policy
from nelson.sampling import advice, auto, total_variation
from nelson.sampling.auto import Decision, MethodChoice
from nelson.sampling.auto.decision import FormulaPart
from nelson.sampling.auto.ladder import STEPS
from nelson.sampling.auto.steps.coupling import Coupling
from nelson.sampling.auto.steps.extremal import converges
from nelson.sampling.registry import get, names
from nelson.sampling.sampler import Sampler

#: Kinds of moves that a GPU does not make.
_HOST_MOVES = ("fields", "joint")


@dataclass(frozen=True)
class ChosenSampler:
    """One sampler for all problems of a call; what `auto` decided for each, by its evidence."""

    sampler: Sampler
    choice: MethodChoice
    decisions: Mapping[tuple[int, ...], Decision] | None = None
    on_host: bool = False  # a GPU was asked for, but the host has a better way

    def at(self, theta: Sequence[np.ndarray], keep: bool) -> ChosenSampler | None:
        """The same choice for other finite rows of theta; None if it may not hold for them.

        keep: it holds where one method draws the whole formula.
        """
        if self.decisions is None:
            return self
        decisions: dict[tuple[int, ...], Decision] = {}
        for (evidence, decision), rows in zip(self.decisions.items(), theta, strict=True):
            if (moved := decision.at(rows, keep)) is None:
                return None
            decisions[evidence] = moved
        registered = self.sampler.name in names() and self.sampler is get(self.sampler.name)
        sampler = self.sampler if registered else auto.sampler(decisions)
        return replace(self, sampler=sampler, decisions=decisions)


def choose_sampler(
    problems: Sequence[Problem],
    theta: Sequence[np.ndarray],
    budget: Budget,
    policy: Policy = DEFAULT,
    gpu: bool = False,
    past_trial: frozenset[tuple[int, ...]] = frozenset(),
) -> ChosenSampler:
    """theta: finite rows (contexts, n) for each problem. past_trial: evidence for which a draw has
    shown that resampling is too slow.

    A GPU resamples, or couples chains, the whole formula. If that gives heuristic samples, or none,
    and the host has a stronger way, the host draws as it would without a GPU.
    """
    if not gpu:
        return _chosen(problems, theta, budget, policy, past_trial)
    host_only = [step.name for step in STEPS if step.draws_whole and not _on_gpu(step.sampler)]
    left_out = policy.without(*host_only, *_HOST_MOVES)
    # Coupled chains may draw some components only, and the host the others.
    for narrower in (left_out, left_out.without(Coupling.name)):
        chosen = _chosen(problems, theta, budget, narrower, past_trial)
        able = _on_gpu(chosen.sampler) and len(problems) == 1
        if able and chosen.choice.guarantee != "heuristic":
            return chosen
    host = _chosen(problems, theta, budget, policy, past_trial)
    if able and host.choice.guarantee == "heuristic":
        return replace(chosen, choice=replace(chosen.choice, advice=host.choice.advice))
    return replace(host, on_host=True)


def _on_gpu(sampler: Sampler) -> bool:
    return sampler.gpu_method is not None


def _chosen(
    problems: Sequence[Problem],
    theta: Sequence[np.ndarray],
    budget: Budget,
    policy: Policy,
    past_trial: frozenset[tuple[int, ...]],
) -> ChosenSampler:
    decisions = {
        problem.evidence: auto.decide(problem, rows, budget, policy, problem.evidence in past_trial)
        for problem, rows in zip(problems, theta, strict=True)
    }
    choices = [decision.choice for decision in decisions.values()]
    worst = weakest([choice.guarantee for choice in choices])
    source = problems[0].formula.source if problems else None
    hints = advice.for_decisions(decisions.values(), budget.asked, source)
    most = max(choices, key=lambda choice: choice.sweeps)
    choice = replace(most, guarantee=worst, advice=hints)
    same = all(other.whole and other.method == choice.method for other in choices)
    samplers = {g.step.sampler for d in decisions.values() for g in d.groups}
    if same and len(samplers) == 1 and _on_gpu(sampler := samplers.pop()):
        return ChosenSampler(sampler, choice, decisions)
    return ChosenSampler(auto.sampler(decisions), choice, decisions)


def choose(
    formula: Formula,
    theta: Any = None,
    given: Any = None,
    gpu: bool = False,
    policy: Policy = DEFAULT,
    budget: Budget | None = None,
) -> MethodChoice:
    """What `auto` takes for theta, a vector or rows of finite numbers. Kept with the formula.

    An extremal formula is tried: nothing is drawn that would tell.
    """
    problem, rows = _problem(formula, theta, given)
    budget = budget or Budget(threads=1)
    if not budget.counted:  # the rest is for drawing
        budget = budget.share(0.5)
        budget = replace(budget, seconds=budget.left)
    chosen = choose_sampler([problem], [rows], budget, policy, gpu)
    if chosen.decisions is not None and chosen.decisions[problem.evidence].on_trial:
        whole = FormulaPart(np.arange(formula.n_total), rows, formula, problem.evidence)
        if not converges(whole, budget, policy):
            past = frozenset({problem.evidence})
            chosen = choose_sampler([problem], [rows], budget, policy, gpu, past)
    far = None
    if chosen.choice.guarantee == "exact" and chosen.decisions is not None:
        groups = chosen.decisions[problem.evidence].groups
        far = total_variation.promised(groups, len(rows), policy.auto.max_rounds)
    alone = chosen.choice.whole and not chosen.on_host
    return replace(chosen.choice, whole=alone, tv_bound=far)


def verdict_for(formula: Formula, theta: Any = None, budget: Budget | None = None) -> StepVerdict:
    """The sweeps that `lovasz` needs on the formula as given, and the guarantee they give."""
    problem, rows = _problem(formula, theta)
    if problem.extremal:
        return StepVerdict(0, "exact", "extremal (Condition 1 holds)")
    return diagnose(problem, rows, (budget or Budget(threads=1)).share(0.5))


def _problem(formula: Formula, theta: Any, given: Any = None) -> tuple[Problem, np.ndarray]:
    rows, _ = theta_rows(formula, theta)
    return prepare(formula, evidence_of(formula, given, rows[0])), finite(rows)
