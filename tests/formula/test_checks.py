"""Durations: one check for every function and command that takes one."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nelson
from nelson import Formula, FormulaError
from nelson.exact.mode import most_likely
from nelson.formula.checks import MAX_SECONDS, duration
from nelson.judging.judgement import judge
from nelson.learning import Newton
from nelson.learning.metrics import evaluate
from nelson.learning.model import Model
from nelson.log_z import log_z
from nelson_paper.tasks.ksat.task import first_models
from nelson_paper.tasks.threads import on_threads
from tests.cli.commands import run

F = Formula([[1, 2]])
X = np.array([[0, 1], [1, 0], [1, 1]])
WRONG = [math.nan, -1.0, math.inf, -math.inf, 1e300, "5", True, None, [1], np.float64("nan")]
TAKERS = {
    "sample": lambda s: nelson.sample(F, None, 5, seconds=s),
    "stream": lambda s: next(iter(nelson.stream(F, None, 5, seconds=s))),
    "learn": lambda s: nelson.learn(F, X, seconds=s, optimizer=Newton(iterations=1)),
    "log_z": lambda s: log_z(F, np.zeros(2), seconds=s),
    "judge": lambda s: judge(F, X.astype(bool), seconds=s),
    "evaluate": lambda s: evaluate(F, np.zeros(2), X, seconds=s),
    "most_likely": lambda s: most_likely(F, np.zeros(2), s),
    "first_models": lambda s: first_models(F, 2, seconds=s),
    "on_threads": lambda s: on_threads(lambda *_: None, 1, 1, s),
}


@pytest.mark.parametrize("value", WRONG)
def test_what_is_no_duration_is_refused(value):
    with pytest.raises(FormulaError, match="expected a number of seconds"):
        duration(value)


@pytest.mark.parametrize("value", [0, 0.0, 5, 1.5, np.float32(2), np.int64(3), MAX_SECONDS])
def test_durations(value):
    assert duration(value) == value
    if not value:
        with pytest.raises(FormulaError, match="above 0"):
            duration(value, positive=True)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, "5"])
@pytest.mark.parametrize("name", TAKERS)
def test_every_function_that_takes_seconds_refuses_nan(name, value):
    """`learn` took NaN, which no time ever reaches; infinity failed in the timers of the system."""
    with pytest.raises(FormulaError, match=r"seconds = .*expected a number of seconds"):
        TAKERS[name](value)


@pytest.mark.parametrize("name", TAKERS)
def test_every_function_that_takes_seconds_takes_some(name):
    TAKERS[name](30.0)


@pytest.mark.parametrize("command", ["sample", "learn", "model", "evaluate", "judge", "bench"])
def test_every_command_refuses_nan_in_one_line(tmp_path, command):
    F.to_dimacs(tmp_path / "f.cnf")
    np.save(tmp_path / "x.npy", X)
    Model(F, np.zeros(2)).save(tmp_path / "m")
    arguments = {
        "sample": [tmp_path / "f.cnf", "-n", 5, "--seconds", "nan"],
        "learn": [tmp_path / "f.cnf", tmp_path / "x.npy", "-o", tmp_path / "n", "--seconds", "nan"],
        "model": [tmp_path / "m", "-n", 5, "--seconds", "nan"],
        "evaluate": [tmp_path / "m", tmp_path / "x.npy", "--seconds", "nan"],
        "judge": [tmp_path / "f.cnf", "--method", "lovasz", "--seconds", "nan"],
        "bench": ["table1", "-o", tmp_path / "b", "--cell-seconds", "nan"],
    }
    done = run({"model": "sample"}.get(command, command), *arguments[command])
    assert done.returncode == (2 if command == "judge" else 1), done.stderr
    assert "seconds = nan" in done.stderr and len(done.stderr.splitlines()) == 1


MOST = 2**63 - 1


@pytest.mark.parametrize(
    "offsets",
    [
        [0, MOST, -MOST - 1, -1, 3],  # the differences overflow, and none of them is negative
        [0, 4, 3],
        [0, -1, 3],
        [0, 2],
        [0, 5],
        [1, 3],
        [],
        [[0, 3]],
        3,
        [0.0, 3.0],
        [0, math.nan, 3],
        np.array([0, 2**64 - 1, 3], np.uint64),
        ["0", "3"],
        None,
    ],
)
def test_offsets_that_lead_out_of_the_literals_are_refused(offsets):
    """Kernels trust offsets."""
    with pytest.raises(FormulaError, match="clause offsets"):
        Formula.from_arrays([1, 2, 3], offsets)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint64])
def test_offsets_of_any_integer_type(kind):
    f = Formula.from_arrays([1, 2, 3], np.array([0, 2, 3], kind))
    assert f.clauses() == [[1, 2], [3]] and f.offsets.dtype == np.int64
