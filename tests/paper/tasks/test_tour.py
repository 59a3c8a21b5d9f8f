"""The tour from examples to pictures, `nelson demo`, and the examples in documents and scripts."""

from __future__ import annotations

import re
import runpy
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from nelson.cli import app
from nelson_paper import tasks
from nelson_paper.commands.demo import _verdict
from nelson_paper.tasks import Orientations
from nelson_paper.tasks.tour import Visit, tour
from tests import ROOT
from tests.paper.tasks.helpers import pixel_spread

pytest.importorskip("networkx", reason="pip install nelson-mrf[plots]")
#: Tasks of the folder `examples`, as `make demo` names them.
TREES, CONNECTED = "examples.trees:SpanningTrees", "examples.connected:RootConnected"


@pytest.mark.slow
def test_tour_goes_all_the_way(tmp_path):
    said: list[str] = []
    visit = tour(Orientations.small(), tmp_path, examples=300, seed=2, say=said.append)
    assert said == ["300 examples, and as many held out", "learning", "generating", "evaluating",
                    "drawing"]  # fmt: skip
    assert visit.report["validity"] == 1.0
    assert visit.report["moment_gap"]["l1"] < 2 * visit.noise
    assert len(visit.generated) == 300
    assert [path.name for path in visit.pictures] == ["orientations.png", "orientations-one.png"]
    assert all(pixel_spread(path) > 0.05 for path in visit.pictures)
    assert set(visit.seconds) == {"examples", "learn", "generate", "evaluate", "pictures"}
    assert tour(Orientations.small(), None, examples=100).pictures == []


@pytest.mark.slow
def test_documentation_runs(tmp_path, monkeypatch, capsys):
    """The Python in docs/tasks.md, all of it in one namespace; what it prints is true."""
    pytest.importorskip("matplotlib", reason="pip install nelson-mrf[plots]")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/tasks.md").read_text(), re.M | re.S)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/tasks.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[1:] == ["1.0 exact", "True", "True True", "2.0"]
    assert {p.name for p in tmp_path.iterdir()} == {"one.png", "all.png"}


@pytest.mark.process
@pytest.mark.slow
def test_examples_run(tmp_path, capsys):
    streets = runpy.run_path(str(ROOT / "examples" / "one_way_streets.py"))["main"]
    pytest.importorskip("matplotlib", reason="pip install nelson-mrf[plots]")
    picture = tmp_path / "town.png"
    assert streets(days=500, picture=picture) < 0.25  # 31 weights; 1 is knowing nothing
    assert "100% valid, exact" in capsys.readouterr().out
    assert pixel_spread(picture) > 0.05
    solutions = runpy.run_path(str(ROOT / "examples" / "preferred_solutions.py"))["main"]
    constant = solutions(n=60, examples=100)
    assert constant["planted"] < 0.1 < constant["paper"]
    assert capsys.readouterr().out.count("100% valid") == 2


@pytest.fixture
def demo(monkeypatch):
    """Run `nelson demo` with these arguments, in this process."""
    monkeypatch.setenv("COLUMNS", "110")
    return lambda *args: CliRunner().invoke(app, ["demo", *map(str, args)])


@pytest.mark.process
@pytest.mark.slow
def test_demo_learns_every_task(demo, tmp_path):
    """The table has a valid row for each task; pictures and page exist, and no picture is blank."""
    done = demo("-o", tmp_path, "--also", TREES, "--also", CONNECTED)
    classes = [tasks.get(name) for name in (*tasks.names(), TREES, CONNECTED)]
    names = [cls.name for cls in classes]
    assert names == ["ksat", "orientations", "routes", "trees", "connected"]
    assert done.exit_code == 0, done.stderr + done.stdout
    for name in names:
        [line] = [line for line in done.stdout.splitlines() if line.split()[:1] == [name]]
        assert " 100% " in line
        gap, noise = map(float, line.split("100%")[1].split()[:2])
        assert 0 < gap < 2.5 * noise
    assert "65,536 of 65,536 valid" in done.stdout
    assert "What to try next" in done.stdout
    for name in names:
        for suffix in (".png", "-one.png"):
            assert pixel_spread(tmp_path / f"{name}{suffix}") > 0.03
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png") == 2 * len(names)
    assert all(f"<h2>{cls.heading}</h2>" in page for cls in classes)
    assert "samples a second" in page and "always valid" in page[: page.index("<h2>")]


@pytest.mark.process
def test_demo_without_optional_packages(demo, tmp_path, monkeypatch):
    """A core install runs the tasks that it can, and says why it cannot run the others."""
    for name in ("matplotlib", "networkx"):
        monkeypatch.setitem(sys.modules, name, None)
    done = demo("ksat", "orientations", "routes", "-o", tmp_path / "bare")
    assert done.exit_code == 1
    assert "Traceback" not in done.stderr
    assert [line.split()[3] for line in done.stdout.splitlines() if line.startswith("ksat")] == [
        "100%"
    ]
    assert 'orientations was not run: graphs need networkx: pip install "nelson-mrf[plots]"' in (
        done.stdout
    )
    assert "routes was not run" not in done.stdout  # needs neither
    assert 'pip install "nelson-mrf[plots]"' in done.stdout
    assert [p.name for p in (tmp_path / "bare").iterdir()] == ["report.html"]


@pytest.mark.process
@pytest.mark.slow
def test_demo_of_one_task_and_of_none(demo, tmp_path):
    done = demo("orientations", "--seed", 3, "-o", tmp_path / "one")
    assert done.exit_code == 0, done.stderr
    assert "orientations" in done.stdout
    assert "ksat" not in done.stdout
    assert {p.name for p in (tmp_path / "one").iterdir()} == {
        "orientations.png",
        "orientations-one.png",
        "report.html",
    }
    wrong = demo("sudoku", "-o", tmp_path / "none")
    assert wrong.exit_code == 1
    assert "sudoku" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert not (tmp_path / "none").exists()


def test_the_gap_is_judged_by_its_noise():
    """At the bound it is within; above it the verdict names the task."""
    visit = Visit(Orientations.small(), None, None, {"moment_gap": {"l1": 0.4}}, 0.3, {}, [], 0.4)
    assert visit.within_noise and _verdict([visit]).endswith("noise for orientations.")
    far = replace(visit, allowed=0.39)
    assert not far.within_noise and "above them for orientations" in _verdict([visit, far])
