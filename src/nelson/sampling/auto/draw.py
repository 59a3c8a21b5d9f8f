"""One draw of each group, put together by sample number, and rebuilt to the formula as given.

Sample i of the formula is sample i of every group: groups share no variable, and each has its own
random numbers, so they are independent. A lane is valid if it is valid in all groups. The complete
samples are checked against the clauses as given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from nelson.exact.circuit.draw import clauses_of
from nelson.exact.compile_guess import estimate
from nelson.exact.preprocess import Completion, compile_kernels
from nelson.formula import Formula
from nelson.kernels.core.bits import tail_mask, words_for
from nelson.kernels.core.interpret import as_machine_code
from nelson.kernels.core.rng import MAX_ROUNDS
from nelson.sampling import foreign
from nelson.sampling.auto import coupling, starts
from nelson.sampling.auto.decision import SAFETY, Decision, Group
from nelson.sampling.chain import Chains, resumed, share, tiled
from nelson.sampling.diagnosis.diagnose import pilot_request
from nelson.sampling.engine import width_for
from nelson.sampling.methods import cftp
from nelson.sampling.problem import Problem, prepare
from nelson.sampling.registry import get, missing_modules
from nelson.sampling.sampler import Block, Pace, Request, Sampler, joined

#: Most bits of states held at once.
_BITS = 1 << 29
#: Most samples drawn of one group before the next group's turn.
_SAMPLES = 1 << 16
#: Up to this many contexts get their own starts; more contexts share the starts found by `decide`.
_OWN_STARTS = 4


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
        group = decision.groups[0]
        asked = replace(request, sweeps=group.sweeps, moves=group.moves)
        yield from get(group.method).blocks(problem, _patient(group, asked))
        return
    yield from _Join(decision, problem, request).blocks()


class _Join:
    """All groups in turns, a piece of some thousand samples at a time."""

    def __init__(self, decision: Decision, problem: Problem, request: Request) -> None:
        assert decision.reduced is not None
        n = problem.formula.n_total
        most = _BITS // max(1, n * len(request.theta))
        most = max(64, min(_SAMPLES, most) // 64 * 64)
        pace = Pace(request.deadline, most, request.threads)
        self.request, paced = request, replace(request, pace=pace)
        self.sizes = (size for _, size in paced.pieces())
        self.sources = [_source(k, group, paced) for k, group in enumerate(decision.groups)]
        places = np.cumsum([0, *(len(group.variables) for group in decision.groups)])
        self.places = [slice(*ends) for ends in pairwise(places.tolist())]
        none = np.zeros(0, np.int64)
        self.complete = Completion(
            decision.reduced.rebuild,
            np.concatenate([none, *(group.variables for group in decision.groups)]),
            request.columns,
            n,
            clauses_of(problem.formula, problem.evidence),
            request.threads,
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
        assert block.sound is not None
        valid, count = block.valid[:, words], words_for(size)
        valid[...] = tail_mask(size)
        parts: list[np.ndarray] = []
        for source in self.sources:
            part = next(source, None)
            if part is None:  # it ended with its last block
                block.stopped, valid[...] = True, 0
                return
            drawn = part.valid.shape[1]
            valid[:, :drawn] &= part.valid if part.sound is None else part.valid & part.sound
            valid[:, drawn:] = 0
            parts.append(part.packed)
            block.add(part)
        held = self._held(parts, count)
        out, sound = block.packed[:, words], block.sound[:, words]
        if count == block.packed.shape[1]:  # the whole block: all contexts at once
            rows = held.reshape(valid.size, held.shape[2]), valid.reshape(-1), out
            sound[...] = self.complete(*rows).reshape(sound.shape)
            return
        for c in range(len(out)):
            sound[c] = self.complete(held[c], valid[c], out[c])

    def _held(self, parts: list[np.ndarray], words: int) -> np.ndarray:
        """The samples of all groups side by side; what lies behind a short part does not matter."""
        if len(parts) == 1 and parts[0].shape[1] == words:
            return parts[0]
        if self.held.shape[1] != words:
            self.held = np.zeros((len(self.held), words, self.held.shape[2]), np.uint64)
        for place, part in zip(self.places, parts, strict=True):
            self.held[:, : part.shape[1], place] = part
        return self.held


def _asked(number: int, group: Group, request: Request) -> Request:
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


def _source(number: int, group: Group, request: Request) -> Iterator[Block]:
    """The samples of a group, over all of its variables."""
    asked = _asked(number, group, request)
    if group.method == "cdcl":
        return _from_starts(group, asked)
    return get(group.method).blocks(group.problem, _patient(group, asked))


def _patient(group: Group, request: Request) -> Request:
    """Rejection gets all the proposals it needs: a trial has shown how many a sample takes."""
    return replace(request, max_rounds=MAX_ROUNDS) if group.method == "rejection" else request


def settled(decision: Decision, request: Request) -> Decision:
    """The decision with the starts of its chains found: no clock changes its samples any more."""
    groups = []
    for number, group in enumerate(decision.groups):
        if group.method == "cdcl":
            group = replace(group, pool=_pool(group, _asked(number, group, request))[0])
        groups.append(group)
    return replace(decision, groups=groups)


def _from_starts(group: Group, request: Request) -> Iterator[Block]:
    """Sweeps from solutions of a CDCL solver; sample i begins at start i, modulo their number."""
    pool, info = _pool(group, request)
    for first, count in request.pieces():
        if not pool:
            yield Block.empty(request, stopped=True, info=info)
            return
        word = first // 64
        states = np.stack([tiled(rows, word, words_for(count)) for rows in pool])
        block = resumed(group.problem, request, states, 0, word, count)
        block.info = info | (group.moves.info if group.moves else {})
        yield block
        if block.stopped:
            return


def _pool(group: Group, request: Request) -> tuple[list[np.ndarray], dict[str, Any]]:
    """The starts of each context, and info about them."""
    if group.pool:
        return group.pool, {"starts": min(len(rows) for rows in group.pool)}
    pool: list[np.ndarray] = []
    more: dict[str, Any] = {}
    if len(request.theta) <= _OWN_STARTS:
        count = min(starts.MAX_STARTS, request.count or starts.MAX_STARTS)
        for k, (theta, context) in enumerate(zip(request.theta, request.contexts, strict=True)):
            part = (0.5 if group.starts else 0.9) / (len(request.theta) - k)
            until = share(request.deadline, part)
            seed = foreign.seed_of(request.seed, context, 0)
            rows, _, cut = starts.find(group.problem, theta, count, seed, until)
            more |= {SAFETY: cut} if cut else {}
            if not len(rows):
                break
            pool.append(rows)
    if len(pool) < len(request.theta):
        known = group.starts
        pool = [known[k % len(known)] for k in range(len(request.theta))] if known else []
    if not pool:
        ended = "a CDCL solver found no solution in the time it had"
        return [], {"ended": ended, "solver": "undecided"} | more
    return pool, {"starts": min(len(rows) for rows in pool)} | more


@cache
@as_machine_code()
def ready(count: int, width: int | None) -> None:
    """Compile the kernels of all steps of the ladder, or load them from the cache."""
    compile_kernels()
    formula = Formula([[1, 2], [1, 3]], n_vars=3)
    estimate(formula)
    problem, theta = prepare(formula), np.zeros((1, 3))
    for size in (1, 1 << 20, count):
        lanes = 64 * (width or width_for(size))
        chains = Chains.resampled(problem, pilot_request(theta, lanes, 1, None), theta)
        chains.sweep_to(1)
    for name in ("enumerate", "circuit", "cftp", "rejection"):
        request = pilot_request(theta, min(count, 1 << 10), 1, None)
        request = replace(request, columns=np.arange(3), width=width)
        if not missing_modules(one := get(name)):
            next(one.blocks(problem, request))
            if one.ready:
                one.ready(count, width)
    cftp.ready(coupling.LANES)  # for trials
