"""The reference pages show every public name, and every member of the classes on them."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest

import nelson
import nelson.space
from tests import ROOT

PAGES = "\n".join(
    path.read_text() + "\n" for path in sorted((ROOT / "docs" / "reference").glob("*.md"))
)
#: A directive, what it documents, and its indented options.
DIRECTIVE = re.compile(r"^\.\. auto(\w+):: ([\w.]+)\n((?:   :.*\n)*)", re.MULTILINE)


def documented() -> dict[str, str]:
    """Dotted name -> the options of its directive."""
    return {name: options for _, name, options in DIRECTIVE.findall(PAGES)}


def resolved(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ImportError:
        return getattr(importlib.import_module(module), attribute)


def missing(pages: dict[str, str]) -> list[str]:
    """Public names that no directive shows, and members that a directive leaves out."""
    shown = set(pages)
    out = [f"nelson.{name}" for name in nelson.__all__ if not name.startswith("__")]
    out += [f"nelson.space.{name}" for name in nelson.space.__all__]
    # A name may have two homes, and a public module is shown by what is in it.
    objects = {id(resolved(name)) for name in shown}
    out = [name for name in out if id(resolved(name)) not in objects and not inside(name, shown)]
    for name, options in pages.items():
        if isinstance(value := resolved(name), type) and ":inherited-members:" not in options:
            ours = [base for base in value.__mro__[1:] if base.__module__.startswith("nelson")]
            out += [
                f"{name}.{member}"
                for base in ours
                if not issubclass(base, Exception)
                for member in vars(base)
                if not member.startswith("_") and member not in vars(value)
            ]
    return out


def inside(module: str, shown: set[str]) -> bool:
    """Is a name of this module shown? `nelson.metrics` is `nelson.learning.metrics`."""
    home = getattr(resolved(module), "__name__", module)
    return any(name == home or name.startswith(f"{home}.") for name in shown)


def test_the_reference_is_complete():
    assert missing(documented()) == []
    for cls in (nelson.Space, nelson.TableEstimator):
        assert f"nelson.{cls.__name__}" in documented()
    wanted = {"require", "integer", "choice", "flag", "bins", "satisfied", "violations"}
    assert wanted <= set(dir(nelson.Space))


@pytest.mark.parametrize("lost", ["nelson.sample", "nelson.Samples", "nelson.space.element"])
def test_a_lost_name_would_be_seen(lost):
    pages = documented()
    del pages[lost]
    assert lost in missing(pages)


def test_a_lost_member_would_be_seen():
    pages = documented() | {"nelson.Space": "   :members:\n"}
    assert "nelson.Space.require" in missing(pages)


# --------------------------------------------------------------------------- tables of the pages


def torn_rows(text: str) -> list[str]:
    """Rows of tables that have another number of cells than the head: an unescaped `|` cuts a row,
    in code as well.
    """
    out, cells, fenced = [], 0, False
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        if fenced or not line.lstrip().startswith("|"):
            cells = 0
            continue
        count = len(re.split(r"(?<!\\)\|", line.strip()))
        if cells and count != cells:
            out.append(line)
        cells = cells or count
    return out


@pytest.mark.parametrize(
    "page",
    [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), ROOT / "paper" / "README.md"],
    ids=lambda page: page.name,
)
def test_no_row_of_a_table_is_cut(page):
    assert torn_rows(page.read_text()) == []


def test_a_cut_row_would_be_seen():
    assert torn_rows("| a | b |\n|---|---|\n| or | `a | b` |\n") == ["| or | `a | b` |"]
    assert torn_rows("| a | b |\n|---|---|\n| or | `a \\| b` |\n") == []
