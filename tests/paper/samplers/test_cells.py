"""Weights as bits, cells of random parities, and counts of them: exactly, but for two statistical
tests, which say their false-alarm rate. Seeds are fixed.
"""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

import nelson
from tests.problems import exact_law, random_ksat, weights

pytest.importorskip("pycryptosat")

from nelson_paper.samplers.hashing import cells, counting, paws, weightgen
from nelson_paper.samplers.hashing.embed import MAX_BITS, chain, comparator, embed

FORMULA = random_ksat(12, 10, 4, seed=3)  # 1966 solutions
LAW = exact_law(FORMULA)
THETA = np.array([3.0, -3, 0, 0.5, -0.5, 0, 4, 0, 0, -0.2, 0, 1])


def space(formula, theta=None, tilt=2.0):
    theta = np.zeros(formula.n_vars) if theta is None else theta
    return cells.HashedSpace(formula.n_total, formula.clauses(), list(theta), tilt)


# --- weights as bits ----------------------------------------------------------------------------


@pytest.mark.parametrize("theta", [0.0, 0.3, -0.3, 2.0, -5.0, 50.0, -50.0, 600.0])
def test_a_chain_carries_its_log_odds(theta):
    for tolerance in (0.5, 0.01):
        link = chain(theta, tolerance)
        above, all_ = link.above, 1 << link.bits
        assert 0 < above < all_ and abs(link.residual) <= tolerance
        carried = math.log(above) - math.log(all_ - above)
        assert carried + link.residual == pytest.approx(theta, abs=1e-12)
    assert chain(0.0, 0.01) == (1, 1, 0.0)
    with pytest.raises(ValueError, match=f"more than {MAX_BITS} bits"):
        chain(800.0, 0.1)


@pytest.mark.parametrize("tilt", [1.1, 2.0, math.inf])
def test_embedding_keeps_the_tilt(tilt):
    theta = list(weights(random_ksat(30, 1, 3)))
    links = embed(theta, tilt)
    assert math.exp(sum(abs(link.residual) for link in links)) <= tilt
    assert tilt < math.inf or all(link.bits == 1 for link in links)
    fewer = sum(link.bits for link in embed(theta, 2.0))
    assert fewer <= sum(link.bits for link in embed(theta, 1.1))


@pytest.mark.parametrize("bits", [2, 3, 5])
def test_a_comparator_compares(bits):
    y = list(range(2, 2 + bits))
    for above in range(1, 1 << bits):
        f = nelson.Formula(comparator(1, y, above), n_vars=1 + bits)
        for number, x in itertools.product(range(1 << bits), (False, True)):
            row = [x, *(bool(number >> bits - 1 - k & 1) for k in range(bits))]
            assert bool(f.satisfied(row)) == (x == (number < above))


def test_elements_sum_up_to_the_law():
    """Counted over the extra bits, with the weights that are left: exactly exp(theta . x)."""
    formula = nelson.Formula([[1, 2], [-1, 3]])
    theta = [0.7, -1.3, 0.2]
    whole = space(formula, theta)
    assert whole.m > 3 and 1 < whole.tilt <= 2
    cell = whole.cell(random.Random(1), 0)
    total = dict.fromkeys(itertools.product((0, 1), repeat=3), 0.0)
    for j, weight in enumerate(cell.weights):
        assert 1 / whole.tilt <= weight * (1 + 1e-12) <= 1 + 1e-9
        total[tuple(cell.rows(j))] += weight
    states, law = exact_law(formula, theta)
    found = np.array([total[tuple(state)] for state in states.astype(int)])
    assert np.allclose(found / sum(total.values()), law, rtol=1e-12)


# --- cells --------------------------------------------------------------------------------------


def solutions_of(system, m):
    """A point and directions of the subspace of `cells.equations`."""
    free = [j for j in range(m) if j not in system]

    def point(chosen, constant):
        value = sum(1 << j for j in chosen)
        for pivot, row in system.items():
            odd = (row & constant) + sum(row >> j + 1 & 1 for j in chosen)
            value |= (odd & 1) << pivot
        return value

    return point([], 1), [point([j], 0) for j in free]


CASES = {
    "uniform": (random_ksat(10, 12, 3, seed=1), None),
    "weighted": (random_ksat(7, 8, 3, seed=2), np.linspace(-1.2, 1.5, 7)),
    "auxiliary": (nelson.Formula([[1, 2, -3]], n_vars=7).xor([1, 2, 3, 4, 5, 6, 7]), None),
    "weighted, auxiliary": (nelson.Formula([[1, -2]], n_vars=6).xor([1, 2, 3, 4, 5, 6]), [1.0] * 6),
}


@pytest.mark.parametrize("name", CASES)
def test_both_ways_to_list_a_cell_agree(name):
    """All points of the subspace at once, and CryptoMiniSat with its equations."""
    formula, theta = CASES[name]
    whole, rng = space(formula, theta), random.Random(5)
    seen = 0
    for k in sorted({max(0, whole.m - free) for free in (9, 8, 5, 3, 1, 0)}):
        system = cells.equations(rng, whole.m, k)
        solved = whole._solved(system, math.inf, True)
        listed = whole._all_points(*solutions_of(system, whole.m), math.inf, True)

        def content(cell):
            rows = [tuple(map(bool, cell.rows(j))) for j in range(len(cell.weights))]
            return sorted(zip(rows, np.round(cell.weights, 9), strict=True))

        assert content(solved) == content(listed)
        seen += len(solved.weights)
        total, number = sum(solved.weights), len(solved.weights)
        for limit, weighted in ((total, True), (number, False)):
            for way in (
                lambda *how, s=system: whole._solved(s, *how),
                lambda *how, s=system: whole._all_points(*solutions_of(s, whole.m), *how),
            ):
                assert way(limit + 1e-6, weighted) is not None
                assert number == 0 or way(limit - 1e-6, weighted) is None
    assert seen > 20


def test_equations_are_independent_and_reduced():
    rng = random.Random(1)
    for m, k in ((1, 1), (5, 5), (40, 17), (8, 0)):
        system = cells.equations(rng, m, k)
        assert len(system) == k
        for pivot in system:
            assert [other for other, row in system.items() if row >> pivot + 1 & 1] == [pivot]
        origin, basis = cells.subspace(rng, m, m - k)
        points = {
            origin ^ sum_of(chosen)
            for r in range(min(3, m - k) + 1)
            for chosen in itertools.combinations(basis, r)
        }
        assert len(points) == sum(math.comb(m - k, r) for r in range(min(3, m - k) + 1))


def sum_of(vectors):
    total = 0
    for vector in vectors:
        total ^= vector
    return total


@pytest.mark.slow
@pytest.mark.parametrize("way", ["equations", "subspace"])
def test_points_fall_into_cells_pairwise_independently(way):
    """m = 4, k = 2: a point is in a quarter of the cells, two are in 1/4 3/15, three in 1/4 3/15
    2/14 of them. 5 sigma; 3 events: false alarm below 1e-5.
    """
    rng, draws = random.Random(2), 20_000
    hits = np.zeros(3)
    for _ in range(draws):
        if way == "subspace":
            origin, basis = cells.subspace(rng, 4, 2)
        else:
            origin, basis = solutions_of(cells.equations(rng, 4, 2), 4)
        cell = {origin ^ sum_of(c) for r in range(3) for c in itertools.combinations(basis, r)}
        hits += [0b0000 in cell, {0b0000, 0b0011} <= cell, {0b0000, 0b0011, 0b1000} <= cell]
    p = np.array([1 / 4, 1 / 4 * 3 / 15, 1 / 4 * 3 / 15 * 2 / 14])
    assert (np.abs(hits - draws * p) < 5 * np.sqrt(draws * p * (1 - p))).all()


# --- counts -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("theta", [None, THETA])
def test_counts(theta):
    """20 seeds; the bounds may fail in 5% and 7% of them, and are much looser than what is seen."""
    whole = space(FORMULA, theta)
    number = len(whole.cell(random.Random(0), 0).weights) if whole.m <= 14 else None
    states, _ = LAW
    scores = np.zeros(len(states)) if theta is None else states @ theta
    # An element weighs at most 1; a state has the product over variables of its ways to be made.
    shift = sum(math.log((1 << c.bits) - c.above) for c in whole.chains)
    weight = np.logaddexp.reduce(scores) + shift - whole.shift
    for seed in range(20):
        rng = random.Random(seed)
        assert abs(counting.estimate(whole, rng, 32.0) - weight / math.log(2)) < math.log2(1.8)
        if number is not None:
            k = counting.bracket(whole, rng, 63, weighted=False)
            share = math.log2(number / 64)
            assert share - counting.gamma(64) <= k <= share + counting.gamma(64) + 1


def test_constants():
    """gamma: (P + 2 + 2 r)(P + 2 - 2 r) = P^2, r^2 = P + 1, and Chebyshev's 1/4 at both ends."""
    for p in (8, 64, 1000):
        high, low = p * 2 ** counting.gamma(p), p * 2 ** -counting.gamma(p)
        assert high / (high - p) ** 2 == pytest.approx(0.25)
        assert low / (p - low) ** 2 == pytest.approx(0.25)
    assert paws.factor() == pytest.approx(0.915, abs=1e-3)
    assert paws.factor(64, 2) > paws.factor() and paws.factor(256) > paws.factor()
    assert paws.success() == pytest.approx(0.181, abs=1e-3)
    kappa, pivot = weightgen.kappa_pivot(16.0)
    assert (1 + kappa) * (7.55 + 0.29 / (1 - kappa) ** 2) - 1 == pytest.approx(16)
    low, high, _ = weightgen.thresholds(16.0)
    assert (pivot, round(low), round(high)) == (26, 11, 62)
