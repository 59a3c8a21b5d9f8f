"""Pages that promise something: architecture, glossary, and what to install."""

from __future__ import annotations

import inspect
import re

import pytest

import nelson
from tests import ROOT

SOURCE = ROOT / "src" / "nelson"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
PAGES = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]
TEXTS = [*PAGES, *SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"), ROOT / "Makefile"]
#: `pip install nelson`, with or without extras and quotes, is another project's package.
FOREIGN = re.compile(r"pip\S* install (?:-\S+ )*[\"'`]?nelson(?![\w-])")


def steps(heading: str) -> list[str]:
    """The files of the walk under a heading of the page, one text for each step."""
    section = ARCHITECTURE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| \d+ \| (.*?) \|", section, re.MULTILINE)


@pytest.mark.parametrize("heading", ["The way of one sample", "The way of a guarantee"])
def test_a_walk_has_at_most_12_steps_each_with_its_file(heading):
    walk = steps(heading)
    assert 1 < len(walk) <= 12
    for step in walk:
        files = re.findall(r"`([\w/]+\.py)`", step)
        assert files, step
        for file in files:
            assert (SOURCE / file).is_file(), file


def test_the_tree_names_every_room():
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    told = set(re.findall(r"^  (\w+)/", ARCHITECTURE, re.MULTILINE))
    assert told == rooms


def test_every_package_says_what_it_is_for():
    for path in SOURCE.rglob("__init__.py"):
        assert path.read_text().startswith('"""'), path


@pytest.mark.parametrize(
    "word",
    [
        "lane",
        "word",
        "tile",
        "row",
        "context",
        "evidence",
        "part",
        "extremal",
        "sweep",
        "guarantee",
    ],
)
def test_our_words_are_defined_once(word):
    assert GLOSSARY.count(f"\n| **{word}** |") == 1


def test_nobody_is_told_to_install_another_project():
    for path in TEXTS:
        if path.name != "test_docs.py":
            assert not FOREIGN.search(path.read_text()), path


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("pip install nelson", True),
        ('pip install "nelson[plots]"', True),
        ("pip install -U nelson[torch]", True),
        ('pip install "nelson-mrf[plots]"', False),
        ("pip install -c constraints.txt -e .", False),
    ],
)
def test_the_search_for_it_finds_it(text, foreign):
    assert bool(FOREIGN.search(text)) == foreign


@pytest.mark.parametrize("name", ["learn", "judge", "samplers", "sample", "report"])
def test_calls_are_plain_functions(name):
    assert inspect.isfunction(getattr(nelson, name))
