"""Resampling on the CPU: cuts a request into tiles and hands the tiles to threads.

The kernel runs without the GIL and looks at a stop cell every round, so that a deadline or Ctrl-C
ends even a formula that never converges. A tile that was cut short returns nothing; finished tiles
are complete. Which samples a deadline cuts depends only on the number of rounds they took. For
partial rejection sampling that number is independent of the outcome, so the samples that remain
are still exact.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.chains.block import Block, joined
from nelson.chains.problem import Problem
from nelson.kernels.core import rng
from nelson.kernels.core.bits import words_for
from nelson.kernels.core.threads import spread
from nelson.kernels.cpu import tiles as cpu

if TYPE_CHECKING:
    from nelson.chains.request import Request

#: Widths of tiles in use. Compiling one takes a few seconds, so there are only three.
_WIDTHS = (1, 4, 16)
#: Bytes of Bernoulli tables held at once: contexts are taken in groups whose tables fit.
_TABLE_BYTES = 256 << 20
#: Up to this product of variables and lanes a call runs in the caller's thread: starting threads
#: would take longer.
_SMALL = 4_000_000
#: Words of a work space that is kept for the next call, and how many are: 4 MiB for each problem.
_KEPT_WORDS, _KEPT_SPACES = 1 << 16, 8


def width_for(count: int) -> int:
    """The narrowest width whose tile holds `count` samples, or the widest."""
    return next((width for width in _WIDTHS if count <= 64 * width), _WIDTHS[-1])


@dataclass(frozen=True)
class Kernel:
    """What runs a tile: `kernels.cpu.tiles`, or another module with the same job and tiles."""

    laws: Callable[[Problem, np.ndarray], Any]  # tables for theta (contexts, n)
    run: Callable[..., None] = cpu.run
    scratch: Callable[..., Any] = cpu.scratch
    result: Callable[..., Any] = cpu.Result
    #: With one theta: skip the other tiles if the first tile holds no valid lane.
    first_tells: bool = True
    #: Sweep components that are extremal, too.
    sweeps_all: bool = False
    #: The time of a tile depends on its samples, so a tile that has begun when the time is up gets
    #: as long again, and at least a second.
    finishes: bool = False


RESAMPLE = Kernel(Problem.law)


def blocks(
    method: int, problem: Problem, request: Request, kernel: Kernel = RESAMPLE
) -> Iterator[Block]:
    """The samples of a request, `request.block` per context at a time."""
    group = max(1, _TABLE_BYTES // (64 * max(1, problem.formula.n_total)))
    shared = kernel.laws(problem, request.theta) if len(request.theta) <= group else None
    for start, count in request.pieces():
        timed = request
        if request.block_seconds is not None:
            timed = replace(request, budget=request.of_block())
        turns: list[Block] = []
        last = False
        for at, size in request.in_turns(start, count):
            if shared is None:
                turns.append(_by_groups(kernel, method, problem, timed, group, at // 64, size))
            else:
                task = problem, timed, shared, request.contexts
                turns.append(draw(kernel, method, *task, at // 64, size))
            if last := turns[-1].last:
                break
        yield turns[0] if len(turns) == 1 else joined(turns)
        if last:
            return


def _by_groups(
    kernel: Kernel,
    method: int,
    problem: Problem,
    request: Request,
    group: int,
    first_word: int,
    count: int,
) -> Block:
    """As `draw` for all contexts, with tables for so many of them at a time."""
    parts: list[Block] = []
    for first in range(0, len(request.theta), group):
        rows = slice(first, first + group)
        task = problem, request, kernel.laws(problem, request.theta[rows]), request.contexts[rows]
        parts.append(draw(kernel, method, *task, first_word, count))
        if parts[-1].last:
            break
    missing = request.contexts[sum(len(part.filled) for part in parts) :]
    if len(missing):  # a budget ended before their turn
        parts.append(Block.empty(replace(request, contexts=missing), words_for(count)))
    return joined(parts, axis=0)


def draw(
    kernel: Kernel,
    method: int,
    problem: Problem,
    request: Request,
    table: Any,
    contexts: np.ndarray,
    first_word: int,
    count: int,
) -> Block:
    """`count` samples of each context, from word `first_word` on."""
    width = request.width or width_for(count)
    words = words_for(count)
    per_context = -(-words // width)
    tiles = per_context * len(contexts)
    row, word = np.divmod(np.arange(tiles), per_context)
    word *= width
    job = cpu.Job(
        method=method,
        max_rounds=request.max_rounds,
        sweeps=request.sweeps if kernel.sweeps_all or len(problem.program.order) else 0,
        seed=rng.spread_seed(request.seed),
        row=row,
        context=contexts.astype(np.int64, copy=False)[row],
        word=first_word + word,
        lanes=np.minimum(64 * width, count - 64 * word),
        columns=problem.program.place[request.columns],
        n_columns=len(request.columns),
    )
    result = kernel.result(
        packed=np.empty((len(contexts) * words, len(request.columns)), np.uint64),
        valid=np.zeros(len(contexts) * words, np.uint64),
        row=row * words + word,
        rounds=np.full(tiles, cpu.STOPPED, np.int64),
        resampled=np.zeros(tiles, np.int64),
        moved=np.zeros(problem.formula.n_total, np.uint8),
    )
    stopped, interrupted = _run(kernel, width, problem, table, job, result, request)
    return Block(
        result.packed.reshape(len(contexts), words, len(request.columns)),
        result.valid.reshape(len(contexts), words),
        int(result.rounds.max(initial=0)),
        int(result.resampled.sum()),
        stopped,
        interrupted,
        valid=result.sound.reshape(len(contexts), words) if hasattr(result, "sound") else None,
    )


def _run(
    kernel: Kernel,
    width: int,
    problem: Problem,
    table: Any,
    job: cpu.Job,
    result: Any,
    request: Request,
) -> tuple[bool, bool]:
    """Run all tiles; -> (was a tile left out or cut short, was it Ctrl-C)."""
    if request.budget.deadline is not None and time.monotonic() >= request.budget.deadline:
        return True, False
    tiles = len(job.row)
    stop = np.zeros(1, np.int32)
    threads = max(1, min(request.budget.threads, tiles))
    spaces = [_work_space(kernel, problem, width) for _ in range(threads)]

    # Tiles of a kernel that finishes them share a run for their last words: two calls a thread.
    size = max(1, tiles // (2 * threads)) if kernel.finishes else 1

    def work(thread: int, first: int, last: int) -> None:
        space, part = spaces[thread], (first * size, min(last * size, tiles))
        kernel.run(width, problem.program, table, job, result, space, stop, part)

    brief = request.budget.deadline is None or not (request.max_rounds or job.sweeps)
    if brief and tiles * 64 * width * problem.formula.n_total <= _SMALL:
        work(0, 0, -(-tiles // size))
        _keep(spaces, kernel, problem, width)
        return False, False
    # With one theta, the first tile tells whether resampling converges at all. If it does not, the
    # other tiles would not converge either.
    tells = kernel.first_tells and (len(request.theta) == 1 or request.trial > 0)
    enough = max(1.0, request.trial * int(job.lanes[0])) if tiles else 0.0
    go_on = (lambda: int(np.bitwise_count(result.valid).sum()) >= enough) if tells else None
    left = (
        math.inf if request.budget.deadline is None else request.budget.deadline - time.monotonic()
    )
    grace = max(1.0, left) if kernel.finishes else math.inf
    if spread(work, -(-tiles // size), threads, stop, request.budget.deadline, go_on, grace):
        return False, True
    stopped = bool((result.rounds == cpu.STOPPED).any())
    if not stopped:
        _keep(spaces, kernel, problem, width)
    return stopped, False


def _work_space(kernel: Kernel, problem: Problem, width: int) -> Any:
    """A work space that is idle, else a new one."""
    try:
        if kernel.scratch is cpu.scratch:
            return problem.idle_scratch[width].pop()
    except IndexError:
        pass
    return kernel.scratch(problem.program, width)


def _keep(spaces: list[Any], kernel: Kernel, problem: Problem, width: int) -> None:
    """Let the next call use these work spaces, unless they are large. A tile that was cut short
    leaves its work space in disorder: such a one must not be kept.
    """
    words = (2 * problem.program.n + problem.program.n_clauses) * width
    if kernel.scratch is cpu.scratch and words <= _KEPT_WORDS:
        idle = problem.idle_scratch[width]
        idle.extend(spaces[len(idle) : _KEPT_SPACES])
