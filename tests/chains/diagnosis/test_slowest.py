"""Slow functions that nobody listed, pairs that never meet, and patterns of clauses.

Seeds are fixed. Each test that something is seen has a twin in which there is nothing to see.
"""

from __future__ import annotations

import numpy as np
import pytest

from nelson.chains.diagnosis.features import Features
from nelson.chains.diagnosis.meeting import LIMIT, meetings, spread
from nelson.chains.diagnosis.patterns import rare_patterns
from nelson.chains.diagnosis.slowest import LOOKS, Slowest, slowest
from nelson.kernels.core.bits import pack

N, LANES = 120, 1024


def features() -> Features:
    """Each variable shares a clause with the next one."""
    clauses = np.stack([np.arange(1, N), np.arange(2, N + 1)], axis=1)
    offsets = np.arange(0, 2 * N, 2)[:N]
    return Features.among(np.arange(N), clauses.ravel(), offsets, np.zeros(N))


def looked(kind: str, keeps: bool):
    """Fresh states at each look. kind "sum": the sum of 20 variables with signs stays as it was,
    "pairs": the number of neighbours among 20 that differ.
    """
    random = np.random.default_rng(3)
    some = slice(10, 30)

    def charge(x: np.ndarray) -> np.ndarray:
        part = x[:, some].astype(int)
        if kind == "sum":
            return part @ np.resize([1, -1], 20)
        return (part[:, ::2] != part[:, 1::2]).sum(1)

    def look(k: int) -> np.ndarray:
        x = random.random((8 * LANES, N)) < 0.5
        if keeps:  # lane i has the i-th smallest charge at every look
            x = x[np.argsort(charge(x), kind="stable")]
        x = x[4::8]
        return pack(x[mixed])

    mixed = np.random.default_rng(4).permutation(LANES)
    return slowest(look, features())


def test_silence_is_said():
    """Four of 1,024 chains differ from the others: too few for this test. The twin has 32."""

    def look(different: int) -> Slowest:
        x = np.zeros((LANES, N), bool)
        x[:: LANES // different, 7] = True
        return slowest(lambda k: pack(x), features())

    assert look(4).silent and not look(32).silent and not look(32).yes


@pytest.mark.parametrize("kind", ["sum", "pairs"])
def test_a_conserved_sum_is_seen(kind):
    """No variable is slow, and no pair: its correlation over a lag is 1/20 at most. The twin's
    largest correlation of three functions on 512 chains is below 0.2 but for 1 in 10^4.
    """
    answer = looked(kind, keeps=True)
    assert not answer.yes and answer.rho > 0.5 and answer.rhat > 1.1
    assert answer.ess < 0.5 * answer.states
    twin = looked(kind, keeps=False)
    assert twin.yes and twin.rho < 0.2 and twin.rhat < 1.05 and twin.ess > 0.7 * twin.states
    assert twin.states == LOOKS * LANES // 2


class Walk:
    """Coupled chains that never meet: all variables are fresh noise for each start, but those of
    one region follow the same random numbers.
    """

    def __init__(self, regions: int, follow: int) -> None:
        self.random, self.follow, self.complete = np.random.default_rng(5), follow, True
        self.region = np.arange(24) % regions
        self.sweep_to(0)

    def sweep_to(self, sweeps: int) -> None:
        shared = self.random.random((self.region.max() + 1, 128, N)) < 0.5
        x = self.random.random((24, 128, N)) < 0.5
        x[:, :, : self.follow] = shared[self.region][:, :, : self.follow]
        self.words = np.stack([pack(state) for state in x])


def test_pairs_that_never_meet_are_compared_by_their_distance():
    """In two regions 12 of 120 variables follow their region: no pair meets, and silence was a
    pass. The twin has one region.
    """
    every = np.arange(N)
    apart, met = meetings(Walk(2, 12), every, 3)
    assert not apart.yes and apart.worst > 2 and met == 0.0
    same, met = meetings(Walk(1, 12), every, 3)
    assert same.yes and same.worst < 1.3 / LIMIT and met == 0.0


def test_chains_that_were_cut_off_have_not_met():
    walk, every = Walk(1, N), np.arange(N)
    assert meetings(walk, every, 3)[0].yes  # all have met
    walk.complete = False
    assert not meetings(walk, every, 3)[0].yes


def test_the_spread_of_distances():
    random = np.random.default_rng(6)
    noise = random.normal(size=(300, 128)) + 5 * random.normal(size=128)  # lanes are shared
    assert 0.8 < spread(noise) < 1.2
    assert spread(noise + 0.3 * random.normal(size=(300, 1))) > 2
    assert spread(np.zeros((3, 64))) == np.inf  # silence


def test_a_group_of_literals_that_satisfies_its_clause_alone_is_seen():
    """Clause 1 is (x1 or x2 or not x3) or a key x4, x5 is right; no state uses the key. In the twin
    clause, over x11 .. x15, any literal may be the one that is true.
    """
    random = np.random.default_rng(7)
    x = random.random((8192, 20)) < 0.5
    x = x[(x[:, 0] | x[:, 1] | ~x[:, 2]) & x[:, 10:15].any(1)][:4096]
    literals, offsets = np.array([1, 2, -3, 4, 5, 11, 12, 13, 14, 15]), np.array([0, 5, 10])
    assert rare_patterns(pack(x), literals, offsets, random) == [(-2, -1, 3)]
