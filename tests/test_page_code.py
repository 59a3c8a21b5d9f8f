"""The Python of every page of the documentation runs, with nothing before its first block. Pages
that print are in other tests.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: Commands that a page runs before its Python.
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOCS = ROOT / "docs"
#: Pages that another test runs, and compares with what they say.
ELSEWHERE = {
    "adapters", "experiments", "mrf", "space", "space-files", "start", "tables", "tasks",
}  # fmt: skip
#: Pages that need a cluster, a GPU or half a minute: tests of these rooms run smaller cases.
NOT_HERE = {"cluster", "density", "gpu"}


def pages() -> list[Path]:
    found = [page for page in sorted(DOCS.glob("*.md")) if BLOCK.search(page.read_text())]
    return [page for page in found if page.stem not in ELSEWHERE | NOT_HERE]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    if page.stem == "learning":
        pytest.importorskip("torch", reason="NO TORCH: docs/learning.md is not run")
    if page.stem == "verification":
        pytest.importorskip("vsc", reason="NO PYVSC: docs/verification.md is not run")
    if page.stem in ("popping", "routes"):
        pytest.importorskip("networkx", reason=f"NO NETWORKX: docs/{page.name} is not run")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}  # the reader has nothing but the page
    for commands in SHELL.findall(page.read_text()):
        here = f'nelson() {{ "{sys.executable}" -m nelson.cli "$@"; }}\n{commands}'
        subprocess.run(["bash", "-ec", here], check=True, capture_output=True)
    found = BLOCK.findall(page.read_text())
    assert found
    for code in found:
        # Training for 2,000 steps would take a minute.
        code = code.replace("iterations=2000", "iterations=5")
        exec(compile(code, str(page), "exec"), names)


def test_a_wrong_page_would_fail():
    assert len(pages()) >= 8
    with pytest.raises(NameError):  # no names that the reader does not have
        exec("nelson.Formula([[1]])", {})
    [code] = BLOCK.findall("text\n```python\nimport nelson.nothing\n```\n")
    with pytest.raises(ModuleNotFoundError):
        exec(code, {})
