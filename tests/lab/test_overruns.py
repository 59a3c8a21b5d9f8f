"""What `lab overruns` calls an overrun, and that it ends what never ends."""

from __future__ import annotations

import re

import pytest

import nelson
from lab import overruns
from lab.overruns import Case, Outcome, _where, bound, measured
from lab.overruns_cases import FORMULAS, SPACES


def test_a_call_overruns_if_both_clocks_say_so():
    limit = bound(1.0)
    assert limit == pytest.approx(1.6)
    assert Outcome(2.0, 1.9, 10.0, "", "").over(limit)
    assert not Outcome(2.0, 1.0, 10.0, "", "").over(limit)  # it waited for a solver
    assert not Outcome(1.5, 2.9, 10.0, "", "").over(limit)  # two threads


def test_where_a_call_was_is_told_by_its_lines_of_nelson():
    trace = """Current thread 0x1 (most recent call first):
  File "/x/numpy/core.py", line 3 in sort
  File "/x/src/nelson/formula/flat.py", line 7 in take
  File "/x/src/nelson/chains/problem.py", line 9 in prepare
"""
    assert _where(trace) == "formula/flat.py:7 take < chains/problem.py:9 prepare"
    assert _where("") == ""


@pytest.mark.process
def test_calls_run_in_forks_and_are_ended(monkeypatch, tmp_path):
    formula = Case(nelson.Formula([[1, 2], [-1, 3]]), tmp_path)
    done = measured(overruns.OF_FORMULAS["sample"], formula, 600.0)
    assert done.answer.startswith("100 exact ok") and not done.where
    failed = measured(lambda f, s: 1 // 0, formula, 600.0)
    assert failed.answer.startswith("ZeroDivisionError")
    assert measured(overruns.OF_FORMULAS["learn"], formula, 600.0).answer == "Fit"
    command = measured(overruns.OF_FORMULAS["$ learn"], formula, 600.0)
    assert command.answer.startswith("exit 0: ")
    monkeypatch.setattr(overruns, "PATIENCE", 1.0)

    def never(formula, seconds):
        while True:
            pass

    assert measured(never, formula, 0.0).answer == "KILLED"


def test_cases_of_a_few_lines_are_what_they_say():
    small = {name: FORMULAS[name]() for name in ("12 pigeons in 11 holes", "5-SAT of 100")}
    assert small["12 pigeons in 11 holes"].n_vars == 132
    assert small["5-SAT of 100"].n_clauses == 100
    assert len(FORMULAS) == 43 and len(SPACES) == 12
    assert len(SPACES["product of 48 bits"]().fields) == 2


def test_published_formulas_that_are_not_here_are_left_out_aloud(monkeypatch, capsys):
    monkeypatch.setenv("NELSON_BENCH_DATA", "nowhere")
    assert not list(overruns.outcomes(re.compile("0066:plan")))
    assert capsys.readouterr().out.startswith("LEFT OUT: the authors' file 0066: ")


def test_a_call_that_was_killed_has_no_samples():
    assert overruns.has_samples("100 heuristic ok")
    for answer in ("0 heuristic budget", "KILLED", "died", "TimeUp: the time was up"):
        assert not overruns.has_samples(answer)


def test_the_page_has_the_slowest_call_of_each_case_and_all_late_ones(tmp_path):
    """Twin: a line that is not late is not listed."""
    (tmp_path / "idle.txt").write_text(
        "5-SAT of 100:plan, 1 s: 0.2 s  wall 0.2 s, CPU 0.3 s, 5 MB: exact\n"
        "5-SAT of 100:$ count, 1 s: 1.7 s  wall 1.7 s, CPU 1.8 s, 5 MB: int\n"
        "rota of 20 people:sample, 5 s: 5.9 s  wall 5.9 s, CPU 9.0 s, 5 MB: 100 heuristic ok\n"
        "5-SAT of 100:solved: 1 yes  CaDiCaL 0.01 s; with 1.1 s 100 exact ok\n"
    )
    (tmp_path / "loaded-2.txt").write_text("5-SAT of 100:plan, 1 s: 0.5 s  wall 1 s: exact\n")
    told, worst, late = overruns.page(tmp_path)
    assert told.startswith("idle: 1 of 3 calls came back late; loaded: 0 of 1")
    assert "of 1 formulas that CaDiCaL solves within 5 s, 1 had samples" in told
    assert "1.7 ($ count)" in worst and "5.9 (sample)" in worst and "0.2 (plan)" not in worst
    assert "$ count" in late and "sample" not in late
