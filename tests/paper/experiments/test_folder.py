"""What a run writes: tables, plots, Parquet, the page; and the contract of every experiment."""

from __future__ import annotations

import itertools
import json
import os
import re

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from nelson.errors import NelsonError
from nelson.io import atomic
from nelson_paper import experiments
from nelson_paper.experiments import machine, plots, records, runner, samplers
from nelson_paper.experiments.base import Table
from nelson_paper.experiments.folder import in_words, planned
from nelson_paper.experiments.report import markdown
from tests import ROOT
from tests.paper.experiments.toy_runs import BROKEN, call, rows_of
from tests.paper.toy_experiment import NAME

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups")


# --------------------------------------------------------------------------- what is written


@pytest.mark.process
def test_no_cell_of_a_table_is_blank(tmp_path):
    runner.run([NAME], tmp_path / "run")
    text = (tmp_path / "run" / "table.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 7
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    assert len({len(row) for row in cells}) == 1
    assert all(cell.strip() for row in cells for cell in row)
    assert "T.O." in text and "out of memory" in text and "failed: died" in text
    # The twin: the experiment itself does leave blanks, and they were found.
    (table,) = experiments.get(NAME).tables(rows_of(tmp_path / "run"))
    assert any(cell == "" for row in table.rows for cell in row) and "–" in text


def test_markdown_keeps_its_columns_and_obeys_no_html():
    text = markdown(Table("t", ["a|b", "c"], [["<script>x", "1 < 2"], ["", "3"]]))
    assert "a\\|b" in text and "&lt;script>" in text and "1 < 2" in text
    with pytest.raises(NelsonError, match="1 cells, there are 2 columns"):
        Table("t", ["a", "b"], [["1"]])


@pytest.mark.process
def test_the_folder(tmp_path):
    folder = tmp_path / "run"
    runner.run([NAME], folder, only=["works"], command="nelson bench <toy>")
    stem = "tests.paper.toy_experiment-EXPERIMENT-value"
    assert (folder / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (folder / f"{stem}.svg").read_bytes()
    page = (folder / "report.html").read_text()
    for text in (machine.processor(), np.__version__, "nelson bench &lt;toy&gt;", "7, 8"):
        assert text in page
    assert not list(folder.glob(".*")), "no half-written file is left"


@pytest.mark.process
def test_a_slip_in_a_table_loses_no_results(tmp_path):
    folder = tmp_path / "run"
    told = call(BROKEN, "-o", folder)
    assert told.returncode == 1
    assert f"error: {BROKEN}: tables: KeyError: 'a slip in a table'" in told.stderr
    assert rows_of(folder)[0]["status"] == "ok"
    assert "a slip in a table" in (folder / "report.html").read_text()


def test_parquet_takes_any_mixture(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "results.parquet"
    rows = [
        {"a": 1, "b": 1, "c": True, "d": 2**64, "e": None},
        {"a": 2.5, "b": "x", "c": None, "d": 1},
        {"f": float("nan")},
    ]
    records.write_parquet(path, rows)
    read = pq.read_table(path).to_pydict()
    assert read["a"] == [1.0, 2.5, None] and read["b"] == ["1", "x", None]
    assert read["c"] == [True, None, None] and read["d"] == [str(2**64), "1", None]
    assert read["e"] == [None] * 3 and np.isnan(read["f"][2])


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    atomic.write(path, b"old")

    def full(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        atomic.write(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_durations():
    told = [in_words(s) for s in (0.0412, 9.96, 12.4, 60, 200, 7500)]
    assert told == ["0.041 s", "10 s", "12 s", "1 min", "3 min 20 s", "2 h 5 min"]


# ----------------------------------------------------------------------------------- plots


@pytest.mark.slow
def test_plots_bear_gaps_and_nothing():
    def gaps(ax):
        series = {"lovasz": ([10, 20, 30], [1.0, None, float("nan")]), "mine": ([1], [0.0])}
        plots.curves(ax, series, x="n", y="s")

    def nothing(ax):
        plots.curves(ax, {}, x="n", y="s")

    def alike(ax):
        plots.steps(ax, {"lovasz": [3, 3, 3], "prs": []}, x="rounds")

    panels = plots.Panels({"one": gaps, "two": nothing, "three": alike}, columns=2)
    for draw in (gaps, nothing, alike, panels):
        assert plots.render(draw, "png").startswith(b"\x89PNG")
    assert plots.render(gaps, "svg") == plots.render(gaps, "svg")  # the same plot, the same file
    assert plots.render(gaps, "svg") != plots.render(gaps, "svg", dark=True)


def test_series_look_different():
    with plots.style():
        names = [*plots.KNOWN, "mine", "yours"]
        looks = [plots.look(name, ["mine", "yours"]) for name in names]
    assert len({(k["color"], k["marker"]) for k in looks}) == len(names)
    assert len({k["color"] for k in looks[: len(plots.KNOWN)]}) == len(plots.KNOWN)
    assert {k["linestyle"] for k in looks} == {"-", ":"}  # dashes are the paper's; dots: the floor


def test_small_multiples_have_a_panel_for_each_series():
    """Each panel draws its own series in colour over the others, on the same scale."""
    series = {"auto": ([10, 20], [1.0, 2.0]), "xor": ([10], [300.0]), "kus": ([], [])}
    panels = plots.multiples(series, x="n", y="s")
    assert list(panels.draws) == ["auto", "xor"]
    limits = []
    for name, draw in panels.draws.items():
        _, ax = drawn(draw)
        assert [line.get_label() for line in ax.lines][-1] == name and len(ax.lines) == 2
        limits.append(ax.get_ylim())
    assert limits == [(0.5, 600.0)] * 2
    assert len(plots.multiples({"kus": ([], [])}, x="n", y="s").draws) == 1  # says that it is empty


def test_no_sampler_lacks_a_look():
    assert {entry.name for entry in samplers.every()} <= set(plots.KNOWN)


def drawn(draw, dark: bool = False):
    """A figure with one axes, laid out as it is saved."""
    with plots.style(dark):
        figure = Figure(figsize=plots.SIZE, layout="constrained")
        FigureCanvasAgg(figure)
        ax = figure.add_subplot()
        draw(ax)
        figure.canvas.draw()
    return figure, ax


@pytest.mark.slow
def test_the_papers_curves_are_dashed_and_nothing_covers_the_data_or_is_clipped():
    """Twenty samplers with long names: names stand beside the axes, apart, inside the picture."""
    names = [*plots.KNOWN[:19], "a sampler with a rather long name"]
    series = {name: ([10, 20, 40], [k + 1.0, k + 2.0, k + 3.0]) for k, name in enumerate(names)}
    figure, ax = drawn(
        lambda ax: plots.curves(
            ax, series, x="variables n", y="seconds", paper={"lovasz": ([10, 40], [100.0, 200.0])}
        )
    )
    dashed = [line for line in ax.lines if line.is_dashed()]
    assert len(ax.lines) == len(names) + 1 and len(dashed) == 1
    ours = next(line for line in ax.lines if line.get_label() == "lovasz")
    assert dashed[0].get_color() == ours.get_color()
    assert ax.get_legend() is None
    told = [text for text in ax.texts if text.get_text() != "dashed: the paper"]
    assert len(ax.texts) == len(told) + 1
    assert {text.get_text() for text in told} == {samplers.label(name) for name in names}
    page, data = figure.bbox, ax.get_window_extent()
    boxes = sorted((Text.get_window_extent(text) for text in told), key=lambda box: box.y0)
    for box in boxes:
        assert box.x0 > data.x1 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
    middles = [(box.y0 + box.y1) / 2 for box in boxes]
    assert min(b - a for a, b in itertools.pairwise(middles)) > 0.7 * boxes[0].height
    assert plots.SIZE[0] * plots.DPI == 1200


# ------------------------------------------------------------------------------ the command


@pytest.mark.process
def test_command_line(tmp_path):
    assert "nelson bench table1" in call("--help").stdout
    assert call().returncode == 2
    unknown = call("table9")
    assert unknown.returncode == 1 and "no experiment 'table9'; expected one of" in unknown.stderr
    listed = call(NAME, "--list", "--only", "n=20")
    assert listed.stdout == f"{NAME}: sampler=works n=20 seed=7; at most 1 min\n"
    assert len(call(NAME, "--list", "--full").stdout.splitlines()) == 9
    filters = ("--only", "works,stalls", "--only", "n=20")
    run = call(NAME, *filters, "--cell-seconds", "20", "-o", tmp_path / "run")
    assert run.returncode == 0, run.stderr
    assert "1/1" in run.stderr and "(at most 20 s); about 1.1 s left" in run.stderr
    assert "| works   |  0.050 |" in run.stdout


@pytest.mark.process
def test_the_example_of_the_docs(tmp_path, monkeypatch):
    docs = ROOT / "docs" / "experiments.md"
    (code,) = re.findall(r"^```python\n(.*?)^```$", docs.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "my_module.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    outcome = runner.run(["my_module:EXPERIMENT"], tmp_path / "run")
    assert outcome.ran == 3 and not outcome.problems
    rows = rows_of(tmp_path / "run")
    assert [row["status"] for row in rows] == ["ok"] * 3, rows
    assert all(0.5 < row["ones"] < 1 for row in rows)


# ------------------------------------------------------------------- every real experiment


@pytest.mark.slow
@pytest.mark.parametrize("name", experiments.names())
@pytest.mark.parametrize("full", [False, True])
def test_contract_of_experiments(name, full, tmp_path):
    """Keys are plain and differ, limits are set, and rows that are missing or bad are borne."""
    experiment = experiments.get(name)
    assert experiment.name == name and experiment.title and experiment.reproduces
    if experiment.from_data:
        assert planned(name, full) == []
        for part in ("train", "valid"):
            (tmp_path / f"connect4.{part}.data").write_text("0,1\n")
    cells = planned(name, full, data=str(tmp_path))
    assert cells and all(cell.seconds > 0 and cell.memory > 0 for cell in cells)
    for cell in cells:
        assert all(type(value) in (str, int, float, bool) for value in cell.key.values())
        assert json.loads(json.dumps(dict(cell.key))) == dict(cell.key)
    cells = cells[:: max(1, len(cells) // 100)]
    late = [
        {"experiment": name, **cell.key, "status": status, "cell_seconds": cell.seconds}
        for cell, status in zip(cells, ["T.O.", "failed: x", "out of memory"] * len(cells))  # noqa: B905
    ]
    for rows in ([], late[:1], late):
        for table in experiment.tables(rows):
            assert markdown(table)
        for draw in [] if full else experiment.plots(rows).values():
            assert plots.render(draw, "png")
    assert any("T.O." in cell for t in experiment.tables(late) for row in t.rows for cell in row)
