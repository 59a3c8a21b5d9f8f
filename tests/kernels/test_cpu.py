"""The CPU kernel against the NumPy reference, bit for bit: methods, widths, tails, contexts,
threads and blocks.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nelson
from nelson.budget import Budget
from nelson.chains.problem import Problem, prepare
from nelson.chains.request import Request
from nelson.kernels.core import bits, reference
from nelson.kernels.cpu import tiles
from nelson.sampling.registry import get
from tests.problems import cycle_edges, pigeonhole, random_ksat, sink_free

OPTIONS = {"seed": 11, "max_rounds": 30, "sweeps": 2}
METHODS = {"lovasz": reference.LOVASZ, "moser-tardos": reference.MOSER_TARDOS, "prs": reference.PRS}


def mixed(seed: int, n: int, clauses: int, longest: int) -> nelson.Formula:
    """Clauses of every length from 1 on; lengths above the kernel's LONG take another path."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(clauses):
        k = int(random.integers(1, longest + 1))
        v = random.choice(n, size=min(k, n), replace=False) + 1
        rows.append((v * random.choice([-1, 1], len(v))).tolist())
    return nelson.Formula(rows, n_vars=n)


FORMULAS = {
    "3-sat": random_ksat(12, 16, 3, 1),
    "5-sat": random_ksat(40, 44, 5, 2),
    "sink-free": sink_free(cycle_edges(9)),
    "units and long clauses": nelson.Formula(
        [[1], [-1, 2, 3], list(range(3, 40)), [-k for k in range(3, 40)], [5, -6]], n_vars=44
    ),
    "unsatisfiable": pigeonhole(2),
    "no clause": nelson.Formula([], n_vars=5),
}


def theta_for(formula: nelson.Formula, seed: int = 5) -> np.ndarray:
    theta = np.random.default_rng(seed).normal(size=formula.n_vars)
    theta[::4] = 0.0  # p = 1/2 has one digit
    return theta


@cache
def expected_of(name: str, method: str, count: int):
    """The reference draws once for all widths of a row."""
    problem = prepare(FORMULAS[name])
    return expected(problem, theta_for(problem.formula), method, count=count, **OPTIONS)


def expected(problem: Problem, theta: np.ndarray, method: str, **options):
    thr = np.full(problem.formula.n_total, 1 << 31, np.uint32)
    thr[: problem.n] = reference.threshold(theta)
    return reference.Reference(problem.program, thr).draw(METHODS[method], **options)


def drawn(problem: Problem, theta, method: str, seed, count, max_rounds, sweeps, **options):
    theta = np.atleast_2d(theta)
    defaults = {"block": count, "contexts": np.arange(len(theta))}
    budget = Budget(options.pop("deadline", None), threads=options.pop("threads", 1))
    request = Request(
        theta=theta,
        count=count,
        seed=seed,
        columns=np.arange(problem.n),
        sweeps=sweeps,
        max_rounds=max_rounds,
        budget=budget,
        **{**defaults, **options},
    )
    return list(get(method).blocks(problem, request))


@pytest.mark.slow
@pytest.mark.parametrize("width", tiles.WIDTHS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FORMULAS)
def test_cpu_equals_reference(name, method, width):
    problem = prepare(FORMULAS[name])
    theta = theta_for(problem.formula)
    for count in (1, 63, 64, 130, 64 * width + 17):
        x, valid, rounds, resampled = expected_of(name, method, count)
        (block,) = drawn(problem, theta, method, width=width, count=count, **OPTIONS)
        assert np.array_equal(bits.unpack(block.packed[0], count), x[:, : problem.n])
        assert np.array_equal(bits.unpack(block.filled[0][:, None], count)[:, 0], valid)
        assert (block.rounds, block.resampled) == (rounds, resampled)


def test_the_comparison_would_notice_one_wrong_bit():
    problem = prepare(FORMULAS["5-sat"])
    theta = theta_for(problem.formula)
    options = {**OPTIONS, "count": 130}
    x = expected(problem, theta, "lovasz", **options)[0]
    for change in ({"seed": 12}, {"sweeps": 1}, {"max_rounds": 0}):
        (block,) = drawn(problem, theta, "lovasz", **{**options, **change})
        assert not np.array_equal(bits.unpack(block.packed[0], 130), x)
    (block,) = drawn(problem, theta + 1e-6, "lovasz", **options)
    moved = np.flatnonzero(reference.threshold(theta) != reference.threshold(theta + 1e-6))
    assert len(moved) > 0  # the thresholds differ; the samples need not


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 30),
    clauses=st.integers(0, 40),
    longest=st.integers(1, 24),
    method=st.sampled_from(sorted(METHODS)),
    count=st.integers(1, 300),
)
def test_cpu_equals_reference_on_any_formula(seed, n, clauses, longest, method, count):
    formula = mixed(seed, n, clauses, longest)
    try:
        problem = prepare(formula)
    except nelson.Unsatisfiable:
        return
    theta = 3 * theta_for(formula, seed)
    options = {"seed": seed, "count": count, "max_rounds": 12, "sweeps": 1}
    x, valid, rounds, resampled = expected(problem, theta, method, **options)
    (block,) = drawn(problem, theta, method, width=4, **options)
    assert np.array_equal(bits.unpack(block.packed[0], count), x[:, :n])
    assert np.array_equal(bits.unpack(block.filled[0][:, None], count)[:, 0], valid)
    assert (block.rounds, block.resampled) == (rounds, resampled)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("block", [64, 192, 1024, 4096])
def test_batches_and_threads_change_nothing(threads, block):
    problem = prepare(FORMULAS["5-sat"])
    theta = theta_for(problem.formula)
    options = {"seed": 3, "count": 3000, "max_rounds": 100, "sweeps": 1}
    (whole,) = drawn(problem, theta, "lovasz", **options)
    parts = drawn(problem, theta, "lovasz", **options, block=block, threads=threads, deadline=1e18)
    joined, count = bits.concatenate(
        [bits.compact(part.packed[0], part.filled[0]) for part in parts], problem.n
    )
    assert count == 3000
    tail = bits.tail_mask(3000)[:, None]
    assert np.array_equal(joined & tail, whole.packed[0] & tail)


@pytest.mark.slow
def test_a_context_is_what_it_is_alone():
    problem = prepare(FORMULAS["5-sat"])
    rows = np.random.default_rng(0).normal(size=(5, problem.n))
    options = {"seed": 3, "count": 100, "max_rounds": 100, "sweeps": 1}
    (together,) = drawn(problem, rows, "lovasz", **options)
    for k, row in enumerate(rows):
        (alone,) = drawn(problem, row, "lovasz", **options, contexts=np.array([k]))
        assert np.array_equal(alone.packed[0], together.packed[k])
        x = expected(problem, row, "lovasz", **options, context=k)[0]
        assert np.array_equal(bits.unpack(alone.packed[0], 100), x)


@pytest.mark.slow
def test_work_space_is_clean_between_tiles():
    problem = prepare(random_ksat(30, 120, 3, 4))  # too many clauses: lanes run out of rounds
    theta = theta_for(problem.formula)
    for method in METHODS:
        options = {"seed": 3, "max_rounds": 7, "sweeps": 1}
        many = drawn(problem, theta, method, count=640, width=1, **options)[0]
        x = expected(problem, theta, method, count=640, **options)[0]
        assert np.array_equal(bits.unpack(many.packed[0], 640), x)
