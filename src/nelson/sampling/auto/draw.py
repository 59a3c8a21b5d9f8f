"""One draw of each group, put together by sample number, and rebuilt to the formula as given.

Sample i of the formula is sample i of every group: groups share no variable, and each has its own
random numbers, so they are independent. A lane is filled if it is valid in all groups. The complete
samples are checked against the clauses as given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np

from nelson.budget import Budget
from nelson.chains.block import Block, joined
from nelson.chains.chain import Chains
from nelson.chains.diagnosis.diagnose import pilot_request
from nelson.chains.engine import width_for
from nelson.chains.problem import Problem, prepare
from nelson.chains.request import PieceSizes, Request
from nelson.exact.circuit.draw import clauses_of
from nelson.exact.compile_guess import estimate
from nelson.exact.preprocess import Completion, compile_kernels
from nelson.formula import Formula
from nelson.kernels.core import kernel_cache
from nelson.kernels.core.bits import tail_mask, words_for
from nelson.policy import DEFAULT
from nelson.sampling.auto.decision import ComponentGroup, Decision
from nelson.sampling.auto.ladder import STEPS
from nelson.sampling.auto.steps.solver import SolverChains, pool_of
from nelson.sampling.methods import cftp
from nelson.sampling.registry import missing_modules
from nelson.sampling.sampler import Sampler

#: Most samples drawn of one group before the next group's turn.
_SAMPLES = 1 << 16


def sampler(decisions: Mapping[tuple[int, ...], Decision]) -> Sampler:
    """The decisions of a call, by evidence, as a sampler."""
    choices = {evidence: decision.choice for evidence, decision in decisions.items()}
    methods = dict.fromkeys(choice.method for choice in choices.values())
    return Sampler(
        name=" + ".join(methods),
        summary="the strongest guarantee that the formula allows",
        citation="",
        weighted=True,
        guarantee=lambda problem, sweeps: choices[problem.evidence].guarantee,
        blocks=lambda problem, request: blocks(decisions[problem.evidence], problem, request),
        sweeps=0,
    )


def blocks(decision: Decision, problem: Problem, request: Request) -> Iterator[Block]:
    """The samples of a request, `request.block` per context at a time."""
    if decision.reduced is None:
        group = replace(decision.groups[0], problem=problem)
        yield from group.step.blocks(
            group, replace(request, sweeps=group.sweeps, moves=group.moves)
        )
        return
    yield from _Join(decision, problem, request).blocks()


class _Join:
    """All groups in turns, a piece of some thousand samples at a time."""

    def __init__(self, decision: Decision, problem: Problem, request: Request) -> None:
        assert decision.reduced is not None
        n = problem.formula.n_total
        most = (1 << 29) // max(1, n * len(request.theta))  # 64 MiB of states
        most = max(64, min(_SAMPLES, most) // 64 * 64)
        sizes = PieceSizes(request.budget, most)
        self.request, paced = request, replace(request, sizes=sizes)
        self.sizes = (size for _, size in paced.pieces())
        self.sources = [
            group.step.blocks(group, _asked(k, group, paced))
            for k, group in enumerate(decision.groups)
        ]
        places = np.cumsum([0, *(len(group.variables) for group in decision.groups)])
        self.places = [slice(*ends) for ends in pairwise(places.tolist())]
        none = np.zeros(0, np.int64)
        self.complete = Completion(
            decision.reduced.rebuild,
            np.concatenate([none, *(group.variables for group in decision.groups)]),
            request.columns,
            n,
            clauses_of(problem.formula, problem.evidence),
            request.budget.threads,
        )
        self.held = np.zeros((len(request.theta), 0, places[-1]), np.uint64)

    def blocks(self) -> Iterator[Block]:
        for _, count in self.request.pieces():
            parts: list[Block] = []
            whole, done = self.request.fits(count), 0
            while done < count and not (parts and parts[-1].last):
                size = next(self.sizes)
                if not parts or not whole:
                    parts.append(Block.undrawn(self.request, words_for(count if whole else size)))
                first = done // 64 if whole else 0
                self.draw(parts[-1], slice(first, first + words_for(size)), size)
                done += size
            block = joined(parts)
            yield block
            if block.last:
                return

    def draw(self, block: Block, words: slice, size: int) -> None:
        """The next piece of `size` samples, as these words of the block."""
        assert block.valid is not None
        filled, count = block.filled[:, words], words_for(size)
        filled[...] = tail_mask(size)
        parts: list[np.ndarray] = []
        for source in self.sources:
            part = next(source, None)
            if part is None:  # it ended with its last block
                block.stopped, filled[...] = True, 0
                return
            drawn = part.filled.shape[1]
            filled[:, :drawn] &= part.filled if part.valid is None else part.filled & part.valid
            filled[:, drawn:] = 0
            parts.append(part.packed)
            block.add(part)
        held = self._held(parts, count)
        out, valid = block.packed[:, words], block.valid[:, words]
        if count == block.packed.shape[1]:  # the whole block: all contexts at once
            rows = held.reshape(filled.size, held.shape[2]), filled.reshape(-1), out
            valid[...] = self.complete(*rows).reshape(valid.shape)
            return
        for c in range(len(out)):
            valid[c] = self.complete(held[c], filled[c], out[c])

    def _held(self, parts: list[np.ndarray], words: int) -> np.ndarray:
        """The samples of all groups side by side; what lies behind a short part does not matter."""
        if len(parts) == 1 and parts[0].shape[1] == words:
            return parts[0]
        if self.held.shape[1] != words:
            self.held = np.zeros((len(self.held), words, self.held.shape[2]), np.uint64)
        for place, part in zip(self.places, parts, strict=True):
            self.held[:, : part.shape[1], place] = part
        return self.held


def _asked(number: int, group: ComponentGroup, request: Request) -> Request:
    """The request to a group: all of its variables, with its own random numbers."""
    words = np.random.SeedSequence([abs(request.seed), int(request.seed < 0), number])
    return replace(
        request,
        theta=group.theta,
        seed=int(words.generate_state(1, np.uint64)[0] >> np.uint64(1)),
        columns=np.arange(len(group.variables)),
        sweeps=group.sweeps,
        moves=group.moves,
    )


def settled(decision: Decision, request: Request) -> Decision:
    """The decision with the starts of its chains found: no clock changes its samples any more."""
    groups = []
    for number, group in enumerate(decision.groups):
        if isinstance(group.step, SolverChains):
            group = replace(group, pool=pool_of(group, _asked(number, group, request))[0])
        groups.append(group)
    return replace(decision, groups=groups)


@cache
def ready(count: int, width: int | None) -> None:
    """Compile the kernels of all steps of the ladder, or load them from the cache."""
    compile_kernels()
    formula = Formula([[1, 2], [1, 3]], n_vars=3)
    estimate(formula)
    problem, theta = prepare(formula), np.zeros((1, 3))
    for size in (1, 1 << 20, count):
        lanes = 64 * (width or width_for(size))
        chains = Chains.resampled(problem, pilot_request(theta, lanes, Budget(threads=1)), theta)
        chains.sweep_to(1)
    request = pilot_request(theta, min(count, 1 << 10), Budget(threads=1))
    request = replace(request, columns=np.arange(3), width=width)
    samplers = {step.sampler.name: step.sampler for step in STEPS if step.draws_whole}
    for sampler in samplers.values():
        if not missing_modules(sampler):
            next(sampler.blocks(problem, request))
            if sampler.ready:
                sampler.ready(count, width)
    cftp.ready(DEFAULT.coupling.lanes)  # for trials


def ready_once(count: int, width: int | None) -> None:
    """`ready`, unless that was done on this machine: to load all kernels takes half a second of the
    caller's time, and a decision needs few of them.
    """
    folder = kernel_cache.folder()
    mark = None if folder is None else folder / f"ladder-{width or width_for(count)}"
    if mark is None or not mark.exists():
        ready(count, width)
        if mark is not None:
            mark.touch()
