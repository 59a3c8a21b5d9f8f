"""Sweeps over units: the kernel against the NumPy reference, and both against the law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numba
import numpy as np
import pytest

from nelson.budget import Budget
from nelson.chains.chain import resumed
from nelson.chains.diagnosis.diagnose import pilot_request
from nelson.chains.moves import protocol
from nelson.chains.moves.fields import Units, unit_moves
from nelson.chains.problem import prepare
from nelson.chains.request import Request
from nelson.chains.terms import Terms
from nelson.formula import Formula
from nelson.kernels.core import vector, vector_llvm
from nelson.kernels.core.bits import pack, unpack
from nelson.kernels.core.reference import threshold
from nelson.kernels.cpu import lane_bytes, unit_program
from tests.kernels import reference_units
from tests.problems import chi_square, exact_law, random_ksat, weights


class Pair(NamedTuple):
    table: np.ndarray
    chosen: np.ndarray
    found: np.ndarray


#: A right sweep fails a chi-square test with this probability; seeds are fixed.
ALPHA = 1e-4


def pairwise(groups: int, size: int, exactly: bool, clauses: list[list[int]]) -> Formula:
    """Groups of which at most one, or exactly one, is true; and clauses across them."""
    rows = [list(range(1 + g * size, 1 + (g + 1) * size)) for g in range(groups)]
    apart = [[-a, -b] for row in rows for a in row for b in row if a < b]
    return Formula([*(rows if exactly else []), *apart, *clauses], n_vars=groups * size)


ACROSS = [[-1, -4], [2, 5, 9], [-3, -8, 6], [-7, 1, 2], [4, -9]]
FORMULAS = {
    "3-sat": random_ksat(9, 14, 3, 1),
    "exactly one": pairwise(3, 3, True, ACROSS),
    "at most one": pairwise(3, 3, False, ACROSS),
    "colours": pairwise(3, 3, True, [[-k, -k - 3] for k in range(1, 7)]),
    "implications": Formula([[-1, 2], [-2, 3], [-3, 4], [1, 5], [-5, -4, 6], [7, -8]], n_vars=9),
    "evidence": Formula([[1], [-1, 2, 3], [-2, -3], [-2, -4], [-3, -4], [5, 6, -4]], n_vars=9),
}
TERMS = [(1, 4), (2, 5), (4, 7), (1, 6, 8), (1, 2), (3, 9), (2, 4, 6, 9), (5, 8)]
COEFFICIENTS = np.array([1.5, -2.0, 3.0, 4.0, 5.0, -1.0, 2.5, -0.7])


def units_of(f: Formula, moves: Units) -> list[list[int]]:
    p = moves.program
    literals = ((p.literal >> 1) + 1) * np.where(p.literal & 1, 1, -1)
    return [literals[a:b].tolist() for a, b in zip(p.unit_at[:-1], p.unit_at[1:], strict=True)]


def model_of(
    f: Formula, moves: Units, theta: np.ndarray, terms: Sequence[Sequence[int]] = TERMS
) -> reference_units.Model:
    problem, w = prepare(f), moves.weights(prepare(f), theta[None])
    coefficients = np.zeros(int(moves.varying.sum()), np.int64)
    coefficients[moves.term] = w.coefficient
    kept = [term for term, keep in zip(terms, moves.varying, strict=False) if keep]
    return reference_units.Model(
        list(problem.rest), units_of(f, moves), threshold(theta), theta, kept,
        w.theta.astype(np.int64), coefficients, float(w.step[0]),
    )  # fmt: skip


def moves_of(f: Formula, terms: bool, fields: bool = True) -> Units:
    found = unit_moves(prepare(f), Terms.of(TERMS) if terms else None, fields)
    assert found is not None
    return found.weighted(COEFFICIENTS) if terms else found


def law_of(f: Formula, theta: np.ndarray, terms: bool) -> tuple[np.ndarray, np.ndarray]:
    states, p = exact_law(f, theta)
    if terms:
        products = np.array([states[:, np.array(t) - 1].all(1) for t in TERMS]).T
        p = p * np.exp(products @ COEFFICIENTS)
    return states, p / p.sum()


def starts(f: Formula, theta: np.ndarray, terms: bool, count: int, seed: int = 1) -> np.ndarray:
    """Solutions drawn from the law: (count, n_total)."""
    states, p = law_of(f, theta, terms)
    return states[np.random.default_rng(seed).choice(len(states), count, p=p)]


def request_for(theta: np.ndarray, count: int, moves: Units, **more: object) -> Request:
    return replace(
        pilot_request(np.atleast_2d(theta), count, Budget(threads=1)), moves=moves, **more
    )


def swept(f, moves, theta, x, sweeps, seed=3, **more) -> np.ndarray:
    request = request_for(theta, len(x), moves, sweeps=sweeps, seed=seed, **more)
    block = resumed(prepare(f), request, pack(x)[None], 0, 0, len(x))
    assert (block.filled == ~np.uint64(0)).all()
    return unpack(block.packed[0], len(x))


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("terms", [False, True])
def test_the_kernel_is_the_reference_bit_for_bit(name, terms):
    f = FORMULAS[name]
    theta = weights(f)
    moves, x = moves_of(f, terms), starts(f, theta, terms, 192)
    x[5] ^= True  # a state that may violate clauses: it is treated the same
    request = request_for(theta, 192, moves, sweeps=4, seed=7, contexts=np.array([3]))
    block = resumed(prepare(f), request, pack(x)[None], 2, 4, 192)
    expected = x
    for k in range(2, 6):
        expected = reference_units.sweep(model_of(f, moves, theta), expected, 7, k, 3, 4)
    got = unpack(block.packed[0], 192)
    assert np.array_equal(got, expected) and (got != x).any()
    sound = np.array([f.satisfied(row) for row in x])
    assert np.array_equal(f.satisfied(got), sound)  # no state becomes valid or invalid


def crowded(rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Terms over 16 variables: the first is in 21 of them, others in four to twelve."""
    pairs = [(a, b) for a in range(1, 17) for b in range(a + 1, 17)]
    some = [pairs[k] for k in range(len(pairs)) if k < 15 or rng.random() < 0.45]
    return [*some, *((1, k, k + 5) for k in range(2, 8))]


@pytest.mark.parametrize("scale", [0.4, 30.0])
@pytest.mark.parametrize("words", [1, 11])
def test_lone_variables_with_many_terms_are_the_reference_bit_for_bit(words, scale, monkeypatch):
    """Tables of one block and of several, and fields of each lane, in two contexts: words that fill
    no tile, and weights so large that the rarer value has the least weight there is.
    """
    f, rng = random_ksat(16, 20, 3, 2), np.random.default_rng(5)
    terms, theta = crowded(rng), rng.normal(size=(2, 16))
    c = scale * rng.normal(size=(2, len(terms)))
    moves = unit_moves(prepare(f), Terms.of(terms), fields=False)
    assert moves is not None
    inputs = np.diff(moves.program.input_at)
    assert inputs.min() < 7 and {7, 8, 9} & set(inputs.tolist()) and inputs.max() > 10
    x = rng.random((64 * words, 16)) < 0.5
    request = request_for(
        theta, 64 * words, moves.weighted(c), sweeps=3, seed=7, contexts=np.array([3, 4])
    )
    start = np.tile(pack(x), (2, 1, 1))
    got = resumed(prepare(f), request, start, 0, 2, 64 * words).packed
    for k in range(2):
        model, expected = model_of(f, moves.weighted(c[k]), theta[k], terms), x
        for sweep in range(3):
            expected = reference_units.sweep(model, expected, 7, sweep, 3 + k, 2)
        assert np.array_equal(unpack(got[k], len(x)), expected) and (expected != x).any()
    monkeypatch.setattr(unit_program, "_MOST", -1)  # no tables
    assert np.array_equal(resumed(prepare(f), request, start, 0, 2, 64 * words).packed, got)


def test_all_pairs_keep_the_law():
    """Nine variables with all 36 pairs, tables of four blocks: chi-square of 64,000 samples, rate
    1e-4. The twin takes 1.1 times one coefficient and is rejected.
    """
    f, rng = FORMULAS["3-sat"], np.random.default_rng(4)
    pairs = [(a, b) for a in range(1, 10) for b in range(a + 1, 10)]
    c, theta = rng.normal(size=36), weights(f)
    moves = unit_moves(prepare(f), Terms.of(pairs))
    assert moves is not None
    states, p = exact_law(f, theta)
    p = p * np.exp(np.array([states[:, np.array(t) - 1].all(1) for t in pairs]).T @ c)
    law = states, p / p.sum()
    x = states[rng.choice(len(states), 64_000, p=law[1])]
    assert chi_square(swept(f, moves.weighted(c), theta, x, 3), law) > ALPHA
    wrong = c + 0.3 * (np.arange(36) == np.abs(c).argmax())
    assert chi_square(swept(f, moves.weighted(wrong), theta, x, 3), law) < ALPHA


def test_thresholds_are_logistic():
    """Relative errors of the rarer value stay below 1e-5 (and half a unit of rounding)."""
    h = np.arange(-(2**15), 2**15 + 1)
    rare = 2.0**32 / (1 + np.exp(np.abs(h) / 1500.0))
    found = reference_units.heat_bath(h, 1 / 1500.0).astype(np.float64)
    found = np.where(h > 0, 2.0**32 - found, found)
    assert (np.abs(found - rare) <= 1e-5 * rare + 1).all() and found.min() == 1


@pytest.mark.slow
def test_every_way_to_look_up_bytes(monkeypatch):
    """All instructions that this machine has give the same bytes as plain loads."""
    assert lane_bytes.lookup_way("x86_64-linux", "", "+avx2,+avx") == "avx2"
    assert lane_bytes.lookup_way("arm64-apple-darwin", "", "+neon") == "neon"
    assert lane_bytes.lookup_way("riscv64-linux", "", "") == "loads"
    features = numba.core.registry.cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    ways = ["loads", *(way for way in lane_bytes.LOOKUPS if f"+{way}" in features)]
    rng = np.random.default_rng(0)
    table = vector.aligned(128, np.uint8)
    table[:] = rng.integers(0, 256, 128)
    chosen, found = vector.aligned(64, np.uint8), vector.aligned(64, np.uint8)
    chosen[:] = rng.integers(0, 64, 64)
    pair = Pair(table, chosen.view(np.uint64), found.view(np.uint64))
    for way in ways:
        monkeypatch.setattr(lane_bytes, "lookup_way", lambda *machine, way=way: way)

        @numba.njit
        def look(tag, pair):
            p = vector_llvm.bare(pair)
            row = lane_bytes.lookup(p.table, 64, vector_llvm.load(tag, p.chosen, 0))
            vector_llvm.store(p.found, 0, row)

        look(vector.tag(8), pair)
        assert np.array_equal(found, table[64 + chosen]), way
        found[:] = 0


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("terms", [False, True])
def test_a_sweep_from_the_law_stays_in_the_law(name, terms):
    """Chi-square of 64,000 samples; a right sweep fails with probability 1e-4."""
    f = FORMULAS[name]
    theta = weights(f)
    x = starts(f, theta, terms, 64_000)
    y = swept(f, moves_of(f, terms), theta, x, 1)
    assert (x != y).any(1).mean() > 0.1
    assert chi_square(y, law_of(f, theta, terms)) > ALPHA


@pytest.mark.parametrize("name", ["exactly one", "at most one", "implications"])
@pytest.mark.parametrize("terms", [False, True])
def test_sweeps_from_one_state_reach_the_law(name, terms):
    """Chi-square of 32,000 samples after 160 sweeps, rate 1e-4."""
    f = FORMULAS[name]
    theta = weights(f)
    x = np.repeat(starts(f, theta, terms, 1), 32_000, axis=0)
    y = swept(f, moves_of(f, terms), theta, x, 160)
    assert chi_square(y, law_of(f, theta, terms)) > ALPHA


def test_single_flips_are_stuck_where_fields_move():
    """Exactly one of three: a lone variable never moves, a field does."""
    f = pairwise(2, 3, True, [])
    x = starts(f, np.zeros(6), False, 640)
    assert np.array_equal(swept(f, moves_of(f, False, fields=False), np.zeros(6), x, 3), x)
    assert (swept(f, moves_of(f, False), np.zeros(6), x, 1) != x).any(1).mean() > 0.5


def test_strong_couplings():
    """Two fields that are all but tied (e^6), and one pushed away: three sweeps from the law.
    Chi-square of 32,000 samples, rate 1e-4.
    """
    f = pairwise(3, 3, True, [])
    pairs = [(k, k + 3) for k in (1, 2, 3)] + [(k, k + 6) for k in (1, 2, 3)]
    c = np.array([6.0] * 3 + [-6.0] * 3)
    moves = unit_moves(prepare(f), Terms.of(pairs))
    assert moves is not None
    states, p = exact_law(f, weights(f))
    p = p * np.exp(np.array([states[:, np.array(t) - 1].all(1) for t in pairs]).T @ c)
    x = states[np.random.default_rng(2).choice(len(states), 32_000, p=p / p.sum())]
    y = swept(f, moves.weighted(c), weights(f), x, 3)
    assert (x != y).any(1).mean() > 0.1
    assert chi_square(y, (states, p / p.sum())) > ALPHA


def test_wrong_sweeps_are_rejected():
    """Twins of the tests above: a wrong weight of one pattern, local fields that do not see some of
    the variables, the terms left out, and clauses left out.
    """
    f = FORMULAS["exactly one"]
    theta = weights(f)
    right, x = moves_of(f, True), starts(f, theta, True, 64_000)
    law = law_of(f, theta, True)
    plain, start = moves_of(f, False), starts(f, theta, False, 64_000)

    class Heavier(Units):
        def weights(self, problem, theta):
            w = super().weights(problem, theta)
            twice = 1 + (np.arange(len(w.pattern)) == 2).astype(np.int32)
            return w._replace(pattern=w.pattern * twice)

    wrong = Heavier(**vars(plain))
    wrong_law = law_of(f, theta, False)
    assert chi_square(swept(f, wrong, theta, start, 3), wrong_law) < ALPHA
    assert chi_square(swept(f, plain, theta, start, 3), wrong_law) > ALPHA

    class OneSided(Units):
        def weights(self, problem, theta):  # variables from the sixth on do not see the terms
            w = super().weights(problem, theta)
            seen = np.arange(len(w.coefficient)) < self.program.input_at[5]
            return w._replace(coefficient=w.coefficient * seen.astype(np.int32))

    one_sided = OneSided(**vars(right))
    assert chi_square(swept(f, one_sided, theta, x, 3), law) < ALPHA
    assert chi_square(swept(f, right, theta, x, 3), law) > ALPHA
    assert chi_square(swept(f, plain, theta, x, 3), law) < ALPHA

    blind = replace(plain, program=plain.program._replace(near_at=0 * plain.program.near_at))
    request = request_for(theta, len(start), blind, sweeps=3, seed=3)
    block = resumed(prepare(f), request, pack(start)[None], 0, 0, len(start))
    assert not (block.filled == ~np.uint64(0)).all()


@pytest.mark.parametrize("terms", [False, True])
def test_j_sweeps_and_k_more_are_j_plus_k_on_any_threads_and_in_any_batch(terms, monkeypatch):
    """Two contexts with coefficients of their own; alone, each has the same bits."""
    monkeypatch.setattr(protocol, "SMALL", 0)
    f, rng = pairwise(20, 3, True, [[-3 * k - 1, -3 * k - 4] for k in range(19)]), None
    rng, problem = np.random.default_rng(0), prepare(f)
    theta = rng.normal(size=(2, 60))
    moves = unit_moves(problem, Terms.of([(k, k + 3) for k in range(1, 58)]) if terms else None)
    assert moves is not None
    coefficients = rng.normal(size=(2, 57)) * [[1.0], [30.0]]
    moves = moves.weighted(coefficients) if terms else moves
    x = np.zeros((64, 60), bool)
    x[:, [3 * k + k % 3 for k in range(20)]] = True
    assert f.satisfied(x).all()
    words = np.tile(pack(x), (2, 5, 1))
    request = request_for(theta, 320, moves, contexts=np.array([0, 5]))
    at_once = resumed(problem, replace(request, sweeps=6), words, 0, 0, 320)
    first = resumed(problem, replace(request, sweeps=2, budget=Budget(threads=3)), words, 0, 0, 320)
    later = resumed(
        problem, replace(request, sweeps=4, budget=Budget(threads=2)), first.packed, 2, 0, 320
    )
    assert np.array_equal(at_once.packed, later.packed)
    assert (at_once.filled == ~np.uint64(0)).all()
    tail = resumed(problem, replace(request, sweeps=6), words[:, 3:], 0, 3, 128)
    assert np.array_equal(at_once.packed[:, 3:], tail.packed)
    own = moves.weighted(coefficients[1]) if terms else moves
    alone = request_for(theta[1:], 320, own, contexts=np.array([5]), sweeps=6)
    assert np.array_equal(at_once.packed[1:], resumed(problem, alone, words[1:], 0, 0, 320).packed)


def test_a_deadline_ends_sweeps(monkeypatch):
    f = pairwise(20, 3, True, [])
    moves, problem = moves_of(f, False), prepare(f)
    x = np.zeros((64, 60), bool)
    x[:, ::3] = True
    request = request_for(np.zeros(60), 64, moves, sweeps=1_000_000, budget=Budget(deadline=0.0))
    block = resumed(problem, request, pack(x)[None], 0, 0, 64)
    assert block.stopped and not block.filled.any()


def test_rounding_is_told():
    """Steps are powers of two, as small as 32-bit sums allow; large weights make them large."""
    f = Formula([], n_vars=4)
    moves = unit_moves(prepare(f), Terms.of([(1, 2), (2, 3)]))
    assert moves is not None
    small = moves.weighted([1.0, -1.0]).rounding(np.zeros((1, 4)))
    large = moves.weighted([1e9, -1.0]).rounding(np.zeros((1, 4)))
    assert small < 1e-8 and large > 0.5
