"""The result of a draw: guarantee, status and info, for samples from the CPU and from a GPU."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.exact import solver
from nelson.sampling.auto.decision import SAFETY
from nelson.sampling.guarantee import weakest
from nelson.sampling.plan import Plan
from nelson.sampling.problem import Problem
from nelson.sampling.registry import get, names
from nelson.sampling.sampler import Block, Request
from nelson.sampling.samples import Samples

AnySamples = TypeVar("AnySamples", bound=Samples)


def result(
    plan: Plan, samples: AnySamples, blocks: Sequence[Block], started: float, **more: Any
) -> AnySamples:
    """The samples of `plan`, which `blocks` brought, with guarantee, status and info.

    more: further entries of info; reason=: why there are fewer samples than plan.n.
    """
    guarantee, request = plan.guarantee, plan.request
    total = Block(np.zeros(0), np.zeros(0))
    for block in blocks:
        total.add(block)
    if total.invalid:  # whatever was promised: the samples that remain follow another law
        guarantee = weakest([guarantee, "heuristic"])
    info: dict[str, Any] = {
        "method": plan.sampler.name,
        "why": plan.choice.why,
        "seed": request.seed,
        "requested": plan.n,
        "rounds": total.rounds,
        "resampled": total.resampled,
        "sweeps": plan.sweeps,
        **({"moves": "single"} if plan.sweeps else {}),  # other moves say so themselves
        **({"threads": request.threads} if plan.gpu is None else {"device": f"cuda:{plan.gpu}"}),
        "fixed": len(plan.problem.fixed),
        "seconds": time.monotonic() - started,
    }
    if guarantee == "heuristic" and plan.choice.advice:
        info["advice"] = dict(plan.choice.advice)
    if plan.choice.parts or not plan.choice.whole:  # it was "auto"
        info |= {
            "auto": plan.choice.parts,
            "whole": plan.choice.whole,
            "preprocessing": plan.choice.steps,
        }
    info |= plan.info | total.info
    info |= _clock(plan, info)
    if plan.sampler.may_be_invalid or total.invalid:
        validity = 1 - total.invalid / max(total.drawn, 1)
        info |= {"drawn": total.drawn, "invalid": total.invalid, "validity": validity}
    if not plan.single:
        floor = "heuristic" if total.invalid else "exact"
        info["guarantees"] = [weakest([floor, label]) for label in plan.guarantees]
    if total.interrupted:
        info["interrupted"] = True
    status, kept = "ok", len(samples)
    reason = more.pop("reason", None)
    if (plan.n is not None and kept < plan.n) or total.interrupted:
        status, info["reason"] = "budget", reason or _reason(plan, kept, info)
    return replace(samples, guarantee=guarantee, status=status, info=info | more)


def _clock(plan: Plan, info: dict[str, Any]) -> dict[str, Any]:
    """Where a clock decided: which limit did so though the caller had set none, with a warning; or
    how to repeat a call with `seconds=`.
    """
    if plan.decisions is None:
        return {}
    if plan.request.deadline is not None:
        return {"repeat": _repeat(plan)}
    reasons = [
        part["not taken"][SAFETY] for part in plan.choice.parts if SAFETY in part["not taken"]
    ]
    reasons += [step for step in plan.choice.steps if SAFETY in step]
    reasons += [info[SAFETY]] if SAFETY in info else []
    if not reasons:
        return {}
    told = "; ".join(dict.fromkeys(reasons))
    warnings.warn(
        f"a limit in seconds decided how to draw, so a faster or slower machine may draw "
        f"otherwise: {told}. Name a method (method=) to avoid that.",
        stacklevel=6,
    )
    return {SAFETY: told}


def _repeat(plan: Plan) -> dict[str, Any] | str:
    """What gives the same samples again, whatever the time: options of `nelson.sample`, if one
    method draws the formula as given.
    """
    choice = plan.choice
    if not (choice.whole and choice.method in names()):
        return (
            "leave out seconds=: the decision and the samples then depend on the seed alone, and "
            "may differ from these"
        )
    how: dict[str, Any] = {"method": choice.method, "seed": plan.request.seed}
    return how | ({"sweeps": choice.sweeps} if get(choice.method).sweeps is not None else {})


def _reason(plan: Plan, kept: int, info: dict[str, Any]) -> str:
    request = plan.request
    if info.get("interrupted"):
        return "interrupted"
    if info.get("ended"):
        reason = info["ended"]
    elif request.deadline is not None and time.monotonic() >= request.deadline:
        reason = "the time was up"
    elif request.patience is not None:
        reason = f"the {request.patience:g} s that {plan.sampler.name!r} has by default were up"
    else:
        reason = f"{kept} of {plan.n} samples became valid within {request.max_rounds} rounds"
        if not kept:
            reason = f"no sample became valid within {request.max_rounds} rounds"
    told = {
        "satisfiable": "; a solver says that solutions exist",
        "undecided": "; a solver could not decide whether there are solutions",
    }
    return reason + told.get(info.get("solver", ""), "")


def prove_or_explain(plan: Plan, problem: Problem, request: Request, block: Block) -> None:
    """No sample was valid: ask a solver, unless one was asked already.

    Raises Unsatisfiable if the solver proves it; else the block's info holds the answer.
    """
    if "solver" in block.info:
        return
    seconds = None if request.deadline is None else max(1.0, request.deadline - time.monotonic())
    answer = solver.satisfiable(problem.formula, problem.evidence, seconds=seconds)
    if answer is False:
        given = f" given {list(problem.evidence)}" if problem.evidence else ""
        raise Unsatisfiable(f"a CDCL solver proved that the formula has no solution{given}")
    block.info["solver"] = "satisfiable" if answer else "undecided"
