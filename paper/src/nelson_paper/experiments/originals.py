"""Their authors' own programs, if the user has put them on the path: QuickSampler, KUS, WAPS, SPUR.

    program = find("quicksampler")            the path of the program, or None
    x = draw("quicksampler", program, formula, theta, m, seed, seconds)      (at most m, n) bool

A sampler of the tables whose original program is found runs that program instead of our rewrite,
and its rows say so (`original`). Each draw writes the formula as DIMACS into a temporary folder and
starts the program there; the time includes both. Invalid samples are kept, as for all peers.

    quicksampler -n M -t SECONDS FILE               FILE.samples: "2: 0110..."
    spur -s M -out OUT -t SECONDS -cnf FILE         OUT, below #START_SAMPLES: "3,01*1..."
    KUS.py --samples M --outputfile OUT FILE        OUT: "1, 1 -2 3 ..."
    waps.py --samples M --outputfile OUT FILE       the same; FILE has weights "w LITERAL P 0"

QuickSampler prints only the variables that occur in a clause, in ascending order; here each column
goes to its own variable, and a variable that is in no clause is a coin. (The authors of the paper
numbered the columns 1, 2, 3, ..., see `samplers.misnumbered`.)
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from scipy.special import expit

from nelson.formula import Formula

#: Our name of a sampler -> names that its authors' program may have on the path.
PROGRAMS = {
    "quicksampler": ("quicksampler",),
    "kus": ("KUS.py", "kus"),
    "waps": ("waps.py", "WAPS.py", "waps"),
    "spur": ("spur",),
}


def find(name: str) -> str | None:
    """The path of the authors' program of this sampler, if it is on the path."""
    return next(
        (path for program in PROGRAMS.get(name, ()) if (path := shutil.which(program))), None
    )


def draw(
    name: str,
    program: str,
    formula: Formula,
    theta: np.ndarray | None,
    m: int,
    seed: int,
    seconds: float,
) -> np.ndarray:
    """At most m samples; none if the program did not end in its time or wrote no samples."""
    coins = np.random.default_rng([seed, 68])
    with tempfile.TemporaryDirectory(prefix="nelson-original-") as folder:
        file, out = Path(folder, "formula.cnf"), Path(folder, "samples.txt")
        text = formula.to_dimacs()
        assert text is not None
        file.write_text(text + (_weights(formula, theta) if name == "waps" else ""))
        command = {
            "quicksampler": ["-n", f"{m}", "-t", f"{seconds:g}", f"{file}"],
            "spur": [
                "-s",
                f"{m}",
                "-out",
                f"{out}",
                "-t",
                f"{max(seconds, 1):.0f}",
                "-cnf",
                f"{file}",
            ],
            "kus": ["--samples", f"{m}", "--outputfile", f"{out}", f"{file}"],
            "waps": ["--samples", f"{m}", "--outputfile", f"{out}", f"{file}"],
        }[name]
        # KUS and WAPS start ./d4, so they run where they are installed.
        place = Path(program).resolve().parent if name in ("kus", "waps") else folder
        _run([program, *command], place, seconds + 1.0)
        written = file.with_name("formula.cnf.samples") if name == "quicksampler" else out
        lines = written.read_text().splitlines() if written.exists() else []
    parse = {"quicksampler": _bits, "spur": _counted_bits}.get(name, _literals)
    rows = parse(lines, formula, coins)[:m]
    return np.array(rows, bool).reshape(len(rows), formula.n_vars)


def _run(command: list[str], place: str | Path, seconds: float) -> None:
    """Run the program; kill it with all processes that it started when the time is over."""
    child = subprocess.Popen(
        command,
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        pass
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        child.wait()


def _weights(formula: Formula, theta: np.ndarray | None) -> str:
    odds = expit(np.zeros(formula.n_vars) if theta is None else theta)
    lines = [f"w {v} {p:.9g} 0\nw -{v} {1 - p:.9g} 0\n" for v, p in enumerate(odds, 1)]
    return "".join(lines)


def _bits(lines: list[str], formula: Formula, coins: np.random.Generator) -> list[np.ndarray]:
    """QuickSampler: a bit for each variable that occurs in a clause."""
    occurring = np.unique(np.abs(formula.literals)) - 1
    rows = []
    for line in lines:
        bits = line.split()[-1] if line.split() else ""
        if len(bits) == len(occurring) and set(bits) <= {"0", "1"}:
            row = coins.integers(0, 2, formula.n_total).astype(bool)
            row[occurring] = np.frombuffer(bits.encode(), np.uint8) == ord("1")
            rows.append(row[: formula.n_vars])
    return rows


def _counted_bits(
    lines: list[str], formula: Formula, coins: np.random.Generator
) -> list[np.ndarray]:
    """SPUR: how many samples a line stands for, and 0, 1 or * for each variable; * is a coin.

    The lines are grouped by pattern, so the samples are put into random order.
    """
    rows = []
    for line in lines:
        count, comma, pattern = line.partition(",")
        if not (comma and count.isdigit() and set(pattern) <= {"0", "1", "*"}):
            continue
        given = np.frombuffer(pattern.encode(), np.uint8)[: formula.n_total]
        for _ in range(int(count)):
            row = coins.integers(0, 2, formula.n_total).astype(bool)
            row[: len(given)] = np.where(given == ord("*"), row[: len(given)], given == ord("1"))
            rows.append(row[: formula.n_vars])
    return [rows[k] for k in coins.permutation(len(rows))]


def _literals(lines: list[str], formula: Formula, coins: np.random.Generator) -> list[np.ndarray]:
    """KUS and WAPS: DIMACS literals, after "number, "; a variable that is missing is a coin."""
    rows = []
    for line in lines:
        literals = [int(word) for word in re.sub(r"^\s*\d+\s*,", "", line).split()]
        if literals:
            row = coins.integers(0, 2, formula.n_total).astype(bool)
            for literal in literals:
                row[abs(literal) - 1] = literal > 0
            rows.append(row[: formula.n_vars])
    return rows
