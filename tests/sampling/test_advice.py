"""A heuristic result says what would help, wherever it is shown; decisions are made by hand."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.chains.problem import prepare
from nelson.exact.circuit import build
from nelson.sampling import auto
from nelson.sampling.advice import for_decisions
from nelson.sampling.auto import ladder
from nelson.sampling.auto.steps.extremal import Extremal
from tests.cli.commands import run
from tests.problems import random_ksat

STOPPED = "D4 stopped after 3 s at a component of 20 variables (limits: 3 s, 4 GiB)"
INSTALL, COMPILE, MORE = "install nelson-mrf[samplers]", "nelson compile", "more seconds"
CIRCUIT = 'method="circuit"'


def hopeful() -> nelson.Formula:
    return random_ksat(20, 24, 3, seed=5)


def weak(
    formula: nelson.Formula,
    circuit: str = STOPPED,
    guarantee: str = "heuristic",
    complete: bool = True,
    size: float = 0.0,
) -> auto.Decision:
    """A decision for `lovasz` and three sweeps."""
    record = {
        "components": 1,
        "variables": formula.n_vars,
        "clauses": formula.n_clauses,
        "method": "lovasz",
        "sweeps": 3,
        "guarantee": guarantee,
        "why": "so it is",
        "not taken": {"circuit": circuit},
        "complete": complete,
    }
    theta = np.full((1, formula.n_vars), size)
    every = np.arange(formula.n_vars)
    rows = (guarantee,)
    group = auto.ComponentGroup(
        Extremal(), 3, guarantee, "so it is", prepare(formula), every, theta, [record], rows=rows
    )
    return auto.Decision([group], None)


def words(decision: auto.Decision, seconds: float | None = None) -> list[str]:
    return list(for_decisions([decision], seconds))


def test_each_kind_of_advice(monkeypatch):
    pytest.importorskip("py_d4")
    assert words(weak(hopeful())) == [CIRCUIT, MORE]
    assert words(weak(hopeful(), "D4 out of memory after 1 s")) == [COMPILE]
    assert words(weak(hopeful(), complete=False), 5.0) == [CIRCUIT, MORE]
    dense = random_ksat(200, 200, 5, seed=1)  # the guess calls it hopeless
    assert words(weak(dense)) == ["nelson judge"]
    assert words(weak(dense, complete=False)) == [MORE]
    assert words(weak(dense, size=700.0)) == ["smaller weights"]
    for guarantee in ("exact", "diagnosed"):
        assert words(weak(hopeful(), guarantee=guarantee)) == []
    monkeypatch.setitem(build.COMPILERS, "d4", ("no_such_module", "D4"))
    wide = random_ksat(60, 120, 3, seed=1)
    assert words(weak(wide, "D4 is not installed")) == [INSTALL]
    assert words(weak(dense, "D4 is not installed")) == ["nelson judge"]


def test_sentences_name_numbers():
    pytest.importorskip("py_d4")
    told = for_decisions([weak(hopeful())], None, "town.cnf")
    assert "seconds=600" in told[COMPILE] and "--seconds 600" in told[MORE]
    assert "`nelson compile town.cnf`" in told[COMPILE]
    told = for_decisions([weak(hopeful(), complete=False)], 20.0)
    assert "seconds=200" in told[CIRCUIT] and "compiling and a diagnosis" in told[MORE]


def test_advice_fits_the_call():
    """No file is named where there is none, and no odd number where time was left over."""
    pytest.importorskip("py_d4")
    for seconds, longer in ((120.0, "1200"), (19.9999, "200"), (3.0, "60")):
        told = for_decisions([weak(hopeful())], seconds)
        assert "nelson compile" not in " ".join(told.values())
        assert f"seconds={longer} " in told[MORE] and f"seconds={longer};" in told[CIRCUIT]
    full = for_decisions([weak(hopeful(), "D4 out of memory after 1 s")], None)
    assert "write the formula to a file" in full[COMPILE]
    named = for_decisions([weak(hopeful(), "D4 out of memory after 1 s")], None, "town.cnf")
    assert "`nelson compile town.cnf --memory 16`" in named[COMPILE]


def test_a_call_within_a_call_advises_the_seconds_of_the_outer_one():
    with Budget.of(120.0).enforced():
        assert Budget.of(6.0).asked == 120.0
        with Budget.of(6.0).enforced():
            assert Budget.of(1.0).asked == 120.0
    assert Budget.of(6.0).asked == 6.0 and Budget.of().asked is None
    told = for_decisions([weak(hopeful(), "D4 out of memory after 1 s")], None)
    assert "--memory" in told[COMPILE]


@pytest.fixture
def only_heuristic(monkeypatch):
    monkeypatch.setattr(ladder, "decide", lambda problem, *rest: weak(problem.formula))


def test_results_streams_and_reports_carry_it(only_heuristic):
    pytest.importorskip("py_d4")
    s = nelson.sample(hopeful(), None, 64, seed=1)
    assert list(s.info["advice"]) == [CIRCUIT, MORE]
    assert repr(s).endswith("method='lovasz'; would help: method=\"circuit\", more seconds)")
    assert next(nelson.stream(hopeful(), None, 64)).info["advice"] == s.info["advice"]
    report = nelson.report(hopeful(), pilot=False)
    assert "would help" in str(report) and report.to_dict()["choice"]["advice"] == s.info["advice"]


def test_the_command_line_prints_it(only_heuristic, tmp_path):
    pytest.importorskip("py_d4")
    path = tmp_path / "f.cnf"
    hopeful().to_dimacs(path)
    said = run("sample", path, "-n", 64).stderr
    assert said.count("nelson: would help: ") == 2 and f"`nelson compile {path}`" in said
    assert run("sample", path, "-n", 64, "-q").stderr == ""
    assert "would help" in run("report", path).stdout


def test_a_method_that_the_caller_named():
    s = nelson.sample(hopeful(), None, 64, method="lovasz", sweeps=2, seed=1)
    assert s.guarantee == "heuristic" and list(s.info["advice"]) == ['method="auto"']


def test_better_results_need_no_advice():
    s = nelson.sample(nelson.Formula([[1, 2], [1, 3]]), None, 64, seed=1)
    assert "advice" not in s.info and "would help" not in repr(s)
