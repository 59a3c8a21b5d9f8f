"""Resampling on the CPU: cuts a request into tiles, hands tiles to threads, watches clock and
Ctrl-C.

The kernel runs without the GIL and looks at a stop cell every round, so that a deadline or Ctrl-C
ends even a formula that never converges. A tile that was cut short leaves nothing; finished tiles
are complete. Which samples a deadline cuts depends only on how many rounds they took, and for
partial rejection sampling the number of rounds is independent of the outcome: what is returned is
still exact.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nelson.formula import Formula
from nelson.kernels.core import rng
from nelson.kernels.core.bernoulli import Law, law
from nelson.kernels.core.bits import words_for
from nelson.kernels.core.reference import threshold
from nelson.kernels.cpu import tiles as cpu
from nelson.sampling.problem import Problem, prepare
from nelson.sampling.sampler import Block, Request

#: Widths in use by default. Each is compiled once (a few seconds), so there are only three.
_WIDTHS = (1, 4, 16)
#: Bytes of Bernoulli tables to hold at once: contexts are taken in groups that fit.
_TABLE_BYTES = 256 << 20
#: Variables times lanes below which a call is run in the caller's thread: no thread is worth it.
_SMALL = 4_000_000
#: Seconds to wait at a time: the operating system's longest wait is finite.
_PATIENCE = 3600.0


def width_for(count: int) -> int:
    """The narrowest row that holds `count` samples, or the widest there is."""
    return next((width for width in _WIDTHS if count <= 64 * width), _WIDTHS[-1])


@dataclass(frozen=True)
class Kernel:
    """What runs a tile: `cpu.py`, or another with the same job and tiles."""

    laws: Callable[[Problem, np.ndarray], Any]  # tables for theta (contexts, n)
    run: Callable[..., None] = cpu.run
    scratch: Callable[..., Any] = cpu.scratch
    result: Callable[..., Any] = cpu.Result
    #: With one theta: leave the other tiles alone if the first holds no valid lane.
    first_tells: bool = True
    #: Sweep even where no component needs it.
    sweeps_all: bool = False


def compile_kernel(width: int, kernel: Kernel | None = None) -> None:
    """Have the kernel of that width ready, so that a clock may start."""
    problem = prepare(Formula([], n_vars=1))
    none = np.zeros(1, np.int64)
    request = Request(none[None], none, 1, 1, 0, none, 0, 0, 1, width=width)
    kernel = kernel or RESAMPLE
    draw(kernel, 0, problem, request, kernel.laws(problem, request.theta), none, 0, 1)


def ready(count: int, width: int | None = None) -> None:
    """The kernel for `count` samples."""
    compile_kernel(width or width_for(count))


def laws(problem: Problem, theta: np.ndarray) -> Law:
    """Bernoulli tables for theta (contexts, n); auxiliary variables are fair, fixed ones not
    drawn.
    """
    thr = np.full((len(theta), problem.formula.n_total), 1 << 31, np.uint32)
    thr[:, : problem.n] = threshold(theta)
    thr[:, np.abs(problem.fixed) - 1] = 0
    return law(thr[:, problem.program.name])


RESAMPLE = Kernel(laws)


def blocks(
    method: int, problem: Problem, request: Request, kernel: Kernel = RESAMPLE
) -> Iterator[Block]:
    """The samples of a request, `request.block` per context at a time."""
    done = 0
    group = max(1, _TABLE_BYTES // (64 * max(1, problem.formula.n_total)))
    shared = kernel.laws(problem, request.theta) if len(request.theta) <= group else None
    while request.count is None or done < request.count:
        count = request.block if request.count is None else min(request.block, request.count - done)
        timed, word = replace(request, deadline=request.until()), (request.start + done) // 64
        parts: list[Block] = []
        for first in range(0, len(request.theta), group):
            rows = slice(first, first + group)
            table = shared if shared is not None else kernel.laws(problem, request.theta[rows])
            contexts = request.contexts[rows]
            parts.append(draw(kernel, method, problem, timed, table, contexts, word, count))
            if parts[-1].stopped or parts[-1].interrupted:
                break
        yield _stacked(parts, len(request.theta))
        if parts[-1].stopped or parts[-1].interrupted:
            return
        done += count


def _stacked(parts: list[Block], contexts: int) -> Block:
    block = parts[-1]
    if len(parts) == 1 and len(block.valid) == contexts:
        return block
    missing = contexts - sum(len(part.valid) for part in parts)
    packed = np.zeros((missing, *block.packed.shape[1:]), np.uint64)
    none = np.zeros((missing, block.valid.shape[1]), np.uint64)
    sound = [part.sound for part in parts if part.sound is not None]
    return Block(
        np.concatenate([part.packed for part in parts] + [packed]),
        np.concatenate([part.valid for part in parts] + [none]),
        max(part.rounds for part in parts),
        sum(part.resampled for part in parts),
        block.stopped,
        block.interrupted,
        np.logical_and.reduce([part.frozen for part in parts if part.frozen is not None]),
        sound=np.concatenate([*sound, none]) if sound else None,
    )


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
    word = np.tile(np.arange(per_context, dtype=np.int64) * width, len(contexts))
    row = np.repeat(np.arange(len(contexts), dtype=np.int64), per_context)
    job = cpu.Job(
        method=method,
        max_rounds=request.max_rounds,
        sweeps=request.sweeps if kernel.sweeps_all or len(problem.program.order) else 0,
        seed=rng.spread_seed(request.seed),
        row=row,
        context=contexts.astype(np.int64)[row],
        word=first_word + word,
        lanes=np.minimum(64 * width, count - 64 * word),
        columns=problem.program.place[request.columns],
        n_columns=len(request.columns),
    )
    n = problem.formula.n_total
    result = kernel.result(
        packed=np.empty((len(contexts) * words, len(request.columns)), np.uint64),
        valid=np.zeros(len(contexts) * words, np.uint64),
        row=row * words + word,
        rounds=np.full(tiles, cpu.STOPPED, np.int64),
        resampled=np.zeros(tiles, np.int64),
        moved=np.zeros(n, np.uint8),
    )
    stopped, interrupted = _run(kernel, width, problem, table, job, result, request)
    frozen = np.zeros(n, bool)
    if job.sweeps:
        frozen[problem.program.order] = True
        frozen &= result.moved == 0
        frozen = frozen[problem.program.place]
    return Block(
        result.packed.reshape(len(contexts), words, len(request.columns)),
        result.valid.reshape(len(contexts), words),
        int(result.rounds.max(initial=0)),
        int(result.resampled.sum()),
        stopped,
        interrupted,
        frozen,
        sound=result.sound.reshape(len(contexts), words) if hasattr(result, "sound") else None,
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
    """Run all tiles; -> (cut by the deadline or for want of any valid lane, cut by Ctrl-C)."""
    if request.deadline is not None and time.monotonic() >= request.deadline:
        return True, False
    tiles = len(job.row)
    stop = np.zeros(1, np.int32)
    threads = max(1, min(request.threads, tiles))

    spaces = [kernel.scratch(problem.program, width) for _ in range(threads)]

    inside: set[int] = set()

    def work(space: Any, first: int, last: int) -> None:
        inside.add(first)
        try:
            if stop[0] == 0:
                kernel.run(width, problem.program, table, job, result, space, stop, (first, last))
        finally:
            inside.discard(first)

    if request.deadline is None and tiles * 64 * width * problem.formula.n_total <= _SMALL:
        work(spaces[0], 0, tiles)
        return False, False

    # With one theta, the first tile tells whether resampling converges at all; where it does not,
    # the others would not either.
    tells = kernel.first_tells and len(request.theta) == 1
    starts = itertools.count(int(tells), chunk := max(1, (tiles - 1) // (8 * threads)))

    def take(space: Any) -> None:
        while stop[0] == 0 and (first := next(starts)) < tiles:
            work(space, first, min(tiles, first + chunk))

    with ThreadPoolExecutor(threads) as pool:
        try:
            if tells:
                _watch([pool.submit(work, spaces[0], 0, 1)], request.deadline, stop)
            if stop[0] == 0 and not (tells and not result.valid.any()):
                _watch([pool.submit(take, space) for space in spaces], request.deadline, stop)
        except KeyboardInterrupt:
            return False, True
        finally:
            stop[0] = 1
            # Ctrl-C in the middle of `submit` leaves a thread that the pool does not know of, and
            # so does not wait for: it may be writing.
            while inside:
                time.sleep(0.001)
    return bool((result.rounds == cpu.STOPPED).any()), False


def _watch(running: list[Future[None]], deadline: float | None, stop: np.ndarray) -> None:
    """Wait for the threads; past the deadline, tell them to stop."""
    while not all(future.done() for future in running):
        left = _PATIENCE if deadline is None else min(_PATIENCE, deadline - time.monotonic())
        if left <= 0:
            stop[0] = 1
        wait(running, left if left > 0 else None)
    for future in running:
        future.result()
