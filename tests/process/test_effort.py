"""A child whose effort is counted by the lines that it prints."""

from __future__ import annotations

import math

import pytest

from nelson.process.child import SPENT, STOPPED, Effort, run_child

pytestmark = pytest.mark.process

SCRIPT = """
import os
def solve(task):
    for _ in range(task["lines"]):
        os.write(1, b"c step\\n")
    while task.get("forever"):
        pass
    os.write(1, b"c memory: not an error\\n")
    return {"lines": task["lines"]}
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def steps(most=math.inf):
    return Effort(lambda line: float(line == b"c step"), most)


def test_answers_count_as_long_as_the_effort_lasts(script):
    tasks = [{"lines": 3}, {"lines": 4}, {"lines": 1}]
    for most, answered in ((8.0, 3), (7.5, 2), (7.0, 2), (6.0, 1), (2.0, 0)):
        effort = steps(most)
        answers, ended = run_child(script, tasks, 60.0, effort=effort, cpu=True)
        assert [answer["lines"] for answer in answers] == [3, 4, 1][:answered]
        assert ended == ("" if answered == 3 else SPENT)


def test_a_child_that_would_go_on_is_ended_by_its_effort(script):
    tasks = [{"lines": 2}, {"lines": 5, "forever": True}]
    answers, ended = run_child(script, tasks, 60.0, effort=steps(6.0), cpu=True)
    assert answers == [{"lines": 2}] and ended == SPENT


def test_without_a_limit_the_effort_is_told(script):
    effort = steps()
    answers, ended = run_child(script, [{"lines": 2}, {"lines": 5}], 60.0, effort=effort)
    assert len(answers) == 2 and ended == "" and effort.done == [2.0, 5.0] and effort.total == 7.0


@pytest.mark.slow
def test_cpu_seconds_end_a_child_that_prints_nothing(script):
    answers, ended = run_child(script, [{"lines": 0, "forever": True}], 0.5, cpu=True)
    assert answers == [] and ended == STOPPED
