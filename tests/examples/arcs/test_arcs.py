"""What holds for trees and connected subgraphs alike: their law, repeatability, examples, pictures.

Next to each test that accepts stands a wrong law that it rejects.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import nelson
from examples.arcs.arcs import read_graph, shortest_trees, traffic
from examples.connected.task import RootConnected
from examples.trees.task import SpanningTrees
from tests.examples.arcs.cases import ALPHA, CASES, DRAWS, SUBGRAPHS, law_of, structures
from tests.problems import all_states, chi_square, one_way_graph

nx = pytest.importorskip("networkx")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_structures_follow_their_law(case, weighted):
    task = CASES[case]()
    n = task.n_vars
    theta = np.random.default_rng(5).normal(size=n) if weighted else np.zeros(n)
    drawn = task.sample(theta if weighted else None, DRAWS, seed=1)
    assert drawn.guarantee == "exact" and drawn.info["status"] == "ok" and len(drawn) == DRAWS
    assert task.valid(drawn.x).all() and drawn.info["pops"] > 0
    assert chi_square(drawn.x, law_of(task, theta)) > ALPHA
    if isinstance(task, SpanningTrees):
        shift = np.linspace(-0.3, 0.3, n)
    else:
        shift = np.where(task.forced, 0, 0.2)
    assert chi_square(drawn.x, law_of(task, theta + shift)) < ALPHA  # the test tells laws apart


@pytest.mark.parametrize("case", CASES)
def test_valid_and_the_clauses_agree_with_enumeration(case):
    task = CASES[case]()
    states = all_states(task.n_vars)
    known = {row.tobytes() for row in structures(task)}
    right = np.array([row.tobytes() in known for row in states])
    assert 0 < right.sum() < len(states)
    assert (task.valid(states) == right).all()
    assert task.formula is not None and (task.formula.satisfied(states) == right).all()


def test_larger_graphs_have_no_clauses():
    assert SpanningTrees.small().formula is None  # sixteen vertices: too many clauses
    assert RootConnected.small().formula is None


@pytest.mark.parametrize(
    "make",
    [SpanningTrees.small, RootConnected.small, SUBGRAPHS["house"]],
    ids=["trees", "connected", "connected edges"],
)
def test_the_same_structures_in_any_batch_on_any_number_of_threads(make):
    task = make()
    one = task.sample(task.planted, 1000, seed=3, threads=1).x
    assert (task.sample(task.planted, 1000, seed=3, threads=4).x == one).all()
    parts = [task.sample(task.planted, 333, seed=3, start=k).x for k in (0, 333)]
    assert (np.vstack(parts) == one[:666]).all()
    assert (task.sample(task.planted, 1000, seed=4).x != one).any()
    assert (task.examples(1000, seed=3) != one).any()
    assert len(task.sample(None, 0)) == 0


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("case", CASES)
def test_examples_are_valid(case, kind):
    task = CASES[case]()
    kind = task.KINDS[kind]
    x = task.examples(200, seed=1, kind=kind)
    assert x.shape == (200, task.n_vars) and x.dtype == bool and task.valid(x).all()
    assert (x == task.examples(200, seed=1, kind=kind)).all()
    assert (x != task.examples(200, seed=2, kind=kind)).any()


def test_shortest_trees_are_shortest():
    graph_arcs = read_graph(nx.grid_2d_graph(3, 3)).without_root()
    lengths = traffic(graph_arcs, 5, 0)
    choice = shortest_trees(graph_arcs, lengths)
    for row, arcs in zip(lengths, choice, strict=True):
        graph = nx.DiGraph()
        ends = zip(graph_arcs.tail.tolist(), graph_arcs.head.tolist(), row.tolist(), strict=True)
        graph.add_weighted_edges_from((v, u, w) for u, v, w in ends)
        far = nx.single_source_dijkstra_path_length(graph, graph_arcs.root)
        for v in range(graph_arcs.n):
            if v != graph_arcs.root:
                a = arcs[v]
                assert graph_arcs.tail[a] == v
                assert math.isclose(far[v], row[a] + far[int(graph_arcs.head[a])])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "count", "options"),
    [(SpanningTrees, 2000, {}), (RootConnected, 1000, {"iterations": 20, "samples": 4096})],
)
def test_evaluate_prefers_the_learned_theta(cls, count, options):
    task = cls.small()
    train, held_out = task.examples(count, seed=0), task.examples(1000, seed=1)
    theta = task.learn(train, **options).theta
    good = task.evaluate(theta, held_out, train=train)
    flat = task.evaluate(np.zeros(task.n_vars), held_out)
    assert good["validity"] == flat["validity"] == 1.0 and good["guarantee"] == "exact"
    gap = good["log_likelihood"]["value"] - flat["log_likelihood"]["value"]
    assert gap > 3 * good["log_likelihood"]["half_width"]
    assert good["moment_gap"]["l2"] < flat["moment_gap"]["l2"] / 3
    assert {"train_log_likelihood", "floor", "samples", "examples"} <= set(good)
    assert good["floor"]["l1"] > flat["floor"]["l1"]  # the noise of `train` counts
    if cls is RootConnected:
        assert good["log_z"]["method"] == "telescope" and good["log_z"]["half_width"] > 0
        return
    assert good["exact_moment_gap"]["max"] < flat["exact_moment_gap"]["max"] / 3
    exact = (held_out @ theta).mean() - task.log_partition(theta).value
    assert math.isclose(good["log_likelihood"]["value"], exact, rel_tol=1e-12)
    assert good["train_log_likelihood"]["half_width"] > 0 == good["log_z"]["half_width"]


@pytest.mark.slow
@pytest.mark.parametrize("cls", [SpanningTrees, RootConnected])
def test_errors(cls):
    task = cls(one_way_graph(), "r")
    with pytest.raises(nelson.Unsatisfiable, match="'island' has no path to the root 'r'"):
        cls(nx.DiGraph([("a", "r"), ("r", "island")]), "r")
    with pytest.raises(nelson.Unsatisfiable, match="vertex 2 has no path to the root 0"):
        cls(nx.Graph([(0, 1), (2, 3)]))
    for graph, options, match in (
        (one_way_graph(), {"root": "nowhere"}, "root 'nowhere'"),
        (one_way_graph(), {"root": "r", "per": "path"}, "per='path'"),
        (one_way_graph(), {"root": "r", "per": "edge"}, "directed"),
        (nx.Graph(), {}, "0 vertices"),
        ([(0, 1)], {}, "networkx"),
    ):
        with pytest.raises(nelson.FormulaError, match=match):
            cls(graph, **options)
    n = task.n_vars
    for call in (
        lambda: task.sample(np.full(n, np.inf), 1),
        lambda: task.sample(np.full(n, -np.inf), 1),
        lambda: task.sample(np.zeros(3), 1),
        lambda: task.sample(None, -1),
        lambda: task.sample(None, 1, rounds=3),
        lambda: task.sample(None, 1, max_pops=2**40),
        lambda: task.learn(np.zeros((2, n), bool)),
        lambda: task.learn(task.examples(2), l2=-1.0),
        lambda: task.learn(task.examples(2), steps=5),
        lambda: task.examples(1, kind="tall"),
        lambda: task.draw(task.examples(1), "tree.txt"),
    ):
        with pytest.raises(nelson.FormulaError):
            call()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "suffix"),
    [
        ("trees: grid", "png"),
        ("trees: one-way", "svg"),
        ("connected: one-way", "svg"),
        ("connected: house", "png"),
    ],
)
def test_pictures(case, suffix, tmp_path):
    pytest.importorskip("matplotlib")
    task = CASES[case]()
    data = task.examples(10)
    one = task.draw(data[0], tmp_path / f"one.{suffix}", theta=task.planted, title="one of them")
    three = task.picture(data, task.planted, data, tmp_path / f"three.{suffix}")
    for path in (one, three):
        head = path.read_bytes()[:200]
        assert head.startswith(b"\x89PNG") if suffix == "png" else b"<?xml" in head
        assert path.stat().st_size > 2000
