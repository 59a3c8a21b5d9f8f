"""From the blocks of a sampler to `Samples`: drop what is not valid, join, say what it is worth."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.exact import solver
from nelson.kernels.core.bits import compact, concatenate, tail_mask, words_for
from nelson.sampling import checked
from nelson.sampling.guarantee import weakest
from nelson.sampling.plan import Plan
from nelson.sampling.problem import Problem
from nelson.sampling.sampler import Block, Request
from nelson.sampling.samples import Samples

#: Fewer lanes than this say nothing about variables that no sweep moved.
_ENOUGH_LANES = 64


def collect(plan: Plan, started: float) -> Samples:
    """All parts and contexts in one object; contexts are cut to the shortest."""
    packed: list[np.ndarray] = [np.zeros((0, len(plan.request.columns)), np.uint64)] * plan.contexts
    counts = np.zeros(plan.contexts, int)
    notes: list[Block] = []
    for problem, request in plan.parts:
        pieces: list[list[tuple[np.ndarray, int]]] = [[] for _ in request.contexts]
        for block in checked.blocks(plan.sampler, problem, request, plan.check):
            notes.append(block)
            if block.interrupted:
                raise KeyboardInterrupt
            for k in range(len(request.contexts)):
                pieces[k].append(_kept(block, k))
        if request.count and not any(held for piece in pieces for _, held in piece):
            prove_or_explain(plan, problem, request, notes[-1])
        for k, context in enumerate(request.contexts):
            packed[context], counts[context] = concatenate(pieces[k], len(request.columns))
    kept = int(counts.min(initial=plan.n or 0))
    return finished(plan, _rectangle(plan, packed, kept), kept, notes, started)


def _rectangle(plan: Plan, packed: list[np.ndarray], kept: int) -> np.ndarray:
    """The first `kept` samples of each context, with no bit behind the last."""
    words = words_for(kept)
    if not packed:
        return np.zeros((0, words, len(plan.request.columns)), np.uint64)
    array = packed[0][:words] if plan.single else np.stack([block[:words] for block in packed])
    if kept % 64:
        array[..., -1, :] &= tail_mask(kept)[-1]
    return array


def _kept(block: Block, context: int) -> tuple[np.ndarray, int]:
    """The valid samples of one context: as they are if all are valid, else compacted."""
    packed, valid = block.packed[context], block.valid[context]
    held = int(np.bitwise_count(valid).sum())
    if np.array_equal(valid, tail_mask(held)[: len(valid)]) and words_for(held) == len(valid):
        if held % 64:
            packed[-1] &= valid[-1]
        return packed, held
    return compact(packed, valid)


def prove_or_explain(plan: Plan, problem: Problem, request: Request, block: Block) -> None:
    """Nothing valid came: ask a solver once. Raises Unsatisfiable only if it proved that."""
    if "solver" in block.info:  # one was asked on the way
        return
    seconds = None if request.deadline is None else max(1.0, request.deadline - time.monotonic())
    answer = solver.satisfiable(plan.formula, problem.evidence, seconds=seconds)
    if answer is False:
        given = f" given {list(problem.evidence)}" if problem.evidence else ""
        raise Unsatisfiable(f"a CDCL solver proved that the formula has no solution{given}")
    block.info["solver"] = "satisfiable" if answer else "undecided"


def finished(
    plan: Plan, packed: np.ndarray, kept: int, notes: list[Block], started: float, **more: Any
) -> Samples:
    """Samples with guarantee, status and info."""
    request, problem = plan.request, plan.problem
    swept = request.sweeps if any(len(p.program.order) for p, _ in plan.parts) else 0
    promised = [plan.sampler.guarantee(p, swept) for p, _ in plan.parts]
    invalid = sum(block.invalid for block in notes)
    if invalid:  # whatever was promised: what is left after dropping those is another law
        promised.append("heuristic")
    guarantee = weakest([plan.choice.guarantee, *promised])
    info: dict[str, Any] = {
        "method": plan.sampler.name,
        "why": plan.choice.why,
        "seed": request.seed,
        "requested": plan.n,
        "rounds": max((block.rounds for block in notes), default=0),
        "resampled": sum(block.resampled for block in notes),
        "sweeps": swept,
        "threads": request.threads,
        "fixed": len(problem.fixed),
        "seconds": time.monotonic() - started,
    }
    if plan.choice.parts or not plan.choice.whole:  # it was "auto"
        known = {"whole": plan.choice.whole, "preprocessing": plan.choice.steps}
        info |= {"auto": plan.choice.parts} | known
    for block in notes:
        info |= block.info
    if plan.sampler.may_be_invalid or invalid:
        drawn = sum(block.drawn for block in notes)
        info |= {"drawn": drawn, "invalid": invalid, "validity": 1 - invalid / max(drawn, 1)}
    stuck = _stuck(plan, packed, kept, notes) if guarantee == "asymptotic" else 0
    if stuck:
        guarantee, info["frozen"] = "heuristic", stuck
        info["why"] += (
            f"; but {stuck} variables could not move: parts of the valid space are cut off"
        )
    if any(block.interrupted for block in notes):
        info["interrupted"] = True
    status = "ok"
    if (plan.n is not None and kept < plan.n) or info.get("interrupted"):
        status = "budget"
        info["reason"] = more.pop("reason", None) or _reason(plan, kept, notes, info)
    info |= more
    return Samples(packed, kept, plan.variables, guarantee, status, info)


def _stuck(plan: Plan, packed: np.ndarray, kept: int, notes: list[Block]) -> int:
    """Variables that take both values and that no sweep could move in any sample."""
    frozen = [block.frozen for block in notes if block.frozen is not None]
    if not frozen or kept < _ENOUGH_LANES:
        return 0
    ones = np.bitwise_count(packed).sum(axis=-2, dtype=np.int64)
    both = ((ones > 0) & (ones < kept)).reshape(-1, len(plan.request.columns)).any(0)
    return int((np.logical_and.reduce(frozen)[plan.request.columns] & both).sum())


def _reason(plan: Plan, kept: int, notes: list[Block], info: dict[str, Any]) -> str:
    request = plan.request
    if info.get("interrupted"):
        return "interrupted"
    if info.get("ended"):
        reason = info["ended"]
    elif request.deadline is not None and time.monotonic() >= request.deadline:
        reason = "the time was up"
    elif request.patience is not None:
        reason = f"the {request.patience:g} s that {plan.sampler.name!r} has by default were up"
    else:
        reason = f"{kept} of {plan.n} samples became valid within {request.max_rounds} rounds"
        if not kept:
            reason = f"no sample became valid within {request.max_rounds} rounds"
    told = {
        "satisfiable": "; a solver says that solutions exist",
        "undecided": "; a solver could not decide whether there are solutions",
    }
    return reason + told.get(info.get("solver", ""), "")


def in_blocks(plan: Plan, block_size: int) -> Iterator[Samples]:
    problem, request = plan.parts[0]
    request = replace(request, block=block_size)
    total = 0
    started = time.monotonic()
    blocks = checked.blocks(plan.sampler, problem, request, plan.check)
    for block in _until_interrupted(blocks, request):
        pieces = [_kept(block, k) for k in range(len(request.contexts))]
        kept = min(held for _, held in pieces)
        asked = block_size if plan.n is None else min(block_size, plan.n - total)
        if not total and not kept and asked and not block.interrupted:
            prove_or_explain(plan, problem, request, block)
        packed = _rectangle(plan, [part for part, _ in pieces], kept)
        yield finished(replace(plan, n=asked), packed, kept, [block], started)
        started = time.monotonic()
        total += asked
        if not kept or block.interrupted:
            return


def _until_interrupted(blocks: Iterator[Block], request: Request) -> Iterator[Block]:
    """The blocks; Ctrl-C that hits between two tiles becomes a last block with nothing in it."""
    while True:
        try:
            block = next(blocks, None)
        except KeyboardInterrupt:
            contexts = len(request.contexts)
            nothing = np.zeros((contexts, 0, len(request.columns)), np.uint64)
            block = Block(nothing, np.zeros((contexts, 0), np.uint64), interrupted=True)
        if block is None:
            return
        yield block
