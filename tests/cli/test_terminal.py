"""Names that would steer a terminal, and texts that a spreadsheet would compute."""

from __future__ import annotations

import csv
import os
import pty
import subprocess
from pathlib import Path

import pytest

from nelson import Formula
from nelson.errors import LINES, printable
from nelson.formula.names import Names
from nelson.space import Space
from tests.cli.commands import NELSON, TIMEOUT, run

#: Clears the screen, names the window, rings, goes back in the line; and two that are harmless.
NAMES = ["a\x1b[2J", "b\x1b]0;owned\x07", "c\rd", "e\x9bm", "f\u202eg", "plain", "größe"]


def test_printable_escapes_what_repr_escapes():
    for name in NAMES:
        assert printable(name).isprintable()
        assert printable(name) == repr(name)[1:-1]
    assert printable("größe") == "größe" and printable("a\nb", keep=LINES) == "a\nb"
    assert printable("\ud800") == "\\ud800"


@pytest.fixture
def space(tmp_path) -> Path:
    space = Space("s\x1b[1m")
    for name in NAMES:
        space.flag(name)
    space.choice("h\x1bc", ["\x1b[31mred", "blue"])
    space.require(space["plain"], name="r\x1bule")
    space.save(tmp_path / "s.toml")
    return tmp_path / "s.toml"


@pytest.fixture
def formula(tmp_path) -> Path:
    names = NAMES[:2] + NAMES[4:]  # a carriage return ends a line of DIMACS
    lines = [f"c {v} {name}" for v, name in enumerate(names, 1)]
    text = "\n".join([*lines, f"p cnf {len(names)} 1", "1 2 0", ""])
    (tmp_path / "f.cnf").write_text(text, encoding="utf-8")
    return tmp_path / "f.cnf"


@pytest.mark.parametrize("command", ["marginals", "mode", "report"])
@pytest.mark.parametrize("kind", ["space", "formula"])
def test_no_name_of_a_file_steers_the_terminal(command, kind, request):
    path = request.getfixturevalue(kind)
    done = run(command, path)
    assert done.returncode == 0, done.stderr
    assert printable(done.stdout, keep=LINES) == done.stdout
    assert printable(done.stderr, keep=LINES) == done.stderr
    if (command, kind) != ("report", "formula"):  # a report on a formula has no names
        assert "a\\x1b[2J" in done.stdout and "größe" in done.stdout


def test_errors_and_contradictions_are_escaped(space):
    for option in ("plain=false", "h\x1bx=1"):
        done = run("marginals", space, "--given", option)
        assert done.returncode in (1, 20)
        assert printable(done.stderr, keep=LINES) == done.stderr


def test_texts_of_objects_are_escaped(space):
    loaded = Space.load(space)
    rows = loaded.sample(3, seed=1)
    for shown in (repr(loaded), repr(rows), repr(loaded.marginals()), repr(Names(1, ["\x1b"]))):
        assert printable(shown, keep=LINES) == shown


@pytest.mark.process
def test_rows_on_a_terminal_are_escaped_and_in_a_pipe_are_not(space):
    command = [*NELSON, "sample", str(space), "--seed", "1", "-q"]
    piped = subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=True).stdout
    assert b"a\x1b[2J" in piped
    master, slave = pty.openpty()
    subprocess.run(command, stdout=slave, stdin=slave, timeout=TIMEOUT, check=True)
    os.close(slave)
    shown = os.read(master, 65536)
    os.close(master)
    assert b"\x1b" not in shown and b"a\\x1b[2J" in shown


# --- spreadsheets --------------------------------------------------------------------------------

FORMULAS = ["=1+1", "+1", "-1x", "@sum", "\t=1"]


@pytest.fixture
def formulas(tmp_path) -> Path:
    space = Space()
    space.choice("=cmd", FORMULAS)
    space.integer("n", -3, -1)
    space.flag("plain")
    space.save(tmp_path / "s.toml")
    return tmp_path / "s.toml"


def cells(path: Path) -> set[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return {cell for row in csv.reader(file) for cell in row}


@pytest.mark.parametrize(
    "command", [("sample", "-n", 200, "--seed", 1), ("cover",), ("marginals",)]
)
def test_spreadsheets_get_texts(tmp_path, formulas, command):
    name, *options = command
    out = tmp_path / "x.csv"
    for given, mark in (((), ""), (("--spreadsheet",), "'")):
        done = run(name, formulas, "-o", out, *options, *given)
        assert done.returncode == 0, done.stderr
        found = cells(out)
        assert {mark + text for text in [*FORMULAS, "=cmd"]} <= found
        assert {"-3", "-1"} <= found  # numbers stay numbers


def test_names_of_variables_in_spreadsheets(tmp_path):
    (tmp_path / "f.cnf").write_text("c 1 =Engine\np cnf 2 1\n1 2 0\n")
    for command in ("sample", "mode"):
        done = run(command, tmp_path / "f.cnf", "-o", tmp_path / "x.csv", "--spreadsheet")
        assert done.returncode == 0, done.stderr
        assert {"'=Engine", "x2"} <= cells(tmp_path / "x.csv")


@pytest.mark.parametrize("command", ["sample", "cover", "marginals", "mode"])
def test_the_option_is_for_csv_only(tmp_path, formulas, command):
    other = "x.json" if command in ("marginals", "mode") else "x.npz"
    done = run(command, formulas, "-o", tmp_path / other, "--spreadsheet")
    assert done.returncode == 2 and "--spreadsheet" in done.stderr
    Formula([[1]]).to_dimacs(tmp_path / "f.cnf")
    assert run("sample", tmp_path / "f.cnf", "--spreadsheet").returncode == 2  # text on stdout
