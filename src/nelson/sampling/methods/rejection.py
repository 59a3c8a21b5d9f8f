"""Plain rejection: propose x from the product law of theta, keep it if every clause holds.

    sample i = the i-th valid one of the proposals 0, 1, 2, .., each ~ prod_i p_i^x_i q_i^(1 - x_i)

Proposals continue where the last block ended, so that a stream is the same samples in blocks of any
size. Exact on any formula, by definition: the reference that other samplers are judged by. A sample
takes 1 / P(C) proposals on average. Three budgets end a call: `max_rounds` proposals for each
sample asked for (in all, whatever the blocks; an endless stream has no such limit), `seconds`, or
64 max_rounds proposals in a row without a valid one (if P(C) >= 1 / max_rounds, that happens once
in e^64 samples). The samples before the end are still exact: they are the first valid proposals,
and how many proposals a sample takes is independent of its value.

A proposal is what the resampling kernel draws before its first round, bit-sliced and on all
threads: 64 proposals cost one AND per literal and the bits of one Bernoulli word per variable.

*Gates.* If clauses make a variable a function of others (`nelson.exact.inputs`), it is computed and
not drawn. So a circuit of 200 inputs and 3,000 gates with 20 outputs given has one valid proposal
in 2^14, where a draw of all variables has one in 2^3000. The weight of a gate is met by a coin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains import compiling, engine
from nelson.chains.block import Block, Lanes, divided
from nelson.chains.problem import Problem, prepare
from nelson.chains.request import Request
from nelson.exact import inputs
from nelson.exact.inputs import GateOrder
from nelson.formula import Formula
from nelson.kernels.core.bits import compact, words_for
from nelson.kernels.core.reference import LOVASZ
from nelson.kernels.cpu import gates as kernel
from nelson.sampling import total_variation
from nelson.sampling.sampler import Sampler

#: Fewest proposals of a draw.
_FIRST = 1024
#: Most bytes of a draw's packed proposals.
_BYTES = 64 << 20

#: The seed of trials, unless another is given.
TRIAL = 0x6E656C736F6E

#: Draws all variables, gates or not.
PLAIN = replace(engine.RESAMPLE, first_tells=False)


def gates_of(problem: Problem) -> GateOrder:
    """The inputs and gates of a problem."""
    return inputs.gates_of(problem.rest)


def kernel_for(problem: Problem) -> engine.Kernel:
    """What draws proposals: all variables, or the inputs if there are gates."""
    gates = gates_of(problem)
    if not len(gates.targets):
        return PLAIN
    return replace(PLAIN, run=partial(kernel.run, entries(problem, gates)), laws=_weights)


def entries(problem: Problem, gates: GateOrder) -> kernel.Entries:
    """Gates in the numbers of the program."""
    place = problem.program.place
    codes = 2 * place[np.abs(gates.literals) - 1] + (gates.literals > 0)
    return kernel.Entries(
        n_inputs=len(gates.inputs),
        n_entries=len(gates.target),
        inputs=place[gates.inputs],
        target=np.where(gates.target < 0, -1, place[gates.target]).astype(np.int32),
        flip=gates.flip,
        first=gates.first,
        start=gates.start,
        codes=codes.astype(np.int32),
    )


def _weights(problem: Problem, theta: np.ndarray) -> kernel.GateLaw:
    name = problem.program.name
    every = np.zeros((len(theta), problem.formula.n_total))
    every[:, : problem.n] = theta
    targets = problem.program.place[gates_of(problem).targets]
    return kernel.weights(problem.thresholds(theta)[:, name], every[:, name], targets)


def hits(
    problem: Problem,
    kernel: engine.Kernel,
    table: Any,
    first: int,
    count: int,
    threads: int = 1,
    seed: int = TRIAL,
) -> int:
    """How many of `count` proposals are valid, from word number `first` on.

    table: what `kernel.laws` gives for one theta.
    """
    request = Request(
        theta=np.zeros((1, problem.n)),
        contexts=np.zeros(1, np.int64),
        count=count,
        block=count,
        seed=seed,
        columns=np.zeros(0, np.int64),
        sweeps=0,
        max_rounds=0,  # proposals only
        budget=Budget(threads=threads),
    )
    block = engine.draw(kernel, LOVASZ, problem, request, table, request.contexts, first, count)
    if block.interrupted:
        raise KeyboardInterrupt
    return int(np.bitwise_count(block.filled).sum())


class Proposals:
    """The valid proposals of one context, in order.

    Words of 64 proposals are counted from the first one of the request.
    """

    def __init__(self, problem: Problem, request: Request, context: int) -> None:
        row = slice(context, context + 1)
        self.problem, self.columns = problem, len(request.columns)
        self.kernel = kernel_for(problem)
        self.table = self.kernel.laws(problem, request.theta[row])
        self.context = request.contexts[row]
        rounds, least = max(1, request.max_rounds), words_for(_FIRST)
        self.word = self.hits = 0  # words drawn, valid proposals among them
        self.last_hit = -1  # the last word with a valid proposal
        self.most_empty = max(rounds, least)  # words in a row
        self.most = math.inf  # words of the whole request; 0 when it is given up
        if request.count is not None:
            self.most = max(words_for(request.count * rounds), least)
        self.left: Lanes = np.zeros((0, self.columns), np.uint64), 0  # valid ones not returned yet

    def take(self, request: Request, count: int, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """The next `count` as (packed, lanes), or fewer; counts and flags go to `block`."""
        pieces, held, tried, hits = [self.left], self.left[1], self.word, self.hits
        asking = replace(request, max_rounds=0, sweeps=0)
        while held < count and not block.last and (words := self._next_draw(count - held)):
            word = request.start // 64 + self.word
            drawn = engine.draw(
                self.kernel,
                LOVASZ,
                self.problem,
                asking,
                self.table,
                self.context,
                word,
                64 * words,
            )
            self._give_up_in(drawn.filled[0])
            pieces.append(compact(drawn.packed[0], drawn.filled[0]))
            held += pieces[-1][1]
            self.hits += pieces[-1][1]
            self.word += words
            block.stopped |= drawn.stopped
            block.interrupted |= drawn.interrupted
        tried, hits = 64 * (self.word - tried), self.hits - hits
        block.rounds = max(block.rounds, -(-tried // max(hits, 1)))
        block.resampled += tried - hits
        packed, lanes, self.left = divided(pieces, count, self.columns)
        return packed, lanes

    def _give_up_in(self, valid: np.ndarray) -> None:
        """Drop what lies behind `most_empty` words in a row without a valid proposal.

        So where the samples end does not depend on the sizes of the draws.
        """
        end = self.word + len(valid)
        hits = np.concatenate([[self.last_hit], self.word + np.flatnonzero(valid), [end]])
        empty = np.diff(hits) - 1
        if (empty >= self.most_empty).any():
            self.most = 0
            end = int(hits[np.argmax(empty >= self.most_empty)]) + 1
            valid[max(0, end - self.word) :] = 0
        self.last_hit = int(hits[-2])

    def _next_draw(self, missing: int) -> int:
        """Words of the next draw; 0: a budget is used up."""
        size = float(missing)
        if tried := 64 * self.word:
            size = min(1.1 * (missing + 8) * tried / max(self.hits, 0.5), 8 * tried)
        words = words_for(max(_FIRST, int(size)))
        largest = max(_FIRST, _BYTES // (8 * max(1, self.columns)) * 64) // 64
        return int(max(0, min(words, largest, self.most - self.word)))


def blocks(problem: Problem, request: Request) -> Iterator[Block]:
    streams = [Proposals(problem, request, c) for c in range(len(request.contexts))]
    for first, count in request.pieces():
        timed = replace(request, budget=request.of_block())
        block = Block.empty(request, words_for(count))
        for at, size in request.in_turns(first, count):
            for c, stream in enumerate(streams):
                packed, lanes = stream.take(timed, size, block)
                block.put(c, (at - first) // 64, packed, lanes)
            if block.last:
                break
        block.stopped |= int(np.bitwise_count(block.filled).sum()) < len(streams) * count
        yield block
        if block.last:
            return


def variation(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """As `Sampler.variation`."""
    return total_variation.of_gates(problem, theta, gates_of(problem).targets)


def ready(count: int, width: int | None = None) -> None:
    compiling.ready(count, width)
    copy, none = prepare(Formula([[1, -2], [-1, 2]])), np.zeros(1, np.int64)
    next(
        blocks(
            copy,
            Request(np.zeros((1, 2)), none, 1, 1, 0, none, 0, 1, Budget(threads=1), width=width),
        )
    )


SAMPLER = Sampler(
    name="rejection",
    summary="draw inputs independently by theta, compute gates, repeat until every clause holds",
    citation="von Neumann: Various techniques used in connection with random digits, 1951",
    weighted=True,
    guarantee=lambda problem, sweeps: "exact",
    variation=variation,
    blocks=blocks,
    tried_on_theta=True,
    ready=ready,
    promise="exact, where it finds any",
)
