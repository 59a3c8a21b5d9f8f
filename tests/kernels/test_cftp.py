"""Coupling from the past: the CPU kernel against the NumPy reference, bit for bit, whatever the
width, the number of threads, the blocks and the length of the first run.
"""

from __future__ import annotations

import threading
import time
from functools import cache

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.chains.problem import Problem, prepare
from nelson.chains.request import Request
from nelson.kernels.core import bits, reference
from nelson.kernels.core.threads import BEGIN_NO_MORE, END_AT_ONCE
from nelson.kernels.cpu import cftp, tiles
from nelson.sampling.methods.cftp import blocks
from tests.problems import random_ksat

FORMULAS = {
    "3-sat": random_ksat(12, 8, 3, 1),
    "5-sat": random_ksat(40, 24, 5, 2),
    "extremal and free": nelson.Formula([[1, 2], [-1, 3]], n_vars=5),
    "units and long clauses": nelson.Formula(
        [[1], [-1, 2, 3], list(range(3, 40)), [-k for k in range(20, 44)], [5, -6]], n_vars=44
    ),
    "no clause": nelson.Formula([], n_vars=5),
}
SEED = 11


def theta_for(formula: nelson.Formula, seed: int = 5) -> np.ndarray:
    theta = np.random.default_rng(seed).normal(size=formula.n_vars)
    theta[::4] = 0.0  # p = 1/2 has one digit
    return theta


def expected(problem: Problem, theta: np.ndarray, count: int, **options):
    thr = problem.thresholds(theta[None])[0]
    plain = reference.Reference(problem.sweeping_all().program, thr)
    return plain.couple(SEED, count, options.pop("max_sweeps", 1024), **options)


@cache
def expected_of(name: str, count: int):
    problem = prepare(FORMULAS[name])
    return expected(problem, theta_for(problem.formula), count)


def request_for(problem: Problem, theta, count: int, **options) -> Request:
    theta = np.atleast_2d(theta)
    defaults = {"block": count, "contexts": np.arange(len(theta)), "max_rounds": 1000}
    budget = Budget(options.pop("deadline", None), threads=options.pop("threads", 1))
    columns = np.arange(problem.n)
    given = {**defaults, **options}
    return Request(
        theta=theta, count=count, seed=SEED, columns=columns, sweeps=0, budget=budget, **given
    )


def drawn(problem: Problem, theta, count: int, first: int | None = None, **options):
    return list(blocks(problem, request_for(problem, theta, count, **options), first))


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 4, 16])  # those in use; each takes seconds to compile
@pytest.mark.parametrize("name", FORMULAS)
def test_kernel_equals_reference(name, width):
    problem = prepare(FORMULAS[name])
    theta = theta_for(problem.formula)
    for count in (1, 63, 64, 130, 64 * width + 17):
        x, valid, _ = expected_of(name, count)
        assert valid.all()
        (block,) = drawn(problem, theta, count, width=width)
        assert np.array_equal(bits.unpack(block.packed[0], count), x[:, : problem.n])
        assert np.array_equal(block.filled[0], bits.tail_mask(count))


@pytest.mark.slow
def test_the_comparison_would_notice_one_wrong_bit():
    problem = prepare(FORMULAS["5-sat"])
    theta = theta_for(problem.formula)
    x = expected_of("5-sat", 130)[0]
    (block,) = drawn(problem, theta + 0.01, 130)
    assert 0 < (bits.unpack(block.packed[0], 130) != x).mean() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 3, 16, 64, 1000])
def test_the_first_run_changes_nothing(first):
    """Nor does it in the reference: a lane that has met stays what it is in every longer run."""
    problem = prepare(FORMULAS["3-sat"])
    theta = theta_for(problem.formula)
    x, valid, length = expected(problem, theta, 200, first=min(first, 64))
    assert valid.all() and length >= min(first, 64)
    assert np.array_equal(x, expected(problem, theta, 200)[0])
    (block,) = drawn(problem, theta, 200, first, width=1)
    assert np.array_equal(bits.unpack(block.packed[0], 200), x)
    assert block.rounds >= first


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("block", [64, 192, 1024])
def test_batches_and_threads_change_nothing(threads, block):
    problem = prepare(FORMULAS["5-sat"])
    theta = theta_for(problem.formula)
    (whole,) = drawn(problem, theta, 3000)
    parts = drawn(problem, theta, 3000, block=block, threads=threads, deadline=1e18)
    joined = [bits.compact(part.packed[0], part.filled[0]) for part in parts]
    packed, count = bits.concatenate(joined, problem.n)
    tail = bits.tail_mask(3000)[:, None]
    assert count == 3000 and np.array_equal(packed & tail, whole.packed[0] & tail)


@pytest.mark.slow
def test_a_context_is_what_it_is_alone():
    problem = prepare(FORMULAS["5-sat"])
    rows = np.random.default_rng(0).normal(size=(3, problem.n))
    (together,) = drawn(problem, rows, 100)
    wanted = bits.tail_mask(100)[:, None]  # what the other lanes hold depends on the first run
    for k, row in enumerate(rows):
        (alone,) = drawn(problem, row, 100, contexts=np.array([k]))
        assert np.array_equal(alone.packed[0] & wanted, together.packed[k] & wanted)
        x = expected(problem, row, 100, context=k)[0]
        assert np.array_equal(bits.unpack(alone.packed[0], 100), x)


def test_fewer_samples_are_drawn_as_whole_words():
    """How many lanes met bounds what a draw that never ends may cost, so sample 0 takes the sweeps
    of its word; the other lanes are not returned."""
    problem = prepare(FORMULAS["3-sat"])
    theta = theta_for(problem.formula)
    one, word, tile = (drawn(problem, theta, count, 1)[0] for count in (1, 64, 1024))
    assert one.rounds == word.rounds <= tile.rounds
    rounds = one.rounds
    assert expected(problem, theta, 64, first=rounds)[2] == rounds  # all 64 lanes meet in it
    assert expected(problem, theta, 64, first=rounds // 2)[2] > rounds // 2
    assert np.array_equal(one.filled[0], bits.tail_mask(1))
    assert np.array_equal(bits.unpack(one.packed[0], 1), expected(problem, theta, 1)[0])


@pytest.mark.slow
@pytest.mark.parametrize("first", [32, 34, 48])
def test_work_that_long_runs_save_and_late_words_change_no_sample(first):
    """Random 5-SAT whose chains meet after about 30 sweeps: in tiles of 16 words some are late. The
    twin: the samples of another seed's words would be seen.
    """
    formula = random_ksat(300, 300, 5, 4)
    problem = prepare(formula)
    theta = np.random.default_rng(8).normal(size=300)
    (short,) = drawn(problem, theta, 9 * 1024, 31, width=16)  # runs of 31 sweeps save nothing
    (block,) = drawn(problem, theta, 9 * 1024, first, width=16)
    assert block.filled.all() and np.array_equal(block.packed, short.packed)
    assert not np.array_equal(block.packed[0, :16], block.packed[0, 16:32])
    alone = [drawn(problem, theta, 64 * k, width=1)[0].packed[0, -1] for k in (1, 100, 144)]
    assert np.array_equal(alone, block.packed[0, [0, 99, 143]])


# --- what ends a draw ---------------------------------------------------------------------------

#: Two variables of a parity never change one at a time, so the chains of all starts never meet.
PARITY = nelson.Formula([[1, 2], [-1, -2], [3, 4, 5]], n_vars=5)


def test_a_tile_that_does_not_meet_yields_nothing():
    problem = prepare(PARITY)
    for max_rounds, last in ((1, 1), (5, 8), (1000, 1024)):
        (block,) = drawn(problem, np.zeros(5), 100, max_rounds=max_rounds)
        assert block.stopped and not block.filled.any() and block.rounds == last
        assert f"chains of 128 samples did not meet after {last} sweeps" in block.info["ended"]


def test_one_slow_lane_takes_its_whole_block_and_all_later_ones():
    """The lanes that met within the budget are not returned either."""
    problem = prepare(FORMULAS["3-sat"])
    theta = theta_for(problem.formula)
    enough = drawn(problem, theta, 1024, 1, block=64, width=1)
    lengths = [block.rounds for block in enough]
    budget = max(lengths) // 2
    slow = next(k for k, length in enumerate(lengths) if length > budget)
    few = drawn(problem, theta, 1024, 1, block=64, width=1, max_rounds=budget)
    assert len(few) == slow + 1 and few[-1].stopped and not few[-1].filled.any()
    for block, same in zip(few[:-1], enough, strict=False):
        assert np.array_equal(block.packed, same.packed)


def begun(max_rounds: int, stop: np.ndarray) -> tuple[threading.Thread, tiles.Result]:
    """A thread that has begun a tile of 64 lanes which never meet."""
    problem = prepare(PARITY).sweeping_all()
    law = problem.law(np.zeros((1, 5)))
    zero, columns = np.zeros(1, np.int64), np.arange(5, dtype=np.int32)
    job = tiles.Job(0, max_rounds, 0, np.uint64(1), zero, zero, zero, zero + 64, columns, 5)
    words = np.zeros((1, 5), np.uint64), np.zeros(1, np.uint64)
    result = tiles.Result(*words, zero, zero + tiles.STOPPED, zero + 0, np.zeros(5, np.uint8))
    space = cftp.scratch(problem.program, 1)
    space.bounds[:] = 0
    cell = (1, problem.program, law, job, result, space, stop, (0, 1))
    thread = threading.Thread(target=cftp.run, args=(cftp.visits(problem.program), *cell))
    thread.start()
    while stop[0] == 0 and thread.is_alive() and not space.bounds.any():
        time.sleep(0.001)
    return thread, result


def test_a_tile_that_has_begun_is_finished_after_a_deadline_but_not_after_ctrl_c():
    """Its time depends on its samples, so the clock must not choose. 2^26 sweeps take minutes."""
    stop = np.zeros(1, np.int32)
    thread, result = begun(1 << 12, stop)
    stop[0] = BEGIN_NO_MORE
    thread.join()
    assert result.rounds[0] == 1 << 12 and result.resampled[0] == 64
    stop = np.zeros(1, np.int32)
    thread, result = begun(1 << 26, stop)
    stop[0] = END_AT_ONCE
    thread.join(60)
    assert not thread.is_alive() and result.rounds[0] == tiles.STOPPED
    assert result.resampled[0] == 64  # so the block is given up
    thread, result = begun(1 << 12, np.full(1, BEGIN_NO_MORE, np.int32))
    thread.join()
    assert result.rounds[0] == tiles.STOPPED
