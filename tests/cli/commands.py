"""Running commands: in this process where that shows the same, else as a shell would."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from nelson import Formula
from nelson.cli import app

NELSON = [sys.executable, "-m", "nelson.cli"]
DATA = Path(str(resources.files("nelson_paper.tasks") / "data"))
STREETS, KSAT = DATA / "streets.cnf", DATA / "ksat-1000.cnf"
UNSAT = "p cnf 2 4\n1 2 0\n-1 2 0\n1 -2 0\n-1 -2 0\n"
TIMEOUT = 240  # seconds; the first call may have to compile


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


def run(*args: object, stdin: bytes | str | None = None) -> Done:
    """`nelson ARGS` in this process."""
    done = CliRunner().invoke(app, [str(arg) for arg in args], input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, said(done.stderr))


def run_process(*args: object) -> Done:
    """`nelson ARGS` in a process of its own."""
    done = subprocess.run(
        [*NELSON, *map(str, args)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT,
        text=True,
    )
    return Done(done.returncode, done.stdout, said(done.stderr))


def said(stderr: str) -> str:
    """What the command said, less the note that a kernel is compiled for the first time."""
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if "compiling kernels" not in line)


def literals(text: str) -> np.ndarray:
    """SAT-sampler text -> `(m, n)` int; every line must be whole."""
    assert text == "" or text.endswith(" 0\n")
    rows = [[int(t) for t in line.split()] for line in text.splitlines()]
    assert all(row[-1] == 0 for row in rows)
    return np.array([row[:-1] for row in rows], dtype=int)


def assert_valid(path: Path, x: np.ndarray) -> None:
    assert Formula.from_dimacs(path).satisfied(x).all()
