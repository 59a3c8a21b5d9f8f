"""Sink-free orientations against brute force over directed graphs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nelson.errors import FormulaError, Unsatisfiable
from nelson_paper.tasks import Orientations
from nelson_paper.tasks.orientations.task import tree_component
from tests.paper.tasks.helpers import pixel_spread
from tests.problems import all_states, chi_square, complete_edges, cycle_edges

nx = pytest.importorskip("networkx", reason="pip install nelson-mrf[plots]")


GRAPHS = {
    "triangle": nx.Graph(cycle_edges(3)),
    "cycle": nx.Graph(cycle_edges(6)),
    "complete": nx.Graph(complete_edges(5)),
    "petersen less two": nx.Graph(list(nx.petersen_graph().edges)[2:]),
    "apart": nx.Graph([*cycle_edges(3), (3, 4), (4, 5), (5, 6), (6, 3), (6, 7)]),
    "parallel": nx.MultiGraph([("a", "b"), ("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")]),
    "loops": nx.Graph([(0, 0), (0, 1), (1, 2), (2, 2), (2, 3)]),
    "backwards": nx.Graph([(3, 1), (1, 2), (2, 3), (0, 3)]),
}


def oriented(graph):
    """All orientations, by networkx alone: directed graphs (with loops as they are)."""
    keyed = {"keys": True} if graph.is_multigraph() else {}
    edges = [e for e in graph.edges(**keyed) if e[0] != e[1]]
    loops = [e for e in graph.edges(**keyed) if e[0] == e[1]]
    for flips in itertools.product((False, True), repeat=len(edges)):
        digraph = nx.MultiDiGraph() if graph.is_multigraph() else nx.DiGraph()
        digraph.add_nodes_from(graph)
        digraph.add_edges_from(loops)
        digraph.add_edges_from(
            (e[1], e[0], *e[2:]) if flip else e for e, flip in zip(edges, flips, strict=True)
        )
        yield digraph


def sink_free(digraph) -> bool:
    return all(degree > 0 for _, degree in digraph.out_degree)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_structures_are_exactly_the_sink_free_orientations(name):
    """Against brute force; the formula is extremal; the conversions are inverse to each other."""
    graph = GRAPHS[name]
    task = Orientations(graph)
    assert task.formula.is_extremal
    every = list(oriented(graph))
    x = np.array([task.assignment(d) for d in every])
    assert len(np.unique(x, axis=0)) == len(every) == 2**task.n_vars
    right = np.array([sink_free(d) for d in every])
    assert (task.valid(x) == right).all()
    assert 0 < right.sum() < len(every)
    for row, digraph in itertools.islice(zip(x, every, strict=True), 0, None, 7):
        back = task.directed(row)
        assert nx.utils.graphs_equal(back, digraph)
        assert type(back) is type(digraph)


def test_counts_that_are_known():
    """A cycle has 2; of K_n at most one vertex is a sink, so 2^m - n 2^(m - n + 1)."""
    for n in (3, 5, 8):
        task = Orientations(nx.cycle_graph(n))
        assert task.valid(all_states(n)).sum() == 2
    for n in (3, 4, 5):
        m = n * (n - 1) // 2
        task = Orientations(nx.complete_graph(n))
        assert task.valid(all_states(m)).sum() == 2**m - n * 2 ** (m - n + 1)


@pytest.mark.parametrize("name", ["complete", "parallel", "loops", "apart"])
def test_samples_follow_the_law(name):
    """Chi-square of 40,000 draws against enumeration by networkx; false alarms 1e-4 each."""
    task = Orientations(GRAPHS[name], seed=1)
    states = np.array([task.assignment(d) for d in oriented(GRAPHS[name]) if sink_free(d)])
    weight = np.exp(states @ task.planted)
    law = (states, weight / weight.sum())
    drawn = task.sample(task.planted, 40_000, seed=2)
    assert drawn.guarantee == "exact"
    assert chi_square(drawn.x, law) > 1e-4
    assert chi_square(task.sample(None, 40_000, seed=2).x, law) < 1e-9  # the twin: no preferences
    slightly = task.planted * 0.9
    assert chi_square(task.sample(slightly, 40_000, seed=2).x, law) < 1e-4


def test_erdos_renyi_graphs():
    """Edges within 4 sigma of p (6e-5 each); sizes of the paper; no tree component."""
    for n in (10, 100):
        task = Orientations.random(n, seed=1)
        pairs = n * (n - 1) / 2
        sigma = np.sqrt(0.55 * 0.45 * pairs)
        assert abs(task.n_vars - 0.55 * pairs) < 4 * sigma
        assert tree_component(task.graph) is None
        assert task.formula.is_extremal
        assert task.formula.n_clauses == n
    assert abs(0.5 * pairs - 0.55 * pairs) > 4 * sigma  # at n = 100 another p would be seen
    rows = task.examples(64)
    assert task.valid(rows).all()
    # Sparse ones are drawn again: of 30 graphs with 5 vertices and p = 0.4, most have a tree.
    first = [nx.gnp_random_graph(5, 0.4, seed=s) for s in range(30)]
    assert sum(tree_component(g) is not None for g in first) > 10
    for seed in range(30):
        assert tree_component(Orientations.random(5, 0.4, seed=seed).graph) is None
    with pytest.raises(Unsatisfiable, match="tree component"):
        Orientations.random(6, 0.001)
    for n, p in ((2, 0.5), (5, 0.0), (5, 1.5)):
        with pytest.raises(FormulaError, match="3 vertices"):
            Orientations.random(n, p)


def test_trees_have_none():
    """Errata 11; the message says which component."""
    apart = nx.Graph([*cycle_edges(3), ("p", "q"), ("q", "r")])
    with pytest.raises(Unsatisfiable, match="p, q, r"):
        Orientations(apart)
    assert not any(sink_free(d) for d in oriented(apart))
    lonely = nx.Graph(cycle_edges(3))
    lonely.add_node("alone")
    with pytest.raises(Unsatisfiable, match="isolated vertex alone"):
        Orientations(lonely)
    apart.add_edge("p", "r")  # a cycle: now there is one
    assert Orientations(apart).n_vars == 6


def test_graphs_that_are_none():
    for wrong, message in (
        (nx.DiGraph([(0, 1)]), "directed"),
        (nx.Graph(), "without edges"),
        (nx.Graph([(0, 0)]), "no loop"),
        ([(0, 1)], "networkx graph"),
    ):
        with pytest.raises(FormulaError, match=message):
            Orientations(wrong)


def test_directed_graphs_that_are_no_orientation():
    task = Orientations(nx.cycle_graph(3))
    with pytest.raises(FormulaError, match="undirected"):
        task.assignment(nx.cycle_graph(3))
    with pytest.raises(FormulaError, match="no edge"):
        task.assignment(nx.DiGraph([(0, 1), (1, 2), (2, 7)]))
    with pytest.raises(FormulaError, match="2 times"):
        task.assignment(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]))
    with pytest.raises(FormulaError, match="0 times"):
        task.assignment(nx.DiGraph([(0, 1), (1, 2)]))


def test_preferences_by_edge():
    """Errata 10: one Boolean per edge, so the log-odds of both directions are subtracted."""
    task = Orientations(GRAPHS["backwards"])
    theta = task.theta({(2, 1): 1.5, (1, 3): 1.0, (3, 1): 0.25, (0, 3): -2.0})
    told = task.preferences(theta)
    assert list(told.items())[:3] == [((3, 0), 2.0), ((2, 1), 1.5), ((1, 3), 0.75)]
    assert (task.theta(told) == theta).all()
    means = task.sample(50 * theta, 200, seed=0).x.mean(axis=0)
    chosen = dict(zip(task.edges, means, strict=True))
    assert chosen[task.edges[task.variable((2, 1))[0]]] in (0.0, 1.0)
    x, forth = task.variable((2, 1))
    assert means[x] == forth
    with pytest.raises(FormulaError, match="no edge"):
        task.theta({(0, 1): 1.0})


@pytest.mark.slow
def test_pictures_of_unusual_graphs(tmp_path):
    pytest.importorskip("matplotlib", reason="pip install nelson-mrf[plots]")
    for name in ("parallel", "loops", "apart"):
        task = Orientations(GRAPHS[name])
        x = task.examples(2)
        assert pixel_spread(task.draw(x[0], tmp_path / f"{name}.png", theta=task.planted)) > 0.05
    large = Orientations.random(30)  # a matrix: too many edges for arrows
    path = large.draw(large.examples(1)[0], tmp_path / "large.png", theta=large.planted)
    assert pixel_spread(path) > 0.05
