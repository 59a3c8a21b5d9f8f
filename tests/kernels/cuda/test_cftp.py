"""Coupling from the past on the GPU against the NumPy reference, bit for bit.

On a GPU, or in Numba's simulator. Every choice that must not change a sample is varied: threads
per team, teams per block, copies of a small formula, where the state and the lists lie, the first
run. `test_card.py` compares larger formulas with the CPU.
"""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.chains.problem import prepare
from nelson.formula import Formula
from nelson.kernels.cuda import bounds, shape
from nelson.kernels.cuda.neighbour_lists import lay_out_neighbours
from tests.kernels.cuda.compare import MARKS, SIMULATED, WARP, check_coupled
from tests.problems import pigeonhole, random_ksat, weights

pytestmark = MARKS

FORMULAS = {
    "one length": random_ksat(12, 6, 3, seed=1),
    "odd number of others": random_ksat(12, 5, 4, seed=1),
    "mixed lengths": Formula([[1, 2, 8], [-2, 3, -4, 5, 6, 7], [-1, -7, 5], [4, -5, 6]], n_vars=9),
    "hub": Formula([[1, 2, 3], [1, -4, 5], [1, 6, -7], [-1, 8, 9], [1, -2, 9]], n_vars=9),
    "pairs": Formula([[1, 2], [-2, 3], [4, 5]], n_vars=6),
    "no clause": Formula([], n_vars=5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMULAS)
def test_equals_the_reference(name):
    f = FORMULAS[name]
    assert check_coupled(f, weights(f), 70)


CUTS = [
    {"team": 2 * WARP},
    {"team": 3 * WARP, "near": 0},
    {"team": 2 * WARP, "shared": False},
    {"team": WARP, "teams": 2},
    {"rows": 2},
    {"log_copies": 1},
    {"log_copies": 2, "team": 3 * WARP},
]


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_how_work_is_cut_never_shows(cut):
    f = FORMULAS["hub"]
    assert check_coupled(f, weights(f), 130, **{"log_copies": 0, **cut})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one length", "mixed lengths"])
def test_entries_of_32_bits(name, monkeypatch):
    """Formulas with more than 4094 variables have entries of 32 bits."""
    monkeypatch.setattr("nelson.kernels.cuda.neighbour_lists.NARROW", 1)
    f = Formula(FORMULAS[name].clauses(), n_vars=13)  # no other test has cached its layout
    assert check_coupled(f, weights(f), 70)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 64, 65, 129])
def test_tails(count):
    f = FORMULAS["one length"]
    assert check_coupled(f, np.zeros(12), count, log_copies=0)


@pytest.mark.slow
def test_contexts_and_later_words():
    f = FORMULAS["one length"]
    theta = np.array([weights(f), np.zeros(12), -weights(f)])
    assert check_coupled(f, theta, 70, contexts=(0, 7, 2), first=1)


@pytest.mark.slow
def test_evidence_and_fixed_variables():
    f = random_ksat(15, 9, 4, seed=3)
    assert check_coupled(f, weights(f), 70, evidence=(1, -5))
    f = Formula([[1], [-1, 2]], n_vars=3)  # all but one are fixed
    assert check_coupled(f, np.zeros(3), 70)


@pytest.mark.slow
def test_the_first_run_is_learnt_and_never_shows():
    f = Formula(FORMULAS["hub"].clauses(), n_vars=10)  # no other test has drawn from it
    for _ in range(2):  # the second draw starts from further back
        assert check_coupled(f, weights(f), 130, log_copies=0)


def test_a_budget_that_is_too_small_gives_nothing():
    """One lane is not determined: no lane may be used."""
    f = random_ksat(8, 7, 3, seed=1)
    assert not check_coupled(f, weights(f), 70, max_rounds=2)
    card = nelson.sample(f, None, 70, method="cftp", max_rounds=2, seed=1, device="cuda")
    host = nelson.sample(f, None, 70, method="cftp", max_rounds=2, seed=1)
    assert len(card) == len(host) == 0
    assert card.status == host.status == "budget"
    assert "did not meet" in card.info["reason"]


@pytest.mark.parametrize("max_rounds", [1, 3, 4, 8])
def test_the_lanes_that_fail_are_those_of_the_cpu(max_rounds):
    """The bounds are as tight, and the last run is as long: 4 sweeps if 3 are allowed."""
    f = random_ksat(12, 9, 4, seed=2)
    options = {"method": "cftp", "max_rounds": max_rounds, "seed": 3}
    host = nelson.sample(f, None, 64, **options)
    card = nelson.sample(f, None, 64, device="cuda", **options)
    assert card.info.get("reason") == host.info.get("reason")  # names the number of lanes
    assert len(card) == len(host) == (64 if max_rounds == 8 else 0)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"given": [1, -3]}, {"project": [3, 1]}], ids=str)
def test_device_gives_the_same_samples(options):
    f = FORMULAS["one length"]
    options = {"method": "cftp", "seed": 4} | options
    host = nelson.sample(f, weights(f), 100, **options)
    card = nelson.sample(f, weights(f), 100, device="cuda", **options)
    assert np.array_equal(card.host().packed, host.packed)
    assert np.allclose(card.mean(), host.mean())
    assert (card.guarantee, card.status, len(card)) == ("exact", "ok", 100)
    assert card.info["device"] == "cuda:0" and "drawn on" not in card.info


def test_a_stream_is_the_same_samples_in_blocks():
    f = FORMULAS["one length"]
    blocks = nelson.stream(f, None, 150, block=64, seed=1, method="cftp", device="cuda")
    x = np.concatenate([block.to_numpy() for block in blocks])
    assert np.array_equal(x, nelson.sample(f, None, 150, seed=1, method="cftp").to_numpy())


def test_an_unsatisfiable_formula_is_proved():
    pytest.importorskip("pysat")
    with pytest.raises(nelson.Unsatisfiable):
        nelson.sample(pigeonhole(3), None, 10, method="cftp", max_rounds=8, device="cuda")


def test_lists_lie_in_shared_memory_beside_many_threads(monkeypatch):
    """On an H200, 640 threads with the lists beside them draw 1.6 times as fast as 448 without."""
    monkeypatch.setattr(shape, "WARP", 32)
    h200 = shape.DeviceLimits(132, 227 << 10, 768)
    medium, large = (
        shape.couple_shape(
            lay_out_neighbours(prepare(random_ksat(n, n, 3)).sweeping_all().program, np.arange(3)),
            h200,
        )
        for n in (800, 4000)
    )
    assert medium.near == 2 and medium.team * medium.teams >= 640
    assert large.shared and large.team * large.teams >= 640
    for chosen in (medium, large):
        assert chosen.shared_bytes(chosen.teams) <= h200.shared_block


@pytest.mark.slow
@pytest.mark.skipif(not SIMULATED, reason="a part of the kernel is replaced in the simulator")
@pytest.mark.parametrize("wrong", ["coins", "early end"])
def test_a_wrong_kernel_would_be_seen(wrong, monkeypatch):
    """Coins that are not those of the same time in an earlier run; a run that does not reach 0."""
    sweep = bounds._sweep

    def other(p, w, c, step, t, h):
        if wrong == "coins":
            t = t + 1
        elif t == 0:
            return np.uint64(0)
        return sweep(p, w, c, step, t, h)

    monkeypatch.setattr(bounds, "_sweep", other)
    f = FORMULAS["one length"]
    with pytest.raises(AssertionError):
        check_coupled(f, weights(f), 130)


def test_the_host_draws_where_clauses_are_too_long(monkeypatch):
    monkeypatch.setattr("nelson.kernels.cuda.neighbour_lists.MOST_LITERALS", 10)
    f = FORMULAS["one length"]
    with pytest.raises(ValueError, match="too long"):
        lay_out_neighbours(prepare(f).sweeping_all().program, np.arange(3))
    card = nelson.sample(f, None, 70, seed=1, method="cftp", device="cuda")
    assert "CPU" in card.info["drawn on"]
    assert np.array_equal(
        card.to_numpy(), nelson.sample(f, None, 70, seed=1, method="cftp").to_numpy()
    )
