"""Tasks: K-SAT with preferences, sink-free orientations, the tour through all, `nelson demo`."""

from __future__ import annotations

import itertools
import os
import re
import runpy
import subprocess
import sys

import numpy as np
import pytest

import nelson
from nelson import tasks
from nelson.cli.demo import TITLES
from nelson.errors import BudgetExceeded, FormulaError, NelsonError, Unsatisfiable
from nelson.tasks import KSat, Orientations, drawing
from nelson.tasks.base import data_seed, noise_floor
from nelson.tasks.orientations.task import tree_component
from tests import ROOT
from tests.problems import all_states, chi_square, complete_edges, cycle_edges
from tests.structured import random_ksat

nx = pytest.importorskip("networkx", reason="pip install nelson[plots]")
FORMULA_TASKS = [KSat, Orientations]


@pytest.fixture(scope="module", params=FORMULA_TASKS, ids=lambda cls: cls.name)
def learned(request):
    """A small task, learned: (task, examples, held out, what was learned)."""
    task = request.param.small()
    data, held_out = task.examples(1000, seed=0), task.examples(1000, seed=1)
    return task, data, held_out, task.learn(data, seed=0)


# ---------------------------------------------------------------------------------------- registry


def test_the_registry_knows_the_five():
    assert tasks.names() == ["ksat", "orientations", "routes", "trees", "connected"]
    assert tasks.get("ksat") is KSat is nelson.tasks.KSat
    assert tasks.get("orientations").name == "orientations"
    with pytest.raises(FormulaError, match=r"'sudoku'.*ksat"):
        tasks.get("sudoku")
    with pytest.raises(AttributeError, match="Sudoku"):
        _ = tasks.Sudoku


def test_import_brings_no_optional_package():
    code = (
        "import sys, nelson.tasks; nelson.tasks.Orientations; nelson.tasks.KSat; "
        "print(*(m for m in ('networkx', 'matplotlib', 'pysat', 'torch', 'numba') "
        "if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


# ---------------------------------------------------------------- examples, learn, generate, judge


@pytest.mark.parametrize("cls", FORMULA_TASKS)
def test_examples_and_samples_are_valid_and_repeatable(cls):
    task = cls.small(seed=3)
    assert len(task.names) == len(set(task.names)) == task.n_vars == task.formula.n_vars
    for rows in (
        *(task.examples(300, seed=5, kind=kind) for kind in cls.KINDS),
        task.sample(None, 300).x,
        task.sample(task.planted, 300, seed=5).x,
    ):
        assert rows.shape == (300, task.n_vars)
        assert rows.dtype == bool
        assert task.valid(rows).all()
    for kind in cls.KINDS:
        first, again, other = (task.examples(200, seed=s, kind=kind) for s in (5, 5, 6))
        assert (first == again).all()
        assert (first != other).any()
    same = cls.small(seed=3)
    assert same.formula == task.formula
    assert (same.planted == task.planted).all()
    assert not task.valid(np.zeros((1, task.n_vars), bool) ^ _broken(task)).any()  # it can say no


def _broken(task) -> np.ndarray:
    """An assignment that breaks the first clause."""
    x = np.zeros(task.n_vars, bool)
    for literal in next(iter(task.formula.clauses())):
        x[abs(literal) - 1] = literal < 0
    return x


@pytest.mark.parametrize("cls", FORMULA_TASKS)
def test_examples_share_no_randomness_with_samples(cls):
    """One seed for both would make a model look better than it is."""
    task = cls.small()
    data = task.examples(500, seed=4)
    twin = task.sample(task.planted, 500, seed=data_seed(4)).x
    assert (data == twin).all()  # the comparison would notice
    ours = task.sample(task.planted, 500, seed=4).x
    # Two independent draws are equal with probability sum P(x)^2 < 0.01 here; 30 of 500 is more
    # than 11 sigma away.
    assert (data == ours).all(axis=1).sum() < 30


def test_learned_weights_are_the_planted_ones(learned):
    """Error of a weight: about 1 / sqrt(1000 p (1 - p)), below 0.15 for most; theta* is N(0, 1)."""
    task, _, _, fit = learned
    zero = np.linalg.norm(task.planted)
    assert fit.converged, fit.why
    assert fit.history and fit.seconds > 0
    assert np.linalg.norm(fit.theta - task.planted) < 0.25 * zero
    # The twin: examples of the same weights on other variables teach nothing about these.
    moved = np.roll(task.planted, 1)
    wrong = task.learn(task.sample(moved, 1000, seed=11).x, seed=0)
    assert np.linalg.norm(wrong.theta - moved) < 0.3 * zero  # it learned what it was shown
    assert np.linalg.norm(wrong.theta - task.planted) > zero


def test_report_on_examples_held_out(learned):
    """A gap of noise alone exceeds twice its mean with probability below 1e-6 (20 variables)."""
    task, data, held_out, fit = learned
    report = task.evaluate(fit.theta, held_out, train=data, seed=7)
    assert report["validity"] == 1.0
    assert report["guarantee"] == "exact"
    assert report["moment_gap"]["l1"] < 2 * report["floor"]["l1"]
    assert report["log_likelihood"]["half_width"] < 0.3
    zero = task.evaluate(np.zeros(task.n_vars), held_out, seed=7)
    assert zero["validity"] == 1.0
    assert zero["moment_gap"]["l1"] > 5 * zero["floor"]["l1"]
    gain = report["log_likelihood"]["value"] - zero["log_likelihood"]["value"]
    assert gain > 1.0  # nats an example
    gap = abs(report["log_likelihood"]["value"] - report["train_log_likelihood"]["value"])
    assert gap < 0.5


def test_noise_floor_is_what_noise_makes():
    """Mean L1 gap of 400 pairs of means of one law, at 4 sigma of that mean; twin: half of it."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 20)
    gaps = [
        np.abs(rng.binomial(500, p) / 500 - rng.binomial(300, p) / 300).sum() for _ in range(400)
    ]
    said = noise_floor(p, 500, 300)["l1"]
    error = np.std(gaps) / np.sqrt(len(gaps))
    assert abs(np.mean(gaps) - said) < 4 * error + 0.01 * said  # 1%: the normal approximation
    assert abs(np.mean(gaps) - said / 2) > 4 * error + 0.01 * said
    assert noise_floor(p, 500, 300, 200)["l1"] > said


@pytest.mark.parametrize("cls", FORMULA_TASKS)
def test_wrong_input_is_told(cls):
    task = cls.small()
    n = task.n_vars
    with pytest.raises(FormulaError, match="shape"):
        task.valid(np.zeros((3, n + 1), bool))
    with pytest.raises(FormulaError, match="0 and 1"):
        task.valid(np.full((3, n), 2))
    with pytest.raises(FormulaError, match="theta of shape"):
        task.sample(np.zeros(n - 1), 10)
    with pytest.raises(FormulaError, match=r"'sold'.*'planted'"):
        task.examples(10, kind="sold")
    with pytest.raises(FormulaError, match="1 of 2"):
        task.checked_data(np.stack([task.sample(None, 1).x[0], _broken(task)]))
    with pytest.raises(NelsonError):
        task.learn(_broken(task)[None])
    with pytest.raises(FormulaError, match="no examples"):
        task.checked_data(np.zeros((0, n), bool))


def test_weights_by_name():
    task = KSat.random(5, k=3)
    assert list(task.weights([0, 3, -4, 1, 0]).items())[:3] == [("x3", -4), ("x2", 3), ("x4", 1)]
    assert task.weights(None) == dict.fromkeys(task.names, 0.0)


# ------------------------------------------------------------------------------------------- K-SAT


def test_random_formulas_are_the_papers():
    """K = 5, L = n; distinct variables; fair signs: 7,500 coins within 4 sigma (6e-5)."""
    f = KSat.random(1500, seed=1).formula
    assert (f.n_vars, f.n_clauses) == (1500, 1500)
    assert all(len({abs(v) for v in clause}) == 5 for clause in f.clauses())
    positive = int((f.literals > 0).sum())
    assert abs(positive - 3750) < 4 * np.sqrt(7500 / 4)
    assert abs(7500 * 0.47 - 3750) > 4 * np.sqrt(7500 / 4)  # a coin of 0.47 would be seen
    assert f == random_ksat(1500, 1500, 5, seed=1)
    small = KSat.random(10, clauses=7, k=4).formula
    assert (small.n_vars, small.n_clauses) == (10, 7)
    assert set(np.diff(small.offsets)) == {4}


def test_formulas_without_solution_are_drawn_again():
    hopeless = 0
    for seed in range(10):
        drawn = random_ksat(5, 13, 2, seed=seed)
        hopeless += not drawn.satisfied(all_states(5)).any()
        assert KSat.random(5, 13, 2, seed=seed).formula.satisfied(all_states(5)).any()
    assert hopeless >= 3  # there was something to draw again
    with pytest.raises(Unsatisfiable, match="none is satisfiable"):
        KSat.random(4, 60, 2)
    with pytest.raises(FormulaError, match="5 distinct variables of 4"):
        KSat.random(4)
    with pytest.raises(FormulaError, match="-1 clauses"):
        KSat.random(6, -1)


def test_undecided_is_not_unsatisfiable(monkeypatch):
    monkeypatch.setattr("nelson.exact.solver.satisfiable", lambda *a, **k: None)
    with pytest.raises(BudgetExceeded, match="no solver decided"):
        KSat.random(10)


def test_the_papers_examples_are_neighbours():
    """Errata 16: of 200 listed models far more variables are constant than of 200 drawn."""
    task = KSat.random(400)
    rows = task.examples(200, kind="paper")
    assert task.valid(rows).all()
    assert len(np.unique(rows, axis=0)) == 200  # none twice
    constant = (rows.mean(axis=0) % 1 == 0).mean()
    uniform = task.sample(None, 200, method="lovasz", sweeps=4).x
    assert (uniform.mean(axis=0) % 1 == 0).mean() < 0.05
    assert constant > 0.5


def test_listing_ends():
    task = KSat.random(6, 20, 3, seed=2)
    count = int(task.formula.satisfied(all_states(6)).sum())
    assert len(task.examples(count, kind="paper")) == count > 0
    with pytest.raises(FormulaError, match=f"expected {count}: all models"):
        task.examples(count + 1, kind="paper")
    with pytest.raises(BudgetExceeded, match="0 of 5 models"):
        task.examples(5, kind="paper", seconds=0.0)
    with pytest.raises(FormulaError, match="-1 examples"):
        task.examples(-1)
    from nelson.tasks.ksat.task import listed

    with pytest.raises(Unsatisfiable):
        listed(nelson.Formula([[1], [-1]], n_vars=1), 1)
    free = listed(nelson.Formula([[1]], n_vars=3), 4)  # variables that no clause has
    assert len(np.unique(free, axis=0)) == 4


def test_listing_needs_pysat(monkeypatch):
    task = KSat.small()
    monkeypatch.setitem(sys.modules, "pysat.solvers", None)
    with pytest.raises(FormulaError, match="pip install"):
        task.examples(5, kind="paper")


def test_any_formula_will_do():
    task = KSat(nelson.Formula([[1, 2], [-1, 2, 3]], n_vars=4), scale=2.0)
    assert task.describe() == "4 variables, 2 clauses of 2 to 3 literals"
    assert task.valid(task.examples(50)).all()


# ------------------------------------------------------------------------------------ orientations

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


@pytest.mark.parametrize("name", GRAPHS)
def test_structures_are_exactly_the_sink_free_orientations(name):
    """Against brute force over directed graphs; the formula is extremal; there and back again."""
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
    """Errata 10: one Boolean an edge, so the log-odds of both directions are subtracted."""
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


# ---------------------------------------------------------------------------------------- pictures


def spread(path) -> float:
    """Standard deviation of the pixels of a PNG, 0 if it is blank."""
    from matplotlib.image import imread

    return float(np.asarray(imread(path))[..., :3].std())


def test_pictures_show_something(learned, tmp_path):
    pytest.importorskip("matplotlib", reason="pip install nelson[plots]")
    task, data, _, fit = learned
    new = task.sample(fit.theta, 200, seed=9).x
    written = [
        task.picture(data, fit.theta, new, tmp_path / "deep" / "all.png"),
        task.draw(new[0], tmp_path / "one.png", theta=fit.theta),
        task.draw(new[0], tmp_path / "plain.png", title="no weights"),
        task.draw(_broken(task), tmp_path / "broken.png"),
    ]
    for path in written:
        assert spread(path) > 0.05
    drawing.save(drawing.figure(4, 3), tmp_path / "blank.png")
    assert spread(tmp_path / "blank.png") == 0  # the test would notice
    assert (tmp_path / "one.png").read_bytes() != (tmp_path / "broken.png").read_bytes()
    assert b"<svg" in task.draw(new[0], tmp_path / "one.svg").read_bytes()[:500]
    assert task.draw(new[0], tmp_path / "one.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(FormulaError, match=r"\.png, \.svg or \.pdf"):
        task.draw(new[0], tmp_path / "one.txt")


def test_pictures_of_unusual_ones(tmp_path):
    pytest.importorskip("matplotlib", reason="pip install nelson[plots]")
    for name in ("parallel", "loops", "apart"):
        task = Orientations(GRAPHS[name])
        x = task.examples(2)
        assert spread(task.draw(x[0], tmp_path / f"{name}.png", theta=task.planted)) > 0.05
    large = Orientations.random(30)  # a matrix: too many for arrows
    assert spread(large.draw(large.examples(1)[0], tmp_path / "l.png", theta=large.planted)) > 0.05
    paper = KSat.random(60)
    data = paper.examples(50, kind="paper")
    overview = tmp_path / "paper.png"
    assert spread(paper.picture(data, paper.planted, data, overview, kind="paper")) > 0.05


def test_pictures_need_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    task = KSat.small()
    with pytest.raises(NelsonError, match=r"nelson\[plots\]"):
        task.draw(np.zeros(task.n_vars, bool), tmp_path / "x.png")


# ------------------------------------------------------------------------------- the tour, the demo


def test_tour_goes_all_the_way(tmp_path):
    from nelson.tasks.tour import tour

    said: list[str] = []
    visit = tour(Orientations.small(), tmp_path, examples=300, seed=2, say=said.append)
    assert said == ["300 examples, and as many held out", "learning", "generating", "evaluating",
                    "drawing"]  # fmt: skip
    assert visit.report["validity"] == 1.0
    assert visit.report["moment_gap"]["l1"] < 2 * visit.noise
    assert len(visit.drawn) == 300
    assert [path.name for path in visit.pictures] == ["orientations.png", "orientations-one.png"]
    assert all(spread(path) > 0.05 for path in visit.pictures)
    assert set(visit.seconds) == {"examples", "learn", "generate", "evaluate", "pictures"}
    assert tour(Orientations.small(), None, examples=100).pictures == []


# --------------------------------------------------------------------------- examples and documents


def test_documentation_runs(tmp_path, monkeypatch, capsys):
    """The Python in docs/tasks.md, all of it in one namespace; what it prints is true."""
    pytest.importorskip("matplotlib", reason="pip install nelson[plots]")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/tasks.md").read_text(), re.M | re.S)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/tasks.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[1:] == ["1.0 exact", "True", "True True", "2.0"]
    assert {p.name for p in tmp_path.iterdir()} == {"one.png", "all.png"}


def test_examples_run(tmp_path, capsys):
    streets = runpy.run_path(str(ROOT / "examples" / "one_way_streets.py"))["main"]
    pytest.importorskip("matplotlib", reason="pip install nelson[plots]")
    picture = tmp_path / "town.png"
    assert streets(days=500, picture=picture) < 0.25  # 31 weights; 1 is knowing nothing
    assert "100% valid, exact" in capsys.readouterr().out
    assert spread(picture) > 0.05
    solutions = runpy.run_path(str(ROOT / "examples" / "preferred_solutions.py"))["main"]
    constant = solutions(n=60, examples=100)
    assert constant["planted"] < 0.1 < constant["paper"]
    assert capsys.readouterr().out.count("100% valid") == 2


def demo(*args):
    return subprocess.run(
        [sys.executable, "-m", "nelson.cli", "demo", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=500,  # the first call may have to compile
        env={**os.environ, "COLUMNS": "110"},
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.slow
def test_demo_learns_every_task(tmp_path):
    """The table has a row a task, all valid; pictures and page are there, and nothing is blank."""
    done = demo("-o", tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    for name in tasks.names():
        [line] = [line for line in done.stdout.splitlines() if line.split()[:1] == [name]]
        assert " 100% " in line
        gap, noise = map(float, line.split("100%")[1].split()[:2])
        assert 0 < gap < 2.5 * noise
    assert "65,536 of 65,536 valid" in done.stdout
    assert "What to try next" in done.stdout
    assert "5 of 5: connected" in done.stderr
    for name in tasks.names():
        for suffix in (".png", "-one.png"):
            assert spread(tmp_path / f"{name}{suffix}") > 0.03
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png") == 2 * len(tasks.names())
    assert all(f"<h2>{title}</h2>" in page for title in TITLES.values())
    assert list(TITLES) == tasks.names()


def test_demo_without_optional_packages(tmp_path, monkeypatch):
    """A core install: what can be run is run, what cannot says why."""
    block = "import sys\nfor name in ('matplotlib', 'networkx'):\n    sys.modules[name] = None\n"
    (tmp_path / "sitecustomize.py").write_text(block)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    monkeypatch.setenv("PYTHONPATH", path)
    done = demo("ksat", "orientations", "trees", "-o", tmp_path / "bare")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert [line.split()[3] for line in done.stdout.splitlines() if line.startswith("ksat")] == [
        "100%"
    ]
    assert 'orientations was not run: graphs need networkx: pip install "nelson[plots]"' in (
        done.stdout
    )
    assert "trees was not run" in done.stdout
    assert 'pip install "nelson[plots]"' in done.stdout
    assert [p.name for p in (tmp_path / "bare").iterdir()] == ["report.html"]


def test_demo_of_one_task_and_of_none(tmp_path):
    done = demo("orientations", "--seed", 3, "-o", tmp_path / "one")
    assert done.returncode == 0, done.stderr
    assert "orientations" in done.stdout
    assert "ksat" not in done.stdout
    assert {p.name for p in (tmp_path / "one").iterdir()} == {
        "orientations.png",
        "orientations-one.png",
        "report.html",
    }
    wrong = demo("sudoku", "-o", tmp_path / "none")
    assert wrong.returncode == 1
    assert "sudoku" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert not (tmp_path / "none").exists()
