"""The order in which sweeps visit the colour classes: random, and a function of (seed, context)
alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nelson.budget import Budget
from nelson.chains import engine
from nelson.chains.chain import Chains, resumed
from nelson.chains.problem import Problem, prepare
from nelson.chains.request import Request
from nelson.formula import Formula
from nelson.kernels.core import reference, rng
from nelson.kernels.core.bits import unpack
from tests.problems import random_ksat, weights
from tests.structured.graphs import grid

SIDE = 8
#: +1 on one sublattice of the grid, -1 on the other.
STAGGERED = 1 - 2 * (np.add(*np.divmod(np.arange(SIDE * SIDE), SIDE)) % 2)
THETA = np.full(SIDE * SIDE, 3.0)
NONE = np.zeros((1, SIDE * SIDE), bool)
CONTEXT = 4


def hard_core() -> Problem:
    """Independent sets of a grid."""
    edges = grid(SIDE, SIDE)
    return prepare(Formula([[-u - 1, -v - 1] for u, v in edges], n_vars=SIDE * SIDE))


def request(theta: np.ndarray, count: int, seed: int = 3, sweeps: int = 0) -> Request:
    """`count` samples of each row of theta, all columns; the first row is context CONTEXT."""
    rows = np.atleast_2d(theta)
    return Request(
        theta=rows,
        contexts=CONTEXT + np.arange(len(rows)),
        count=count,
        block=count,
        seed=seed,
        columns=np.arange(rows.shape[1]),
        sweeps=sweeps,
        max_rounds=1000,
        budget=Budget(threads=1),
    )


def orders(seeds=range(1 << 13), contexts=(0,), classes: int = 5):
    """(first, step) of many seeds and contexts."""
    with np.errstate(over="ignore"):
        pairs = [
            rng.class_order(rng.spread_seed(seed), np.uint64(context), classes)
            for seed in seeds
            for context in contexts
        ]
    return np.array(pairs).T


def uneven(first: np.ndarray, step: np.ndarray, classes: int = 5) -> bool:
    """Is a start and a direction more or less frequent than 5 sigma allow?

    With 10 starts and directions: false alarm 6e-6.
    """
    assert np.isin(step, [1, classes - 1]).all()
    seen = np.bincount(2 * first + (step == 1), minlength=2 * classes)
    p = 1 / (2 * classes)
    return bool((np.abs(seen - len(first) * p) > 5 * np.sqrt(len(first) * p * (1 - p))).any())


@pytest.mark.slow
def test_every_start_and_direction_is_equally_likely():
    """Over seeds, over contexts, and from one of them to the next. 5 tests: false alarm 3e-5."""
    for first, step in (orders(), orders([1], range(1 << 13))):
        assert not uneven(first, step)
        assert not uneven((first[1:] - first[:-1]) % 5, step[1:])
    assert not uneven(first[1:], step[:-1])
    # Twins: always the same order; always the same direction.
    assert uneven(np.zeros_like(first), np.ones_like(step))
    assert uneven(first, np.ones_like(step))


@pytest.mark.parametrize("classes", [1, 2, 3, 1000])
def test_a_walk_visits_every_class_once(classes):
    for first, step in zip(*orders(range(50), classes=classes), strict=True):
        visited = (first + np.arange(classes) * step) % classes
        assert np.array_equal(np.sort(visited), np.arange(classes))


def test_no_draw_uses_the_counter_of_the_order():
    """Numbers of variables are int32; ORDER is above all of them and leaves the round untouched."""
    assert prepare(random_ksat(9, 5, 3, 1)).program.name.dtype == np.int32
    assert np.iinfo(np.int32).max < rng.ORDER < 1 << 32


def test_the_order_differs_between_seeds_and_contexts():
    problem = prepare(random_ksat(40, 44, 5, 2))
    plain = reference.Reference(problem.program, reference.threshold(np.zeros(40)))
    for key in (
        [(seed, 0) for seed in range(20)],
        [(1, context) for context in range(20)],
    ):
        seen = {tuple(plain.sweep_order(*k).tolist()) for k in key}
        assert len(seen) > 5  # of 2 * classes > 10: by chance fewer in one case of a million
        assert all(sorted(order) == sorted(problem.program.order.tolist()) for order in seen)


def swept(plain: reference.Reference, order: np.ndarray, seed: int, count: int) -> np.ndarray:
    """One sweep in NumPy from the state of all zeros, in that order of the variables."""
    x, words = np.zeros((count, plain.program.n), bool), np.arange(-(-count // 64))
    for v in order:
        name, thr = plain.program.name[[v]], plain.thr[[v]]
        drawn = reference.bernoulli(seed, CONTEXT, words, name, rng.SWEEP_ROUND, thr)
        x[:, v] = plain.heat_bath(x, v, reference.lanes(drawn, count)[:, 0])
    return x[:, plain.program.place]


@pytest.mark.slow
def test_a_fixed_order_would_be_seen():
    """The kernel's first sweep from zeros is that of the reference; in a fixed order it is not."""
    problem = hard_core()
    plain = reference.Reference(problem.program, reference.threshold(THETA))
    wrong = 0
    for seed in range(3):
        chains = Chains.given(problem, request(THETA, 130, seed), [NONE])
        chains.sweep_to(1)
        x = unpack(chains.words[0], 130)
        order = plain.sweep_order(seed, CONTEXT)
        assert np.array_equal(x, swept(plain, order, seed, 130))
        wrong += not np.array_equal(x, swept(plain, problem.program.order, seed, 130))
    assert wrong


@pytest.mark.parametrize("start", ["empty", "resampled"])
def test_the_first_sweep_fills_either_sublattice(start):
    """Independent sets of a grid at theta = 3: the classes that come first take the room.

    The grid has four classes, so eight orders; four of them fill one sublattice, four the other
    one. All 40 seeds choose the same side with probability 2^-39. In the fixed order, the twin,
    they always do.
    """
    problem = hard_core()
    assert problem.program.n_classes == 4

    def side(seed: int) -> float:
        asked = request(THETA, 640, seed)
        chains = Chains.given(problem, asked, [NONE])
        if start == "resampled":
            chains = Chains.resampled(problem, asked, THETA[None])
        chains.sweep_to(1)
        return float((unpack(chains.words[0], 640) @ STAGGERED).mean())

    sides = [side(seed) for seed in range(40)]
    assert min(sides) < 0 < max(sides)


@pytest.mark.slow
def test_in_a_fixed_order_every_seed_fills_the_same_sublattice():
    """The twin: what the test above would see without random orders."""
    problem = hard_core()
    plain = reference.Reference(problem.program, reference.threshold(THETA))
    order = problem.program.order
    assert min((swept(plain, order, seed, 64) @ STAGGERED).mean() for seed in range(12)) > 5


def test_widths_batches_and_interruptions_keep_the_order():
    """Words of one tile, words of many tiles, and 1 + 2 + 4 sweeps: the same bits as 7 at once."""
    f = random_ksat(60, 90, 5, seed=1)
    problem, theta, count = prepare(f), np.stack([weights(f), -weights(f)]), 64 * 20 + 7
    asked = request(theta, count, sweeps=7)
    whole = next(engine.blocks(reference.LOVASZ, problem, asked))
    for width in (1, 4, 16):
        asked = replace(asked, width=width, budget=Budget(threads=2))
        again = next(engine.blocks(reference.LOVASZ, problem, asked))
        assert np.array_equal(again.packed, whole.packed)
        start = next(engine.blocks(reference.LOVASZ, problem, replace(asked, sweeps=0))).packed
        words = start
        for done, more in ((0, 1), (1, 2), (3, 4)):
            words = resumed(problem, replace(asked, sweeps=more), words, done, 0, count).packed
        assert np.array_equal(words, whole.packed)
        later = resumed(problem, asked, start[:, 3:], 0, 3, count - 64 * 3)  # from word 3 on
        assert np.array_equal(later.packed, whole.packed[:, 3:])
