"""Pictures of tasks with a formula; those of the other tasks are tested with the tasks."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from nelson.errors import FormulaError, NelsonError
from nelson_paper.tasks import KSat, drawing
from tests.paper.tasks.helpers import broken, pixel_spread


@pytest.mark.slow
def test_pictures_show_something(learned, tmp_path):
    pytest.importorskip("matplotlib", reason="pip install nelson-mrf[plots]")
    task, data, _, fit = learned
    new = task.sample(fit.theta, 200, seed=9).x
    written = [
        task.picture(data, fit.theta, new, tmp_path / "deep" / "all.png"),
        task.draw(new[0], tmp_path / "one.png", theta=fit.theta),
        task.draw(new[0], tmp_path / "plain.png", title="no weights"),
        task.draw(broken(task), tmp_path / "broken.png"),
    ]
    for path in written:
        assert pixel_spread(path) > 0.05
    drawing.save(drawing.figure(4, 3), tmp_path / "blank.png")
    assert pixel_spread(tmp_path / "blank.png") == 0  # the test would notice
    assert (tmp_path / "one.png").read_bytes() != (tmp_path / "broken.png").read_bytes()
    assert b"<svg" in task.draw(new[0], tmp_path / "one.svg").read_bytes()[:500]
    assert task.draw(new[0], tmp_path / "one.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(FormulaError, match=r"\.png, \.svg or \.pdf"):
        task.draw(new[0], tmp_path / "one.txt")


def test_pictures_need_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    task = KSat.small()
    with pytest.raises(NelsonError, match=r"nelson-mrf\[plots\]"):
        task.draw(np.zeros(task.n_vars, bool), tmp_path / "x.png")
