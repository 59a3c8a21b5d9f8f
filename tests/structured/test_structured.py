"""Structured formulas have the solutions that their docstrings promise: counted, and read back."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nelson.errors import FormulaError
from nelson.exact.listing import all_structures
from nelson.exact.solver import satisfiable
from nelson.formula import Formula
from tests.problems import all_states
from tests.structured import (
    adder,
    cardinality,
    colouring,
    cycle,
    feature_model,
    feature_tree,
    grid,
    grid_obstacles,
    grid_path,
    knapsack,
    latin_square,
    multiplier,
    pigeonhole,
    planted_ksat,
    random_circuit,
    random_colouring,
    random_graph,
    random_ksat,
    suite,
    xor_chain,
    xor_system,
)


def numbers(x: np.ndarray, first: int, bits: int) -> np.ndarray:
    """The number in variables first..first + bits - 1 (from 0), low bit first."""
    return x[:, first : first + bits] @ (1 << np.arange(bits))


# --- circuits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [None, 0, 5, 8, 14])
def test_adder(total):
    x = all_structures(adder(3, total))
    a, b = numbers(x, 0, 3), numbers(x, 3, 3)
    pairs = {(p, q) for p in range(8) for q in range(8) if total in (None, p + q)}
    assert len(x) == len(pairs) and set(zip(a.tolist(), b.tolist(), strict=True)) == pairs
    if total is not None:
        assert len(x) == min(total, 14 - total) + 1


@pytest.mark.parametrize(
    ("bits", "product"), [(1, None), (2, None), (4, None), (4, 36), (4, 225), (4, 29), (6, 720)]
)
def test_the_solutions_of_a_multiplier_are_the_pairs_of_factors(bits, product):
    x = all_structures(multiplier(bits, product))
    a, b = numbers(x, 0, bits).tolist(), numbers(x, bits, bits).tolist()
    expected = {
        (p, q) for p in range(1 << bits) for q in range(1 << bits) if product in (None, p * q)
    }
    assert len(x) == len(expected) and set(zip(a, b, strict=True)) == expected


def test_a_product_that_does_not_fit_is_an_error():
    for product in (-1, 256):
        with pytest.raises(FormulaError, match="product"):
            multiplier(4, product)


@pytest.mark.parametrize("seed", range(4))
def test_every_input_of_a_random_circuit_has_one_solution(seed):
    x = all_structures(random_circuit(5, 12, 0, seed))
    assert len(x) == 32 and len(np.unique(x[:, :5], axis=0)) == 32
    fewer = all_structures(random_circuit(5, 12, 3, seed))
    assert 0 < len(fewer) <= 32
    assert {row.tobytes() for row in fewer} <= {row.tobytes() for row in x}


# --- feature models -------------------------------------------------------------------------------


def is_configuration(tree, x):
    """The words of the docstring, read one by one."""
    for kind, parent, children in tree.groups:
        chosen, size = sum(x[child - 1] for child in children), len(children)
        allowed = {
            "mandatory": {size},
            "optional": set(range(size + 1)),
            "or": set(range(1, size + 1)),
            "xor": {1},
        }[kind]
        if chosen not in (allowed if x[parent - 1] else {0}):
            return False
    return bool(x[0])


@pytest.mark.parametrize("seed", range(6))
def test_feature_trees(seed):
    tree = feature_tree(12, seed)
    assert {child for _, _, group in tree.groups for child in group} == set(range(2, 13))
    states = all_states(12)
    valid = np.array([is_configuration(tree, x) for x in states])
    formula = feature_model(12, 0, seed)
    assert np.array_equal(formula.satisfied(states), valid)
    assert tree.count() == valid.sum()
    assert formula.satisfied(tree.configure(np.random.default_rng(seed)))


@pytest.mark.parametrize("seed", range(6))
def test_cross_constraints_leave_a_solution(seed):
    formula = feature_model(14, 8, seed)
    x = all_structures(formula)
    assert 0 < len(x) <= feature_tree(14, seed).count()
    assert all(is_configuration(feature_tree(14, seed), row) for row in x)


# --- graphs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k"), [(3, 2), (3, 3), (4, 2), (5, 3), (6, 3), (4, 4)])
def test_colourings_of_a_cycle_follow_its_chromatic_polynomial(n, k):
    formula = colouring(cycle(n), n, k)
    assert len(all_structures(formula)) == (k - 1) ** n + (-1) ** n * (k - 1)


def test_colourings_of_a_grid_and_of_random_graphs():
    assert len(grid(3, 2)) == 7
    assert len(all_structures(colouring(grid(2, 2), 4, 3))) == 18  # the cycle of four
    edges = random_graph(8, 12, seed=3)
    assert len(set(edges)) == 12 and all(0 <= a < b < 8 for a, b in edges)
    assert random_graph(8, 12, seed=3) == edges != random_graph(8, 12, seed=4)
    for seed in range(3):
        assert len(all_structures(random_colouring(6, 7, 3, seed))) > 0
    with pytest.raises(FormulaError, match="edges"):
        random_graph(4, 7)


# --- random clauses, parities, cardinalities ------------------------------------------------------


def test_random_clauses_have_distinct_variables():
    formula = random_ksat(50, 300, 4, seed=2)
    assert formula.n_vars == 50 and (np.diff(formula.offsets) == 4).all()
    assert formula == random_ksat(50, 300, 4, seed=2) != random_ksat(50, 300, 4, seed=3)
    assert abs((formula.literals > 0).mean() - 0.5) < 0.1  # 1200 fair coins: 7 sigma


@pytest.mark.parametrize("n", [15, 100])
def test_planted_clauses_have_a_solution(n):
    formula = planted_ksat(n, 4.2, 3, seed=1)
    assert abs(formula.n_clauses - 4.2 * n) < 3  # repeated ones are kept once
    assert satisfiable(formula)


@pytest.mark.parametrize(("n", "width"), [(9, 3), (10, 2), (13, 4), (16, 7)])
def test_xor_chains(n, width):
    formula = xor_chain(n, width, seed=1)
    windows = len(range(1, n - width + 2, width - 1))
    assert len(all_structures(formula)) == 2 ** (n - windows)
    assert (formula.n_aux > 0) == (width > 5)


def test_xor_systems_have_two_to_the_kernel_solutions():
    formula = xor_system(10, 6, 3, seed=1)
    matrix = np.zeros((6, 10), bool)
    for j in range(6):  # four clauses a parity, over the same variables
        matrix[j, np.abs(formula.literals[12 * j : 12 * j + 3]) - 1] = True
    rank = 0
    for column in range(10):  # Gauss over GF(2)
        found = np.flatnonzero(matrix[rank:, column]) + rank
        if len(found):
            matrix[[rank, found[0]]] = matrix[[found[0], rank]]
            for row in np.flatnonzero(matrix[:, column]):
                if row != rank:
                    matrix[row] ^= matrix[rank]
            rank += 1
    assert len(all_structures(formula)) == 2 ** (10 - rank)


def test_cardinalities_and_knapsacks_hold_in_every_solution():
    x = all_structures(knapsack(10, 9, seed=2))
    weights = np.random.default_rng([2, 11]).integers(1, 10, 10)
    sums = all_states(10) @ weights
    inside = (sums >= weights.sum() // 3) & (sums <= weights.sum() // 2)
    assert len(x) == inside.sum()
    for seed in range(4):
        formula = cardinality(12, 3, 5, seed)
        assert 0 < len(all_structures(formula)) < 2**12


# --- puzzles --------------------------------------------------------------------------------------


def walks(width, height, frames, blocked):
    """Walks from corner to corner, by powers of the adjacency matrix."""
    cells = width * height
    step = np.zeros((cells, cells), int)
    for a in range(cells):
        for b in range(cells):
            far = abs(a % width - b % width) + abs(a // width - b // width)
            step[a, b] = far <= 1 and not blocked.flat[a] and not blocked.flat[b]
    return np.linalg.matrix_power(step, frames)[0, -1]


@pytest.mark.parametrize(("frames", "obstacles"), [(2, 0), (4, 0), (5, 2), (6, 3)])
def test_grid_paths_are_walks(frames, obstacles):
    x = all_structures(grid_path(3, 3, frames, obstacles, seed=1))
    assert len(x) == walks(3, 3, frames, grid_obstacles(3, 3, obstacles, seed=1))
    assert not len(x) or (x.reshape(len(x), frames + 1, 9).sum(axis=2) == 1).all()


@pytest.mark.parametrize(("n", "given", "count"), [(2, 0, 2), (3, 0, 12), (4, 0, 576), (3, 9, 1)])
def test_latin_squares(n, given, count):
    x = all_structures(latin_square(n, given, seed=1))
    assert len(x) == count
    squares = x.reshape(-1, n, n, n)  # row, column, symbol
    assert all((squares.sum(axis=axis) == 1).all() for axis in (1, 2, 3))


def test_pigeons():
    for pigeons, holes in ((1, 3), (3, 3), (2, 4)):
        # A pigeon may sit in several holes: at least one each, disjoint.
        x = all_structures(pigeonhole(pigeons, holes)).reshape(-1, pigeons, holes)
        ways = sum(
            (-1) ** k * math.comb(pigeons, k) * (pigeons - k + 1) ** holes
            for k in range(pigeons + 1)
        )
        assert len(x) == ways
    assert satisfiable(pigeonhole(6, 5)) is False


# --- the suite ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_suite_is_thirty_lazy_formulas():
    entries = suite()
    assert len({name for name, _ in entries}) == len(entries) == 30
    for name, make in entries[:-1]:
        formula, theta = make()
        assert isinstance(formula, Formula) and formula.n_clauses > 0
        assert (theta is not None) == name.endswith("weighted")
        assert theta is None or theta.shape == (formula.n_vars,)
    for make in (entries[0].make, entries[10].make, entries[15].make):
        assert make()[0] == make()[0]


@pytest.mark.slow
def test_what_has_no_solution_in_the_suite():
    for name, make in suite():
        if "pigeonhole, 9" in name or "prime" in name:
            assert satisfiable(make()[0]) is False
