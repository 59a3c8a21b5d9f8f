"""The statistics of a diagnosis, on states with a known law: each accepts what is right, and each
has twins that it rejects.

Seeds are fixed; a right answer is rejected with probability 1e-3 in each comparison.
"""

from __future__ import annotations

import numpy as np
import pytest

from nelson.chains.diagnosis.compare import ChainGroup, agreement, memory
from nelson.chains.diagnosis.features import Features, principal
from nelson.kernels.core.bits import pack

N, LANES = 40, 4096
RNG = np.random.default_rng(1)
P = RNG.uniform(0.01, 0.99, N)


def features() -> Features:
    literals = np.arange(1, N + 1)
    return Features.among(np.arange(N), literals, np.arange(0, N + 1, 4), np.zeros(N))


def fresh(lanes: int = LANES, p: np.ndarray = P) -> np.ndarray:
    return RNG.random((lanes, len(p))) < p


def remembered(early: np.ndarray, late: np.ndarray):
    return memory(features(), pack(early), pack(late))


@pytest.mark.slow
def test_independent_looks_have_no_memory():
    for _ in range(20):
        answer = remembered(fresh(), fresh())
        assert answer.yes and answer.rho < 0.1


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_a_variable_that_keeps_its_value_is_seen(share):
    early, late = fresh(), fresh()
    keeps = RNG.random(LANES) < share
    v = int(np.argmin(np.abs(P - 0.5)))
    late[keeps, v] = early[keeps, v]
    assert not remembered(early, late).yes


def test_a_pair_that_keeps_its_parity_is_seen():
    """Each variable is fresh, but x1 xor x2 is not: only pairs can tell."""
    p = np.full(N, 0.5)
    early, late = fresh(p=p), fresh(p=p)
    late[:, 1] = late[:, 0] ^ early[:, 0] ^ early[:, 1]
    assert not remembered(early, late).yes
    late[:, 1] = fresh(p=p)[:, 1]
    assert remembered(early, late).yes


def test_a_few_lanes_that_keep_a_rare_value_are_seen():
    p = np.full(N, 0.5)
    p[3] = 0.0
    early, late = fresh(p=p), fresh(p=p)
    early[:6, 3] = True
    assert remembered(early, late).yes  # they forgot it
    late[:6, 3] = True
    assert not remembered(early, late).yes


def test_a_slow_sum_is_seen_where_each_variable_looks_fast():
    """Each variable correlates by less than 0.1 with its past; their sum by more than 0.5."""
    p = np.full(N, 0.5)
    phase = 0.12 * RNG.choice([-1.0, 1.0], (LANES, 1))
    early, late = RNG.random((LANES, N)) < p + phase, RNG.random((LANES, N)) < p + phase
    answer = remembered(early, late)
    assert not answer.yes and answer.what == "a sum of variables"
    other = 0.12 * RNG.choice([-1.0, 1.0], (LANES, 1))
    assert remembered(early, RNG.random((LANES, N)) < p + other).yes


def test_means_that_drift_are_seen():
    """By 0.05 in each variable: 0.1 of a standard deviation of one, 0.6 of the sum."""
    p = np.full(N, 0.5)
    answer = remembered(fresh(p=p), fresh(p=p + 0.05))
    assert not answer.yes and answer.drift > 0.2


def compared(rows: np.ndarray, replicas: int = 0):
    groups = [ChainGroup("elsewhere", pack(rows), replicas), ChainGroup("here", pack(fresh(512)))]
    return agreement(features(), pack(fresh()), groups)


def test_chains_of_one_law_agree():
    for _ in range(20):
        assert compared(fresh(512), 16).yes


def test_a_mean_that_differs_is_seen():
    p = P.copy()
    v = int(np.argmin(np.abs(P - 0.5)))
    p[v] += 0.2
    answer = compared(fresh(512, p))
    assert not answer.yes and "elsewhere" in answer.what


def test_a_shift_of_all_means_is_seen_in_their_sum():
    p = np.clip(P + 0.04, 0, 1)
    assert not compared(fresh(512, p)).yes


def test_one_start_of_many_that_stays_elsewhere_is_seen():
    """32 starts of 16 lanes each; one of them has turned eight variables that are nearly constant.
    Its share in the means is 3%.
    """
    p = np.where(np.arange(N) < 8, 0.001, 0.5)
    base, rows = pack(fresh(p=p)), fresh(512, p)
    assert agreement(features(), base, [ChainGroup("elsewhere", pack(rows), 16)]).yes
    rows[64:80, :8] = True
    assert not agreement(features(), base, [ChainGroup("elsewhere", pack(rows), 16)]).yes


def test_a_start_that_stays_in_a_pair_only_is_seen():
    """Variables 1 and 2 are equal in the base and differ in lanes of two starts; means agree."""
    p = np.full(N, 0.5)
    base = fresh(p=p)
    base[:, 1] = base[:, 0]
    rows = fresh(512, p)
    rows[:, 1] = rows[:, 0]
    assert agreement(features(), pack(base), [ChainGroup("elsewhere", pack(rows), 16)]).yes
    rows[:32, 1] ^= True
    assert not agreement(features(), pack(base), [ChainGroup("elsewhere", pack(rows), 16)]).yes


def test_the_leading_component_is_the_direction_of_two_phases():
    phase = RNG.choice([-0.3, 0.3], (1000, 1))
    signs = np.where(np.arange(N) % 2, 1.0, -1.0)
    x = (RNG.random((1000, N)) < 0.5 + phase * signs).astype(np.float32)
    first = principal(x)[:, 0]
    assert abs(first @ signs) / np.sqrt(N) > 0.95
