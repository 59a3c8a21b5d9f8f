"""Pages of the documentation run, and print what they say they print.

Each page is one program: its ```python blocks share their names. `python -m
tests.test_example_pages` writes the real output into the pages.
"""

from __future__ import annotations

import os
import runpy
import tempfile
from pathlib import Path

import pytest

from tests import ROOT
from tests.test_readme import outputs, with_outputs

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.md"))
NAMED = ("start.md", "space.md", "tables.md", "adapters.md")
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
PAGES = [
    *EXAMPLES,
    *(ROOT / "docs" / name for name in NAMED),
    *(page for page in HOW_TO if "```python" in page.read_text()),
]


def write_files() -> None:
    """What the reader of a page has already."""
    runpy.run_path(str(ROOT / "examples" / "new_rows.py"))["write_csv"](Path("plans.csv"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prints_what_it_says(page, tmp_path, monkeypatch):
    if page.stem == "adapters":
        pytest.importorskip("cpmpy", reason="NO CPMPY: docs/adapters.md is not run")
        pytest.importorskip("ConfigSpace", reason="NO CONFIGSPACE: docs/adapters.md is not run")
    monkeypatch.chdir(tmp_path)
    write_files()
    text = page.read_text()
    pairs = outputs(text)
    assert len(pairs) == text.count("```python") >= 1  # none is left out
    for said, printed in pairs:
        assert printed == said


def test_pages_are_short():
    assert len(EXAMPLES) == 5 and len(HOW_TO) == 12
    for page in EXAMPLES:
        assert len(page.read_text().splitlines()) <= 160, page
    for page in HOW_TO:
        assert len(page.read_text().splitlines()) <= 60, page


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_files()
        for path in PAGES:
            path.write_text(with_outputs(path.read_text()))
