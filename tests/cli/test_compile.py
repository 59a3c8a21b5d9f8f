"""`nelson compile`: a circuit that is paid for once, and found by every later call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import nelson
from nelson import Formula
from nelson.budget import Budget
from nelson.exact import compiled as circuits
from nelson.exact.circuit import disk_cache
from nelson.exact.circuit.build import COMPILERS
from nelson.exact.queries import count
from nelson.sampling.auto.steps.circuit import Compilation
from nelson.sampling.auto.steps.rejection import Rejection
from tests import ROOT
from tests.cli.commands import NELSON, TIMEOUT, UNSAT, literals, run
from tests.paper.experiments.toy_runs import wait
from tests.problems import exact_marginals, random_ksat, weights

pytest.importorskip("py_d4")

BUS = ROOT / "examples" / "bus.toml"
#: `nelson` whose `auto` never gets a circuit of its own, as if the compiler had too little time,
#: and does not draw assignments.
WITHOUT_TIME = [
    sys.executable,
    "-c",
    "from nelson.sampling.auto.steps.circuit import Compilation; from nelson.cli import main\n"
    "from nelson.sampling.auto.steps.rejection import Rejection\n"
    "Rejection.whole = lambda *arguments: None\n"
    "Compilation.compile = lambda *arguments: None\n"
    "main()",
]


DISTINCT = random_ksat(20, 24, 3, seed=5)


def equal_literals() -> Formula:
    """21 variables and more solutions than `auto` enumerates. Literals 1 and 21 are equal, so that
    preprocessing leaves another formula, whose circuit has another name.
    """
    return Formula([*DISTINCT.clauses(), [1, -21], [-1, 21]], n_vars=21)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NELSON_CACHE_DIR", str(tmp_path))
    return tmp_path / "circuits"


@pytest.fixture
def without_time(monkeypatch):
    """`auto` never gets a circuit of its own, and does not draw assignments."""
    monkeypatch.setattr(Rejection, "whole", lambda *arguments: None)
    monkeypatch.setattr(Compilation, "compile", lambda *arguments: None)


@pytest.mark.process
@pytest.mark.slow
def test_a_circuit_compiled_once_makes_later_samples_exact(tmp_path, own_cache):
    """Each command is a process of its own. Marginals: 5 sigma, 21 variables; false alarms: 1e-5.
    The twin: without the circuit the same command is not exact.
    """
    formula, path = equal_literals(), tmp_path / "f.cnf"
    formula.to_dimacs(path)

    def sampled() -> tuple[np.ndarray, str]:
        done = subprocess.run(
            [*WITHOUT_TIME, "sample", path, "-n", "20000", "--seed", "1"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        assert done.returncode == 0, done.stderr
        return literals(done.stdout) > 0, done.stderr

    assert "exact" not in sampled()[1]
    made = subprocess.run([*NELSON, "compile", path], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert f"solutions  {count(formula)}" in made.stdout
    assert f"nelson sample {path} -n 1000" in made.stdout
    x, said = sampled()
    assert "exact (circuit)" in said
    law = exact_marginals(DISTINCT)[[*range(20), 0]]
    assert (np.abs(x.mean(0) - law) <= 5 * np.sqrt(law * (1 - law) / len(x)) + 1e-12).all()


@pytest.mark.slow
def test_weights_and_evidence_need_no_other_circuit(own_cache, without_time, compilations):
    formula = equal_literals()
    circuits.keep_on_disk(formula)
    assert len(compilations) == 1
    for again in (formula, formula.replace()):
        for theta, given in ((None, None), (weights(formula), [3, -4])):
            s = nelson.sample(again, theta, 500, given=given, seed=3)
            assert (s.guarantee, s.info["method"]) == ("exact", "circuit")
            same = nelson.sample(again, theta, 500, given=given, seed=3, method="circuit")
            assert np.array_equal(s.packed, same.packed)
    assert len(compilations) == 1


@pytest.mark.slow
def test_a_running_process_sees_a_new_circuit(own_cache, without_time):
    """The decision without the circuit is not kept once there is one."""
    formula = equal_literals()
    assert nelson.sample(formula, None, 64, seed=1).guarantee != "exact"
    circuits.keep_on_disk(formula.replace())
    assert nelson.sample(formula, None, 64, seed=1).guarantee == "exact"


def test_a_second_call_finds_the_circuit(tmp_path, own_cache, compilations):
    path = tmp_path / "f.cnf"
    equal_literals().to_dimacs(path)
    first = json.loads(run("compile", path, "--json").stdout)
    second = run("compile", path).stdout
    assert not first["cached"] and first["path"] in second and "found in the cache" in second
    assert [entry.path.name for entry in disk_cache.entries()] == [os.path.basename(first["path"])]
    assert len(compilations) == 1


def test_a_space_is_compiled_too(own_cache, compilations):
    """Its rows are drawn from that circuit, and it is not compiled again."""
    assert "decisions" in run("compile", BUS).stdout
    made = len(compilations)
    assert made and circuits.kept_on_disk(nelson.Space.load(BUS).formula) is not None
    assert "exact (circuit)" in run("sample", BUS, "-n", 64).stderr
    assert len(compilations) == made


def test_without_a_limit_all_ways_get_more_and_more_time(own_cache, monkeypatch):
    """D4, an order, D4 in that order: none of them may wait for ever for the one before."""
    line = [[k, -(k + 1), k + 2] for k in range(1, 59)]
    formula, limits, build = Formula(line, n_vars=60), [], circuits.build
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(circuits, "FIRST_TRY", 0.01)
    monkeypatch.setattr("nelson.budget.time", clock)

    def slow(formula, budget, *rest, **options):
        limits.append(budget.left)
        if len(limits) < 3:
            clock.now += budget.left
            return circuits.BuildResult(None, 0.1, why_not="stopped")
        return build(formula, Budget.of(60.0), *rest, **options)

    monkeypatch.setattr(circuits, "build", slow)
    assert circuits.keep_on_disk(formula) is not None
    assert limits == pytest.approx([0.01, 0.04, 0.16])


@pytest.mark.slow
def test_kept_circuits_are_removed_last(own_cache, monkeypatch):
    circuits.keep_on_disk(equal_literals())
    (kept,) = disk_cache.entries()
    os.utime(kept.path, (1, 1))  # used long ago
    circuits.compiled(random_ksat(20, 20, 3, seed=2))
    assert disk_cache.entries()[0].path == kept.path
    disk_cache.prune(kept.bytes)
    assert [entry.path for entry in disk_cache.entries()] == [kept.path]


@pytest.mark.slow
def test_what_can_go_wrong(tmp_path, own_cache, monkeypatch):
    path = tmp_path / "f.cnf"
    equal_literals().to_dimacs(path)
    done = run("compile", path, "--seconds", 0)
    assert done.returncode == 3 and "budget reached" in done.stderr and not done.stdout
    assert run("compile", "-", stdin=UNSAT).returncode == 20
    done = run("compile", path, "--compiler", "d5")
    assert done.returncode == 1 and "one of auto, d4, frontier" in done.stderr
    assert disk_cache.entries() == []
    monkeypatch.setenv("NELSON_CACHE_BYTES", "0")
    done = run("compile", path)
    assert done.returncode == 1 and "NELSON_CACHE_BYTES" in done.stderr
    monkeypatch.setenv("NELSON_CACHE_BYTES", "100")
    done = run("compile", path)
    assert done.returncode == 1 and "was not kept" in done.stderr
    monkeypatch.setitem(COMPILERS, "d4", ("no_such_module", "D4"))
    done = run("compile", path, "--compiler", "d4")
    assert done.returncode == 1 and "pip install" in done.stderr


def ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.process
@pytest.mark.slow
def test_ctrl_c_leaves_nothing(tmp_path, own_cache):
    """The compiler is running when the signal comes."""
    path = tmp_path / "f.cnf"
    random_ksat(300, 900, 3, seed=1).to_dimacs(path)  # compiles in hours
    process = subprocess.Popen([*NELSON, "compile", path], stderr=subprocess.PIPE)
    children: list[psutil.Process] = []

    def compiles() -> bool:
        children[:] = psutil.Process(process.pid).children() if process.poll() is None else []
        return bool(children) or process.poll() is not None

    wait(compiles)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, error
    assert b"Traceback" not in error
    assert children
    wait(lambda: all(ended(child) for child in children))
    assert list(own_cache.iterdir()) == []
