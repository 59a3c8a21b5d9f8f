"""The experiment `nelson bench routes`."""

from __future__ import annotations

from functools import partialmethod

import pytest

from nelson_paper.experiments import run_cell
from nelson_paper.experiments.base import Cell
from nelson_paper.experiments.routes import EXPERIMENT
from nelson_paper.tasks.routes import Routes


@pytest.mark.slow
def test_experiment_runs_and_bears_missing_rows(monkeypatch):
    for method, brief in (
        ("learn", {"iterations": 8, "chains": 50}),
        ("evaluate", {"n": 200}),
        ("diagnose", {"chains": 8, "length": 40}),
    ):
        monkeypatch.setattr(Routes, method, partialmethod(getattr(Routes, method), **brief))
    keys = [
        {"part": "uniform", "n": 29, "batches": 5},
        {"part": "redraw", "n": 29, "rounds": 300},
        {"part": "bias", "n": 4, "spread": 0.5, "m": 2000},
        {"part": "enumerate", "n": 8, "m": 500},
        {"part": "learn", "n": 29, "examples": 40},
    ]
    rows = [row for key in keys for row in run_cell("routes", {**key, "seed": 0})]
    assert all(row["status"] == "ok" for row in rows)
    made = EXPERIMENT.tables(rows)
    assert len(made) == 7 and all(table.rows for table in made)
    assert made[0].rows[0][2] == "100%" and made[1].rows[1][2] == "0 of 100"
    assert set(EXPERIMENT.plots(rows)) == {"rounds", "seconds", "lengths"}
    late = [{"part": k["part"], "n": k["n"], "status": "T.O."} for k in keys]
    assert all("T.O." in table.rows[0] for table in EXPERIMENT.tables(late))
    assert EXPERIMENT.tables([]) == [] and EXPERIMENT.plots([]) == {}
    for full in (False, True):
        found = EXPERIMENT.cells(full)
        assert all(isinstance(cell, Cell) for cell in found) and len(set(found)) == len(found)
        assert {cell.key["part"] for cell in found} == {k["part"] for k in keys}


def test_the_verdict_is_printed_either_way():
    row = {"part": "learn", "row": "fit", "status": "ok", "converged": True, "validity": 1.0}
    row |= {"distinct": 9, "generated": 9, "edge_correlation": 1.0, "edge_gap": 1.2}
    row |= {"edge_noise": 1.0, "length_ks": 0.05, "length_p": 0.017, "uniform_length_ks": 1.0}
    row |= {"uniform_length_p": 0.0, "fit_gap": 2.01, "fit_floor": 1.76, "fit_seconds": 1.0}

    def verdicts(**changed):
        [table] = [t for t in EXPERIMENT.tables([row | changed]) if "Learned" in t.title]
        return [line[1] for line in table.rows if line[0].startswith("verdict")]

    assert verdicts() == ["like the data", "like the data", "converged"]
    poor = verdicts(edge_gap=1.3, length_p=0.009, converged=False)
    assert poor == ["NOT like the data", "NOT like the data", "NOT converged"]


def test_experiment_plots_draw():
    figure = pytest.importorskip("matplotlib.figure")
    rows = [
        {"part": "uniform", "status": "ok", "n": 29, "rounds_mean": 44.0 + k, "rounds_max": 150 + k,
         "seconds": 1e-3 * (k + 1)} for k in range(5)
    ] + [{"part": "learn", "status": "ok", "row": "length", "quantile": "50%", "held_out": 2.0,
          "model": 2.1}]  # fmt: skip
    for draw in EXPERIMENT.plots(rows).values():
        ax = figure.Figure().subplots()
        draw(ax)
        assert ax.get_xlabel()
