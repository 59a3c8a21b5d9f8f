"""Root-connected subgraphs: cluster popping against networkx, log Z against enumeration, learning
against the planted weights. Next to each test that accepts stands a wrong sampler or answer, its
twin, that the same test rejects.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import nelson
from examples.arcs.popping import RandomStream, run
from examples.connected.network import network
from examples.connected.task import RootConnected
from nelson_paper import tasks
from tests.examples.arcs.cases import ALPHA, DRAWS, SIGMAS, SUBGRAPHS, law_of, structures, uniform
from tests.problems import chi_square, house_graph, one_way_graph

nx = pytest.importorskip("networkx")
chi2 = pytest.importorskip("scipy.stats").chi2


def kept_arcs(task, theta, seed, sample):
    """draw(v, k): the arcs that leave v, kept or not, at its k-th turn, by plain NumPy."""
    p, out = task.arc_law(theta), task.arcs.out
    return lambda v, k: [uniform(seed, sample, k, a) < p[a] for a in range(out[v], out[v + 1])]


def popped(task, draw, choose):
    """Cluster popping by networkx. choose(graph, root) -> the vertices to redraw; none: done.
    -> kept (arcs,) bool
    """
    arcs = task.arcs
    turn = [0] * arcs.n
    kept = [draw(v, 0) for v in range(arcs.n)]
    while True:
        graph = nx.DiGraph()
        graph.add_nodes_from(range(arcs.n))
        flat = np.concatenate(kept).astype(bool)
        ends = zip(arcs.tail[flat].tolist(), arcs.head[flat].tolist(), strict=True)
        graph.add_edges_from(ends)
        again = choose(graph, arcs.root)
        if not again:
            return flat
        for v in again:
            turn[v] += 1
            kept[v] = draw(v, turn[v])


def minimal(graph, root):
    """The minimal clusters, each a set of vertices."""
    parts = nx.condensation(graph)
    sinks = (parts.nodes[k]["members"] for k in parts if parts.out_degree(k) == 0)
    return [part for part in sinks if root not in part]


def unreached(graph, root):
    return sorted(set(graph) - nx.ancestors(graph, root) - {root})


RULES = {
    "all minimal": lambda graph, root: [v for part in minimal(graph, root) for v in part],
    "one minimal": lambda graph, root: list((minimal(graph, root) or [[]])[-1]),
}


WRONG = {
    "all that do not reach the root": unreached,
    "one vertex of a cluster": lambda graph, root: [min(p) for p in minimal(graph, root)],
}


@pytest.mark.parametrize("rule", RULES)
def test_any_order_of_popping_gives_the_subgraph_of_the_kernel(rule):
    """Bit for bit, directed and through the coupling's arcs."""
    task = RootConnected(network(7, 3)[0], per="arc")
    theta = task.planted - 1.0
    result, _ = run(
        task.arcs, task.arc_law(theta), task.roots(), 40, RandomStream(9), tell_arcs=True
    )
    assert result.pops.max() > 3
    for i in range(40):
        kept = popped(task, kept_arcs(task, theta, 9, i), RULES[rule])
        assert (kept == result.x[i]).all()


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["all minimal", *WRONG])
def test_other_rules_are_biased_and_the_test_sees_it(rule):
    """The twins redraw more than the minimal clusters, or less."""
    task = SUBGRAPHS["square, both ways"]()
    theta = np.full(task.n_vars, -0.5)
    column = np.argsort(task.arcs.column)
    choose = (RULES | WRONG)[rule]
    rows = [popped(task, kept_arcs(task, theta, 2, i), choose)[column] for i in range(4000)]
    assert task.valid(rows).all()
    assert (chi_square(np.array(rows), law_of(task, theta)) > ALPHA) == (rule in RULES)


@pytest.mark.parametrize("name", ["K4", "house"])
def test_other_couplings_are_biased_and_the_test_sees_it(name):
    """The twins keep an edge if either arc is kept, or both, or a fixed one of the two.
    Each is made valid by dropping the vertices that do not reach the root.
    """
    task = SUBGRAPHS[name]()
    theta = np.random.default_rng(7).normal(size=task.n_vars)
    law, arcs = law_of(task, theta), task.arcs
    result, _ = run(arcs, task.arc_law(theta), task.roots(), DRAWS, RandomStream(3), tell_arcs=True)
    kept = result.x.astype(bool)
    order = np.argsort(arcs.column, kind="stable").reshape(-1, 2)
    first, second = kept[:, order[:, 0]], kept[:, order[:, 1]]
    for x in (first | second, first & second, first):
        x = x[task.valid(x)]
        assert len(x) > 1000 and chi_square(x, law) < ALPHA
    assert chi_square(task.sample(theta, DRAWS, seed=3).x, law) > ALPHA


def test_the_root_does_not_matter_without_directions():
    theta = np.random.default_rng(7).normal(size=7)
    for root in (1, 4):
        task = RootConnected(house_graph(), root)
        assert chi_square(task.sample(theta, DRAWS, seed=8).x, law_of(task, theta)) > ALPHA
    both = [RootConnected(house_graph(), root, per="arc").log_partition().value for root in (1, 4)]
    assert math.isclose(both[0], both[1], rel_tol=1e-12)  # Guo and Jerrum: bidirected graphs
    path = nx.DiGraph([(0, 1), (1, 2), (2, 0), (1, 0)])
    one = [RootConnected(path, root).log_partition().value for root in (0, 2)]
    assert not math.isclose(one[0], one[1], rel_tol=1e-3)


def test_a_budget_leaves_out_samples_without_bias():
    """The result is independent of the pops. The twin leaves out samples by their result."""
    task = SUBGRAPHS["house"]()
    theta = np.full(task.n_vars, -0.7)
    law = law_of(task, theta)
    drawn = task.sample(theta, 2 * DRAWS, seed=6, max_pops=1)
    assert drawn.info["status"] == "budget" and drawn.info["pops_most"] <= 1
    assert 0.1 * DRAWS < len(drawn) < 1.5 * DRAWS
    assert chi_square(drawn.x, law) > ALPHA
    full = task.sample(theta, DRAWS, seed=6).x
    assert chi_square(full[full.sum(axis=1) < 7], law) < ALPHA


def ladder(n):
    """A ladder with a way back to the start from each rung; the root is the top."""
    graph = nx.DiGraph([(k, k + 1) for k in range(n)] + [(k, 0) for k in range(1, n)])
    return RootConnected(graph, n)


@pytest.mark.slow
def test_nothing_hangs():
    """A ladder takes exponentially many pops."""
    n = 40
    task = ladder(n)
    theta = [-1.0 if int(name.split("->")[0]) < n - 1 else -12.0 for name in task.names]
    for options in ({"max_pops": 300}, {"seconds": 0.3}, {"seconds": 0.0}):
        drawn = task.sample(theta, 2000, **options)
        assert drawn.info["status"] == "budget" and len(drawn) < 2000 and drawn.info["reason"]
        assert task.valid(drawn.x).all()


@pytest.mark.slow
@pytest.mark.parametrize(("p", "n"), [(0.2, 10), (0.6, 20)])
def test_two_way_graphs_take_few_pops_and_others_may_not(p, n):
    """Guo and Jerrum: at most m n (1 - p) / p on average; all means here are far from that."""
    for graph in (nx.complete_graph(6), nx.path_graph(9), nx.grid_2d_graph(3, 3)):
        task = RootConnected(graph)
        theta = np.full(task.n_vars, math.log(p / (1 - p)))
        bound = task.n_vars * task.arcs.n * (1 - p) / p
        assert task.sample(theta, 2000).info["pops_mean"] < bound
    task = ladder(n)
    theta = np.full(task.n_vars, math.log(p / (1 - p)))
    assert task.sample(theta, 200).info["pops_mean"] > task.n_vars * task.arcs.n * (1 - p) / p


@pytest.mark.parametrize("name", SUBGRAPHS)
def test_log_z_by_merging_agrees_with_the_sum(name):
    task = SUBGRAPHS[name]()
    theta = np.random.default_rng(2).normal(size=task.n_vars)
    exact = task.log_partition(theta)
    assert exact.exact and exact.method == "enumerate"
    assert math.isclose(exact.value, np.logaddexp.reduce(structures(task) @ theta), rel_tol=1e-12)
    told = task.log_partition(theta, method="telescope", seed=4)
    sigma = told.half_width / 1.96
    assert told.exact == (name == "path, both ways") == (sigma == 0) and sigma < 0.05
    assert abs(told.value - exact.value) < SIGMAS * sigma + 1e-9
    # The twin: what the estimate would be if P(K | C) were P(K), that is log P(C) = 0.
    soft = np.logaddexp(0, theta).sum()
    assert abs(soft - exact.value) > SIGMAS * sigma


@pytest.mark.slow
def test_error_bars_of_log_z_are_honest():
    """Of 40 intervals of 95% about 2 miss; more than 9 would be a chance of 1e-4, none of all 40
    much too wide: the spread of the estimates is what the bars say within a factor of 1.6 (chi
    with 39 degrees: 1e-5).
    """
    task = SUBGRAPHS["house"]()
    exact = task.log_partition().value
    told = [task.log_partition(method="telescope", samples=500, seed=s) for s in range(40)]
    off = np.array([(t.value - exact) / (t.half_width / 1.96) for t in told])
    assert (np.abs(off) > 1.96).sum() <= 9
    assert 1 / 1.6 < math.sqrt(np.mean(off**2)) < 1.6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one-way", "square, both ways", "house"])
def test_learned_weights_match_the_data_and_come_near_the_planted(name):
    """2 N KL(planted || learned) is about chi-square with as many degrees as free parameters."""
    task = SUBGRAPHS[name]()
    data = task.examples(4000, seed=1)
    fit = task.learn(data, l2=0.0, samples=1 << 14)
    assert fit.converged and fit.guarantee == "exact" and (fit.theta[task.forced] == 0).all()
    states, p = law_of(task, fit.theta)
    seen = data.mean(axis=0)
    # 28 averaged iterations: 460,000 draws, and as much again for slack.
    sigma = np.sqrt(seen * (1 - seen) / (14 * (1 << 14))) + 1e-9
    assert (np.abs(p @ states - seen) < SIGMAS * sigma).all()
    planted = law_of(task, task.planted)[1]
    far = 2 * len(data) * float(planted @ np.log(planted / p))
    assert chi2.sf(far, int((~task.forced).sum())) > ALPHA
    # The twin: log-odds of the data, which forget that the examples are conditioned.
    naive = np.where(task.forced, 0, np.log(seen + 1e-12) - np.log1p(1e-12 - seen))
    states, p = law_of(task, naive)
    assert (np.abs(p @ states - seen) > SIGMAS * sigma).any()
    assert chi2.sf(2 * len(data) * float(planted @ np.log(planted / p)), task.n_vars) < ALPHA


def test_what_every_subgraph_has():
    task = SUBGRAPHS["path, both ways"]()
    assert sorted(np.array(task.names)[task.forced]) == ["0->1", "2->1", "3->2"]
    assert (task.planted[task.forced] == 0).all()
    always = structures(task).all(axis=0)
    assert (always == task.forced).all()


def test_networks_are_connected():
    for seed in range(10):
        graph, root = network(15, seed)
        assert nx.is_connected(graph) and len(graph) == 15 and root in graph


def test_names_and_methods():
    task = RootConnected(one_way_graph(), "r")
    assert task.names.count("d->a#2") == 1 and "r->a" in task.names and "d->d" not in task.names
    assert "connected spanning subgraphs" in RootConnected(house_graph()).describe()
    with pytest.raises(nelson.FormulaError, match="method 'guess'"):
        task.log_partition(method="guess")
    with pytest.raises(nelson.FormulaError, match="at most 24 to enumerate"):
        RootConnected.small().log_partition(method="enumerate")


def test_the_demo_finds_it():
    assert tasks.get("examples.connected:RootConnected") is RootConnected
