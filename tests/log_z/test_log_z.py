"""log Z: exact methods against enumeration, proofs, budgets that hold, wrong arguments."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from nelson import BudgetExceeded, Formula, FormulaError, NelsonError, Unsatisfiable
from nelson.budget import Budget
from nelson.exact import counter
from nelson.exact.circuit import build
from nelson.exact.circuit.decisions import NnfCircuit
from nelson.log_z import LogPartition, exact, log_z
from nelson.log_z.method import LogZTask
from nelson.log_z.parts import merge, reduce
from nelson.policy import DEFAULT
from tests import ROOT
from tests.problems import (
    encoded,
    exact_law,
    exact_log_z,
    extremal,
    non_extremal,
    pigeonhole,
    random_ksat,
    weights,
)

EXACT = ("enumerate", "tables", "count", "circuit")
#: Every method, for `parametrize`; three of them start a child process.
EACH = {
    name: pytest.param(name, marks=pytest.mark.process) for name in ("count", "circuit", "auto")
}
EACH |= {name: pytest.param(name) for name in ("enumerate", "tables", "bridge", "bounds")}
FORMULAS = extremal() | non_extremal() | encoded()


def blow_up() -> Formula:
    """Random 3-SAT that no counter finishes within a minute, and that has solutions."""
    return random_ksat(300, 600, 3, seed=1)


# --- exact ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [EACH[name] for name in (*EXACT, "auto")])
def test_exact_methods_agree_with_enumeration(method: str) -> None:
    for name, f in FORMULAS.items():
        if f.n_total > DEFAULT.log_z.enumerate_variables and method == "enumerate":
            continue
        for theta in (None, 3 * weights(f)):
            found = log_z(f, theta, method=method)
            assert isinstance(found, LogPartition) and found.exact and found.half_width == 0.0
            assert float(found) == pytest.approx(exact_log_z(f, theta), abs=1e-11), name


@pytest.mark.parametrize("method", [EACH[name] for name in EXACT])
def test_evidence(method: str) -> None:
    f = random_ksat(12, 14, 3, seed=3)
    theta = weights(f)
    theta[[1, 4, 7]] = np.inf, -np.inf, np.inf
    found = log_z(f, theta, method=method)
    assert found.value == pytest.approx(exact_log_z(f, theta), abs=1e-11)
    assert found.info["fixed"] >= 3
    conditioned = f.given([2, -5, 8])
    finite = np.where(np.isinf(theta), 0.0, theta)
    assert found.value == pytest.approx(exact_log_z(conditioned, finite), abs=1e-11)


def test_units_keep_their_weight() -> None:
    f = Formula([[1], [-1, -2], [2, 3]], n_vars=4)  # 1, not 2, 3; 4 is free
    theta = np.array([0.3, 1.1, -0.7, 2.0])
    found = log_z(f, theta)
    assert found.value == pytest.approx(0.3 - 0.7 + np.logaddexp(0, 2.0), abs=1e-14)
    assert found.info["components"] == {} and found.method == "enumerate" and found.exact
    assert found.info["log_probability"] == pytest.approx(
        found.value - np.logaddexp(0, theta).sum()
    )


@pytest.mark.slow
def test_the_name_is_a_call_in_every_order_of_imports() -> None:
    """Importing a module of the room binds `nelson.log_z` to the room, which is callable."""
    for first in ("", "import nelson.log_z.bridge", "from nelson.log_z.result import Z95"):
        code = f"""
import nelson, inspect
{first}
f = nelson.Formula([[1, 2], [-1, 3]])
assert nelson.log_z(f).exact and callable(nelson.log_z)
import nelson.log_z.moments
z = nelson.log_z(f, given=[1])
assert round(2.718281828 ** z.value) == 2 and z.guarantee == "exact"
assert "half_width" in inspect.signature(nelson.log_z).parameters
assert not hasattr(nelson, "partition")
"""
        subprocess.run([sys.executable, "-c", code], check=True)


def test_evidence_keeps_its_weight() -> None:
    """log Z given the evidence minus log Z is the log-probability of the evidence."""
    f = random_ksat(12, 14, 3, seed=3)
    theta = weights(f)
    states, p = exact_law(f, theta)
    truth = math.log(p[states[:, 1] & ~states[:, 4]].sum())
    whole, part = log_z(f, theta), log_z(f, theta, given={2: True, 5: False})
    assert part.value - whole.value == pytest.approx(truth, abs=1e-11)


def test_preprocessing_is_that_of_samples() -> None:
    """Equal literals are one variable, whose log-odds add up: a chain of 2,000 equalities that hold
    an XOR chain over few inputs is exact at once.
    """
    clauses = [c for v in range(1, 2000) for c in ([-v, v + 1], [v, -v - 1])]
    f, theta = Formula(clauses), np.linspace(-0.01, 0.02, 2000)
    z = log_z(f, theta)
    assert z.exact and z.value == pytest.approx(np.logaddexp(0.0, theta.sum()), abs=1e-9)


def test_trivial_formulas() -> None:
    assert log_z(Formula([], n_vars=0)).value == 0.0
    assert log_z(Formula([], n_vars=5)).value == pytest.approx(5 * math.log(2))
    theta = np.array([-1.0, 700.0, -800.0])
    assert log_z(Formula([], n_vars=3), theta).value == pytest.approx(np.logaddexp(0, theta).sum())


def path(n: int) -> Formula:
    """Neighbours on a path of n variables are not both false: one component."""
    return Formula([[i, i + 1] for i in range(1, n)], n_vars=n)


@pytest.mark.slow
def test_a_component_beyond_the_range_of_a_float() -> None:
    """2^1101 is no float. Clauses of five variables share one with the next clause, so a matrix of
    two rows counts the structures. The tables are narrow, but 2^-1101 of an entry might be lost.
    """
    links = 275
    f = Formula([[4 * k + i for i in range(1, 6)] for k in range(links)], n_vars=4 * links + 1)
    last, truth = np.ones(2), 0.0  # structures by the value of the shared variable, scaled
    for _ in range(links):
        last = np.array([[7.0, 8.0], [8.0, 8.0]]) @ last
        truth += math.log(last.sum())
        last /= last.sum()
    for method in ("circuit", "auto"):
        found = log_z(f, method=method, seed=1)
        assert found.value == pytest.approx(truth, rel=1e-12)
        assert found.exact and found.half_width == 0.0 and found.info.get("samples", 0) == 0
    wide = log_z(f, method="bounds", seed=1)
    assert abs(wide.value - truth) <= wide.half_width < truth
    with pytest.raises(BudgetExceeded, match="1101 variables is too large"):
        log_z(f, method="enumerate")


@pytest.mark.process
def test_components_add_up_each_by_its_own_method() -> None:
    small, large = random_ksat(8, 10, 3, seed=5), random_ksat(26, 26, 5, seed=6)
    shift = [[v + int(np.sign(v)) * 8 for v in clause] for clause in large]
    f = Formula([*small.clauses(), *shift], n_vars=35)  # the last variable is free
    theta = np.random.default_rng(7).normal(size=35)
    found = log_z(f, theta)
    by_part = (
        exact_log_z(small, theta[:8])
        + log_z(large, theta[8:34], method="circuit").value
        + np.logaddexp(0, theta[34])
    )
    assert found.value == pytest.approx(by_part, abs=1e-10)
    assert found.info["components"] == {"enumerate": 1, "tables": 1} and found.method == "tables"
    assert "too large" in found.why
    merged = merge(reduce(f, theta).parts)  # what an estimate would see
    assert merged.n == len(set(np.abs(f.literals))) and merged.n_clauses == f.n_clauses


@pytest.mark.process
def test_many_components_in_one_child() -> None:
    one = random_ksat(24, 20, 4, seed=8)
    clauses = [[v + int(np.sign(v)) * 24 * k for v in c] for k in range(10) for c in one]
    single = log_z(one, method="count").value
    for method in ("count", "circuit"):
        found = log_z(Formula(clauses, n_vars=240), method=method)
        assert found.value == pytest.approx(10 * single, rel=1e-12)


@pytest.mark.process
def test_ganak_and_d4_agree_beyond_enumeration() -> None:
    for seed in range(3):
        f = random_ksat(36, 36, 5, seed=seed)
        theta = weights(f, seed)
        found = [log_z(f, theta, method=method).value for method in ("count", "circuit")]
        assert found[0] == pytest.approx(found[1], abs=1e-11)


@pytest.mark.process
def test_values_far_outside_the_range_of_a_double() -> None:
    """P(C) below e^-900: counting must not call that 0, nor a circuit."""
    f = Formula([[i, i + 1] for i in range(1, 8)], n_vars=8)
    theta = np.full(8, -300.0) + weights(f)
    truth = exact_log_z(f, theta)
    assert truth < -890
    for method in ("enumerate", "tables", "count", "circuit", "auto"):
        assert log_z(f, theta, method=method).value == pytest.approx(truth, rel=1e-13)
    found = log_z(f, 4 * theta, method="circuit")  # weights no double holds
    assert found.value == pytest.approx(exact_log_z(f, 4 * theta), rel=1e-13)
    with pytest.raises(BudgetExceeded, match="theta"):
        log_z(f, 4 * theta, method="count")
    wide = log_z(f, 4 * theta, method="bounds", seed=1)
    assert abs(wide.value - exact_log_z(f, 4 * theta)) <= wide.half_width


@pytest.mark.process
def test_only_the_room_of_circuits_starts_d4(compilations: list) -> None:
    log_z(random_ksat(24, 20, 4, seed=8), method="circuit")
    assert len(compilations) == 1
    sources = (ROOT / "src").rglob("*.py")
    assert [p.name for p in sources if "import py_d4" in p.read_text()] == ["compile_child.py"]


def test_circuit_of_a_known_text() -> None:
    text = "o 1 0\na 2 0\no 3 0\nt 4 0\n3 4 -1 2 0\n3 4 1 3 0\n2 3 0\n1 2 0\n"
    log_p = np.log([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]])
    assert NnfCircuit.parse(text).log_value(log_p) == pytest.approx(math.log(0.7 * 0.6 + 0.3 * 0.1))
    assert NnfCircuit.parse("f 1 0\n").log_value(log_p) == -math.inf
    assert NnfCircuit.parse("t 1 0\n").log_value(log_p) == 0.0
    with pytest.raises(ValueError, match="order"):
        NnfCircuit.parse("o 1 0\no 2 0\nt 3 0\n1 2 0\n2 3 1 0\n")


# --- unsatisfiable -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", EACH.values())
def test_unsatisfiable(method: str) -> None:
    with pytest.raises(Unsatisfiable):
        log_z(pigeonhole(4), method=method, seed=1)
    with pytest.raises(Unsatisfiable):
        log_z(Formula([[1, 2], []]), method=method)
    with pytest.raises(Unsatisfiable):
        log_z(Formula([[1, 2]]), [-np.inf, -np.inf], method=method)


# --- budgets -------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize("method", [exact.by_counting, exact.by_circuit])
def test_a_child_is_killed_when_its_time_is_up(method) -> None:
    f = blow_up()
    parts = reduce(f, None).parts
    started = time.monotonic()
    outcome = method(parts, LogZTask(f, None, budget=Budget.of(0.5)))
    assert not outcome.solved and outcome.left == parts and "stopped" in outcome.reason
    assert time.monotonic() - started < 30  # a minute's work ended; no claim on speed
    with pytest.raises(ChildProcessError):  # nobody is left behind
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.process
def test_a_child_is_held_to_its_memory() -> None:
    f = random_ksat(100_000, 100_000, 5)
    budget = Budget(deadline=time.monotonic() + 60.0, memory=150 << 20)
    outcome = exact.by_counting(reduce(f, None).parts, LogZTask(f, None, budget=budget))
    assert not outcome.solved and "memory" in outcome.reason
    small = random_ksat(24, 24, 5)  # the same limit suffices where it should
    outcome = exact.by_counting(reduce(small, None).parts, LogZTask(small, None, budget=budget))
    assert outcome.reason == "done" and not outcome.left


@pytest.mark.process
def test_all_components_are_counted_or_none() -> None:
    """Of an easy component and a hard one; the reason says how large they are."""
    easy, hard = random_ksat(24, 20, 4, seed=8), blow_up()
    parts = [*reduce(easy, None).parts, *reduce(hard, None).parts]
    outcome = exact.by_counting(parts, LogZTask(hard, None, budget=Budget.of(2.0)))
    assert outcome.left == parts and "stopped" in outcome.reason and "variables" in outcome.reason


@pytest.mark.process
def test_an_exact_method_alone_raises_when_the_budget_ends() -> None:
    with pytest.raises(BudgetExceeded, match="stopped"):
        log_z(blow_up(), method="count", seconds=0.5)
    with pytest.raises(BudgetExceeded, match="too large"):
        log_z(blow_up(), method="enumerate")
    with pytest.raises(BudgetExceeded):
        log_z(random_ksat(2000, 2000, 5), method="bridge", seconds=0.05, seed=1)


@pytest.mark.process
def test_auto_falls_through_and_says_why() -> None:
    f = random_ksat(150, 150, 5, seed=2)
    found = log_z(f, weights(f), seconds=6.0, half_width=0.2, seed=3)
    assert found.method == "rejection" and not found.exact and 0 < found.half_width <= 0.2
    assert found.info["tried"].keys() == {"enumerate", "tables", "law"}
    assert "stopped" in found.why and "too large" in found.why and "too wide" in found.why
    assert "proposals were valid" in found.why


@pytest.mark.slow
def test_what_is_not_installed_is_skipped_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "GANAK", "no_such_module")
    monkeypatch.setitem(build.COMPILERS, "d4", ("nor_this_one", "D4"))
    f = random_ksat(500, 500, 5, seed=2)
    found = log_z(f, half_width=0.2, seed=1)
    assert found.method == "bridge" and "ganak is not installed" in found.why
    with pytest.raises(NelsonError, match="samplers"):
        log_z(f, method="count")


@pytest.mark.slow
def test_too_little_time_gives_a_wider_interval_that_says_so() -> None:
    f = random_ksat(300, 300, 5, seed=2)
    options = {"method": "bridge", "seed": 1, "threads": 1}
    found = log_z(f, weights(f), half_width=1e-5, seconds=2.0, **options)
    assert found.half_width > 1e-5 and not found.info["reached"] and "not reached" in found.why


def test_wrong_arguments() -> None:
    f = Formula([[1, 2]])
    for bad in (
        {"method": "guess"},
        {"half_width": 0.0},
        {"seconds": -1.0},
        {"threads": 0},
        {"method": "telescope"},
    ):
        with pytest.raises(FormulaError):
            log_z(f, **bad)
    for theta in ([0.0], [0.0, np.nan], [[0.0, 0.0]], "ab"):
        with pytest.raises(FormulaError):
            log_z(f, theta)
