"""docs/space-files.md: its files are read, its Python runs, its commands print what it says.

A line `$ nelson ...` of a ```console block is run; the lines behind it are what it prints.
`python tests/cli/test_space_page.py` writes the real output into the page.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from nelson.space import Space
from tests import ROOT
from tests.cli.commands import run

PAGE = ROOT / "docs" / "space-files.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [body for found, body in BLOCK.findall(PAGE.read_text()) if found == kind]


def answered(block: str) -> str:
    """A console block with the real output of its commands."""
    lines = []
    for command in re.findall(r"^\$ nelson (.*)$", block, re.MULTILINE):
        done = run(*shlex.split(command))
        said = done.stderr if done.returncode else done.stdout
        lines.append(f"$ nelson {command}\n{said}")
    return "".join(lines)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("bus.toml").write_text(blocks("toml")[0])
    return tmp_path


@pytest.mark.slow
def test_commands_print_what_the_page_says(folder):
    assert len(blocks("console")) == 2
    for block in blocks("console"):
        assert comparable(answered(block)) == comparable(block)


def comparable(block: str) -> str:
    """Which rows a seed gives may change from version to version: only their form is compared."""
    return re.sub(r"^\d+,\d+,(FIXED|INCR|WRAP),(True|False)$", "ROW", block, flags=re.MULTILINE)


def test_the_page_and_the_example_are_the_same_space(folder):
    example, page = Space.load(ROOT / "examples" / "bus.toml"), Space.load("bus.toml")
    assert example.formula == page.formula and example.name == page.name


def test_the_other_files_are_read(folder):
    """They are parts, to be added to the first one."""
    base = blocks("toml")[0]
    no_rules = re.sub(r"^rules = \[.*?^\]\n", "", base, flags=re.MULTILINE | re.DOTALL)
    table, tables, numbers = blocks("toml")[1:]
    names = [r.name for r in Space.from_toml(no_rules + table).rules]
    assert names == ["fits in memory", "aligned"]
    assert [r.name for r in Space.from_toml(no_rules + tables).rules] == ["aligned"]
    space = Space.from_toml(base + numbers)
    assert list(space.weights) == ["burst", "write", *list(space.weights)[2:]]
    assert space.shares == {"len": {range(1, 5): 0.7}}


@pytest.mark.slow
def test_the_python_runs(folder):
    (code,) = blocks("python")
    exec(compile(code.replace("1_000_000", "1_000"), str(PAGE), "exec"), {})
    assert Space.load("copy.toml").count() == Space.load("bus.toml").count()


if __name__ == "__main__":
    text = PAGE.read_text()
    (Path(os.environ.get("TMPDIR", "/tmp")) / "bus.toml").write_text(blocks("toml")[0])
    os.chdir(os.environ.get("TMPDIR", "/tmp"))
    PAGE.write_text(
        BLOCK.sub(lambda m: f"```console\n{answered(m[2])}```" if m[1] == "console" else m[0], text)
    )
