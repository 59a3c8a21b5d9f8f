"""One draw of each group, put together by sample number, and rebuilt to the formula as given.

Sample i of the formula is sample i of every group: groups share no variable, and each has its own
random numbers, so they are independent. A lane is valid if it is valid in all groups. The complete
samples are checked against the clauses as given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from nelson.exact.compile_guess import estimate
from nelson.exact.preprocess import compile_kernels
from nelson.formula import Formula
from nelson.kernels.core.bits import tail_mask, words_for
from nelson.sampling import foreign
from nelson.sampling.auto import starts
from nelson.sampling.auto.decision import Decision, Group
from nelson.sampling.chain import Chains, resumed, share, tiled
from nelson.sampling.diagnosis.diagnose import pilot_request
from nelson.sampling.engine import width_for
from nelson.sampling.problem import Problem, prepare
from nelson.sampling.registry import get, missing_modules
from nelson.sampling.sampler import Block, Request, Sampler, joined

#: Most bits of states held at once.
_BITS = 1 << 29
#: Most samples drawn of one group before the next group's turn: a deadline finds all equally far.
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
        yield from get(group.method).blocks(problem, asked)
        return
    cells = max(1, problem.formula.n_total * len(request.theta))
    chunk = min(request.block, max(64, min(_SAMPLES, _BITS // cells) // 64 * 64))
    if chunk == request.block:
        yield from _chunks(decision, problem, request)
        return
    for first, count in request.pieces():
        asked = replace(request, start=first, count=count, block=chunk)
        block = joined(list(_chunks(decision, problem, asked)))
        yield block
        if block.last:
            return


def _chunks(decision: Decision, problem: Problem, request: Request) -> Iterator[Block]:
    """All groups in lockstep, `request.block` samples at a time."""
    reduced = decision.reduced
    assert reduced is not None
    sources = [_source(k, group, request) for k, group in enumerate(decision.groups)]
    for _, count in request.pieces():
        words, n = words_for(count), problem.formula.n_total
        full = np.zeros((len(request.theta), words, n), np.uint64)
        valid = np.tile(tail_mask(count), (len(request.theta), 1))
        total = Block(full[:, :, request.columns], valid)
        for group, source in zip(decision.groups, sources, strict=True):
            block = next(source, None)
            if block is None:  # it ended with its last block
                total.stopped, total.valid = True, valid & np.uint64(0)
                break
            held = block.valid.shape[1]
            full[:, :held, group.variables] = block.packed
            valid[:, :held] &= block.valid if block.sound is None else block.valid & block.sound
            valid[:, held:] = 0
            total.add(block)
        else:
            total.sound = valid.copy()
            for c in range(len(full)):
                reduced.rebuild(full[c], valid[c])
                total.sound[c] = foreign.satisfying(problem, full[c], valid[c])
            total.packed = full[:, :, request.columns]
        yield total
        if total.last:
            return


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
    return get(group.method).blocks(group.problem, asked)


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
    if len(request.theta) <= _OWN_STARTS:
        count = min(starts.MAX_STARTS, request.count or starts.MAX_STARTS)
        for k, (theta, context) in enumerate(zip(request.theta, request.contexts, strict=True)):
            part = (0.5 if group.starts else 0.9) / (len(request.theta) - k)
            until = share(request.deadline, part, starts.SECONDS)
            seed = foreign.seed_of(request.seed, context, 0)
            rows, _ = starts.find(group.problem, theta, count, seed, until or 0.0)
            if not len(rows):
                break
            pool.append(rows)
    if len(pool) < len(request.theta):
        known = group.starts
        pool = [known[k % len(known)] for k in range(len(request.theta))] if known else []
    if not pool:
        ended = "a CDCL solver found no solution in the time it had"
        return [], {"ended": ended, "solver": "undecided"}
    return pool, {"starts": min(len(rows) for rows in pool)}


@cache
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
    for name in ("enumerate", "circuit"):
        request = pilot_request(theta, min(count, 1 << 10), 1, None)
        request = replace(request, columns=np.arange(3), width=width)
        if not missing_modules(get(name)):
            next(get(name).blocks(problem, request))
