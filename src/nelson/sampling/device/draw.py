"""`device="cuda"`: a drawing, drawn on a GPU. Same seed, same samples as on the CPU.

The samples stay in the GPU's memory (`DeviceSamples`). A call waits for the GPU once, at its end,
to learn how many samples are valid. With a time limit it waits after every few waves of tiles, to
look at the clock.

A GPU runs `lovasz` and `prs`, with their sweeps, and `cftp`. If another method is asked for, or if
"auto" finds a better one, the host draws and the samples move to the GPU.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nelson.chains.block import Block
from nelson.chains.problem import Problem
from nelson.chains.request import Request
from nelson.errors import NelsonError
from nelson.formula.memo import Recent, Slot
from nelson.kernels.core import rng
from nelson.kernels.core.bits import compact, words_for
from nelson.kernels.cpu.cftp import longest
from nelson.sampling.collect import collect, in_blocks
from nelson.sampling.device.gpu import Gpu
from nelson.sampling.device.samples import DeviceSamples
from nelson.sampling.drawing import Drawing, prove_or_explain, result
from nelson.sampling.methods.cftp import CFTP, ENDED
from nelson.sampling.samples import Samples

_PROGRAMS: Slot[Recent[Any, Any]] = Slot("programs on a GPU")


@dataclass
class Launched:
    """What one call of `draw` left in the GPU's memory."""

    packed: Any  # (contexts * words * columns,) uint64, flat
    valid: Any  # (contexts * words,) uint64
    block: Block  # rounds, resampled, stopped; no samples
    invalid: int  # lanes that are not valid
    apart: int  # lanes of coupled chains that did not meet: no lane may be used
    tiles_run: int
    tiles: int  # tiles of each context
    words: int  # words of each tile

    @property
    def whole(self) -> bool:
        return self.invalid == self.apart == 0 and not self.block.stopped


def _loaded(
    gpu: Gpu,
    problem: Problem,
    columns: np.ndarray,
    lists: str,
    words: int,
    log_copies: int | None,
) -> Any:
    """The program in the GPU's memory for draws of `words` words; kept with the formula.

    lists: "rounds", "sweeps" (and rounds), or "coupled".
    """
    from nelson.kernels.cuda.neighbour_lists import lay_out_neighbours
    from nelson.kernels.cuda.program import lay_out

    program, launch = problem.program, gpu.launch
    if log_copies is None and lists == "coupled":
        log_copies = launch.coupled_copies_for(program.n, words)
    elif log_copies is None:
        log_copies = launch.copies_for(program.n, program.n_clauses, words)
    key = (problem.evidence, columns.tobytes(), lists, log_copies, gpu.index)
    programs = problem.formula.memo.recent(_PROGRAMS, 8)
    if (loaded := programs.get(key)) is not None:
        return loaded
    places = program.place[columns]
    try:
        if lists == "coupled":
            laid_out = lay_out_neighbours(program, places, log_copies)
        else:
            laid_out = lay_out(program, places, lists == "sweeps", log_copies)
    except ValueError as error:
        raise NelsonError(f'device="cuda": {error}; use device="cpu"') from error
    return programs.put(key, launch.Loaded(laid_out))


def draw(
    method: int,
    gpu: Gpu,
    problem: Problem,
    request: Request,
    first: int,
    count: int,
    log_copies: int | None = None,
    rows: int | None = None,
    **cut: Any,
) -> Launched:
    """`count` samples of each context from word `first` on.

    log_copies, rows and cut (arguments of `shape_for`) never change a sample.
    """
    from nelson.kernels.cuda.team import COUNTS

    problem = problem.sweeping_all() if method == CFTP else problem
    launch, program = gpu.launch, problem.program
    sweeps = request.sweeps if len(program.order) else 0
    contexts, words, columns = len(request.contexts), words_for(count), len(request.columns)
    lists = "coupled" if method == CFTP else "sweeps" if sweeps else "rounds"
    loaded = _loaded(gpu, problem, request.columns, lists, words, log_copies)
    shape = loaded.shape(method, launch.limits(gpu.index), **cut)

    thresholds = problem.thresholds(request.theta)
    drawn = np.ones(program.n, bool)
    drawn[np.abs(problem.fixed) - 1] = False
    digits = 1 if (thresholds[:, drawn] == 1 << 31).all() else rows or launch.ROWS
    laws = thresholds[:, program.name].astype(np.uint64) << 32
    laws |= program.name.astype(np.uint64) << 5
    if loaded.coupled:
        laws = np.pad(laws, ((0, 0), (0, 1)))[:, loaded.program.positions]  # -1 is padding
    tile = (1 if loaded.coupled else 2) << loaded.program.log_copies
    per_context = -(-words // tile)
    tiles = per_context * contexts
    slots = 0 if shape.shared else min(shape.blocks, tiles) * shape.teams
    size = 8 * contexts * words * (columns + 1) + laws.nbytes + slots * shape.state_bytes
    gpu.require(size, f"{contexts * count:,} samples of {columns:,} variables")
    few = contexts * words < 8192  # `valid` then travels with the other small arrays
    counts, streams, law, moved, valid = gpu.lend(
        [
            np.zeros(COUNTS, np.int64),
            request.contexts.astype(np.int64),
            laws.reshape(-1),
            np.zeros(max(1, program.n), np.uint8),
            np.zeros(max(1, contexts * words) if few else 1, np.uint64),
        ]
    )
    packed = gpu.empty(contexts * words * columns, np.uint64)
    valid = valid if few else gpu.empty(contexts * words, np.uint64)
    out = launch.Launch(packed, valid, counts, moved)
    scratch = gpu.scratch(slots * shape.state64, slots * shape.state32)

    waves = shape.blocks * shape.teams * 4  # tiles between two looks at the clock
    step = tiles if request.budget.deadline is None else waves
    whole = _job(method, request, sweeps, first, count, shape)
    if loaded.coupled:
        last = longest(request.max_rounds)
        start = min(loaded.length, last)
        whole = whole._replace(max_rounds=np.int32(last), sweeps=np.int32(start))
    done, stopped = 0, False
    while done < tiles and not stopped:
        job = whole._replace(first=np.int64(done), tiles=np.int64(min(step, tiles - done)))
        launch.draw(loaded, shape, law, digits, streams, job, out, scratch, gpu.stream)
        done += int(job.tiles)
        if request.budget.deadline is not None and done < tiles:
            gpu.wait()
            stopped = time.monotonic() >= request.budget.deadline
    rounds, resampled, invalid = (int(k) for k in gpu.get(counts))  # the one wait of a call
    block = Block.empty(request, rounds=rounds, stopped=stopped)
    apart = 0
    if loaded.coupled:
        apart = resampled
        if apart:
            when = f"after {rounds} sweeps from the past"
            block.stopped, block.info["ended"] = True, ENDED.format(apart, when)
        else:
            loaded.length = max(1, rounds // 2)
    else:
        block.resampled = resampled
    return Launched(packed, valid, block, invalid, apart, done, per_context, tile)


def _job(method: int, request: Request, sweeps: int, first: int, count: int, shape: Any) -> Any:
    """The kernel's arguments, but for the tiles of a launch; every number in the kernel's type."""
    from nelson.kernels.cuda.team import TeamJob

    return TeamJob(
        seed=rng.spread_seed(request.seed),
        method=np.int32(method),
        max_rounds=np.int32(request.max_rounds),
        sweeps=np.int32(sweeps),
        first=np.int64(0),
        tiles=np.int64(0),
        per_context=np.int64(words_for(count)),
        first_word=np.int64(first),
        samples=np.int64(count),
        team=np.int32(shape.team),
        stride64=np.int32(shape.stride64),
        stride32=np.int32(shape.stride32),
        queues=np.int32(shape.queues),
        state64=np.int64(shape.state64),
        state32=np.int64(shape.state32),
        few=np.int32(shape.few),
        capacity=np.int32(shape.capacity),
        room=np.int32(shape.room),
        listed=np.int32(shape.listed),
        listed_room=np.int32(shape.listed_room),
    )


def _valid_on_host(
    gpu: Gpu, launched: Launched, contexts: int, words: int, columns: int
) -> tuple[np.ndarray, int]:
    """The valid samples of each context, cut to the shortest, and their number.

    Invalid samples are rare and slow to draw: dropping them on the host costs little beside that.
    If coupled chains did not meet, there are none: dropping only those would bias the others.
    """
    if launched.apart:
        return np.zeros((contexts, 0, columns), np.uint64), 0
    lanes = gpu.get(launched.valid)[: contexts * words].reshape(contexts, words)
    if launched.block.stopped:  # tiles that did not run hold whatever was in memory
        ran = np.zeros((contexts, launched.tiles), bool)
        ran.reshape(-1)[: launched.tiles_run] = True
        ran = np.repeat(ran, launched.words, axis=1)[:, :words]
        lanes = np.where(ran, lanes, np.uint64(0))
    host = gpu.get(launched.packed)[: contexts * words * columns].reshape(contexts, words, columns)
    parts = [compact(host[k], lanes[k]) for k in range(contexts)]
    n_valid = min((held for _, held in parts), default=0)
    cut = np.stack([part[: words_for(n_valid)] for part, _ in parts]) if parts else host[:, :0]
    return cut, n_valid


def collect_on_gpu(drawing: Drawing, started: float) -> DeviceSamples:
    """All samples of a drawing at once."""
    if _drawn_on_host(drawing):
        return _move(Gpu(drawing.gpu or 0), collect(drawing, started))
    drawing = drawing.confirmed()
    if _drawn_on_host(drawing):
        return _move(Gpu(drawing.gpu or 0), collect(drawing, started))
    return next(_blocks(drawing, drawing.n or 0, started))


def in_blocks_on_gpu(drawing: Drawing, block_size: int) -> Iterator[DeviceSamples]:
    if _drawn_on_host(drawing):
        gpu = Gpu(drawing.gpu or 0)
        return (_move(gpu, samples) for samples in in_blocks(drawing, block_size))
    drawing = drawing.confirmed()
    return _blocks(drawing, block_size, time.monotonic())


def _drawn_on_host(drawing: Drawing) -> bool:
    """A GPU runs three methods, for contexts with the same evidence; `cftp` if lists fit."""
    if drawing.on_host or drawing.sampler.gpu_method is None or len(drawing.parts) > 1:
        return True
    from nelson.kernels.cuda.neighbour_lists import too_large

    return drawing.sampler.gpu_method == CFTP and too_large(drawing.problem.program)


def _move(gpu: Gpu, samples: Samples) -> DeviceSamples:
    packed = samples.packed
    there = gpu.put(packed.reshape(-1)) if packed.size else gpu.empty(0, np.uint64)
    device = f"cuda:{gpu.index}"
    info = samples.info | {"device": device, "drawn on": "the CPU, then moved"}
    return DeviceSamples(
        there,
        samples.count,
        samples.variables,
        samples.guarantee,
        samples.status,
        info,
        packed_shape=packed.shape,
        gpu=gpu,
    )


def _blocks(drawing: Drawing, size: int, started: float) -> Iterator[DeviceSamples]:
    gpu = Gpu(drawing.gpu or 0)
    problem, request = drawing.parts[0]
    contexts, columns = len(request.contexts), len(request.columns)
    done = 0
    while True:
        count = size if drawing.n is None else min(size, drawing.n - done)
        words = words_for(count)
        first = (request.start + done) // 64
        assert drawing.sampler.gpu_method is not None
        launched = draw(drawing.sampler.gpu_method, gpu, problem, request, first, count)
        packed, block, n_valid = launched.packed, launched.block, count
        if not launched.whole:
            host, n_valid = _valid_on_host(gpu, launched, contexts, words, columns)
            words = words_for(n_valid)
            packed = gpu.put(host.reshape(-1)) if host.size else gpu.empty(0, np.uint64)
            if count and not n_valid and not done:
                prove_or_explain(drawing, problem, request, block)
        shape = (words, columns) if drawing.single else (contexts, words, columns)
        samples = DeviceSamples(
            packed, n_valid, drawing.variables, "heuristic", packed_shape=shape, gpu=gpu
        )
        yield result(replace(drawing, n=count), samples, [block], started)
        done += count
        started = time.monotonic()
        if block.stopped or not n_valid or (drawing.n is not None and done >= drawing.n):
            return
