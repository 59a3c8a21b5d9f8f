"""`device="cuda"`: the plan of a call, drawn on a GPU. Same seed, same samples as on the CPU.

What is drawn stays on the card (`DeviceSamples`). A call waits for the card once, at its end, to
learn how many samples are valid; with a time limit, after every few waves of work, so that the
clock is looked at.

Only `lovasz` and `prs` run there, with their sweeps.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nelson.errors import FormulaError, NelsonError
from nelson.formula.memo import Recent, Slot
from nelson.kernels.core import rng
from nelson.kernels.core.bits import compact, words_for
from nelson.kernels.core.reference import LOVASZ, PRS, threshold
from nelson.sampling.collect import prove_or_explain
from nelson.sampling.device.device import Card
from nelson.sampling.device.samples import DeviceSamples
from nelson.sampling.guarantee import weakest
from nelson.sampling.plan import Plan
from nelson.sampling.problem import Problem
from nelson.sampling.registry import Choice
from nelson.sampling.sampler import Block, Request

METHODS = {"lovasz": LOVASZ, "prs": PRS}
_LOADED: Slot[Recent[Any, Any]] = Slot("programs on a GPU")
#: Waves of tiles between two looks at the clock.
_WAVES = 4
#: Words of samples for which no array of marks is worth making.
_FEW_WORDS = 8192
#: Programs kept on the card with a formula.
_KEPT = 8


@dataclass
class Drawn:
    """What one call of `draw` left on the card."""

    packed: Any  # (contexts * words * columns,) uint64, flat
    valid: Any  # (contexts * words,) uint64
    note: Block  # rounds, resampled, frozen, stopped; no samples
    invalid: int  # lanes that are not valid
    ran: int  # tiles that ran, of
    tiles: int  # tiles a context
    words: int  # words a tile

    @property
    def whole(self) -> bool:
        return self.invalid == 0 and not self.note.stopped


def load(
    card: Card,
    problem: Problem,
    columns: np.ndarray,
    sweeps: bool,
    words: int,
    log_copies: int | None,
) -> Any:
    """The program on the card for draws of so many words, kept with the formula."""
    from nelson.kernels.cuda.program import lay_out

    program = problem.program
    if log_copies is None:
        log_copies = card.launch.copies_for(program.n, program.n_clauses, words)
    key = (problem.evidence, columns.tobytes(), sweeps, log_copies, card.index)
    kept = problem.formula.memo.once(_LOADED, lambda: Recent(_KEPT))
    if (loaded := kept.get(key)) is not None:
        return loaded
    try:
        laid_out = lay_out(program, program.place[columns], sweeps, log_copies)
    except ValueError as error:
        raise NelsonError(f'device="cuda": {error}; use device="cpu"') from error
    return kept.put(key, card.launch.Loaded(laid_out))


def draw(
    method: int,
    card: Card,
    problem: Problem,
    request: Request,
    first: int,
    count: int,
    log_copies: int | None = None,
    rows: int | None = None,
    **cut: Any,
) -> Drawn:
    """`count` samples of each context from word `first` on. log_copies, rows and cut (arguments of
    `shape_for`) never change a sample.
    """
    from nelson.kernels.cuda.team import COUNTS, Job

    launch, program = card.launch, problem.program
    sweeps = request.sweeps if len(program.order) else 0
    contexts, words, columns = len(request.contexts), words_for(count), len(request.columns)
    loaded = load(card, problem, request.columns, sweeps > 0, words, log_copies)
    shape = loaded.shape(method, launch.limits(card.index), **cut)

    thr = np.full((len(request.theta), program.n), 1 << 31, np.uint32)
    thr[:, : problem.n] = threshold(request.theta)
    thr[:, np.abs(problem.fixed) - 1] = 1 << 31
    fair = bool((thr == 1 << 31).all())
    thr[:, np.abs(problem.fixed) - 1] = 0
    tile = 2 << loaded.program.log_copies
    per_context = -(-words // tile)
    tiles = per_context * contexts
    slots = 0 if shape.shared else min(shape.blocks, tiles) * shape.teams
    laws = thr[:, program.name].astype(np.uint64) << 32 | program.name.astype(np.uint64) << 5
    size = 8 * contexts * words * (columns + 1) + laws.nbytes + slots * shape.state_bytes
    card.require(size, f"{contexts * count:,} samples of {columns:,} variables")
    few = contexts * words < _FEW_WORDS  # then their marks are lent too
    counts, streams, law, moved, valid = card.lend(
        [
            np.zeros(COUNTS, np.int64),
            request.contexts.astype(np.int64),
            laws.reshape(-1),
            np.zeros(max(1, program.n), np.uint8),
            np.zeros(max(1, contexts * words) if few else 1, np.uint64),
        ]
    )
    packed = card.empty(contexts * words * columns, np.uint64)
    valid = valid if few else card.empty(contexts * words, np.uint64)
    out = launch.Launch(packed, valid, counts, moved)
    scratch = card.scratch(slots * shape.state64, slots * shape.state32)

    step = tiles if request.deadline is None else shape.blocks * shape.teams * _WAVES
    done, stopped = 0, False
    while done < tiles and not stopped:
        job = Job(
            seed=rng.spread_seed(request.seed),
            method=np.int32(method),
            max_rounds=np.int32(request.max_rounds),
            sweeps=np.int32(sweeps),
            first=np.int64(done),
            tiles=np.int64(min(step, tiles - done)),
            per_context=np.int64(words),
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
        digits = 1 if fair else rows or launch.ROWS
        launch.draw(loaded, shape, law, digits, streams, job, out, scratch, card.stream)
        done += int(job.tiles)
        if request.deadline is not None and done < tiles:
            card.wait()
            stopped = time.monotonic() >= request.deadline
    rounds, resampled, invalid = (int(k) for k in card.get(counts))  # the one wait of a call
    nothing = np.zeros((contexts, 0, columns), np.uint64)
    note = Block(nothing, nothing.sum(axis=2), rounds, resampled, stopped=stopped)
    if sweeps:
        frozen = np.zeros(program.n, bool)
        frozen[program.order] = True
        frozen &= card.get(moved)[: program.n] == 0
        note.frozen = frozen[program.place]
    return Drawn(out.packed, out.valid, note, invalid, done, per_context, tile)


def _compacted(
    card: Card, drawn: Drawn, contexts: int, words: int, columns: int
) -> tuple[np.ndarray, int]:
    """Samples that are not valid are dropped on the host: rare, and slow anyway."""
    lanes = card.get(drawn.valid)[: contexts * words].reshape(contexts, words)
    if drawn.note.stopped:  # tiles that did not run left whatever was in memory
        ran = np.zeros((contexts, drawn.tiles), bool)
        ran.reshape(-1)[: drawn.ran] = True
        ran = np.repeat(ran, drawn.words, axis=1)[:, :words]
        lanes = np.where(ran, lanes, np.uint64(0))
    host = card.get(drawn.packed)[: contexts * words * columns].reshape(contexts, words, columns)
    parts = [compact(host[k], lanes[k]) for k in range(contexts)]
    kept = min((held for _, held in parts), default=0)
    cut = np.stack([part[: words_for(kept)] for part, _ in parts]) if parts else host[:, :0]
    return cut, kept


def automatic(plan: Plan) -> Plan:
    """What `auto` is on a GPU: resampling, with the sweeps and the guarantee that the host's ladder
    would give it if it could neither list nor compile the formula.
    """
    from nelson.sampling.auto import Terms, decide
    from nelson.sampling.mixing import mixing

    problem, request = plan.parts[0]
    terms = Terms(
        request.threads,
        request.deadline,
        request.max_rounds,
        request.count,
        skip=frozenset({"enumerate", "circuit"}),
    )
    choice = decide(problem, request.theta, terms).choice
    if not (choice.whole and choice.method == "lovasz"):
        found = mixing(problem, request.theta, request.threads, request.deadline)
        why = f"on a GPU only resampling; the host would take {choice.method} ({choice.why})"
        choice = Choice("lovasz", found.sweeps, "heuristic", why)
    parts = [(one, replace(asked, sweeps=choice.sweeps)) for one, asked in plan.parts]
    return replace(plan, choice=choice, parts=parts)


def collect(plan: Plan, index: int, started: float) -> DeviceSamples:
    """All of a plan at once."""
    return next(_blocks(plan, index, plan.n or 0, started))


def in_blocks(plan: Plan, index: int, block: int):
    return _blocks(plan, index, block, time.monotonic())


def _blocks(plan: Plan, index: int, size: int, started: float):
    if plan.sampler.name not in METHODS:
        raise FormulaError(
            f'method={plan.sampler.name!r} with device="cuda"',
            expected=f'{" or ".join(METHODS)}, or device="cpu"',
        )
    if len(plan.parts) > 1:
        raise FormulaError(
            'contexts with different evidence with device="cuda"', expected="one call for each"
        )
    card = Card(index)
    problem, request = plan.parts[0]
    contexts, columns = len(request.contexts), len(request.columns)
    done = 0
    while True:
        count = size if plan.n is None else min(size, plan.n - done)
        words = words_for(count)
        first = (request.start + done) // 64
        drawn = draw(METHODS[plan.sampler.name], card, problem, request, first, count)
        packed, note, kept = drawn.packed, drawn.note, count
        if not drawn.whole:
            host, kept = _compacted(card, drawn, contexts, words, columns)
            words = words_for(kept)
            packed = card.put(host.reshape(-1)) if host.size else card.empty(0, np.uint64)
            if count and not kept and not done:
                prove_or_explain(plan, problem, request, note)
        yield _samples(plan, card, packed, words, kept, count, note, started)
        done += count
        started = time.monotonic()
        if note.stopped or not kept or (plan.n is not None and done >= plan.n):
            return


def _samples(
    plan: Plan,
    card: Card,
    packed: Any,
    words: int,
    kept: int,
    asked: int,
    note: Block,
    started: float,
) -> DeviceSamples:
    problem, request = plan.parts[0]
    swept = request.sweeps if len(problem.program.order) else 0
    promised = plan.sampler.guarantee(problem, swept)
    guarantee = weakest([plan.choice.guarantee, promised])
    info: dict[str, Any] = {
        "method": plan.sampler.name,
        "why": plan.choice.why,
        "seed": request.seed,
        "requested": asked,
        "rounds": note.rounds,
        "resampled": note.resampled,
        "sweeps": swept,
        "device": f"cuda:{card.index}",
        "fixed": len(problem.fixed),
        "seconds": time.monotonic() - started,
        **note.info,
    }
    status = "ok"
    if kept < asked:
        status = "budget"
        info["reason"] = (
            "the time was up"
            if note.stopped
            else f"{kept} of {asked} samples became valid within {request.max_rounds} rounds"
        )
    contexts = () if plan.single else (len(request.contexts),)
    shape = (*contexts, words, len(request.columns))
    samples = DeviceSamples(packed, kept, plan.variables, guarantee, status, info, shape, card)
    if guarantee == "asymptotic" and note.frozen is not None and kept >= 64:
        frozen = note.frozen[request.columns]
        if frozen.any():
            mean = samples.mean().reshape(-1, len(request.columns))
            stuck = int((frozen & ((mean > 0) & (mean < 1)).any(0)).sum())
            if stuck:
                info["frozen"] = stuck
                info["why"] += f"; but {stuck} variables could not move"
                samples = replace(samples, guarantee="heuristic")
    return samples
