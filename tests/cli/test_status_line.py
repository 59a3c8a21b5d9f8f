"""The line on a terminal that says what a command is doing. No test waits for the clock."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

from nelson.cli.status_line import PhaseLine
from nelson.io.progress import phase

CLEAR = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@contextlib.contextmanager
def shown(screen=None, **options):
    """The line, and the screen that it is written to."""
    screen = screen or Terminal()
    with contextlib.redirect_stderr(screen), PhaseLine(**options) as line:
        yield line, screen


def test_a_phase_is_shown_and_removed():
    with shown(patience=0.0) as (_, screen):
        with phase("compiling"):
            assert screen.getvalue() == f"{CLEAR}nelson: compiling (0 s)"
        assert screen.getvalue().endswith(f"s){CLEAR}")


def test_the_line_is_written_anew_with_its_seconds():
    with shown(patience=0.0) as (line, screen), phase("compiling"):
        line._since -= 1000.0  # as if it had begun 1000 seconds ago
        line.show()
        assert re.search(r"compiling \(1\d\d\d s\)$", screen.getvalue())


def test_nothing_is_shown_before_two_seconds():
    with shown(patience=1e9) as (line, screen), phase("compiling"):
        line.show()
    assert screen.getvalue() == ""


def test_nothing_is_shown_after_the_first_block():
    """A progress bar follows, and two displays on one line would disturb each other."""
    with shown(patience=0.0) as (line, screen):
        line.close()
        with phase("compiling"):
            line.show()
    assert screen.getvalue() == ""


@pytest.mark.parametrize(("wanted", "screen"), [(True, io.StringIO()), (False, Terminal())])
def test_nothing_is_shown_where_nobody_looks(wanted, screen):
    with shown(screen, wanted=wanted, patience=0.0) as (line, _), phase("compiling"):
        line.show()
    assert screen.getvalue() == ""
