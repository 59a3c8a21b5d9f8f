"""`report.html` in a browser: tables and pictures are there, and nothing fails to load.

Headless Chromium opens the page; without it these tests are skipped, loudly. Next to the test that
accepts a page stand those that show what it would reject: a broken picture, a picture from outside,
a script that fails.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser

import pytest

from nelson.errors import NelsonError
from nelson_paper.experiments import runner
from nelson_paper.experiments.base import Table
from nelson_paper.experiments.plots import curves, render
from nelson_paper.experiments.report import Image, Section, page, write_page
from tests import browser
from tests.paper.toy_experiment import NAME

NASTY = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&"


@pytest.fixture(scope="module", autouse=True)
def _loud(request):
    if browser.chromium() is None:
        text = (
            "\n*** WARNING: no Chromium: report.html is NOT looked at (apt-get install chromium)\n"
        )
        print(text, file=sys.__stderr__)


needs_browser = pytest.mark.skipif(
    browser.chromium() is None, reason="NO CHROMIUM: the page is not opened in a browser"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of the toy, with everything that can go wrong with a cell."""
    path = tmp_path_factory.mktemp("page") / "run"
    runner.run([NAME], path, command=f"nelson bench {NASTY}")
    return path


@pytest.fixture(scope="module")
def plot():
    def draw(ax):
        curves(ax, {"lovasz": ([1, 10], [1, 2])}, x="n", y="s")

    return render(draw, "svg"), render(draw, "svg", dark=True), render(draw, "png")


# ------------------------------------------------------------------------- without a browser


class _References(HTMLParser):
    """All that a page would load or link to."""

    def __init__(self):
        super().__init__()
        self.found, self.tags = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.found += [
            (tag, value)
            for name, value in attrs
            if name in ("src", "srcset", "href", "data", "poster", "action", "background")
        ]


def references(text):
    parser = _References()
    parser.feed(text)
    return parser


@pytest.mark.process
@pytest.mark.slow
def test_the_page_is_self_contained(folder):
    text = (folder / "report.html").read_text()
    parser = references(text)
    assert parser.found and all(value.startswith(("data:", "#")) for _, value in parser.found)
    assert not {"script", "iframe", "object", "embed", "form", "base"} & set(parser.tags)
    style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
    assert "url(" not in style and "@import" not in style and "@font-face" not in style
    assert "default-src 'none'" in text
    # The twin: a page with a picture from outside would be found.
    outside = text.replace("<h1>", '<img src="https://example.com/a.png"><h1>', 1)
    assert not all(value.startswith(("data:", "#")) for _, value in references(outside).found)


@pytest.mark.slow
def test_everything_is_escaped(plot):
    table = Table(NASTY, [NASTY], [[NASTY]], NASTY)
    text = page(NASTY, [Section(NASTY, NASTY, [table], [Image(plot[2], NASTY, NASTY, ".png")])])
    parser = references(text)
    assert "script" not in parser.tags and parser.tags.count("img") == 1


def test_what_is_no_picture_is_refused(tmp_path, plot):
    for name, data in (("a.png", b"no"), ("a.svg", b""), ("a.txt", b"x"), ("a.png", plot[0])):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(NelsonError, match="not a picture"):
            page("t", [Section("s", images=[tmp_path / name])])
    (tmp_path / "a.png").write_bytes(plot[2])
    assert "data:image/png;base64" in page("t", [Section("s", images=[tmp_path / "a.png"])])


# ---------------------------------------------------------------------------- in a browser


@pytest.mark.process
@needs_browser
def test_the_report_in_a_browser(folder):
    seen = browser.look(folder / "report.html")
    facts = seen.facts
    assert seen.problems == []
    assert len(facts["images"]) == 1 and all(
        w > 100 and shown > 100 for w, shown in facts["images"]
    )
    head = ["sampler", "n = 5", "n = 10", "n = 20", "n = 1234"]
    (toy,) = [rows for rows in facts["tables"] if rows[0] == head]
    assert [row[0] for row in toy[1:]] == ["works", "stalls", "eats", "dies", "raises"]
    assert toy[1] == ["works", "0.200", "0.100", "0.050", "–"]
    assert "T.O." in facts["timeouts"]
    assert all(cell.strip() for rows in facts["tables"] for row in rows for cell in row)
    assert facts["scripts"] == 0 and "owned" not in facts["title"]
    assert set(facts["sticky"]) == {"sticky"}
    for text in ("How this was made", "processor", "cores", "memory", "GPU", "seeds", NASTY):
        assert text in facts["text"]
    packages = [row[0] for rows in facts["tables"] for row in rows]
    assert {"python", "numpy", "numba", "torch", "nelson", "pyunigen"} <= set(packages)


@pytest.mark.process
@needs_browser
def test_dark_and_on_a_phone(folder):
    light = browser.look(folder / "report.html")
    dark = browser.look(folder / "report.html", dark=True, width=390)
    assert dark.problems == [] and dark.facts["overflow"] <= 0
    assert _brightness(light.facts["ground"]) > 200 > 100 > _brightness(light.facts["ink"])
    assert _brightness(dark.facts["ground"]) < 100 < 200 < _brightness(dark.facts["ink"])
    assert light.requests != dark.requests  # another plot


def _brightness(colour: str) -> float:
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


@pytest.mark.process
@needs_browser
def test_a_page_of_ones_own(tmp_path, plot):
    svg, dark, png = plot
    (tmp_path / "a.png").write_bytes(png)
    images = [tmp_path / "a.png", Image(svg, "a plot", suffix=".svg", dark=dark)]
    table = Table("T", ["a", "b"], [["1", ""]])
    path = write_page(tmp_path / "p.html", "Mine", [Section("One", "A `b`.\n\nC", [table], images)])
    seen = browser.look(path)
    assert seen.problems == [] and len(seen.facts["images"]) == 2
    assert seen.facts["tables"] == [[["a", "b"], ["1", "–"]]]


@pytest.mark.process
@needs_browser
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ('<img src="data:image/png;base64,iVBORw0KGgo=">', "picture 0"),
        ('<img src="data:image/svg+xml;base64,PHN2Zw==">', "picture 0"),
        ('<img src="missing.png">', "missing.png"),
        ('<link rel="stylesheet" href="missing.css">', "missing.css"),
        ("<script>nothing.here</script>", "exception"),
        ("<script>console.error('oh')</script>", "oh"),
    ],
)
def test_a_bad_page_is_caught(tmp_path, what, expected):
    """Without the policy that forbids them, so that only the browser's word counts."""
    text = re.sub(r"<meta http-equiv[^>]*>", "", page("t", [Section("s")]))
    (tmp_path / "p.html").write_text(text.replace("<h1>", f"{what}<h1>", 1))
    problems = browser.look(tmp_path / "p.html").problems
    assert any(expected in problem for problem in problems), problems


@pytest.mark.process
@needs_browser
def test_the_policy_forbids_loading(tmp_path):
    text = page("t", [Section("s")]).replace("<h1>", '<img src="missing.png"><h1>', 1)
    (tmp_path / "p.html").write_text(text)
    assert any("Content Security Policy" in p for p in browser.look(tmp_path / "p.html").problems)
