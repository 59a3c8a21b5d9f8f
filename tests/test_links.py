"""Links between pages lead to files and headings that exist; how-to pages fit on one screen; the
version is the same everywhere.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nelson
from tests import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^(`{3,}|:{3,}).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]\[]*\]\(([^)\s]+)\)")
#: Lines of a how-to page: one screen.
SCREEN = 45
HOW_TO = {
    "evidence", "weights", "t-wise", "reproducible", "cluster", "feature-model", "method", "unsat",
    "workers", "cite", "sequences",
}  # fmt: skip


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub and MyST make them."""
    titles = re.findall(r"^#+ +(.+?) *$", FENCE.sub("", text), re.MULTILINE)
    plain = (re.sub(r"[`*]|\]\([^)]*\)|\[", "", title).lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def broken(page: Path, text: str) -> list[str]:
    """Links of a page whose file or heading does not exist. Links to the web are not tried."""
    found = []
    for link in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        exists = target.exists()
        if exists and anchor:
            exists = anchor in anchors(text if target == page else target.read_text())
        if not exists:
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert broken(page, page.read_text()) == []


def test_a_broken_link_would_be_noticed():
    page = ROOT / "README.md"
    good = (
        "# Two words\n[a](docs/start.md), ![p](docs/routes.svg), [h](#two-words), [w](https://x.y)"
    )
    assert broken(page, good) == []
    bad = "# Two words\n[a](docs/none.md), [h](#one-word), [s](docs/start.md#nothing)"
    assert broken(page, bad) == ["docs/none.md", "#one-word", "docs/start.md#nothing"]


def test_how_to_pages_fit_on_one_screen():
    pages = {page.stem: page for page in (ROOT / "docs" / "how-to").glob("*.md")}
    assert set(pages) - {"index"} == HOW_TO
    for name in HOW_TO:
        assert len(pages[name].read_text().splitlines()) <= SCREEN, name


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_one_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    told = re.search(r"^## \[?(\d[\d.]*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert cited and told and cited[1] == told[1] == nelson.__version__
