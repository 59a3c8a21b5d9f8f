"""A deadline cuts a draw, and what was finished before it is kept: by every method, for several
contexts, and where components have methods of their own.

No test waits for a clock. `Clock` is read instead of time.monotonic, and each piece of a draw moves
it on by one second.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import nelson
from nelson import budget
from nelson.budget import Budget
from nelson.chains import engine
from nelson.chains import request as request_module
from nelson.chains.block import Block
from nelson.chains.problem import prepare
from nelson.chains.request import PieceSizes, Request
from nelson.exact.circuit.draw import DrawnBlock, Draws
from nelson.formula import Formula
from nelson.kernels.core.bits import compact, unpack, words_for
from nelson.sampling.auto import draw as auto_draw
from nelson.sampling.collect import valid_blocks, valid_lanes
from tests.problems import random_ksat
from tests.sampling.auto.decisions import decided, mixed, xor3
from tests.sampling.auto.decisions import joined as side_by_side

#: Samples asked for, and seconds until the deadline: each is far more than the other allows.
MANY, SECONDS = 100_000, 12.5


class Clock:
    """Stands for the module `time`. Real time never reaches its deadlines."""

    def __init__(self) -> None:
        self.now = time.monotonic() + 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (request_module, engine, budget):
        monkeypatch.setattr(module, "time", clock)
    piece = PieceSizes.piece

    def slow(sizes: PieceSizes, number: int, left: int) -> int:
        if number != sizes.number:
            clock.now += 1.0
        return piece(sizes, number, left)

    monkeypatch.setattr(PieceSizes, "piece", slow)
    block = Draws.block

    def cut(draws: Draws, word: int, count: int, deadline: float | None = None) -> DrawnBlock:
        drawn = block(draws, word, count)
        if deadline is not None and clock.now >= deadline:
            drawn = replace(drawn, valid=np.zeros_like(drawn.valid), stopped=True)
        return drawn

    monkeypatch.setattr(Draws, "block", cut)
    return clock


def asked(formula: Formula, contexts: int, deadline: float | None, count: int = MANY) -> Request:
    every = np.arange(formula.n_total)
    theta = np.random.default_rng(1).normal(size=(contexts, formula.n_vars))
    numbers = np.arange(contexts)
    return Request(theta, numbers, count, count, 7, every, 3, 1000, Budget(deadline, threads=1))


def finished(blocks: list[Block]) -> list[np.ndarray]:
    """The samples of each context."""
    for block in blocks:
        block.filled &= block.filled if block.valid is None else block.valid
    rows = range(len(blocks[0].filled))
    return [np.concatenate([unpack(*valid_lanes(block, c)) for block in blocks]) for c in rows]


FORMULAS = {
    "lovasz": random_ksat(12, 12, 5, seed=3),  # and sweeps
    "gibbs": random_ksat(12, 12, 5, seed=3),  # its invalid samples are dropped
    "rejection": random_ksat(12, 12, 5, seed=3),
    "circuit": random_ksat(12, 12, 5, seed=3),
    "enumerate": random_ksat(12, 12, 5, seed=3),
}


@pytest.mark.parametrize(
    "method", [pytest.param(m, marks=[pytest.mark.process] * (m == "circuit")) for m in FORMULAS]
)
def test_a_deadline_finds_all_contexts_equally_far(method, clock):
    """Before, the first contexts had all of their samples and the last had none: none was left."""
    formula = FORMULAS[method]
    source = nelson.sampling.registry.get(method)
    if nelson.sampling.registry.missing_modules(source):
        pytest.skip("not installed")

    def samples(request: Request) -> list[np.ndarray]:
        return finished(list(valid_blocks(source, prepare(formula), request, check=True)))

    cut = samples(asked(formula, 3, clock.now + SECONDS))
    # Pieces of 64, 256, 1024 and more; those that begin after the deadline are lost.
    held = min(map(len, cut))
    assert 1000 < held < MANY and max(map(len, cut)) < held + 64
    for rows, same in zip(cut, samples(asked(formula, 3, None, held)), strict=True):
        assert np.array_equal(rows[:held], same)


def composites() -> dict[str, tuple[Formula, tuple[str, ...]]]:
    """Formulas, and the steps of `auto` that are left out."""
    gates = [[-1, 2], [-1, 3], [1, -2, -3], [4, -5], [-4, 5]]
    return {
        "enumerate + lovasz": (mixed(), ()),
        "gates and copies": (Formula([*gates, [2, 4, 6], [-3, 6, 7]], n_vars=9), ()),
        "cdcl + lovasz": (side_by_side(xor3(), mixed()), ("enumerate", "circuit", "resampling")),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", composites())
@pytest.mark.parametrize("contexts", [1, 2])
def test_a_deadline_finds_all_groups_equally_far(name, contexts, clock):
    formula, skip = composites()[name]
    request = asked(formula, contexts, clock.now + SECONDS)
    decision = decided(formula, *skip, theta=request.theta)
    assert decision.reduced is not None
    every = replace(request, budget=Budget(threads=1))
    decision = auto_draw.settled(decision, every)  # without a clock that could change the starts
    problem = prepare(formula)
    cut = finished(list(auto_draw.blocks(decision, problem, request)))
    held = min(len(rows) for rows in cut)
    assert 1000 < held < MANY
    whole = finished(list(auto_draw.blocks(decision, problem, replace(every, block=6400))))
    assert all(np.array_equal(a[:held], b[:held]) for a, b in zip(cut, whole, strict=True))


def test_a_group_that_ends_in_the_middle_of_a_piece_loses_that_piece_only(monkeypatch):
    """The twin of the tests above, in which the last group stops, as a slow one does."""
    formula = mixed()
    request = asked(formula, 1, time.monotonic() + 1e6)
    decision = decided(formula, theta=request.theta)
    last = decision.groups[-1]
    step, source = type(last.step), type(last.step).blocks

    def ends(self, group, asked):
        for k, block in enumerate(source(self, group, asked)):
            if group is last and k == 3:
                words = block.filled.shape[1]
                block.filled[:, words // 2 :], block.stopped = 0, True
            yield block

    monkeypatch.setattr(step, "blocks", ends)
    rows = finished(list(auto_draw.blocks(decision, prepare(formula), request)))[0]
    monkeypatch.setattr(step, "blocks", source)
    whole = next(
        auto_draw.blocks(decision, prepare(formula), replace(request, budget=Budget(threads=1)))
    )
    assert 64 + 256 + 1024 <= len(rows) < MANY
    assert np.array_equal(rows, unpack(whole.packed[0], len(rows)))


def test_a_request_that_no_memory_holds_gives_what_the_time_allows(clock, monkeypatch):
    """With room for 2,048 samples at once, pieces are allocated one by one."""
    formula = mixed()
    monkeypatch.setattr(request_module, "_ROOM", 2048 // 8 * formula.n_total)
    request = asked(formula, 1, clock.now + SECONDS)
    decision = decided(formula, theta=request.theta)
    cut = finished(list(auto_draw.blocks(decision, prepare(formula), request)))[0]
    every = replace(request, budget=Budget(threads=1), count=len(cut), block=len(cut))
    same = finished(list(auto_draw.blocks(decision, prepare(formula), every)))[0]
    assert 1000 < len(cut) < MANY and np.array_equal(cut, same)
    plain = random_ksat(12, 12, 5, seed=3)
    source = nelson.sampling.registry.get("lovasz")
    rows = finished(list(source.blocks(prepare(plain), asked(plain, 1, clock.now + SECONDS))))[0]
    assert 1000 < len(rows) < MANY


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("second", [1e-9, 1e-4, 3e-2, 0.2])
def test_pieces_use_the_time(second, threads, monkeypatch):
    """A tile for each thread takes `second` seconds and less than a tile at least half of that.

    Pieces then draw half as many samples as one draw without a deadline would, or more.
    """
    clock = Clock()
    monkeypatch.setattr(request_module, "time", clock)
    monkeypatch.setattr(budget, "time", clock)
    deadline, most, tile = clock.now + 10.0, 1 << 16, 1024 * threads
    request = replace(
        asked(mixed(), 1, deadline, 1 << 30),
        sizes=PieceSizes(Budget(deadline, threads=threads), most),
    )
    done = 0
    for _, size in request.pieces():
        assert size % 64 == 0 and 64 <= size <= most
        clock.now += second * max(0.5, size / tile)
        if clock.now > deadline:
            break
        done += size
    possible = min(1 << 30, 10.0 / second * tile)
    assert done >= 0.5 * possible


def test_a_block_that_was_cut_is_not_copied():
    packed = np.random.default_rng(0).integers(0, 1 << 62, (1, 100, 5)).astype(np.uint64)
    valid = np.zeros((1, 100), np.uint64)
    valid[0, :7], valid[0, 7] = ~np.uint64(0), 0b111
    same = compact(packed[0], valid[0])
    rows, held = valid_lanes(Block(packed, valid), 0)
    assert held == 7 * 64 + 3 == same[1] and len(rows) == words_for(held)
    assert np.array_equal(rows, same[0]) and rows.base is not None
    assert np.shares_memory(rows, packed)
