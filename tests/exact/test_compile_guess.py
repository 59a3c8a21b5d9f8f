"""The estimate of whether a formula compiles: its width where that is known, and its verdicts."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.exact.compile_guess import estimate
from tests.problems import random_ksat


def width_by_networkx(formula):
    """Width of a minimum-degree order, by the definition."""
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_nodes_from(range(1, formula.n_total + 1))
    for clause in formula:
        graph.add_edges_from((abs(a), abs(b)) for a in clause for b in clause if abs(a) < abs(b))
    most = 0
    while len(graph):
        v, degree = min(graph.degree, key=lambda pair: pair[1])
        most = max(most, degree)
        around = list(graph[v])
        graph.add_edges_from((a, b) for a in around for b in around if a < b)
        graph.remove_node(v)
    return most


@pytest.mark.parametrize("seed", range(6))
def test_the_width_is_that_of_a_minimum_degree_order(seed):
    """Ties may be broken otherwise: both are orders of the same greedy rule."""
    formula = random_ksat(40, 30 + 5 * seed, 3, seed=seed)
    assert abs(estimate(formula).width - width_by_networkx(formula)) <= 2


def test_the_width_where_it_is_known():
    path = nelson.Formula([[v, v + 1] for v in range(1, 50)])
    tree = nelson.Formula([[-v, v // 2] for v in range(2, 60)])
    cycle = nelson.Formula([[v, v % 30 + 1] for v in range(1, 31)])
    clique = nelson.Formula([[a, b] for a in range(1, 20) for b in range(a + 1, 20)])
    long = nelson.Formula([list(range(1, 31))])
    found = [estimate(formula).width for formula in (path, tree, cycle, clique, long)]
    assert found == [1, 1, 2, 18, 29]
    assert all(estimate(f).complete and not estimate(f).hopeless for f in (path, tree, cycle, long))


@pytest.mark.parametrize("n", [100, 150, 1000])
def test_random_5_sat_is_hopeless_from_100_on(n):
    for seed in range(4):
        found = estimate(random_ksat(n, n, 5, seed=seed))
        assert found.hopeless and "hopeless" in found.why
    assert not estimate(random_ksat(50, 50, 5, seed=1)).hopeless


def test_what_compiles_is_not_hopeless():
    from tests.structured import adder, feature_model, latin_square, multiplier, planted_ksat

    made = adder(32), feature_model(100, 15), multiplier(6), latin_square(9, 30)
    for formula in (*made, planted_ksat(150, 4.2), feature_model(500, 100, seed=1)):
        assert not estimate(formula).hopeless, formula
    for formula in ([], [[]], [[1], [-1]], [[1], [-1, 2]]):
        assert not estimate(nelson.Formula(formula)).hopeless


def test_a_grid_has_few_states_if_its_rows_are_decided_in_turn():
    """Too wide and too deep for D4. In another order the states are many."""
    from tests.structured.graphs import grid_colouring

    grid = grid_colouring(14, 14, 3)
    assert estimate(grid).by_level and not estimate(grid).hopeless
    names = np.random.default_rng(1).permutation(grid.n_total) + 1
    mixed = [[int(np.sign(a) * names[abs(a) - 1]) for a in clause] for clause in grid]
    assert not estimate(nelson.Formula(mixed)).by_level


@pytest.mark.slow
def test_the_estimate_of_a_large_formula_ends():
    formula = random_ksat(250_000, 1_000_000, 4, seed=1)
    found = estimate(formula)
    assert found.hopeless and not found.complete and "steps" in found.why


def test_many_narrow_components_are_not_hopeless():
    """The steps of the elimination grow with the number of components: 400,000 literals in 20,000.
    The twin: as many literals of random 5-SAT, in one component.
    """
    part = [[1, 2, 3], [-1, 4], [2, -4, 5], [-5, 6, 7], [3, -6, 8], [-7, -8, 1, 4], [5, 8]]
    many = nelson.Formula(
        [[a + 8 * k * (1 if a > 0 else -1) for a in c] for k in range(20_000) for c in part]
    )
    found = estimate(many)
    assert found.complete and found.width <= 7 and not found.hopeless
    assert estimate(random_ksat(80_000, 80_000, 5, seed=1)).hopeless
