"""Jumps of hubs: sums, proposals and their probabilities, the law, and barriers that they cross."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nelson.budget import Budget
from nelson.chains.chain import Chains, resumed
from nelson.chains.diagnosis.diagnose import pilot_request
from nelson.chains.diagnosis.solver import Finder
from nelson.chains.moves.hubs import Hubs, ProposalLaw, fitted, mixture
from nelson.chains.moves.joint import Runner, joint_moves
from nelson.chains.moves.jumps import Jumps, JumpWalk, learned
from nelson.chains.problem import prepare
from nelson.formula import Formula
from nelson.kernels.core import rng
from nelson.kernels.core.bits import pack, unpack
from nelson.kernels.cpu import hubs as kernel
from nelson.policy import MovesPolicy
from tests.kernels import reference_joint
from tests.problems import chi_square, exact_law, random_ksat, weights

#: A right move fails a chi-square test with this probability; seeds are fixed.
ALPHA = 1e-4

#: The limits of the tests; `narrow` changes them.
LIMITS = {"moves": MovesPolicy()}


def every(n: int) -> np.ndarray:
    """(2^n, n) bool: all structures."""
    return (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(bool)


def solutions(f: Formula) -> np.ndarray:
    x = every(f.n_total)
    holds = [(x[:, np.abs(c) - 1] == (np.array(c) > 0)).any(1) for c in f.clauses()]
    return x[np.all(holds, axis=0)]


def two_menus(large: int, small: int, links: tuple[int, int]) -> Formula:
    """Menus 1 and 2 exclude each other; options need the menu above them. `links` is the
    number of clauses "not both" between options of each menu; they make the formula wide.
    """
    n, random = 2 + large + small, np.random.default_rng(1)
    clauses = [[-1, -2]]
    clauses += [[-v, 1 if v < 3 + large else 2] for v in range(3, n + 1)]
    for first, last, many in ((3, 3 + large, links[0]), (3 + large, n + 1, links[1])):
        for _ in range(many):
            a, b = random.choice(np.arange(first, last), 2, replace=False).tolist()
            clauses.append([-a, -b])
    return Formula(clauses, n_vars=n)


@pytest.fixture
def narrow(monkeypatch):
    """Small formulas have hubs too."""
    narrow_limits = MovesPolicy(width=2, region_widths=(), hub_share=1.0)
    monkeypatch.setitem(LIMITS, "moves", narrow_limits)


def hubs_of(f: Formula) -> Hubs:
    found = Hubs.of(prepare(f), LIMITS["moves"])
    assert isinstance(found, Hubs)
    return found


def jumps_of(f: Formula, theta: np.ndarray) -> Jumps:
    """Learned from all solutions in turns, which have another law than P."""
    x = solutions(f)
    found = learned(
        hubs_of(f),
        pilot_request(theta[None], 256, Budget(threads=1)),
        pack(np.resize(x, (256, len(x[0]))))[None],
        LIMITS["moves"],
    )
    assert isinstance(found, Jumps)
    return found


def moved(f: Formula, moves: Jumps, x: np.ndarray, many: int, theta: np.ndarray) -> np.ndarray:
    request = replace(
        pilot_request(theta[None], len(x), Budget(threads=1), seed=3), moves=moves, sweeps=many
    )
    block = resumed(prepare(f), request, pack(x)[None], 0, 0, len(x))
    return unpack(block.packed[0], len(x))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_z_is_the_sum_over_all_that_is_not_held(seed):
    """Up to the rounding of probabilities to 2^-32."""
    f = random_ksat(12, 20, 3, seed)
    problem, theta = prepare(f), weights(f)
    plan = joint_moves(problem, 3)
    assert plan is not None
    all_valid = solutions(f)
    x = all_valid[np.random.default_rng(0).integers(len(all_valid), size=64)]
    runner = Runner(
        plan.graph, problem, pilot_request(theta[None], 64, Budget(threads=1)), (1, 1), 0
    )
    states = pack(x)
    z = runner.run(plan.cutset(0), states, 0, draw=False)
    assert np.array_equal(states, pack(x))  # nothing is drawn
    free = plan.cutset(0).variable
    held = np.setdiff1d(np.arange(12), free)
    each = 1 / (1 + np.exp(np.where(all_valid, -theta, theta)))[:, free].astype(float)
    for k in range(64):
        same = (all_valid[:, held] == x[k, held]).all(1)
        assert z[k] == pytest.approx(np.log2(each[same].prod(1).sum()), abs=1e-6)


def trees_for_tests() -> kernel.Trees:
    random = np.random.default_rng(2)
    states = random.random((40, 8)) < random.random(8)
    states[:, 3] = states[:, 5]
    clauses = [np.array(c) for c in ([1, 2, 5], [0, 7], [11, 13, 14], [3, 8])]
    return mixture([fitted(states), fitted(states[:10])], np.arange(3, 11), clauses)


def test_proposals_are_those_of_the_reference():
    trees = trees_for_tests()
    tree = np.arange(128) % 2
    with np.errstate(over="ignore"):
        keys = rng.keys(rng.spread_seed(5), np.uint64(3), np.array([7, 8], np.uint64))
    x = np.zeros((128, 8), np.uint8)
    kernel.draw(trees, tree, *keys, 9, x)
    assert np.array_equal(x, reference_joint.hubs(trees, tree, 5, 9, context=3, first_word=7))
    assert len(np.unique(x, axis=0)) > 10


def test_chances_of_proposals_add_up_to_one():
    trees = trees_for_tests()
    x = every(8).astype(np.uint8)
    mantissa, exponent = np.empty((256, 2)), np.empty((256, 2), np.int64)
    kernel.score(trees, x, mantissa, exponent)
    assert np.allclose((mantissa * np.exp2(exponent)).sum(0), 1)
    for row in range(0, 256, 17):
        with np.errstate(divide="ignore"):
            expected = reference_joint.hubs_log2(trees, 1, x[row])
            assert np.log2(mantissa[row, 1]) + exponent[row, 1] == pytest.approx(expected)


@pytest.mark.slow
def test_small_chances_do_not_underflow():
    trees = mixture(
        [fitted(np.random.default_rng(0).random((64, 1200)) < 0.5)], np.arange(1200), []
    )
    x = np.zeros((1, 1200), np.uint8)
    mantissa, exponent = np.empty((1, 1)), np.empty((1, 1), np.int64)
    kernel.score(trees, x, mantissa, exponent)
    expected = reference_joint.hubs_log2(trees, 0, x[0])
    assert expected < -1074  # the smallest float64
    assert np.log2(mantissa[0, 0]) + exponent[0, 0] == pytest.approx(expected)


FORMULAS = {
    "3-sat": random_ksat(12, 24, 3, 1),
    "menus": two_menus(5, 4, (8, 5)),
    "units": Formula([[1], *random_ksat(11, 22, 3, 4).clauses()], n_vars=11),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMULAS)
def test_jumps_keep_the_law(name, narrow):
    """Chi-square of 9,600 samples: one round of moves from the law, and 16 moves from one state."""
    f = FORMULAS[name]
    theta, law = weights(f), exact_law(f, weights(f))
    moves, x = jumps_of(f, theta), solutions(f)
    assert moves.joint is not None and len(moves.law.hubs.variable) > 1
    log_p = x @ theta
    p = np.exp(log_p - log_p.max())
    from_law = x[np.random.default_rng(0).choice(len(x), 9_600, p=p / p.sum())]
    for start, many in ((from_law, 8), (np.repeat(x[:1], 9_600, axis=0), 16)):
        assert chi_square(moved(f, moves, start, many, theta), law) > ALPHA


@pytest.mark.slow
def test_wrong_jumps_are_rejected(narrow, monkeypatch):
    """Twins: without the chances of proposals; with the weights of other hubs."""
    f = FORMULAS["3-sat"]
    theta, law = weights(f), exact_law(f, weights(f))
    moves, x = jumps_of(f, theta), np.repeat(solutions(f)[:1], 9_600, axis=0)
    assert chi_square(moved(f, moves, x, 16, theta), law) > ALPHA
    assert chi_square(moved(f, moves, x, 16, theta + 0.2), law) < ALPHA
    alone = replace(moves, joint=None, region=None)
    assert chi_square(moved(f, alone, x, 16, theta), law) > ALPHA
    monkeypatch.setattr(ProposalLaw, "log2", lambda self, x: np.zeros(len(x)))
    assert chi_square(moved(f, alone, x, 16, theta), law) < ALPHA


def test_a_move_in_the_region_keeps_what_is_outside(narrow):
    f = FORMULAS["menus"]
    theta = np.zeros(f.n_vars)
    theta[0] = 12.0  # menu 1 is always chosen, but for one time in 10^5
    moves, x = jumps_of(f, theta), solutions(f)
    assert moves.region is not None
    words = pack(np.resize(x, (-(-len(x) // 64) * 64, len(x[0]))))
    inside = unpack(moves.region.inside(words)[:, None], 64 * len(words))[:, 0]
    assert inside.any() and not inside.all()
    walk = JumpWalk(
        moves,
        prepare(f),
        pilot_request(theta[None], 64 * len(words), Budget(threads=1)),
        words[None],
        0,
    )
    walk.within(3)
    changed = unpack(np.bitwise_or.reduce(words ^ walk.words[0], axis=1)[:, None], len(inside))[
        :, 0
    ]
    assert changed[inside].mean() > 0.5 and not changed[~inside].any()


def test_j_moves_and_k_more_are_j_plus_k_on_any_threads_and_in_any_batch(narrow):
    f = FORMULAS["3-sat"]
    problem, theta = prepare(f), np.stack([weights(f), -weights(f)])
    moves, x = jumps_of(f, weights(f)), solutions(f)
    words = np.stack([pack(np.resize(x, (320, 12)))] * 2)
    request = replace(
        pilot_request(theta, 320, Budget(threads=1)), moves=moves, contexts=np.array([0, 5])
    )
    at_once = resumed(problem, replace(request, sweeps=9), words, 0, 0, 320)
    first = resumed(problem, replace(request, sweeps=2, budget=Budget(threads=3)), words, 0, 0, 320)
    later = resumed(
        problem, replace(request, sweeps=7, budget=Budget(threads=2)), first.packed, 2, 0, 320
    )
    assert np.array_equal(at_once.packed, later.packed)
    tail = resumed(problem, replace(request, sweeps=9), words[:, 3:], 0, 3, 128)
    assert np.array_equal(at_once.packed[:, 3:], tail.packed)


@pytest.mark.slow
def test_jumps_cross_a_barrier():
    """All chains begin in the smaller menu, with many options. Measured after 4 moves: none is
    there any more; with joint moves alone all of them are. The random numbers are fixed.
    """
    f = two_menus(150, 60, (250, 70))
    problem, theta = prepare(f), np.full((1, f.n_vars), 0.5)
    request = pilot_request(theta, 256, Budget(threads=1))
    with Finder(problem) as finder:
        starts = finder.solutions(np.random.default_rng(0).random((256, f.n_vars)) < 0.5)
    moves = learned(hubs_of(f), request, pack(starts)[None])
    assert isinstance(moves, Jumps)
    start = np.zeros((1, f.n_total), bool)
    start[0, 1] = True
    for v in range(152, f.n_total):  # options of menu 2, as many as fit together
        start[0, v] = True
        start[0, v] = all(any(start[0, abs(x) - 1] == (x > 0) for x in c) for c in f.clauses())
    left = {}
    for name, own in (("jumps", moves), ("joint", joint_moves(problem, 5))):
        chains = Chains.given(problem, replace(request, count=64, block=64, moves=own), [start])
        chains.sweep_to(4)
        left[name] = unpack(chains.words[0], 64)[:, 1].mean()
    assert left["jumps"] < 0.1 and left["joint"] > 0.9


def test_literals_that_exclude_each_other_are_not_demanded_together():
    f = Formula([[-1, -2], [-3, 4], [-4, -1]], n_vars=4)
    with Finder(prepare(f)) as finder:
        assert finder.compatible([1, 2, 3, 4]) == [1]
        assert finder.compatible([3, 4, 1, 2]) == [3, 4, 2]
