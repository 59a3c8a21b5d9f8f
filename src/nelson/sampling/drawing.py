"""One draw of a plan: a sampler, and a request to it for each set of contexts; and its result, with
guarantee, status and info, for samples from the CPU and from a GPU.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from nelson.chains.block import Block
from nelson.chains.engine import width_for
from nelson.chains.guarantee import weakest
from nelson.chains.problem import Problem
from nelson.chains.request import Request
from nelson.errors import Unsatisfiable
from nelson.exact import solver
from nelson.formula import Formula
from nelson.kernels.core.bits import words_for
from nelson.policy import DEFAULT, Policy
from nelson.sampling import total_variation
from nelson.sampling.auto import Decision, MethodChoice
from nelson.sampling.auto.decision import SAFETY
from nelson.sampling.registry import get, names
from nelson.sampling.sampler import Sampler
from nelson.sampling.samples import Samples


@dataclass
class Drawing:
    """Everything a run needs, checked. One part for each set of contexts with the same evidence."""

    formula: Formula
    sampler: Sampler
    choice: MethodChoice
    n: int | None  # samples per context; None: without end
    single: bool  # theta was one vector
    contexts: int
    parts: list[tuple[Problem, Request]]
    check: bool = True  # drop samples that violate the formula
    gpu: int | None = None  # the number of the GPU that gets the samples; None: the CPU
    on_host: bool = False  # the CPU draws, and the samples move to the GPU
    decisions: Mapping[tuple[int, ...], Decision] | None = None  # of "auto", by evidence
    determined: bool = False  # the variables that are returned determine all others
    info: dict[str, Any] = field(default_factory=dict)  # more entries of `Samples.info`
    #: The first block is a trial: what to draw instead if too few of its samples become valid. The
    #: argument: is it worth remembering, since any other seed would fail as well?
    otherwise: Callable[[bool], Drawing] | None = None
    policy: Policy = DEFAULT
    #: What is known of the distance from P before anything is drawn (`total_variation.py`), by
    #: part. Shared by all blocks of a stream.
    variation: list[Any] = field(default_factory=list)

    def after_trial(self, problem: Problem, request: Request, block: Block) -> Drawing | None:
        """What to draw instead if the trial of an extremal formula failed, else None. block: the
        first of this problem.
        """
        asked = request.block if request.count is None else min(request.block, request.count)
        if self.otherwise is None or block.interrupted or not asked:
            return None
        if not (self.decisions or {})[problem.evidence].on_trial:
            return None
        if request.budget.deadline is not None and time.monotonic() >= request.budget.deadline:
            return None  # no time to tell
        lanes = int(np.bitwise_count(block.filled).sum())
        if lanes >= self.policy.auto.converged * asked * len(request.contexts):
            return None
        # If half of the first tile failed, a trial of any other seed would fail, too.
        tile = min(asked, 64 * (request.width or width_for(asked)))
        valid = int(np.bitwise_count(block.filled[0, : words_for(tile)]).sum())
        return self.otherwise(tile >= 64 and 2 * valid <= tile)

    def confirmed(self) -> Drawing:
        """This drawing, or the other one if a trial of its first tile fails; for those who cannot
        begin again.
        """
        for problem, request in self.parts if self.otherwise is not None else ():
            size = 64 * width_for(request.count or 1 << 20)
            size = size if request.count is None else min(size, request.count)
            asked = replace(request, count=size, block=size)
            for block in self.sampler.blocks(problem, asked):
                if (other := self.after_trial(problem, asked, block)) is not None:
                    return other
        return replace(self, otherwise=None)

    @cached_property
    def problem(self) -> Problem:
        return self.parts[0][0]

    @cached_property
    def request(self) -> Request:
        return self.parts[0][1]

    @cached_property
    def variables(self) -> tuple[int, ...]:
        """The DIMACS variable of each column."""
        return tuple((self.request.columns + 1).tolist())

    @property
    def keyed(self) -> bool:
        """Is sample i a function of (seed, i) alone?"""
        groups = [group for d in (self.decisions or {}).values() for group in d.groups]
        samplers = [group.step.sampler for group in groups] or [self.sampler]
        return all(s.keyed and not (s.may_be_invalid and self.check) for s in samplers)

    @cached_property
    def sweeps(self) -> int:
        """Sweeps that are made: none if every component is extremal."""
        sweeps = self.request.sweeps  # a method that makes none needs no program
        return sweeps if sweeps and any(len(p.program.order) for p, _ in self.parts) else 0

    @cached_property
    def guarantee(self) -> str:
        """The weakest of all contexts."""
        return self.choice.guarantee

    @property
    def guarantees(self) -> list[str]:
        """The guarantee of each context."""
        labels = [self.guarantee] * self.contexts
        for problem, request in self.parts:
            if self.decisions is not None:
                rows = self.decisions[problem.evidence].choice.rows
                for context, label in zip(request.contexts.tolist(), rows, strict=False):
                    labels[context] = label
        return labels


AnySamples = TypeVar("AnySamples", bound=Samples)


def result(
    drawing: Drawing, samples: AnySamples, blocks: Sequence[Block], started: float, **more: Any
) -> AnySamples:
    """The samples of `drawing`, which `blocks` brought, with guarantee, status and info.

    more: further entries of info; reason=: why there are fewer samples than drawing.n.
    """
    guarantee, request, sweeps = drawing.guarantee, drawing.request, drawing.sweeps
    total = Block.sum(blocks)
    # Whatever was promised: samples that remain follow another law, and no samples follow none.
    untrue = bool(total.invalid) or (guarantee == "diagnosed" and not samples.count)
    if untrue:
        guarantee = weakest([guarantee, "heuristic"])
    why, far = drawing.choice.why, {}
    if guarantee == "exact" and samples.count:
        bound, coupled = total_variation.of_drawing(drawing, total, samples.count)
        rounded = coupled <= total_variation.MOST
        guarantee, weaker = total_variation.judged(guarantee, bound, rounded)
        why, far = f"{why}; but {weaker}" if weaker else why, {"tv_bound": bound}
    info: dict[str, Any] = {
        "method": drawing.sampler.name,
        "why": why,
        "seed": request.seed,
        "requested": drawing.n,
        "rounds": total.rounds,
        "resampled": total.resampled,
        "sweeps": sweeps,
        **({"moves": "single"} if sweeps else {}),  # other moves say so themselves
        **(
            {"threads": request.budget.threads}
            if drawing.gpu is None
            else {"device": f"cuda:{drawing.gpu}"}
        ),
        "fixed": len(drawing.problem.fixed),
        "seconds": time.monotonic() - started,
    }
    if guarantee == "heuristic" and drawing.choice.advice:
        info["advice"] = dict(drawing.choice.advice)
    if drawing.choice.parts or not drawing.choice.whole:  # it was "auto"
        info |= {
            "auto": [
                dict(part) for part in drawing.choice.parts
            ],  # the decision serves other calls
            "whole": drawing.choice.whole,
            "preprocessing": list(drawing.choice.steps),
        }
    info |= drawing.info | total.info | far
    if guarantee == "approximate" and "epsilon" not in info:
        info["epsilon"] = total_variation.epsilon(drawing, float(info.get("tv_bound", 0.0)))
    info |= _clock(drawing, info)
    if drawing.sampler.may_be_invalid or total.invalid:
        validity = 1 - total.invalid / max(total.drawn, 1)
        info |= {"drawn": total.drawn, "invalid": total.invalid, "validity": validity}
    if not drawing.single:
        floor = guarantee if untrue or far else "exact"
        info["guarantees"] = [weakest([floor, label]) for label in drawing.guarantees]
    if total.interrupted:
        info["interrupted"] = True
    status, n_valid = "ok", samples.count
    reason = more.pop("reason", None)
    if (drawing.n is not None and n_valid < drawing.n) or total.interrupted:
        status, info["reason"] = "budget", reason or _reason(drawing, n_valid, info)
    return replace(samples, guarantee=guarantee, status=status, info=info | more)


def _clock(drawing: Drawing, info: dict[str, Any]) -> dict[str, Any]:
    """Where a clock decided: which limit did so though the caller had set none, with a warning; or
    how to repeat a call with `seconds=`.
    """
    if drawing.decisions is None:
        return {}
    if drawing.request.budget.deadline is not None:
        return {"repeat": _repeat(drawing)}
    reasons = [
        part["not taken"][SAFETY] for part in drawing.choice.parts if SAFETY in part["not taken"]
    ]
    reasons += [step for step in drawing.choice.steps if SAFETY in step]
    reasons += [info[SAFETY]] if SAFETY in info else []
    if not reasons:
        return {}
    text = "; ".join(dict.fromkeys(reasons))
    warnings.warn(
        f"a limit in seconds decided how to draw, so a faster or slower machine may draw "
        f"otherwise: {text}. Name a method (method=) to avoid that.",
        stacklevel=6,
    )
    return {SAFETY: text}


def _repeat(drawing: Drawing) -> dict[str, Any] | str:
    """What gives the same samples again, whatever the time: options of `nelson.sample`, if one
    method draws the formula as given.
    """
    choice = drawing.choice
    if not (choice.whole and choice.method in names()):
        return (
            "leave out seconds=: the decision and the samples then depend on the seed alone, and "
            "may differ from these"
        )
    how: dict[str, Any] = {"method": choice.method, "seed": drawing.request.seed}
    return how | ({"sweeps": choice.sweeps} if get(choice.method).sweeps is not None else {})


def _reason(drawing: Drawing, n_valid: int, info: dict[str, Any]) -> str:
    request = drawing.request
    if info.get("interrupted"):
        return "interrupted"
    if info.get("ended"):
        reason = info["ended"]
    elif request.budget.deadline is not None and time.monotonic() >= request.budget.deadline:
        reason = "the time was up"
    elif request.block_seconds is not None:
        reason = (
            f"the {request.block_seconds:g} s that {drawing.sampler.name!r} has by default were up"
        )
    else:
        reason = f"{n_valid} of {drawing.n} samples became valid within {request.max_rounds} rounds"
        if not n_valid:
            reason = f"no sample became valid within {request.max_rounds} rounds"
    explanations = {
        "satisfiable": "; a solver says that solutions exist",
        "undecided": "; a solver could not decide whether there are solutions",
    }
    return reason + explanations.get(info.get("solver", ""), "")


def prove_or_explain(drawing: Drawing, problem: Problem, request: Request, block: Block) -> None:
    """No sample was valid: ask a solver, unless one was asked already.

    Raises Unsatisfiable if the solver proves it; else the block's info holds the answer.
    """
    if "solver" in block.info:
        return
    seconds = (
        None if request.budget.deadline is None else request.budget.deadline - time.monotonic()
    )
    if seconds is not None and seconds <= 0:
        block.info["solver"] = "not asked"
        return
    answer = solver.satisfiable(problem.formula, problem.evidence, seconds=seconds)
    if answer is False:
        given = f" given {list(problem.evidence)}" if problem.evidence else ""
        raise Unsatisfiable(f"a CDCL solver proved that the formula has no solution{given}")
    block.info["solver"] = "satisfiable" if answer else "undecided"
