"""The line on a terminal that says what a command is doing. No test waits for the clock."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

from nelson.io import progress
from nelson.io.progress import PhaseLine, phase

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


class Clock:
    """Stands for the module `time`."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


def in_python(monkeypatch, screen, gap):
    """What two phases show of which the second begins `gap` seconds after the first has ended."""
    clock, shown = Clock(), progress._ShownPhases()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(progress, "_shown", shown)
    monkeypatch.setattr(progress.PhaseLine, "_tick", lambda line: None)
    with contextlib.redirect_stderr(screen):
        with phase("preparing"):
            clock.now += 2.5
        clock.now += gap
        with phase("compiling"):
            pass
    return screen.getvalue()


def test_python_shows_a_phase_after_two_seconds(monkeypatch):
    assert "nelson: compiling (0 s)" in in_python(monkeypatch, Terminal(), gap=0.1)


def test_a_new_call_has_its_own_two_seconds(monkeypatch):
    assert "compiling" not in in_python(monkeypatch, Terminal(), gap=5.0)


def test_a_pipe_gets_nothing(monkeypatch):
    assert in_python(monkeypatch, io.StringIO(), gap=0.1) == ""


def test_a_notebook_is_watched():
    cell = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    assert progress.is_watched(cell()) and not progress.is_watched(io.StringIO())


def test_commands_show_phases_in_their_own_way(monkeypatch):
    told = []
    monkeypatch.setattr(progress._shown, "tell", told.append)
    with progress.listening(None), phase("compiling"):
        pass
    assert told == []
    with phase("compiling"):
        pass
    assert told == ["compiling", ""]
