"""The published protocol: formulas, laws, numbers and programs of the paper's authors.

Random parts have fixed seeds; each statistical bound says its false-alarm rate and has a twin that
is rejected.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson.errors import FormulaError, NelsonError
from nelson_paper import experiments
from nelson_paper.commands.bench import forecast
from nelson_paper.experiments import (
    formulas,
    gradient,
    law,
    learning,
    published,
    published_learning,
    published_scores,
    runner,
    samplers,
    table1,
    table2,
)
from nelson_paper.experiments.base import Cell
from nelson_paper.experiments.folder import planned
from nelson_paper.experiments.published_gibbs import permuted, published_gibbs
from nelson_paper.tasks import KSat
from tests.paper.experiments.toy_runs import call
from tests.structured import random_ksat

FOLDER = str(Path(__file__).parent / "formulas")


def run(name: str, seconds: float = math.inf, **key):
    return experiments.run_cell(name, key, seconds)


# --------------------------------------------------------------------------------------- formulas


def test_formulas_of_a_folder():
    assert formulas.sizes(FOLDER) == {12: 2}
    first, second = (formulas.ksat({"n": 12, "seed": k, "formulas": FOLDER}) for k in (0, 1))
    assert first.formula.n_clauses == second.formula.n_clauses == 12
    path = formulas.files(FOLDER)[12][1]
    assert second.formula == nelson.Formula.from_dimacs(path) != first.formula
    cells = planned("table1", True, files=FOLDER)
    assert {(cell.key["n"], cell.key["part"]) for cell in cells} == {
        (12, "learn"),
        (12, "gradient"),
    }
    assert {cell.key["seed"] for cell in cells if cell.key["part"] == "learn"} == {0, 1}
    assert {cell.key["count"] for cell in cells if cell.key["part"] == "gradient"} == {2}
    assert all(cell.key["formulas"] == FOLDER for cell in cells)
    assert {cell.key["seed"] for cell in planned("uniform", False, files=FOLDER)} == {0}
    with pytest.raises(FormulaError, match="table3 reads no formula files"):
        planned("table3", False, files=FOLDER)


def test_a_folder_without_formulas_is_an_error(tmp_path):
    with pytest.raises(FormulaError, match=r"no \.cnf file below"):
        formulas.files(str(tmp_path))
    (tmp_path / "bad.cnf").write_text("1 2 0\n")
    with pytest.raises(FormulaError, match="p cnf"):
        formulas.files(str(tmp_path / "."))


@pytest.mark.slow
def test_a_run_reads_formulas(tmp_path):
    def here(cells):
        return ((cell, run(cell.experiment, **cell.key)) for cell in cells)

    outcome = runner.run(
        ["rounds"], tmp_path, formulas=FOLDER, only=["lovasz", "case=uniform"], executor=here
    )
    assert outcome.ran == 1 and outcome.problems == []
    [table] = outcome.tables["rounds"]
    assert table.rows[0][:3] == ["uniform", "12", "lovasz (the paper's NELSON)"]
    told = (tmp_path / "tables.tex").read_text()  # this table, and that of the samplers
    assert told.count(r"\bottomrule") == 2
    with pytest.raises(NelsonError, match=r"formulas: .*there, None now"):
        runner.run(["rounds"], tmp_path, report_only=True)


@pytest.mark.process
def test_the_command_lists_cells_of_formulas():
    done = call("rounds", "--formulas", FOLDER, "--list")
    assert done.returncode == 0 and done.stdout.count("n=12 seed=0") == 4


def test_own_formulas_have_exactly_as_many_clauses_as_asked():
    """Of the first 300 formulas at n = 10 some repeat a clause; those are replaced."""
    short = [k for k in range(300) if random_ksat(10, 10, 5, seed=k).n_clauses < 10]
    assert short
    for seed in [*short, *range(10)]:
        assert formulas.own(10, seed).formula.n_clauses == 10
    assert formulas.own(10, 3).formula == KSat.random(10, seed=3).formula
    np.testing.assert_array_equal(formulas.own(10, short[0]).planted.shape, (10,))


@pytest.mark.slow
def test_solution_lists_are_distinct_and_may_be_short():
    task = formulas.own(20, 1)
    rows = formulas.solution_list(task.formula, 200, 1)
    assert (
        rows.shape == (200, 20) and task.valid(rows).all() and len(np.unique(rows, axis=0)) == 200
    )
    few = nelson.Formula([[1], [2, 3]])
    assert len(formulas.solution_list(few, 200, 0)) == 3
    # The solver has its default phases for every seed, as in the authors' script.
    again = formulas.solution_list(task.formula, 200, 0)
    assert {row.tobytes() for row in again} == {row.tobytes() for row in rows}
    assert (again != rows).any()


# ------------------------------------------------------------------------------- laws and numbers


def test_the_law_of_table_1c():
    """Log-odds 2 theta - 1 and errors in 2x - 1: the floors that the authors' settings have."""
    sizes = published.GRADIENT_SAMPLES
    assert sizes == (4000, 2000)
    rows = run("table1", part="gradient", sampler="enumerate", n=10, seed=0, limit=60.0, count=3)
    assert [row["m"] for row in rows] == [4000, 2000] * 3
    for row in rows:
        task = formulas.own(10, row["formula"])
        mu, cov = law.exact_moments(task.formula, 2 * task.planted - 1)
        assert row["floor"] == pytest.approx(2 * law.floor(mu, cov, row["m"])[0])
        # 5 standard deviations of exact draws: a false alarm in a million.
        assert abs(row["error"] - row["floor"]) < 5 * row["floor_sd"]
        other = 2 * law.floor(*law.exact_moments(task.formula, task.planted), row["m"])[0]
        assert row["floor"] != pytest.approx(other, rel=0.01)  # the law that was used before
    floors = [
        2 * law.floor(*law.exact_moments(t.formula, 2 * t.planted - 1), 2000)[0]
        for t in (formulas.own(10, k) for k in range(10))
    ]
    assert 0.11 < np.mean(floors) < 0.14  # the paper's NELSON has 0.10


def test_below_the_floor_is_said_with_its_figures():
    rows = [{"sampler": "auto", "n": 10, "status": "ok", "floor": 0.124}]
    told = gradient.below_floor(rows, published.TABLE_1C, 2000)
    assert "0.1 at n = 10, floor 0.124" in told and "not those of 2000 independent" in told
    rows[0]["floor"] = 0.087
    assert "at or above" in gradient.below_floor(rows, published.TABLE_1C, 4000)


def test_the_published_likelihood_is_minus_the_mean_potential():
    theta, x = np.array([0.6, -2.0]), np.array([[1, 0], [1, 1]], bool)
    t = np.array([0.8, -0.5])  # (theta + 1) / 2
    phi = [t[0] + (1 - t[1]), t[0] + t[1]]
    assert published_scores.published_likelihood(theta, x) == pytest.approx(-np.mean(phi))
    assert (
        published_scores.published_likelihood(np.zeros(7), np.ones((3, 7), bool)) == -3.5
    )  # -n / 2


def by_hand(formula, examples, seed, downhill=1.0):
    """The authors' loop, written from their script, with exact draws by enumeration."""
    structures = np.array(list(itertools.product([0, 1], repeat=formula.n_vars)), bool)
    structures = structures[formula.satisfied(structures)]
    t = np.random.default_rng([seed, 70]).standard_normal(formula.n_vars)
    for _ in range(10):
        phi = structures @ t + ~structures @ (1 - t)
        weights = np.exp(phi - phi.max())
        model = (2.0 * structures - 1).T @ weights / weights.sum()
        t = t - downhill * 0.5 * ((2.0 * examples - 1).mean(axis=0) - model)
        if np.abs(t).max() > 1:
            t = t / np.abs(t).max()
    return t


@pytest.mark.slow
def test_the_authors_learning_loop():
    """Ten steps with 200 samples each: a coordinate of a step has a standard deviation of at most
    0.5 / 14, of ten steps 0.11; five of these are exceeded once in 2 million coordinates.
    """
    task = formulas.own(12, 0)
    rows = formulas.solution_list(task.formula, 200, 0)
    examples, others = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    entry = samplers.get("auto")
    t, reason = published_learning.published_learning(entry, task.formula, examples, 60.0, 0)
    assert reason == "" and np.abs(t).max() <= 1.0
    assert np.abs(t - by_hand(task.formula, examples, 0)).max() < 0.56
    uphill = by_hand(task.formula, examples, 0, downhill=-1.0)  # the twin: erratum 1 mended
    assert np.abs(t - uphill).max() > 0.56
    row = published_learning.published_row(entry, task.formula, examples, others, 60.0, 0)
    phi = examples @ t + ~examples @ (1 - t)
    assert row["published_likelihood"] == pytest.approx(-phi.mean())
    assert published_learning.published_learning(entry, task.formula, examples, 0.0, 0)[0] is None


def test_the_published_cmsgen_ignores_weights():
    names = {cell.key["sampler"] for cell in planned("table1", True) if cell.key["part"] != "learn"}
    assert names >= {"cmsgen", "cmsgen-published"}
    assert samplers.get(published.SAMPLERS["CMSGen"]).weighted is False
    quick = [cell.key for cell in planned("table2", False) if cell.key["data"] == table2.AUTHORS]
    assert {key["n"] for key in quick} == {100, 500, 1000}
    assert {key["sampler"] for key in quick} == set(samplers.PRINTED)


def test_the_published_map_by_hand():
    """Ranks 1 and 3 are preferred: (1/1 + 2/3) / 2. A model of nothing ranks the others first."""
    theta = np.array([4.0, 3.0, 2.0, 1.0])
    one = np.eye(4, dtype=bool)
    assert published_scores.published_map(theta, one[[0, 2]], one[[1, 3]]) == pytest.approx(
        (1 + 2 / 3) / 2
    )
    assert published_scores.published_map(-theta, one[[0, 2]], one[[1, 3]]) == pytest.approx(
        (1 / 2 + 2 / 4) / 2
    )
    many = np.zeros((10, 4), bool)
    assert published_scores.published_map(theta, one[[0]], np.ones((10, 4), bool)) == 0.0
    assert published_scores.published_map(np.zeros(4), one[[0]], many) == 0.0


@pytest.mark.slow
def test_the_published_map_of_a_random_ranking():
    """4000 random rankings: mean and s.d. within 5 standard errors (a false alarm in a million)."""
    random = np.random.default_rng(0)
    halves = np.arange(200) < 100
    one = np.eye(200, dtype=bool)
    values = np.array(
        [
            published_scores.published_map(
                random.permutation(200).astype(float), one[halves], one[~halves]
            )
            for _ in range(4000)
        ]
    )
    error = published_scores.RANDOM_MAP_SD / math.sqrt(len(values))
    assert abs(values.mean() - published_scores.RANDOM_MAP) < 5 * error
    assert abs(values.mean() - 0.5) > 5 * error
    assert abs(values.std() - published_scores.RANDOM_MAP_SD) < 5 * error


# ------------------------------------------------------------------------------------------ Gibbs


@pytest.mark.slow
def test_the_authors_gibbs_is_often_invalid_where_x_1_has_weight_0():
    """Their uniform script: 75%, 60% and 67% of 200 samples are valid on three formulas with n =
    300. With weights above 0 all samples are valid.
    """
    formula = formulas.own(300, 0).formula
    share = formula.satisfied(published_gibbs(formula, None, 200, 0, 60.0)).mean()
    assert 0.3 < share < 0.9
    theta = 2 * np.random.default_rng(0).normal(size=300) - 1
    assert formula.satisfied(published_gibbs(formula, theta, 100, 0, 60.0)).all()
    assert published_gibbs(formula, None, 10, 0, 0.0).shape == (0, 300)


def test_clauses_in_random_order_are_another_formula():
    """By hand: their table has its axes in order of the numbers, and is read in listed order."""
    clause = [-3, 1, 2]  # violated by x_3 = 1, x_1 = x_2 = 0; as listed: (1, 0, 0)
    table = np.ones((2, 2, 2))
    table[1, 0, 0] = 0.0
    table = table.transpose(np.argsort([2, 0, 1]))
    states = np.array(list(itertools.product([0, 1], repeat=3)), bool)
    theirs = np.array([table[tuple(x[[2, 0, 1]].astype(int))] for x in states]) == 1
    found = [permuted(nelson.Formula([sorted(clause, key=abs)]), seed) for seed in range(40)]
    assert any((f.satisfied(states) == theirs).all() for f in found)
    formula = formulas.own(12, 0).formula
    assert permuted(formula, 0).clauses() != formula.clauses()


def test_the_authors_gibbs_draws_the_law_of_a_small_formula():
    """50 sweeps of a formula with 3 variables: marginals within 5 sigma (a false alarm in 500,000
    each); those of the product law are outside.
    """
    formula = nelson.Formula([[1, 2], [-1, 3], [2]], n_vars=3)
    theta, m = np.array([0.5, -1.0, 0.3]), 20_000
    x = published_gibbs(formula, theta, m, 1, 60.0)
    assert formula.satisfied(x).all()
    mu, _ = law.exact_moments(formula, theta)
    sigma = np.sqrt(mu * (1 - mu) / m)
    assert (np.abs(x.mean(axis=0) - mu) <= 5 * sigma).all()
    product = 1 / (1 + np.exp(-theta))
    assert (np.abs(product - mu) > 5 * sigma)[[0, 2]].all()


@pytest.mark.slow
def test_the_authors_gibbs_in_a_cell():
    key = {"part": "learn", "sampler": "gibbs-published", "n": 12, "seed": 0}
    [row] = run("table1", **key, limit=20.0, loop=0.1)
    assert row["status"] == "ok" and row["validity"] == 1.0 and row["uniform_validity"] < 1.0
    key = {"part": "gradient", "sampler": "gibbs-published", "n": 10, "seed": 0, "count": 1}
    first = run("table1", **key, limit=20.0)[0]
    assert first["error"] < first["floor"] + 5 * first["floor_sd"] < first["permuted"]
    told = samplers.about([row])
    assert told is not None and told.rows[0][:2] == ["gibbs, as published", "a rewrite"]


# ----------------------------------------------------------------------------------- QuickSampler


def test_columns_numbered_as_in_the_published_script():
    """Variable 2 is in no clause. Numbered 1, 2, 3, the columns of 1, 3 and 4 go to 1, 2 and 3."""
    formula = nelson.Formula([[1, 3], [-3, 4], [1, 4]], n_vars=4)
    x = np.array([[1, 0, 0, 0], [0, 0, 1, 1]], bool)
    assert formula.satisfied(x).all()
    # Shifted: 1 -> x1, 3 -> x2, 4 -> x3. Only [1, 3] is decided: (1, _, 0) and (0, _, 1).
    assert samplers.misnumbered(formula, x).tolist() == [True, True]
    clash = np.array([[0, 1, 1, 0]], bool)  # shifted: x1 = 0, x3 = 0
    assert samplers.misnumbered(formula, clash).tolist() == [False]
    whole = nelson.Formula([[1, 2], [-2, 3]])
    states = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 1]], bool)
    np.testing.assert_array_equal(samplers.misnumbered(whole, states), whole.satisfied(states))


@pytest.mark.process
def test_the_paper_counts_quicksampler_as_invalid_at_large_n():
    formula = formulas.own(500, 0).formula
    samples = samplers.draw(samplers.get("quicksampler"), formula, None, 50, 0, 30.0)
    row = learning.shares(samplers.get("quicksampler"), formula, samples)
    assert row["validity"] > 0.9 and row["misnumbered"] < 0.2  # the paper: 7.42%


# -------------------------------------------------------------------------------- limits of a run


def test_limits_are_the_published_ones():
    cells = [c for name in ("table1", "uniform") for c in experiments.get(name).cells(True)]
    for cell in cells:
        expected = 180.0 if cell.key["sampler"] == "quicksampler" else 7200.0
        assert cell.key["limit"] == expected and cell.seconds >= 2 * expected
    weighted = experiments.get("weighted").cells(True)
    assert {cell.key["limit"] for cell in weighted} == {180.0}
    theirs = [cell.key for cell in weighted if cell.key["count"] == 100]
    assert {key["n"] for key in theirs} == set(range(10, 101, 10))
    assert {key["seed"] for key in theirs} == set(range(100))


@pytest.mark.slow
def test_cell_seconds_shorten_the_run_instead_of_losing_it():
    """A cell that gets 2 s instead of two hours ends by itself, and its note has its own limit."""
    key = {"part": "learn", "sampler": "lovasz", "n": 12, "seed": 0, "limit": 7200.0}
    [row] = run("table1", seconds=2.0, **key, loop=7200.0)
    assert row["status"] == "ok" and row["limit"] == row["loop"] == 0.5
    assert 1 <= row["iterations"] < published.ITERATIONS or row["cell_seconds"] < 20
    note = table1.tables([row])[0].note
    assert "within 500 ms after the first" in note and "longer than 500 ms" in note
    whole = Cell({"limit": 7200.0, "loop": 3600.0}, 14_640.0)
    assert whole.limit() == 7200.0 and whole.limit("loop") == 3600.0
    assert Cell({"limit": 4.0, "loop": 0.6}, 10.0).limit("loop") == 0.6


@pytest.mark.slow
def test_the_forecast_of_a_full_run():
    cells = [cell for name in ("table1", "uniform") for cell in planned(name, True)]
    told = forecast(cells)
    first = sum(cell.key["seed"] == 0 for cell in cells)
    assert told.startswith(f"{len(cells):,} cells, one after another: about") and "days" in told
    assert f"--only seed=0 runs {first:,} of them" in told and "--cluster" in told
    quick = forecast(planned("table1", False))
    assert "days" not in quick and "--only" not in quick
