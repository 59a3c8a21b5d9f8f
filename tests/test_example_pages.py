"""The pages of docs/examples run, and print what they say they print.

Each page is one program: its ```python blocks share their names. `python -m
tests.test_example_pages` writes the real output into the pages.
"""

from __future__ import annotations

import pytest

from tests import ROOT
from tests.test_readme import outputs, with_outputs

PAGES = sorted((ROOT / "docs" / "examples").glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prints_what_it_says(page):
    text = page.read_text()
    pairs = outputs(text)
    assert len(pairs) == text.count("```python") >= 3  # none is left out
    for said, printed in pairs:
        assert printed == said


def test_the_pages_are_there_short_and_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text()
    assert len(PAGES) == 5
    for page in PAGES:
        assert f"examples/{page.name}" in menu
        assert len(page.read_text().splitlines()) <= 145, page


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(with_outputs(path.read_text()))
