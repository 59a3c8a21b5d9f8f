"""The Python of every page of the documentation runs. Pages that print are in other tests."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nelson
from nelson.cli import app
from tests import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOCS = ROOT / "docs"
#: Pages that another test runs, and compares with what they say.
ELSEWHERE = {
    "adapters", "experiments", "mrf", "space", "space-files", "start", "tables", "tasks",
}  # fmt: skip
#: Pages that need a cluster, a GPU or half a minute: tests of these rooms run smaller cases.
NOT_HERE = {"cluster", "density", "gpu"}
#: What the reader of a page has already.
FORMULA = nelson.Formula([[1, 2, 3], [-1, 4], [-2, -4, 5], [3, 5, 6]])
THETA = np.linspace(-1, 1, 6)


def prelude(page: str) -> dict[str, object]:
    names: dict[str, object] = {"nelson": nelson, "np": np, "f": FORMULA, "theta": THETA}
    if page == "circuits":
        names["theta_rows"] = np.zeros((2, 4))
    elif page == "cli":
        Path("named.cnf").write_text("c 1 left\nc 2 right\np cnf 2 1\n1 2 0\n")
        CliRunner().invoke(app, ["sample", "named.cnf", "-n", "100", "-o", "out.npz"])
    elif page == "formats":
        FORMULA.to_dimacs("f.cnf.gz")
    elif page == "learning":
        torch = pytest.importorskip("torch", reason="NO TORCH: docs/learning.md is not run")
        names |= {"torch": torch, "formula": FORMULA, "c": np.zeros((64, 8), np.float32)}
        names["x"] = nelson.sample(FORMULA, n=64, seed=0).to_numpy()
        names["c_new"] = names["c"][:2]
        train, valid, test = (nelson.sample(FORMULA, n=200, seed=seed) for seed in (1, 2, 3))
        names |= {"train": train.to_numpy(), "valid": valid.to_numpy(), "test": test.to_numpy()}
    return names


def pages() -> list[Path]:
    found = [page for page in sorted(DOCS.glob("*.md")) if BLOCK.search(page.read_text())]
    return [page for page in found if page.stem not in ELSEWHERE | NOT_HERE]


@pytest.mark.slow
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    if page.stem in ("popping", "routes"):
        pytest.importorskip("networkx", reason=f"NO NETWORKX: docs/{page.name} is not run")
    monkeypatch.chdir(tmp_path)
    names = prelude(page.stem)
    found = BLOCK.findall(page.read_text())
    assert found
    for code in found:
        # Training for 2,000 steps would take a minute.
        code = code.replace("iterations=2000", "iterations=5")
        exec(compile(code, str(page), "exec"), names)


def test_a_wrong_page_would_fail():
    assert len(pages()) >= 8
    [code] = BLOCK.findall("text\n```python\nimport nelson.nothing\n```\n")
    with pytest.raises(ModuleNotFoundError):
        exec(code, {})
