"""Commands that are killed at random times leave nothing half done, and go on where they stopped.

Each test runs a command to its end first, for the reference and its duration. Then it kills the
same command, at times drawn uniformly from that duration with a fixed seed, and looks at what
is left. Every statement holds whatever the time of the kill, so that a fast or slow machine changes
only which moments are tried.

| after        | files                                     | then                                |
|--------------|-------------------------------------------|-------------------------------------|
| Ctrl-C       | whole or absent, no unfinished ones       | the same command: same bits         |
| SIGTERM      | the same                                  | the same                            |
| SIGKILL      | whole or absent; unfinished ones may stay | the same command removes them, same |

In all cases no process is left: all processes of a command inherit a mark in their environment.

`make kill` (NELSON_KILLS=50) tries 50 times for each command and signal; `make test` a few.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import nelson
from nelson import Formula
from nelson.learning.model import load
from tests import ROOT
from tests.cli.commands import KSAT, NELSON, STREETS, TIMEOUT
from tests.paper.experiments.toy_runs import PLAIN, rows_of, wait

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="Linux only"),
]

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
MARK = "NELSON_KILL_MARK"
UNFINISHED = ".*.part"


def kills(few: int) -> int:
    """How often each signal is tried."""
    return int(os.environ.get("NELSON_KILLS", few))


@dataclass
class Place:
    """Where one command works: the folder of its outputs, and its folder for temporary files."""

    out: Path
    temporary: Path

    def command(self, args: list[object]) -> tuple[list[str], dict[str, Any]]:
        words = [str(arg).replace("OUT", str(self.out)) for arg in args]
        paths = [str(Path(nelson.__file__).parents[1]), str(ROOT)]
        environment = {"PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(self.temporary)}
        return [*NELSON, *words], os.environ | environment

    def finish(self, args: list[object]) -> None:
        """Run the command to its end."""
        words, environment = self.command(args)
        done = subprocess.run(
            words, env=environment, cwd=self.out, capture_output=True, timeout=TIMEOUT, text=True
        )
        assert done.returncode == 0, done.stderr

    def kill(self, args: list[object], number: int, after: float) -> tuple[int, str]:
        """Run the command, send it a signal; -> exit status and stderr. No process is left then.

        Ctrl-C goes to all processes of a terminal's group; the others are sent to one process.
        """
        words, environment = self.command(args)
        mark = uuid.uuid4().hex
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                words,
                env=environment | {MARK: mark},
                cwd=self.out,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
            try:
                process.wait(after)
            except subprocess.TimeoutExpired:
                (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
            process.wait(TIMEOUT)
            wait(lambda: not marked(mark))
            errors.seek(0)
            return process.returncode, errors.read().decode(errors="replace")


def marked(mark: str) -> list[psutil.Process]:
    """All processes that inherited the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def places(tmp_path) -> Iterator[Callable[[], Place]]:
    """Makes new places. The path for temporary files is short: Ray makes sockets in it."""
    short = Path(tempfile.mkdtemp(prefix="k", dir="/tmp"))
    numbers = iter(range(10**6))

    def make() -> Place:
        number = next(numbers)
        place = Place(tmp_path / str(number), short / str(number))
        place.out.mkdir()
        place.temporary.mkdir()
        return place

    yield make
    shutil.rmtree(short)


def try_all(
    places: Callable[[], Place],
    args: list[object],
    content: Callable[[Path], Any],
    intact: Callable[[Path, Any, bool], None],
    times: int,
    abrupt: Container[int] = (),
) -> None:
    """Kill a command `times` times with each signal.

    content(folder)                   of a finished run; equal for equal runs
    intact(folder, reference, hard)   asserts that what a killed run left is whole or absent
    abrupt                            exit codes of a run that could not clean up, besides SIGKILL
    """
    reference_place = places()
    started = time.monotonic()
    reference_place.finish(args)
    duration = time.monotonic() - started
    reference = content(reference_place.out)
    names = sorted(os.listdir(reference_place.out))
    told: dict[str, int] = {}
    for number in SIGNALS:
        moments = random.Random(int(number))
        for k in range(times):
            after, place = moments.random() * duration, places()
            started = time.monotonic()
            code, errors = place.kill(args, number, after)
            if code == 0:  # it had ended before: aim earlier from now on
                duration = min(duration, time.monotonic() - started)
            what = f"{signal.Signals(number).name} {k}, after {after:.3f} of {duration:.3f} s"
            what += f": exit status {code}; stderr: {errors}"
            key = f"{signal.Signals(number).name} exit {code}"
            told[key] = told.get(key, 0) + 1
            try:
                hard = number == signal.SIGKILL or code in abrupt
                intact(place.out, reference, hard)
                if not hard:
                    assert not list(place.out.rglob(UNFINISHED))
                    assert not os.listdir(place.temporary), os.listdir(place.temporary)
                if os.listdir(place.out) or os.listdir(place.temporary):
                    place.finish(args)
                    assert not list(place.out.rglob(UNFINISHED))
                    assert not os.listdir(place.temporary), os.listdir(place.temporary)
                    assert sorted(os.listdir(place.out)) == names
                    same(content(place.out), reference)
            except BaseException:
                print(what)
                raise
            shutil.rmtree(place.out)
    print(f"{args[0]}: {duration:.2f} s, {told}", file=sys.stderr)


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        assert np.array_equal(found, expected)
    else:
        assert found == expected


# ------------------------------------------------------------------------------------- sample -o


def in_order(found: Iterable[bytes], reference: Iterable[bytes]) -> bool:
    """Is `found` the reference with some pieces left out? Ctrl-C leaves out unfinished tiles."""
    rest = iter(reference)
    return all(piece in rest for piece in found)  # `in` goes on where it stopped


def test_sample(places):
    args: list[object] = ["sample", KSAT, "-n", 192_000, "--seed", 1, "-o", "OUT/x.npz", "-q"]

    def content(folder: Path) -> np.ndarray:
        with np.load(folder / "x.npz") as file:
            return file["packed"]

    def intact(folder: Path, reference: np.ndarray, hard: bool) -> None:
        if (folder / "x.npz").exists():
            with np.load(folder / "x.npz") as file:
                words, count = file["packed"], int(file["count"])
            assert len(words) * 64 == count  # tiles are whole words
            assert in_order(map(bytes, words), map(bytes, reference))
            assert count == 192_000 or not hard

    try_all(places, args, content, intact, kills(2))


def test_sample_as_text(places):
    args: list[object] = ["sample", KSAT, "-n", 5_000, "--seed", 1, "-o", "OUT/x.txt", "-q"]

    def content(folder: Path) -> bytes:
        return (folder / "x.txt").read_bytes()

    def intact(folder: Path, reference: bytes, hard: bool) -> None:
        if (folder / "x.txt").exists():
            text = content(folder)
            assert in_order(text.splitlines(True), reference.splitlines(True))
            assert text == reference or not hard

    try_all(places, args, content, intact, kills(1))


# ----------------------------------------------------------------------------------------- learn


def test_learn(places, tmp_path):
    """A checkpoint after every iteration: most kills are close to one that is written."""
    formula = Formula.from_dimacs(STREETS)
    data = tmp_path / "data.npy"
    np.save(data, nelson.sample(formula, np.linspace(-1, 1, 7), 500, seed=1).to_numpy())
    args: list[object] = ["learn", STREETS, data, "-o", "OUT/model", "--seed", 3, "-q"]
    args += ["--preset", "paper", "--iterations", 40, "--checkpoint", "OUT/run"]
    args += ["--checkpoint-every", 1]

    def content(folder: Path) -> Any:
        model = load(folder / "model")
        names = [sorted(os.listdir(folder / part)) for part in ("model", "run")]
        return model.theta.tobytes(), model.metadata["iterations"], names

    def intact(folder: Path, reference: Any, hard: bool) -> None:
        if (folder / "model" / "model.json").exists():
            theta, iterations, (names, _) = content(folder)
            assert names == reference[2][0]
            assert (theta == reference[0]) == (iterations == reference[1])
            assert iterations == reference[1] or not hard

    try_all(places, args, content, intact, kills(2))


# ----------------------------------------------------------------------------------------- bench


def test_bench(places):
    args: list[object] = ["bench", PLAIN, "--only", "works", "-o", "OUT/run", "-q", "--keep"]
    files = {"results.parquet", "table.md", "tables.tex", "report.html", "cells.jsonl"}

    def rows(folder: Path) -> list[tuple[Any, ...]]:
        return [(row["n"], row["status"], row["value"]) for row in rows_of(folder / "run")]

    def content(folder: Path) -> Any:
        assert set(os.listdir(folder / "run")) == files
        return rows(folder), (folder / "run" / "table.md").read_text()

    def intact(folder: Path, reference: Any, hard: bool) -> None:
        if (folder / "run" / "results.parquet").exists():
            assert set(rows(folder)) <= set(reference[0])
        if (folder / "run" / "report.html").exists():
            assert (folder / "run" / "report.html").read_text().rstrip().endswith("</html>")

    try_all(places, args, content, intact, kills(1))


# -------------------------------------------------------------------------------- folders of parts


def test_sample_into_a_folder(places):
    """What kills a process that draws on Ray, its worker or its cluster: `python -m lab kills`."""
    pytest.importorskip("pyarrow")
    args: list[object] = ["sample", KSAT, "-n", 200_000, "--seed", 1, "--part-rows", 20_032, "-q"]
    args += ["-o", "OUT/many/"]

    def content(folder: Path) -> np.ndarray:
        many = nelson.read(folder / "many")
        many.verify()
        return np.concatenate([block.packed for block in many.blocks(20_032)])

    def intact(folder: Path, reference: np.ndarray, hard: bool) -> None:
        if (folder / "many").is_dir() and os.listdir(folder / "many"):
            nelson.read(folder / "many", partial=True).verify()

    try_all(places, args, content, intact, kills(1))
