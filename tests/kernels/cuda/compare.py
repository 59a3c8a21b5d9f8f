"""The comparison of the GPU kernels with the NumPy reference, on a GPU or in Numba's simulator."""

from __future__ import annotations

import os

import numpy as np
import pytest

from nelson.budget import Budget
from nelson.chains.problem import prepare
from nelson.chains.request import Request
from nelson.kernels.core.bits import pack, tail_mask, words_for
from nelson.kernels.core.reference import Reference, threshold
from nelson.sampling.device import draw
from nelson.sampling.device.gpu import Gpu

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
WARP = 1 if SIMULATED else 32
#: Marks of every module of tests that runs the kernels.
MARKS = [pytest.mark.filterwarnings("ignore:overflow encountered")]
if not SIMULATED:
    MARKS.append(pytest.mark.gpu)


def by_reference(f, theta, count, method, seed, sweeps, max_rounds, evidence, context):
    problem = prepare(f, evidence)
    thr = np.full(f.n_total, 1 << 31, np.uint32)
    thr[: f.n_vars] = threshold(theta)
    thr[np.abs(problem.fixed) - 1] = 0
    return Reference(problem.program, thr).draw(method, seed, count, max_rounds, sweeps, context)


def check(
    f, theta, count, method, *, seed=3, sweeps=0, max_rounds=1000, evidence=(), context=0, **cut
):
    """Assert that kernel and reference agree: samples, valid lanes, rounds, clauses resampled."""
    problem = prepare(f, evidence)
    request = Request(
        theta=np.asarray(theta, float)[None],
        contexts=np.array([context]),
        count=count,
        block=count,
        seed=seed,
        columns=np.arange(f.n_vars),
        sweeps=sweeps,
        max_rounds=max_rounds,
        budget=Budget(threads=1),
    )
    card = Gpu(0)
    drawn = draw.draw(method, card, problem, request, 0, count, **cut)
    x, valid, rounds, resampled = by_reference(
        f, theta, count, method, seed, sweeps, max_rounds, evidence, context
    )
    words = words_for(count)
    packed = card.get(drawn.packed)[: words * f.n_vars].reshape(words, f.n_vars)
    assert np.array_equal(packed & tail_mask(count)[:, None], pack(x[:, : f.n_vars]))
    assert np.array_equal(card.get(drawn.valid)[:words], pack(valid[:, None])[:, 0])
    assert (drawn.block.rounds, drawn.block.resampled) == (rounds, resampled)
    assert drawn.invalid == int((~valid).sum())


def check_coupled(
    f, theta, count, *, seed=3, max_rounds=256, evidence=(), contexts=(0,), first=0, **cut
):
    """Assert that the kernel and the reference draw the same by coupling from the past.

    -> whether all samples were determined within max_rounds sweeps. theta: one row for each
    context, or one vector.
    """
    problem = prepare(f, evidence).sweeping_all()
    theta = np.broadcast_to(np.asarray(theta, float), (len(contexts), f.n_vars))
    request = Request(
        theta=theta,
        contexts=np.array(contexts),
        count=count,
        block=count,
        seed=seed,
        columns=np.arange(f.n_vars),
        sweeps=0,
        max_rounds=max_rounds,
        budget=Budget(threads=1),
    )
    card, words, before = Gpu(0), words_for(count), 64 * first
    drawn = draw.draw(draw.CFTP, card, problem, request, first, count, **cut)
    packed = card.get(drawn.packed)[: len(contexts) * words * f.n_vars]
    valid = card.get(drawn.valid)[: len(contexts) * words].reshape(len(contexts), words)
    wanted, met = tail_mask(count), True
    for k, context in enumerate(contexts):
        reference = Reference(problem.program, problem.thresholds(theta)[k])
        x, fine, _ = reference.couple(seed, before + count, max_rounds, context)
        met &= bool(fine.all())
        if fine.all():
            own = packed.reshape(len(contexts), words, f.n_vars)[k] & wanted[:, None]
            assert np.array_equal(own, pack(x[before:, : f.n_vars]))
            assert np.array_equal(valid[k], wanted)
            assert 0 < drawn.block.rounds <= max_rounds
    assert (drawn.apart > 0) == drawn.block.stopped == (not met)
    assert drawn.invalid == 0
    return met
