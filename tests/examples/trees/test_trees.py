"""Spanning trees: the matrix-tree theorem against enumeration, cycle popping against plain Python,
learning against the planted weights. Next to each test that accepts stands a wrong sampler or
answer, its twin, that the same test rejects.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

import nelson
from examples.arcs.popping import RandomStream, run
from examples.trees.task import SpanningTrees
from nelson_paper import tasks
from tests.examples.arcs.cases import ALPHA, DRAWS, SIGMAS, TREES, all_trees, law_of, uniform
from tests.problems import chi_square, one_way_graph

nx = pytest.importorskip("networkx")
chi2 = pytest.importorskip("scipy.stats").chi2


@pytest.mark.parametrize("name", TREES)
def test_the_matrix_tree_theorem_counts_what_enumeration_lists(name):
    task = TREES[name]()
    trees = all_trees(task)
    assert math.isclose(task.log_partition().value, math.log(len(trees)), rel_tol=1e-12)
    theta = np.random.default_rng(3).normal(0, 2, task.n_vars)
    log_z = np.logaddexp.reduce(trees @ theta)
    exact = task.log_partition(theta)
    assert math.isclose(exact.value, log_z, rel_tol=1e-12) and exact.exact
    trees, p = law_of(task, theta)
    np.testing.assert_allclose(task.marginals(theta), p @ trees, atol=1e-12)


def test_cayley_and_a_known_grid():
    for n in (2, 3, 7):
        log_z = SpanningTrees(nx.complete_graph(n)).log_partition().value
        assert math.isclose(log_z, (n - 2) * math.log(n), abs_tol=1e-10)
    count = SpanningTrees(nx.grid_2d_graph(4, 4), per="edge").log_partition().value
    assert round(math.exp(count)) == 100_352  # OEIS A007341


def test_the_direction_of_arcs_matters():
    """The twin: with the same arcs and weights reversed, log Z is another number."""
    arcs = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "r"), ("b", "r"), ("r", "c"), ("r", "a")]
    weight = dict(zip(arcs, np.linspace(-1, 2, len(arcs)), strict=True))
    values = []
    for turn in (1, -1):
        task = SpanningTrees(nx.DiGraph([arc[::turn] for arc in arcs]), "r")
        theta = np.array([weight[tuple(name.split("->"))[::turn]] for name in task.names])
        values.append(task.log_partition(theta).value)
        assert math.isclose(values[-1], np.logaddexp.reduce(all_trees(task) @ theta))
    assert abs(values[0] - values[1]) > 0.1


def test_the_gradient_of_log_z_is_the_mean():
    task = SpanningTrees.small()
    theta, step = np.random.default_rng(0).normal(size=task.n_vars), 1e-5
    slopes = [
        (task.solve(theta + e).log_z - task.solve(theta - e).log_z) / (2 * step)
        for e in step * np.eye(task.n_vars)
    ]
    np.testing.assert_allclose(task.marginals(theta), slopes, atol=1e-8)


def test_weights_that_elimination_with_subtractions_loses():
    """Two vertices that prefer each other; the only way out has weight e^-80."""
    task = SpanningTrees(nx.DiGraph([("a", "b"), ("b", "a"), ("a", "r")]), "r")
    theta = np.array([{"a->b": 0.0, "b->a": 0.0, "a->r": -80.0}[name] for name in task.names])
    assert math.isclose(task.log_partition(theta).value, -80.0, rel_tol=1e-14)
    plain = np.array([[1 + math.exp(-80), -1], [-1, 1]])  # the Laplacian, as it is usually taken
    assert not math.isclose(np.linalg.slogdet(plain)[1], -80.0, rel_tol=0.1)
    assert math.isclose(task.expected_pops(theta), 2 * math.exp(80), rel_tol=1e-12)
    with pytest.raises(nelson.NelsonError, match="too far apart"):
        task.log_partition(theta * 10)


def test_means_where_a_draw_takes_a_billion_arcs():
    task = SpanningTrees(nx.complete_graph(4))
    theta = np.array([-21.0 if name.endswith("->0") else 0.0 for name in task.names])
    theta += np.linspace(-1, 1, len(theta))
    trees, p = law_of(task, theta)
    assert task.expected_pops(theta) > 1e8
    np.testing.assert_allclose(task.marginals(theta), p @ trees, atol=1e-6)


def stacks(task, theta, seed, sample):
    """draw(v, k): the k-th arc on the stack of v, by plain NumPy."""
    cumulative = task.arc_law(theta)
    out = task.arcs.out

    def draw(v, k):
        some = cumulative[out[v] : out[v + 1]]
        place = np.searchsorted(some, uniform(seed, sample, k, v), side="right")
        return int(out[v] + min(place, len(some) - 1))

    return draw


def cycles(task, arc):
    """The cycles of the graph with one arc per vertex."""
    found, seen = [], set()
    for v in arc:
        path = []
        while v in arc and v not in seen:
            seen.add(v)
            path.append(v)
            v = int(task.arcs.head[arc[v]])
        if v in path:
            found.append(path[path.index(v) :])
    return found


def popped(task, draw, choose):
    """Cycle popping, in the order that `choose` takes from the cycles there are. -> (x, pops)"""
    turn = {v: 0 for v in range(task.arcs.n) if v != task.arcs.root}
    arc = {v: draw(v, 0) for v in turn}
    pops = 0
    while found := cycles(task, arc):
        for v in choose(found):
            turn[v] += 1
            arc[v] = draw(v, turn[v])
            pops += 1
    x = np.zeros(task.n_vars, bool)
    x[task.arcs.column[list(arc.values())]] = True
    return x, pops


ORDERS = {
    "all": lambda found: [v for cycle in found for v in cycle],
    "first": lambda found: found[0],
    "last": lambda found: found[-1],
}


@pytest.mark.parametrize("order", ORDERS)
def test_any_order_of_popping_gives_the_tree_of_the_kernel(order):
    """Bit for bit: the order of popping changes neither the tree nor the number of pops."""
    task = SpanningTrees(nx.grid_2d_graph(3, 3))
    theta = np.random.default_rng(8).normal(size=task.n_vars)
    result, _ = run(task.arcs, task.arc_law(theta), None, 40, RandomStream(9))
    assert result.pops.max() > 5
    for i in range(40):
        x, pops = popped(task, stacks(task, theta, 9, i), ORDERS[order])
        assert (x == result.x[i]).all() and pops == result.pops[i]


@pytest.mark.slow
def test_a_cycle_popped_in_part_is_biased_and_the_test_sees_it():
    """The twin redraws only the first vertex of a cycle."""
    task = TREES["grid"]()
    theta = np.random.default_rng(5).normal(size=task.n_vars)
    drawn = {
        name: np.array([popped(task, stacks(task, theta, 2, i), choose)[0] for i in range(4000)])
        for name, choose in (("whole", ORDERS["all"]), ("part", lambda found: found[0][:1]))
    }
    law = law_of(task, theta)
    assert task.valid(drawn["part"]).all()
    assert chi_square(drawn["whole"], law) > ALPHA
    assert chi_square(drawn["part"], law) < ALPHA


def test_means_and_work_on_a_grid_too_large_to_list():
    task = SpanningTrees.small()
    result, _ = run(task.arcs, task.arc_law(task.planted), None, DRAWS, RandomStream(4))
    mean, exact = result.x.mean(axis=0), task.marginals(task.planted)
    sigma = np.sqrt(exact * (1 - exact) / DRAWS) + 1e-9
    assert (np.abs(mean - exact) < SIGMAS * sigma).all()
    assert (np.abs(mean - task.marginals()) > SIGMAS * sigma).sum() > 20  # the uniform law's means
    error = result.pops.std() / math.sqrt(DRAWS)
    assert abs(result.pops.mean() - task.expected_pops(task.planted)) < SIGMAS * error
    assert abs(result.pops.mean() - task.expected_pops()) > SIGMAS * error


def aldous_broder(graph, root, most, random):
    """A walk from the root until all is seen; the arcs back along first entries are a uniform tree.
    None if that takes more than `most` steps.
    """
    at, tree = root, {}
    for _ in range(most):
        before, at = at, random.choice(list(graph[at]))
        if at != root and at not in tree:
            tree[at] = before
        if len(tree) == len(graph) - 1:
            return tree
    return None


@pytest.mark.slow
def test_a_budget_leaves_out_samples_without_bias():
    """The tree is independent of the pops. The twin, a walk whose length depends on its tree,
    is cut at about the same share of samples and is biased.
    """
    graph = nx.grid_2d_graph(2, 3)
    task = SpanningTrees(graph, (0, 0))
    law = law_of(task, np.zeros(task.n_vars))
    drawn = task.sample(None, DRAWS, seed=6, max_pops=2)
    assert drawn.info["status"] == "budget" and "pops" in drawn.info["reason"]
    assert 0.2 * DRAWS < len(drawn) < 0.7 * DRAWS and drawn.info["pops_most"] <= 2
    assert chi_square(drawn.x, law) > ALPHA

    source, column = Random(1), {name: k for k, name in enumerate(task.names)}

    def rows(most):
        x = []
        for _ in range(8000):
            if (tree := aldous_broder(graph, (0, 0), most, source)) is not None:
                row = np.zeros(task.n_vars, bool)
                row[[column[f"{v}->{u}"] for v, u in tree.items()]] = True
                x.append(row)
        return np.array(x)

    assert chi_square(rows(10_000), law) > ALPHA
    assert chi_square(rows(9), law) < ALPHA


@pytest.mark.slow
def test_nothing_hangs():
    task = SpanningTrees(nx.DiGraph([("a", "b"), ("b", "a"), ("a", "r")]), "r")
    theta = [-60.0 if name == "a->r" else 0.0 for name in task.names]
    for options in ({"max_pops": 1000}, {"seconds": 0.2, "max_pops": 10**7}, {"seconds": 0.0}):
        drawn = task.sample(theta, 200_000, **options)
        assert drawn.info["status"] == "budget" and len(drawn) == 0 and drawn.x.shape == (0, 3)
        assert drawn.info["reason"]
    with pytest.raises(nelson.BudgetExceeded):
        task.evaluate(theta, all_trees(task), seconds=0.0)


def parameters(task):
    """Dimensions of theta that have an effect."""
    groups = task._groups
    return int((groups >= 0).sum()) - len(np.unique(groups[groups >= 0]))


@pytest.mark.parametrize("name", ["grid", "K4 edges", "one-way", "small"])
def test_learned_weights_match_the_data_and_come_near_the_planted(name):
    """2 N KL(planted || learned) is about chi-square with as many degrees as free parameters."""
    task = TREES[name]() if name in TREES else SpanningTrees.small()
    data = task.examples(20_000, seed=1)
    fit = task.learn(data, l2=0.0)
    assert fit.converged and fit.guarantee == "exact"
    np.testing.assert_allclose(task.marginals(fit.theta), data.mean(axis=0), atol=1e-7)
    far = 2 * len(data) * task.kl(task.planted, fit.theta)
    assert chi2.sf(far, parameters(task)) > ALPHA
    other = task.learn(task.sample(None, 20_000, seed=1).x, l2=0.0)  # examples of another law
    assert chi2.sf(2 * len(data) * task.kl(task.planted, other.theta), parameters(task)) < ALPHA


def test_a_prior_holds_back_what_was_never_seen():
    task = TREES["grid"]()
    data = np.repeat(task.examples(1, seed=2), 50, axis=0)
    free, held = task.learn(data, l2=0.0), task.learn(data)
    assert np.abs(free.theta).max() > 2 * np.abs(held.theta).max()
    assert held.info["l2"] == 0.1 / 50
    mean = task.marginals(held.theta)
    np.testing.assert_allclose(data.mean(axis=0) - mean, held.info["l2"] * held.theta, atol=1e-7)


@pytest.mark.parametrize("per", ["arc", "edge"])
def test_the_gauge(per):
    """Two blocks and a leaf: some arcs are in no tree, some shifts change nothing."""
    graph = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2), (4, 5)])
    task = SpanningTrees(graph, 0, per=per)
    theta = np.random.default_rng(1).normal(size=task.n_vars)
    rest = task.canonical(theta)
    trees = all_trees(task)
    np.testing.assert_allclose(law_of(task, theta)[1], law_of(task, rest)[1], atol=1e-12)
    never = ~trees.any(axis=0)
    assert (rest[never] == 0).all() and never.any() == (per == "arc")
    # Least norm: nothing of it lies in a direction that is constant over all trees.
    flat = np.linalg.svd(trees - trees.mean(axis=0))[2]
    rank = np.linalg.matrix_rank(trees - trees.mean(axis=0))
    np.testing.assert_allclose(flat[rank:] @ rest, 0, atol=1e-10)
    assert np.abs(flat[rank:] @ theta).max() > 0.1
    assert rank == parameters(task)
    learned = task.learn(task.examples(2000), l2=0.0).theta
    np.testing.assert_allclose(learned, task.canonical(learned), atol=1e-6)


@pytest.mark.parametrize("name", TREES)
def test_a_tree_with_one_arc_changed_is_no_tree(name):
    task = TREES[name]()
    wrong = all_trees(task)[:50]
    wrong[:, 0] ^= True
    assert not task.valid(wrong).any()


def test_names():
    task = SpanningTrees(one_way_graph(), "r")
    assert sorted(task.names) == sorted(
        ["a->b", "b->c", "c->a", "c->r", "a->r", "d->a", "d->a#2", "b->d"]
    )
    assert task.root == "r" and "5 vertices" in task.describe()


def test_the_demo_finds_it():
    assert tasks.get("examples.trees:SpanningTrees") is SpanningTrees
