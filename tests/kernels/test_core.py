"""Thresholds, Bernoulli draws, random words and packed samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nelson.kernels.core import bits, reference, rng, vector


def test_threshold_never_rules_a_value_out():
    theta = np.array([-1e300, -800.0, -50.0, -23.0, 0.0, 23.0, 50.0, 800.0, 1e300])
    thr = reference.threshold(theta)
    assert thr.dtype == np.uint32
    assert thr[0] == 1 and thr[-1] == 2**32 - 1 and thr[4] == 2**31
    assert (np.diff(thr.astype(np.int64)) >= 0).all()


def test_bernoulli_has_the_right_mean():
    # 10 probabilities, 5 sigma each: false alarm below 1e-5 in all.
    words = np.arange(20_000)
    thr = np.array(
        [1 << 31, 1 << 30, 3 << 30, 12345678, 2**32 - 9876543, 1, 2**32 - 1, 7 << 28, 1 << 20, 5]
    )
    thr = thr.astype(np.uint32)
    drawn = reference.bernoulli(99, 0, words, np.arange(len(thr)), 0, thr)
    total = 64 * len(words)
    p = thr / 2.0**32
    ones = np.bitwise_count(drawn).sum(0, dtype=np.int64)
    sigma = np.sqrt(total * p * (1 - p))
    assert (np.abs(ones - total * p) <= 5 * sigma + 1).all()
    shifted = np.abs(ones - total * (p + 0.01)) > 5 * sigma + 1
    assert shifted[:5].all()  # the test would see a shift of 0.01


def test_random_words_are_balanced_and_uncorrelated():
    """Every bit is fair; neighbouring variables, rounds, bits, words, contexts and seeds
    are uncorrelated.
    """
    count = 1 << 16
    word = np.arange(count, dtype=np.uint64)

    def random(seed=1, context=0, words=word, variable=3, round=2, bit=1):
        with np.errstate(over="ignore"):
            key0, key1 = rng.keys(rng.spread_seed(seed), np.uint64(context), words)
            return rng.scramble(key0 + rng.counter(round, variable, bit), key1)

    base = random()
    others = [
        random(seed=2),
        random(context=1),
        random(words=word + np.uint64(1)),
        random(variable=4),
        random(round=3),
        random(bit=2),
    ]
    sigma = np.sqrt(count) / 2
    shifts = np.arange(64, dtype=np.uint64)
    for a in [base, *(base ^ other for other in others)]:
        ones = ((a[:, None] >> shifts) & np.uint64(1)).sum(0, dtype=np.int64)
        # 7 * 64 tests at 5.5 sigma: false alarm 2e-5
        assert np.abs(ones - count / 2).max() < 5.5 * sigma
    a = base ^ base
    assert np.bitwise_count(a).sum() == 0  # the test would see a perfect correlation


@given(st.integers(0, 200), st.integers(0, 9), st.integers(0, 2**32))
def test_pack_and_unpack(count, n, seed):
    x = np.random.default_rng(seed).random((count, n)) < 0.5
    packed = bits.pack(x)
    assert packed.shape == (bits.words_for(count), n)
    assert np.array_equal(bits.unpack(packed, count), x)
    assert np.array_equal(reference.lanes(packed, count), x)
    keep = np.random.default_rng(seed + 1).random(count) < 0.7
    kept, held = bits.compact(packed, bits.pack(keep[:, None])[:, 0])
    assert held == keep.sum() and np.array_equal(bits.unpack(kept, held), x[keep])
    half = count // 2
    joined, total = bits.concatenate(
        [(bits.pack(x[:half]), half), (bits.pack(x[half:]), count - half)], n
    )
    assert total == count and np.array_equal(bits.unpack(joined, total), x)


GOLDEN = 0x9E3779B97F4A7C15


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1, 2**64, 2**127 + 5, -1, -(2**70)])
def test_a_seed_is_spread_by_the_mixer_of_the_random_words(seed):
    low, high, golden = (np.array([k & 2**64 - 1], np.uint64) for k in (seed, seed >> 64, GOLDEN))
    key = rng.scramble(high + golden + golden, np.uint64(0))
    assert rng.spread_seed(seed) == rng.scramble(low + golden, key)[0]


@pytest.mark.parametrize(("words", "count", "first"), [
    ([0], 0, True), ([1], 1, True), ([2**64 - 1], 64, True), ([6], 2, False),
    ([2**64 - 1, 3], 66, True), ([2**64 - 1, 2], 65, False), ([1, 1], 2, False), ([0, 0], 0, True),
])  # fmt: skip
def test_lanes_that_are_set(words, count, first):
    assert bits.lanes_set(np.array(words, np.uint64)) == (count, first)


def test_arrays_of_one_block_are_zero_aligned_and_apart():
    sizes = (3, np.uint64), (70, np.uint8), (0, np.int32), (5, np.int64), (17, np.int32)
    arrays = vector.aligned_arrays(*sizes)
    assert [(len(a), a.dtype.type) for a in arrays] == list(sizes)
    for number, array in enumerate(arrays):
        assert array.ctypes.data % 64 == 0 and not array.any()
        array[:] = number + 1
    assert [set(a.tolist()) for a in arrays] == [{1}, {2}, set(), {4}, {5}]
