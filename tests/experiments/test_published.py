"""The published protocol: formulas, laws, numbers and programs of the paper's authors.

Random parts have fixed seeds; each statistical bound says its false-alarm rate and has a twin that
is rejected.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import experiments
from nelson.cli.bench import forecast
from nelson.errors import FormulaError, NelsonError
from nelson.experiments import (
    claims,
    formulas,
    latex,
    law,
    learning,
    originals,
    published,
    runner,
    samplers,
    show,
    table1,
    table2,
    verdict,
)
from nelson.experiments.base import Cell, Table
from nelson.experiments.folder import planned
from nelson.experiments.published_gibbs import published_gibbs
from nelson.experiments.report import markdown, page
from tests.experiments.toy_runs import call
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


def test_a_run_reads_formulas(tmp_path):
    def here(cells):
        return ((cell, run(cell.experiment, **cell.key)) for cell in cells)

    outcome = runner.run(
        ["rounds"], tmp_path, formulas=FOLDER, only=["lovasz", "case=uniform"], executor=here
    )
    assert outcome.ran == 1 and outcome.problems == []
    [table] = outcome.tables["rounds"]
    assert table.rows[0][:3] == ["uniform", "12", "lovasz"]
    assert (tmp_path / "tables.tex").read_text().count(r"\bottomrule") == 1
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
    assert formulas.own(10, 3).formula == nelson.tasks.KSat.random(10, seed=3).formula
    np.testing.assert_array_equal(formulas.own(10, short[0]).planted.shape, (10,))


def test_solution_lists_are_distinct_and_may_be_short():
    task = formulas.own(20, 1)
    rows = formulas.solution_list(task.formula, 200, 1)
    assert (
        rows.shape == (200, 20) and task.valid(rows).all() and len(np.unique(rows, axis=0)) == 200
    )
    few = nelson.Formula([[1], [2, 3]])
    assert len(formulas.solution_list(few, 200, 0)) == 3


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
    told = table1.below_floor(rows, published.TABLE_1C, 2000)
    assert "0.1 at n = 10, floor 0.124" in told and "not measured with m = 2000" in told
    rows[0]["floor"] = 0.087
    assert "at or above" in table1.below_floor(rows, published.TABLE_1C, 4000)


def test_the_published_likelihood_is_minus_the_mean_potential():
    theta, x = np.array([0.6, -2.0]), np.array([[1, 0], [1, 1]], bool)
    t = np.array([0.8, -0.5])  # (theta + 1) / 2
    phi = [t[0] + (1 - t[1]), t[0] + t[1]]
    assert table2.published_likelihood(theta, x) == pytest.approx(-np.mean(phi))
    assert table2.published_likelihood(np.zeros(7), np.ones((3, 7), bool)) == -3.5  # -n / 2


def test_the_published_map_by_hand():
    """Ranks 1 and 3 are preferred: (1/1 + 2/3) / 2. A model of nothing ranks the others first."""
    theta = np.array([4.0, 3.0, 2.0, 1.0])
    one = np.eye(4, dtype=bool)
    assert table2.published_map(theta, one[[0, 2]], one[[1, 3]]) == pytest.approx((1 + 2 / 3) / 2)
    assert table2.published_map(-theta, one[[0, 2]], one[[1, 3]]) == pytest.approx(
        (1 / 2 + 2 / 4) / 2
    )
    many = np.zeros((10, 4), bool)
    assert table2.published_map(theta, one[[0]], np.ones((10, 4), bool)) == 0.0
    assert table2.published_map(np.zeros(4), one[[0]], many) == 0.0


def test_the_published_map_of_a_random_ranking():
    """4000 random rankings: mean and s.d. within 5 standard errors (a false alarm in a million)."""
    random = np.random.default_rng(0)
    halves = np.arange(200) < 100
    one = np.eye(200, dtype=bool)
    values = np.array(
        [
            table2.published_map(random.permutation(200).astype(float), one[halves], one[~halves])
            for _ in range(4000)
        ]
    )
    error = table2.RANDOM_MAP_SD / math.sqrt(len(values))
    assert abs(values.mean() - table2.RANDOM_MAP) < 5 * error
    assert abs(values.mean() - 0.5) > 5 * error
    assert abs(values.std() - table2.RANDOM_MAP_SD) < 5 * error


# ------------------------------------------------------------------------------------------ Gibbs


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


def test_the_authors_gibbs_in_a_cell():
    key = {"part": "learn", "sampler": "gibbs-published", "n": 12, "seed": 0}
    [row] = run("table1", **key, limit=20.0, loop=0.1)
    assert row["status"] == "ok" and row["validity"] == 1.0 and row["uniform_validity"] < 1.0
    note = samplers.programs([row])
    assert note == "Rewrites of this package, not their authors' programs: `gibbs-published`."


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


# --------------------------------------------------------------------------------------- programs


def install(folder: Path, monkeypatch, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


FAKES = {
    # arguments: -n M -t SECONDS FILE; variable 2 is in no clause, so lines have two bits
    "quicksampler": 'printf "0: 11\\n1: 10\\n" > "$5.samples"',
    # arguments: -s M -out OUT -t SECONDS -cnf FILE
    "spur": 'printf "#START_SAMPLES\\n1,1*1\\n1,1*0\\n#END_SAMPLES\\n" > "$4"',
    # arguments: --samples M --outputfile OUT FILE
    "KUS.py": 'printf "1, 1 -2 3 \\n2, 1 2 -3 \\n" > "$4"',
    "waps.py": 'grep -q "^w 3 0.73" "$5" && printf "1, 1 -2 3\\n2, 1 2 -3\\n" > "$4"',
}


@pytest.mark.process
@pytest.mark.parametrize("name", FAKES)
def test_an_original_program_on_the_path_is_run_and_marked(name, tmp_path, monkeypatch):
    """A stand-in writes the format of the original. Without it our own sampler runs."""
    ours = {"KUS.py": "kus", "waps.py": "waps"}.get(name, name)
    assert originals.find(ours) is None
    install(tmp_path, monkeypatch, name, FAKES[name])
    assert originals.find(ours) == str(tmp_path / name)
    formula, entry = nelson.Formula([[1, 3]], n_vars=3), samplers.get(ours)
    samples = samplers.draw(entry, formula, np.array([0.0, 0.0, 1.0]), 2, 0, 20.0)
    x = samples.to_numpy()
    assert samplers.lacking(entry) == [] and len(samples) == 2
    assert sorted(x[:, [0, 2]].tolist()) == [[True, False], [True, True]]
    few = samplers.draw(entry, formula, None, 5, 0, 20.0)
    assert len(few) == (2 if ours != "waps" else 0) and few.status == "budget"
    if ours != "waps":  # the stand-in wants the weights of this formula
        [row] = run("uniform", sampler=ours, n=12, seed=0, limit=20.0, count=2, formulas=FOLDER)
        assert row["original"] == str(tmp_path / name)
    assert f"Their authors' programs: `{ours}`." in samplers.programs(
        [{"sampler": ours, "original": str(tmp_path / name)}]
    )
    asked = {cell.key["sampler"] for cell in experiments.get("uniform").cells(False)}
    assert ("spur" in asked) == (name == "spur")


@pytest.mark.process
def test_an_original_program_that_hangs_is_killed(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "KUS.py", "sleep 600 & sleep 600")
    samples = samplers.draw(samplers.get("kus"), nelson.Formula([[1, 2]]), None, 5, 0, 0.05)
    assert len(samples) == 0


def test_rewrites_are_named_under_every_table_that_has_them():
    for name in ("table1", "table2", "table3", "uniform", "weighted", "bias"):
        experiment = experiments.get(name)
        rows = [
            {**cell.key, "status": "T.O.", "cell_seconds": 1.0} for cell in experiment.cells(False)
        ]
        for table in experiment.tables(rows):
            shown = {row[0] for row in table.rows}
            if "xor" in shown:
                told = "Rewrites of this package, not their authors' programs: `gibbs`"
                assert told in table.note and "`xor`" in table.note, table.title
                assert "Their authors' programs: `cmsgen`" in table.note


# -------------------------------------------------------------------------------- limits of a run


def test_limits_are_the_published_ones():
    cells = [c for name in ("table1", "uniform") for c in experiments.get(name).cells(True)]
    for cell in cells:
        expected = 180.0 if cell.key["sampler"] == "quicksampler" else 7200.0
        assert cell.key["limit"] == expected and cell.seconds >= 2 * expected


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


def test_the_forecast_of_a_full_run():
    cells = [cell for name in ("table1", "uniform") for cell in planned(name, True)]
    told = forecast(cells)
    first = sum(cell.key["seed"] == 0 for cell in cells)
    assert told.startswith(f"{len(cells):,} cells: at most") and "days one after another" in told
    assert f"--only seed=0 runs {first:,} of them" in told and "--cluster" in told
    quick = forecast(planned("table1", False))
    assert "days" not in quick and "--only" not in quick


# --------------------------------------------------------------------------- claims, bold, LaTeX


def made(sampler: str, **values) -> dict:
    return {"sampler": sampler, "n": 10, "seed": 0, "limit": 3.0, "status": "ok", **values}


def test_ties_and_losses_are_said():
    rows = [made("auto", map=0.9), made("gibbs", map=0.901), made("cmsgen", map=0.8)]
    assert verdict.ties(rows, "map") == "`auto`, n = 10: ties with `gibbs`."
    rows[1]["map"] = 0.95
    assert verdict.ties(rows, "map") == "`auto`, n = 10: loses to `gibbs`."
    rows[1]["map"] = 0.5
    assert verdict.ties(rows, "map") == "`auto`, n = 10: is the best."
    rows[1]["map"] = 0.99
    assert verdict.ties(rows, "map", 0.19) == "`auto`, n = 10: ties with `gibbs`, `cmsgen`."
    bars = [made("auto", value=-50.0, bar=1.0), made("gibbs", value=-50.5, bar=1.0)]
    assert "Within the error bar of `auto`, so a tie: `gibbs` at n = 10." in verdict.best(
        bars, "value", "bar"
    )
    bars[1]["value"] = -53.0
    assert "a tie" not in verdict.best(bars, "value", "bar")


def test_claims_are_counted_from_the_rows():
    fast, slow = ({"part": "learn", "validity": 1.0, "seconds": s} for s in (0.001, 0.002))
    first = [made("auto", **fast), made("gibbs", **slow), made("lovasz", **slow)]
    second = [made("auto", data="planted", held_out=-5.0, held_out_bar=0.1, validity=0.9)]
    table = claims.table({"table1": first, "table2": second})
    told = {row[0].partition(",")[0]: row[1:3] for row in table.rows}
    assert told["every sample is valid"] == [
        "1 of 2 cells; not in Table 2, planted, n = 10: 90%",
        "1 of 1 cells",
    ]
    assert told["faster than every peer"] == [
        "1 of 1 cells",
        "0 of 1 cells; not in Table 1, n = 10: gibbs 2 ms, lovasz 2 ms",
    ]
    assert (
        told["no other sampler has a better held-out likelihood (a tie counts)"][0]
        == "1 of 1 cells"
    )
    assert claims.table({"labels": []}) is None


def test_the_best_value_is_bold_and_the_paper_set_apart():
    rows = [
        made("lovasz", part="learn", seconds=0.001, first=0.01, validity=1.0, guarantee="exact"),
        made("gibbs", part="learn", seconds=0.002, first=0.002, validity=1.0, guarantee="exact"),
        made("xor", part="learn") | {"status": "T.O."},
    ]
    times, first, _ = table1.tables(rows)
    assert times.best == {(0, 1)} and first.best == {(1, 1)} and times.paper_from == 3
    text = markdown(times)
    assert "**1 ms**" in text and "**2 ms**" not in text
    assert text.splitlines().index(next(x for x in text.splitlines() if "···" in x)) == 7
    html = page("t", [experiments.report.Section("h", tables=[times])])
    assert "<strong>1 ms</strong>" in html and html.count('<tr class="paper first">') == 1
    tex = latex.latex(times)
    assert r"\textbf{1 ms}" in tex and tex.count(r"\midrule") == 2
    assert r"\toprule" in tex and r"\bottomrule" in tex and r"\texttt{lovasz}" in tex
    bars = show.grid(
        "t",
        [made("auto", v=1.0, bar=0.1), made("gibbs", v=1.05, bar=0.1), made("xor", v=0.5, bar=0.1)],
        lambda good: f"{good[0]['v']}",
        best=max,
        value=lambda good: good[0]["v"],
        within=lambda good: good[0]["bar"],
    )
    assert bars.best == {(0, 1), (1, 1)}


def test_latex_escapes():
    told = latex.escape("50% & a_b ~ `x_1` \\ 3 µs ± 1")
    assert told == (
        r"50\% \& a\_b \textasciitilde{} \texttt{x\_1} \textbackslash{} 3 $\mu$s $\pm$ 1"
    )
    assert r"\begin{tabular}{lr}" in latex.latex(Table("t", ["a", "b"], [["x", "1"]]))
