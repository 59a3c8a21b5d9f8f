"""One draw of a plan: a sampler, and a request to it for each set of contexts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from nelson.chains.block import Block
from nelson.chains.engine import width_for
from nelson.chains.problem import Problem
from nelson.chains.request import Request
from nelson.formula import Formula
from nelson.kernels.core.bits import words_for
from nelson.policy import DEFAULT, Policy
from nelson.sampling.auto import Decision, MethodChoice
from nelson.sampling.sampler import Sampler


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
