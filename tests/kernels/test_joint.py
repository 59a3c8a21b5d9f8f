"""Joint moves: the kernel against the NumPy reference, and both against the law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nelson.budget import Budget
from nelson.chains.chain import resumed
from nelson.chains.diagnosis.diagnose import pilot_request
from nelson.chains.diagnosis.solver import Finder
from nelson.chains.moves import joint, protocol
from nelson.chains.moves.factor_graph import factor_graph
from nelson.chains.moves.joint import Joint, joint_moves
from nelson.chains.problem import prepare
from nelson.chains.request import Request
from nelson.formula import Formula
from nelson.kernels.core.bits import pack, unpack
from nelson.kernels.cpu.cutset import Cutset
from tests.kernels import reference_joint
from tests.problems import chi_square, exact_law, random_ksat, weights

#: A right move fails a chi-square test with this probability; seeds are fixed.
ALPHA = 1e-4


def one_hot(groups: int, size: int) -> Formula:
    """Exactly one of each group; neighbouring groups do not choose the same number."""
    f = Formula([], n_vars=groups * size)
    for g in range(groups):
        f = f.exactly(range(1 + g * size, 1 + (g + 1) * size), 1)
    equal = [
        [-(1 + g * size + k), -(1 + (g + 1) * size + k)]
        for g in range(groups - 1)
        for k in range(size)
    ]
    return Formula([*f.clauses(), *equal], n_vars=groups * size, n_aux=f.n_aux)


FORMULAS = {
    "3-sat": random_ksat(12, 20, 3, 1),
    "long clauses": Formula(
        [[1, 2, 3, 4, 5, 6, 7, 8], [-1, -2, -3, -4, -5, -6, -7], [9, -1, -3], [-9, 3, 8]], n_vars=10
    ),
    "units": Formula([[1], [-1, 2, 3], [-2, -3], [3, 4, 5, -6]], n_vars=7),
    "one-hot": one_hot(3, 3),
    "fields": Formula(
        [
            *one_hot(3, 4).clauses(),
            *([-a, -b] for a in (13, 14, 15) for b in range(a + 1, 16)),  # at most one
            *([a, b] for a in (16, 17, 18) for b in range(a + 1, 19)),  # at most one is false
            [13, 14, -1, 5, 9],
            [-16, 13, 3],
            [-17, -18, 19],
        ],
        n_vars=19,
    ),
    "hubs": Formula([[s, k] for s in (-1, 2) for k in range(3, 21)], n_vars=20),
}


def request_for(theta: np.ndarray, count: int, moves: Joint, **more: object) -> Request:
    return replace(
        pilot_request(np.atleast_2d(theta), count, Budget(threads=1)), moves=moves, **more
    )


def plan_for(f: Formula, width: int = 3) -> Joint:
    plan = joint_moves(prepare(f), width)
    assert plan is not None
    return plan


def starts(f: Formula, count: int, seed: int = 1) -> np.ndarray:
    """Solutions drawn from the law: (count, n_total)."""
    states, p = exact_law(f, weights(f))
    return states[np.random.default_rng(seed).choice(len(states), count, p=p)]


def by_reference(f: Formula, plan: Joint, x: np.ndarray, moves: range, **more: int) -> np.ndarray:
    n, graph = f.n_total, plan.graph
    one = graph.unit_weights(prepare(f), weights(f)[None])[0]
    full = np.zeros((len(x), graph.n), bool)
    full[:, :n] = x
    h = graph.helpers
    for k in moves:
        for v, a, b in zip(h.variable, h.left, h.right, strict=True):
            full[:, v] = (full[:, a >> 1] == (a & 1)) | (full[:, b >> 1] == (b & 1))
        full = reference_joint.move(plan.cutset(k), graph.units, full, one, 7, k, **more)
    return full[:, :n]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("width", [2, 4, 9])
def test_the_kernel_is_the_reference_bit_for_bit(name, width):
    f = FORMULAS[name]
    plan, x = plan_for(f, width), starts(f, 192)
    request = request_for(weights(f), 192, plan, sweeps=5, seed=7, contexts=np.array([3]))
    block = resumed(prepare(f), request, pack(x)[None], 2, 4, 192)
    expected = by_reference(f, plan, x, range(2, 7), context=3, first_word=4)
    assert np.array_equal(unpack(block.packed[0], 192), expected)
    assert (block.filled == ~np.uint64(0)).all()


def test_j_moves_and_k_more_are_j_plus_k_on_any_threads_and_in_any_batch():
    f = random_ksat(60, 100, 3, 2)
    plan, problem = plan_for(f, 6), prepare(f)
    theta = np.random.default_rng(0).normal(size=(2, 60))
    with Finder(problem) as finder:
        one = finder.solutions(np.zeros((1, 60), bool))
    words = np.tile(pack(np.repeat(one, 64, axis=0)), (2, 5, 1))
    request = request_for(theta, 320, plan, contexts=np.array([0, 5]))
    at_once = resumed(problem, replace(request, sweeps=6), words, 0, 0, 320)
    first = resumed(problem, replace(request, sweeps=2, budget=Budget(threads=3)), words, 0, 0, 320)
    later = resumed(
        problem, replace(request, sweeps=4, budget=Budget(threads=2)), first.packed, 2, 0, 320
    )
    assert np.array_equal(at_once.packed, later.packed)
    tail = resumed(problem, replace(request, sweeps=6), words[:, 3:], 0, 3, 128)
    assert np.array_equal(at_once.packed[:, 3:], tail.packed)


def test_no_two_threads_write_to_one_word(monkeypatch):
    """A word holds 64 lanes; threads that shared one would undo each other's moves."""
    f = random_ksat(60, 100, 3, 2)
    plan, problem, pieces = plan_for(f, 6), prepare(f), []
    monkeypatch.setattr(protocol, "SMALL", 0)
    monkeypatch.setattr(joint.kernel, "move", lambda *args: pieces.append(args[-2]))
    with Finder(problem) as finder:
        one = finder.solutions(np.zeros((1, 60), bool))
    words = np.tile(pack(np.repeat(one, 64, axis=0)), (1, 40, 1))
    request = request_for(np.zeros((1, 60)), 2560, plan, sweeps=1, budget=Budget(threads=3))
    resumed(problem, request, words, 0, 0, 2560)
    per_word = 64 // joint.kernel.LANES
    assert len(pieces) > 3 and sum(last - first for first, last in pieces) == 40 * per_word
    assert all(first % per_word == 0 == last % per_word for first, last in pieces)


def moved(f: Formula, plan: Joint, x: np.ndarray, moves: int, seed: int = 3) -> np.ndarray:
    request = request_for(weights(f), len(x), plan, sweeps=moves, seed=seed)
    block = resumed(prepare(f), request, pack(x)[None], 0, 0, len(x))
    return unpack(block.packed[0], len(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["3-sat", "long clauses", "units", "one-hot", "fields"])
def test_one_move_from_the_law_stays_in_the_law(name):
    """Chi-square of 64,000 samples; a right move fails with probability 1e-4."""
    f = FORMULAS[name]
    x = starts(f, 64_000)
    y = moved(f, plan_for(f), x, 1)
    assert (x != y).any(1).mean() > 0.1  # it moves at all
    assert chi_square(y, exact_law(f, weights(f))) > ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("name", ["3-sat", "long clauses", "units", "one-hot", "fields"])
def test_moves_from_one_state_reach_the_law(name):
    f = FORMULAS[name]
    x = np.repeat(starts(f, 1), 64_000, axis=0)
    assert chi_square(moved(f, plan_for(f, 4), x, 40), exact_law(f, weights(f))) > ALPHA


def without_a_clause(c: Cutset) -> Cutset:
    """A table from which a clause is missing: the first one without held literals."""
    k = int(np.flatnonzero(np.diff(c.held_at) == 0)[0])
    values = c.values.copy()
    values[c.part_at[k]] = 0
    return c._replace(values=values)


def test_wrong_moves_are_rejected():
    """Twins of the tests above: weights left out, a clause inverted, and a cutset chosen by x."""
    f = FORMULAS["3-sat"]
    x, law = starts(f, 64_000), exact_law(f, weights(f))
    plan = plan_for(f)
    flat = request_for(0 * weights(f), len(x), plan, sweeps=1, seed=3)
    block = resumed(prepare(f), flat, pack(x)[None], 0, 0, len(x))
    assert chi_square(unpack(block.packed[0], len(x)), law) < ALPHA

    wrong = replace(plan, made=[without_a_clause(plan.cutset(0))])
    request = request_for(weights(f), len(x), wrong, sweeps=1, seed=3)
    block = resumed(prepare(f), request, pack(x)[None], 0, 0, len(x))
    assert not (block.filled == ~np.uint64(0)).all()  # states that violate the clause

    free = int(plan.cutset(0).variable[0])  # holds all if this one is true, else cutset 0
    looks = np.where(x[:, [free]], x, moved(f, plan, x, 1))
    assert chi_square(looks, law) < ALPHA


def test_fields_take_less_room():
    """One digit of three values for each vertex instead of three bits: fewer variables are held."""
    f = one_hot(8, 3)
    clauses = [[-(3 * a + k), -(3 * b + k)] for a, b in ((0, 4), (1, 6), (2, 7)) for k in (1, 2, 3)]
    f = Formula([*f.clauses(), *clauses], n_vars=f.n_vars)
    plan, problem = plan_for(f, 4), prepare(f)
    bits = Joint(4, factor_graph(problem))
    assert plan.info["fields"] == 8 and "fields" not in bits.info
    assert plan.held < bits.held
    assert (np.diff(plan.graph.units.at) == 3).all()
    assert len(plan.graph.factors.at) - 1 == 3 * (7 + 3)  # "exactly one" needs no factor


def test_a_move_keeps_the_values_of_held_fields():
    f = FORMULAS["fields"]
    plan, x = plan_for(f, 2), starts(f, 640)
    y = moved(f, plan, x, 1)
    free = np.isin(np.arange(plan.n), plan.cutset(0).variable)
    literal, unit = (
        plan.graph.units.literal,
        np.repeat(np.arange(plan.n), np.diff(plan.graph.units.at)),
    )
    held = literal[(literal >= 0) & ~free[unit]] >> 1
    held = held[held < f.n_total]
    assert len(held) and (x[:, held] == y[:, held]).all() and f.satisfied(y).all()


def test_messages_of_many_small_factors_do_not_underflow():
    """x_1 implies 400 variables of weight e^-15, and -x_1 implies 400 others: each message is about
    e^-6000. Both values of x_1 are equally likely: 5 sigma of 640 lanes.
    """
    n = 400
    rows = [[-1, k] for k in range(2, n + 2)] + [[1, k] for k in range(n + 2, 2 * n + 2)]
    f = Formula(rows, n_vars=2 * n + 1)
    theta = np.full(2 * n + 1, -15.0)
    theta[0] = 0.0
    plan = plan_for(f, 2)
    assert not plan.held
    x = np.ones((640, 2 * n + 1), bool)
    request = request_for(theta, 640, plan, sweeps=1)
    block = resumed(prepare(f), request, pack(x)[None], 0, 0, 640)
    y = unpack(block.packed[0], 640)
    assert f.satisfied(y).all()
    assert abs(y[:, 0].sum() - 320) <= 5 * np.sqrt(160)


def test_a_lane_that_violates_the_formula_is_not_handed_out():
    f = Formula([[1, 2], [3, 4], [-3, 4]], n_vars=4)
    plan = plan_for(f, 1)
    x = np.zeros((64, 4), bool)
    x[::2] = [True, True, False, True]
    held = plan.cutset(0)._replace(n_bags=0)  # a move that moves nothing
    still = replace(plan, made=[held])
    request = request_for(np.zeros(4), 64, still, sweeps=1)
    block = resumed(prepare(f), request, pack(x)[None], 0, 0, 64)
    assert int(np.bitwise_count(block.filled).sum()) == 32


def test_every_variable_is_free_in_turn():
    """Also the hubs: 5 variables, each in a clause with every one of 60 others."""
    rng = np.random.default_rng(0)
    rows = [
        [h + 1, 6 + k, 6 + (k + 1 + int(rng.integers(50))) % 60]
        for h in range(5)
        for k in range(60)
    ]
    plan = plan_for(Formula(rows, n_vars=65), 4)
    free = np.zeros(plan.n, int)
    for k in range(16):
        free[plan.cutset(k).variable] += 1
    assert free.min() >= 3
