"""The experiments of the paper's tables and figures: tiny cells, and exact laws.

Random parts have fixed seeds. Where a sampler's error is held to the Monte Carlo floor the bound is
5 standard deviations of what exact draws leave (false alarm: below one in a million a figure), and
next to it a sampler that is biased, or another law, is seen to be outside.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import nelson
from nelson import metrics
from nelson.chains.problem import prepare
from nelson.kernels.core.reference import LOVASZ, MOSER_TARDOS, Reference, threshold
from nelson_paper import experiments
from nelson_paper.experiments import (
    bias,
    gradient,
    law,
    learning,
    published,
    rounds,
    samplers,
    sampling,
    show,
    table1,
    table2,
    table3,
)
from nelson_paper.tasks import KSat
from tests.paper.experiments import TABLES
from tests.problems import complete_edges, cycle_edges, sink_free, weights
from tests.structured import random_ksat

installed = pytest.mark.skipif(
    bool(samplers.lacking(samplers.get("cmsgen"))), reason="pycmsgen is not installed"
)


def run(name: str, **key):
    return experiments.run_cell(name, key)


# ---------------------------------------------------------------------------- the paper's figures


def test_published_figures():
    assert published.TABLE_1A.figures["NELSON"][1000] == 34.01
    assert published.TABLE_1A.figures["KUS"][50] == 1532.22
    assert published.TABLE_1A.figures["WeightGen"][20] == "T.O."
    assert published.TABLE_1B.figures["QuickSampler"][30] == 82.65
    assert published.TABLE_1B.figures["Gibbs"][1000] == 33.91
    assert published.TABLE_1C.figures["WAPS"][16] == 0.15
    assert published.TABLE_1C.figures["Gibbs"][18] == 1.90
    assert published.TABLE_2A.figures["Gibbs"][100] == -36.36
    assert published.TABLE_2B.figures["NELSON"][1000] == 91.70
    assert published.TABLE_2A.figures["XOR"][300] == "T.O."
    assert published.TABLE_3A.figures["Gibbs"][50] == "T.O."
    assert published.TABLE_3B.figures["Gibbs"][9] == 47.20
    assert published.TABLE_3C.figures["CMSGen"][13] == 11.27
    assert published.TABLE_3D.figures["NELSON"][40] == 40.01
    for table in published.TABLES:
        assert set(table.figures) <= set(published.SAMPLERS)
        for figures in table.figures.values():
            assert list(figures) == table.sizes
            assert all(v == "T.O." or isinstance(v, float) for v in figures.values())


@pytest.mark.slow
def test_the_sizes_are_the_papers():
    assert list(table1.SIZES) == published.TABLE_1A.sizes
    assert list(table1.GRADIENT_SIZES) == published.TABLE_1C.sizes
    assert list(table2.SIZES) == published.TABLE_2A.sizes
    assert set(table3.SIZES) == {*published.TABLE_3A.sizes, *published.TABLE_3B.sizes}
    assert list(table3.GRADIENT_SIZES) == published.TABLE_3C.sizes
    for name in TABLES:
        cells = experiments.get(name).cells(True)
        seeds = set()
        for cell in cells:
            first, gradient = int(cell.key["seed"]), cell.key.get("part") == "gradient"
            seeds |= set(range(first, first + (int(cell.key["count"]) if gradient else 1)))
        assert seeds == set(range(published.FORMULAS)), name


def test_all_samplers_are_in_the_tables():
    """Every registered sampler has a row somewhere, and says rightly whether it knows weights."""
    entries = (*samplers.OURS, *samplers.PEERS, *samplers.OTHERS)
    assert {entry.method for entry in entries} == {"auto", *nelson.samplers()}
    for entry in entries:
        if entry.method != "auto" and not entry.twin:
            assert entry.weighted == nelson.sampling.registry.get(entry.method).weighted, entry
        assert not entry.twin or samplers.get(entry.twin).weighted > entry.weighted
    assert {samplers.get(ours).name for ours in published.SAMPLERS.values()} <= {
        entry.name for entry in (*samplers.OURS, *samplers.PEERS)
    }
    for name in ("table1", "table2", "table3", "bias"):
        asked = {cell.key["sampler"] for cell in experiments.get(name).cells(False)}
        assert asked >= {
            entry.name
            for entry in (*samplers.OURS, *samplers.PEERS)
            if name != "bias" or not (entry.own or entry.twin)
        }
    asked = {cell.key["sampler"] for cell in experiments.get("uniform").cells(False)}
    assert asked >= {entry.name for entry in entries if not entry.twin}
    asked = {cell.key["sampler"] for cell in experiments.get("weighted").cells(False)}
    assert asked >= {entry.name for entry in entries if entry.weighted}
    assert samplers.order({"xor", "lovasz + 16", "lovasz + 2", "lovasz", "auto"}) == [
        "auto",
        "lovasz",
        "lovasz + 2",
        "lovasz + 16",
        "xor",
    ]


# -------------------------------------------------------------------------------------- exact laws

EXTREMAL = {
    "a cycle": sink_free(cycle_edges(6)),
    "all edges of five vertices": sink_free(complete_edges(5)),
    "a component apart": nelson.Formula([[1, 2], [-1, 3], [4, 5, -6], [-4, 7]], n_vars=8),
}


@pytest.mark.parametrize("formula", EXTREMAL.values(), ids=list(EXTREMAL))
def test_moments_of_extremal_formulas(formula):
    """Inclusion and exclusion agrees with enumeration."""
    theta = weights(formula, 1)
    mu, cov = law.extremal_moments(formula, theta)
    exact_mu, exact_cov = law.exact_moments(formula, theta)
    assert np.allclose(mu, exact_mu, atol=1e-12)
    assert np.allclose(cov, exact_cov, atol=1e-12)


def test_moments_need_condition_1_and_a_size():
    formula = nelson.Formula([[1, 2], [1, 3]])
    theta = np.array([0.3, -0.2, 0.5])
    assert (
        np.abs(law.extremal_moments(formula, theta)[0] - law.exact_moments(formula, theta)[0]).max()
        > 0.01
    )
    with pytest.raises(nelson.FormulaError, match="at most 20"):
        law.exact_moments(random_ksat(30, 30, 5, seed=1), np.zeros(30))


def test_the_floor_and_its_spread():
    """Of 400 batches of exact draws: mean and s.d. of the L1 error, within 5 sigma."""
    formula = random_ksat(8, 8, 3, seed=2)
    theta = weights(formula, 2)
    mu, cov = law.exact_moments(formula, theta)
    m = 500
    mean, sd = law.floor(mu, cov, m)
    states = ((np.arange(256)[:, None] >> np.arange(8)) & 1).astype(bool)
    states = states[formula.satisfied(states)]
    p = np.exp(states @ theta)
    counts = np.random.default_rng(0).multinomial(m, p / p.sum(), size=400)
    errors = np.abs(counts @ states / m - mu).sum(1)
    assert abs(errors.mean() - mean) < 5 * sd / 20 + 0.01 * mean  # 1%: the normal law is a limit
    assert abs(errors.std() - sd) < 5 * sd / math.sqrt(800) + 0.01 * sd
    wrong = law.floor(mu, np.diag(np.diag(cov)) * 4, m)[1]
    assert abs(errors.std() - wrong) > 5 * sd / math.sqrt(800) + 0.01 * sd


# -------------------------------------------------------------------------------------- tiny cells


@pytest.mark.slow
def test_table1_learns_and_times():
    [row] = run("table1", part="learn", sampler="lovasz", n=12, seed=0, limit=20.0, loop=20.0)
    assert row["status"] == "ok" and row["iterations"] == published.ITERATIONS
    total = row["first"] + (published.ITERATIONS - 1) * row["each"]
    assert row["seconds"] == pytest.approx(total / published.ITERATIONS)
    assert row["validity"] == 1.0 and row["checked"] == learning.CHECKED
    assert row["guarantee"] == "heuristic" and row["overhead"] == 0.0  # not extremal, no sweeps


@pytest.mark.process
@pytest.mark.slow
@installed
def test_a_foreign_sampler_in_the_loop():
    key = {"part": "learn", "n": 12, "seed": 0, "limit": 20.0, "loop": 0.3}
    [row] = run("table1", sampler="cmsgen", **key)
    assert row["status"] == "ok" and 1 <= row["iterations"] < published.ITERATIONS
    assert row["validity"] == 1.0 and row["overhead"] > 0


@pytest.mark.process
@pytest.mark.slow
def test_auto_is_asked_for_its_own_guarantee():
    """Not the preset's: `auto` in the loop is exact where it can be."""
    [row] = run("table1", part="learn", sampler="auto", n=10, seed=0, limit=60.0, loop=0.5)
    assert row["status"] == "ok" and row["guarantee"] == "exact"


@pytest.mark.process
@pytest.mark.slow
def test_validity_is_counted_as_drawn():
    [row] = run("table1", part="learn", sampler="quicksampler", n=10, seed=0, limit=20.0, loop=0.2)
    assert row["status"] == "ok" and 0.3 < row["validity"] < 1.0
    [row] = run("table1", part="learn", sampler="prs", n=10, seed=0, limit=20.0, loop=0.2)
    assert row["validity"] == 1.0


@pytest.mark.slow
def test_out_of_time_is_said():
    """`prs` redraws everything here: not one batch in its time."""
    for name, key in (
        ("table1", {"part": "learn", "n": 1000, "loop": 0.4}),
        ("uniform", {"n": 1000, "count": 1000}),
    ):
        [row] = run(name, sampler="prs", seed=0, limit=0.4, **key)
        assert row["status"] == "T.O."
    [row] = run("table1", part="gradient", sampler="prs", n=18, seed=0, limit=0.0, count=2)
    assert row["status"] == "T.O."


def test_what_is_not_installed_is_said(monkeypatch):
    for module in (learning, gradient, sampling, bias):
        monkeypatch.setattr(module, "lacking", lambda entry: ["nothing"])
    key = {"sampler": "cmsgen", "n": 10, "seed": 0, "limit": 1.0}
    for name, more in (
        ("table1", {"part": "learn", "loop": 1.0}),
        ("table1", {"part": "gradient", "count": 1}),
        ("uniform", {"count": 10}),
        ("bias", {"ratio": 1, "draws": 10}),
    ):
        [row] = run(name, **key, **more)
        assert row["status"] == "not installed" and row["reason"] == "nothing"


def floor_gap(rows: list[dict]) -> float:
    """Mean error above the mean floor, in standard deviations of exact draws."""
    error = sum(row["error"] - row["floor"] for row in rows)
    return error / math.sqrt(sum(row["floor_sd"] ** 2 for row in rows))


@pytest.mark.process
@pytest.mark.slow
def test_gradient_errors_and_their_floor():
    """`lovasz` is exact on orientations and biased on 5-SAT; `prs` is exact there too."""
    key = {"part": "gradient", "seed": 0, "limit": 60.0}
    assert abs(floor_gap(run("table3", sampler="lovasz", n=9, count=10, **key))) < 5
    rows = run("table1", sampler="prs", n=12, count=10, **key)
    for m in published.GRADIENT_SAMPLES:
        assert abs(floor_gap(show.pick(rows, m=m))) < 5 and len(show.pick(rows, m=m)) == 10

    def case(k: int) -> tuple[nelson.Formula, np.ndarray]:
        task = KSat.random(12, seed=k)
        return task.formula, task.planted

    gaps = {
        name: floor_gap(gradient.gradient_rows(samplers.get(name), case, 10, 60.0, 0, [40_000]))
        for name in ("lovasz", "prs")
    }
    assert gaps["lovasz"] > 5 and abs(gaps["prs"]) < 5
    uniform = run("table3", sampler="quicksampler", n=7, count=1, **key)  # knows no theta
    assert floor_gap(uniform) > 5


@pytest.mark.process
@pytest.mark.slow
def test_table2_learns_and_evaluates():
    key = {"sampler": "lovasz", "n": 30, "seed": 0, "limit": 20.0, "half_width": 0.2}
    rows = {}
    for kind in table2.KINDS:
        [rows[kind]] = run("table2", data=kind, asked=100, eta=0.5, **key)
        row = rows[kind]
        assert row["status"] == "ok" and row["iterations"] == 100 and row["validity"] == 1.0
        assert 0.5 < row["map"] <= 1.0
        assert row["train_bar"] > 0 and row["held_out_bar"] > 0
    [start] = run("table2", data="planted", asked=1, eta=1e-6, **key)  # the uniform law
    assert rows["planted"]["held_out"] > start["held_out"] + 3 * start["held_out_bar"]


@pytest.mark.process
def test_held_out_examples_are_others():
    task = KSat.random(20, seed=1)
    for kind in table2.KINDS:
        train, held_out = table2.split(task, kind, 1)
        listed = kind == "glucose4"
        assert len(train) == (published.SOLUTIONS // 2 if listed else published.EXAMPLES)
        assert task.valid(held_out).all()
        assert not np.array_equal(train[: len(held_out)], held_out[: len(train)])
        both = {row.tobytes() for row in train} & {row.tobytes() for row in held_out}
        assert not (listed and both)  # solutions are listed once each


@pytest.mark.slow
def test_table3_learns():
    key = {"part": "learn", "sampler": "lovasz", "n": 8, "seed": 0, "limit": 20.0, "loop": 0.5}
    for kind in table2.KINDS:
        [row] = run("table3", data=kind, **key)
        assert row["status"] == "ok" and row["validity"] == 1.0 and row["guarantee"] == "exact"
        assert 0.5 < row["map"] <= 1.0
        assert ("published_map" in row) == (kind == "glucose4")


@pytest.mark.process
def test_map_at_10_tells_models_apart():
    task = KSat.random(30, seed=2)
    seen, unseen = task.examples(100, seed=0), task.sample(None, 100, seed=1).x
    assert metrics.map_at_10(task.planted, seen, unseen) > 0.9
    assert metrics.map_at_10(-task.planted, seen, unseen) < 0.1


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "weighted"])
def test_sampling_cells(name):
    [row] = run(name, sampler="lovasz", n=20, seed=0, limit=20.0, count=500)
    assert row["status"] == "ok" and row["made"] == 500 and row["validity"] == 1.0
    assert row["rounds"] >= 1 and row["resampled"] > 0 and row["seconds"] > 0
    sampler = "quicksampler" if name == "uniform" else "prs"
    [row] = run(name, sampler=sampler, n=10, seed=0, limit=20.0, count=500)
    assert row["status"] == "ok" and ("rounds" in row) == (sampler == "prs")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lovasz", "moser-tardos"])
def test_rounds_are_those_of_the_reference(method):
    """Sample for sample: the plain NumPy program, stopped after r rounds, has as many valid."""
    formula, count = random_ksat(40, 60, 4, seed=3), 500
    theta = weights(formula, 3)
    done, resampled = rounds.distribution(formula, theta, method, count, 7)
    reference = Reference(prepare(formula).program, threshold(theta))
    code = LOVASZ if method == "lovasz" else MOSER_TARDOS
    for r in range(len(done)):
        assert reference.draw(code, 7, count, r)[1].sum() == done[r]
    assert resampled == reference.draw(code, 7, count, len(done))[3]
    other = reference.draw(MOSER_TARDOS if code == LOVASZ else LOVASZ, 7, count, 1)[1].sum()
    assert len(done) > 2 and done[1] != other


def test_rounds_cells_and_moments():
    key = {"case": "weighted", "n": 50, "seed": 0, "count": 2000}
    rows = [row for name in rounds.SAMPLERS for row in run("rounds", sampler=name, **key)]
    for name in rounds.SAMPLERS:
        assert sum(r["share"] for r in show.pick(rows, sampler=name)) == pytest.approx(1)
    [table] = rounds.EXPERIMENT.tables(rows)
    assert "fewer rounds in 1 of 1 cells" in table.note
    swapped = [
        {**row, "sampler": rounds.SAMPLERS[1 - rounds.SAMPLERS.index(row["sampler"])]}
        for row in rows
    ]
    assert (
        "in 0 of 1 cells" in (note := rounds.EXPERIMENT.tables(swapped)[0].note) and "NOT" in note
    )
    made = [{"rounds": r, "share": s} for r, s in ((0, 0.5), (2, 0.25), (6, 0.25))]
    assert rounds.moments(made) == {
        "mean": 2.0, "sd": math.sqrt(6), "median": 0.0, "95%": 6.0, "most": 6.0,
    }  # fmt: skip


@pytest.mark.process
def test_bias_is_seen_where_it_is():
    """200,000 draws at L = 4n: `lovasz` is off, sweeps help, `prs` is at the floor."""
    key = {"ratio": 4, "seed": 0, "n": 14, "draws": 200_000, "limit": 60.0}
    found = {name: run("bias", sampler=name, **key)[0] for name in ("lovasz", "lovasz + 4", "prs")}
    assert all(row["status"] == "ok" and row["made"] == 200_000 for row in found.values())
    assert abs(floor_gap([found["prs"]])) < 5
    assert floor_gap([found["lovasz"]]) > 5
    assert found["lovasz + 4"]["error"] < found["lovasz"]["error"] / 2
    assert bias.biased(found["lovasz"]) and not bias.biased(found["prs"])
    [uniform] = run("bias", sampler="quicksampler", **{**key, "ratio": 1, "draws": 2000})
    assert uniform["law"] == "uniform" and found["prs"]["law"] == "weighted"
