"""Exit codes of `nelson sample`, and the one line that explains each."""

from __future__ import annotations

import os

import numpy as np
import pytest

from nelson import Formula
from nelson.budget import Budget
from nelson.cli import common
from nelson.formula.dimacs import read
from tests.cli.commands import KSAT, STREETS, UNSAT, Done, literals, run


def one_line(done: Done, code: int) -> str:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


def test_missing_file():
    text = one_line(run("sample", "no-such-file.cnf"), 1)
    assert "no-such-file.cnf" in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("p cnf 2 1\n1 two 0\n", ":2:"),
        ("p cnf x 1\n1 0\n", ":1:"),
        ("\x7fELF\x00\x01", ""),
        ("hello, world\n", ":1:"),
    ],
)
def test_wrong_file_names_the_line(tmp_path, text, line):
    path = tmp_path / "bad.cnf"
    path.write_text(text)
    for command in ("sample", "report"):
        message = one_line(run(command, path), 1)
        assert f"bad.cnf{line}" in message
        assert len(message.splitlines()) == 1


def test_folder_as_file(tmp_path):
    one_line(run("sample", tmp_path), 1)


@pytest.mark.parametrize(
    "options",
    [
        ["--given", "99"],
        ["--project", "99"],
        ["--method", "no-such-method"],
        ["--weights", "no-such-file.npy"],
        ["--weights", STREETS],
        ["-o", "no-such-folder/x.txt"],
        ["-o", "x.tsv"],
    ],
)
def test_bad_input_is_one_line_and_exit_1(options):
    assert len(one_line(run("sample", STREETS, *options), 1).splitlines()) == 1


def test_theta_of_the_wrong_length_and_nan(tmp_path):
    for value in (np.zeros(3), np.full(7, np.nan)):
        np.save(tmp_path / "t.npy", value)
        one_line(run("sample", STREETS, "--weights", tmp_path / "t.npy"), 1)


@pytest.mark.parametrize("options", [["-n", "many"], ["-n", "-3"], ["--given", "a,b"], ["--nope"]])
def test_wrong_usage_is_exit_2(options):
    one_line(run("sample", STREETS, *options), 2)


def test_unsatisfiable_is_exit_20(tmp_path):
    text = one_line(run("sample", "-", "-n", 10, stdin=UNSAT), 20)
    assert "unsatisfiable" in text
    (tmp_path / "x.txt").write_text("keep me")
    assert run("sample", "-", "-o", tmp_path / "x.txt", stdin=UNSAT).returncode == 20
    assert (tmp_path / "x.txt").read_text() == "keep me"


def test_given_that_contradicts_is_exit_20():
    one_line(run("sample", STREETS, "--given", "-1,-3"), 20)


def test_budget_reached_is_exit_3():
    """x1 = ... = x40: satisfiable, but one round of drawing does not get there."""
    chain = "".join(f"-{i} {i + 1} 0\n{i} -{i + 1} 0\n" for i in range(1, 40))
    text = "p cnf 40 78\n" + chain
    done = run("sample", "-", "-n", 64, "--method", "lovasz", "--max-rounds", 1, stdin=text)
    assert done.returncode == 3, done.stderr
    assert "budget reached" in done.stderr
    x = literals(done.stdout).reshape(-1, 40)
    assert Formula.from_string(text).satisfied(x > 0).all()


@pytest.mark.process
@pytest.mark.slow
def test_seconds_end_a_finite_request_with_3_and_an_endless_one_with_0():
    done = run("sample", KSAT, "-n", "1e12", "--seconds", 0.5, "-o", os.devnull)
    assert done.returncode == 3, done.stderr
    assert "budget reached" in done.stderr
    done = run("sample", KSAT, "-n", "inf", "--seconds", 0.5, "-o", os.devnull)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["x.npz", "x.txt"])
def test_without_a_sample_no_file_is_written_and_an_old_one_stays(tmp_path, name):
    path = tmp_path / name
    args = ("sample", KSAT, "--method", "prs", "--max-rounds", 1, "-o", path)
    for _ in range(2):
        done = run(*args, "-n", 100)
        assert done.returncode == 3 and "budget reached, 0 of 100 samples" in done.stderr
        old = path.read_bytes() if path.exists() else None
        assert [*tmp_path.iterdir()] == ([path] if old else [])
        assert old in (None, b"old")
        path.write_bytes(b"old")
    assert run(*args, "-n", 0).returncode == 0  # the twin: nothing was asked for
    assert path.read_bytes() != b"old"


class Clock:
    """Between two looks at it, some seconds have passed."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def monotonic(self) -> float:
        self.now += self.step
        return self.now


@pytest.mark.parametrize("command", ["report", "marginals", "count", "mode", "sample"])
def test_the_limit_of_a_command_counts_from_its_start(command, monkeypatch):
    """Seconds that reading has used up are not given again; the twin reads at once."""
    limits: list[float | None] = []
    made = Budget.of.__func__

    def of(cls, seconds=None, threads=None):
        limits.append(seconds)
        return made(cls, seconds, threads)

    monkeypatch.setattr(Budget, "of", classmethod(of))
    for step, left in ((30.0, 70.0), (0.0, 100.0)):
        limits.clear()
        monkeypatch.setattr(common, "time", Clock(step))
        assert run(command, STREETS, "--seconds", 100).returncode == 0
        assert left in limits and all(seconds is None or seconds <= left for seconds in limits)


@pytest.mark.parametrize(
    "command", ["sample", "report", "marginals", "count", "mode", "judge", "compile", "learn"]
)
def test_a_file_that_cannot_be_read_in_time_ends_the_command_with_3(command, tmp_path, monkeypatch):
    """As if a byte took a second. The twin: a byte takes no time."""
    (tmp_path / "rows.txt").write_text("1 -2 3 0\n-1 2 3 0\n" * 50)
    others = {
        "judge": ("--method", "gibbs"),
        "learn": (tmp_path / "rows.txt", "-o", tmp_path / "m"),
    }
    (tmp_path / "small.cnf").write_text("p cnf 3 2\n1 2 0\n3 0\n")
    args = (command, tmp_path / "small.cnf", *others.get(command, ()))
    monkeypatch.setattr(read, "SECONDS_OF_A_BYTE", 1.0)
    done = run(*args, "--seconds", 15)
    assert (done.returncode, done.stdout) == (3, "")
    assert "budget reached: the time was up while reading" in done.stderr
    assert "small.cnf" in done.stderr
    monkeypatch.setattr(read, "SECONDS_OF_A_BYTE", 0.0)
    assert run(*args, "--seconds", 15).returncode == 0
