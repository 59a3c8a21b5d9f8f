"""log Z: exact methods against enumeration, proofs, budgets that hold, wrong arguments."""

from __future__ import annotations

import math
import os
import time

import numpy as np
import pytest

from nelson import BudgetExceeded, Formula, FormulaError, NelsonError, Unsatisfiable
from nelson.exact.circuit import build
from nelson.exact.circuit.nnf import Circuit
from nelson.log_z import LogPartition, exact, log_partition
from nelson.log_z.parts import merge, reduce
from tests import ROOT
from tests.problems import (
    encoded,
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
EACH |= {name: pytest.param(name) for name in ("enumerate", "tables", "bridge", "telescope")}
FORMULAS = extremal() | non_extremal() | encoded()


def blow_up() -> Formula:
    """Random 3-SAT that no counter finishes within a minute, and that has solutions."""
    return random_ksat(300, 600, 3, seed=1)


# --- exact ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [EACH[name] for name in (*EXACT, "auto")])
def test_exact_methods_agree_with_enumeration(method: str) -> None:
    for name, f in FORMULAS.items():
        if f.n_total > exact.ENUMERATE and method == "enumerate":
            continue
        for theta in (None, 3 * weights(f)):
            found = log_partition(f, theta, method=method)
            assert isinstance(found, LogPartition) and found.exact and found.half_width == 0.0
            assert float(found) == pytest.approx(exact_log_z(f, theta), abs=1e-11), name


@pytest.mark.parametrize("method", [EACH[name] for name in EXACT])
def test_evidence(method: str) -> None:
    f = random_ksat(12, 14, 3, seed=3)
    theta = weights(f)
    theta[[1, 4, 7]] = np.inf, -np.inf, np.inf
    found = log_partition(f, theta, method=method)
    assert found.value == pytest.approx(exact_log_z(f, theta), abs=1e-11)
    assert found.info["fixed"] >= 3
    conditioned = f.given([2, -5, 8])
    finite = np.where(np.isinf(theta), 0.0, theta)
    assert found.value == pytest.approx(exact_log_z(conditioned, finite), abs=1e-11)


def test_units_keep_their_weight() -> None:
    f = Formula([[1], [-1, -2], [2, 3]], n_vars=4)  # 1, not 2, 3; 4 is free
    theta = np.array([0.3, 1.1, -0.7, 2.0])
    found = log_partition(f, theta)
    assert found.value == pytest.approx(0.3 - 0.7 + np.logaddexp(0, 2.0), abs=1e-14)
    assert found.info["components"] == {} and found.method == "enumerate" and found.exact
    assert found.info["log_probability"] == pytest.approx(
        found.value - np.logaddexp(0, theta).sum()
    )


def test_trivial_formulas() -> None:
    assert log_partition(Formula([], n_vars=0)).value == 0.0
    assert log_partition(Formula([], n_vars=5)).value == pytest.approx(5 * math.log(2))
    theta = np.array([-1.0, 700.0, -800.0])
    assert log_partition(Formula([], n_vars=3), theta).value == pytest.approx(
        np.logaddexp(0, theta).sum()
    )


def path(n: int) -> Formula:
    """Neighbours on a path of n variables are not both false: one component."""
    return Formula([[i, i + 1] for i in range(1, n)], n_vars=n)


def test_a_component_beyond_the_range_of_a_float() -> None:
    """2^1101 is no float. Clauses of five variables share one with the next clause, so a matrix of
    two rows counts the structures. Within 3 half widths (5.9 sigma): a right estimate fails in
    1e-8 of cases.
    """
    links = 275
    f = Formula([[4 * k + i for i in range(1, 6)] for k in range(links)], n_vars=4 * links + 1)
    last, truth = np.ones(2), 0.0  # structures by the value of the shared variable, scaled
    for _ in range(links):
        last = np.array([[7.0, 8.0], [8.0, 8.0]]) @ last
        truth += math.log(last.sum())
        last /= last.sum()
    found = log_partition(f, method="telescope", seed=1, half_width=0.5)
    assert abs(found.value - truth) <= 3 * found.half_width
    assert found.half_width < 1.0
    with pytest.raises(BudgetExceeded, match="1101 variables is too large"):
        log_partition(f, method="enumerate")


@pytest.mark.process
def test_components_add_up_each_by_its_own_method() -> None:
    small, large = random_ksat(8, 10, 3, seed=5), random_ksat(26, 26, 5, seed=6)
    shift = [[v + int(np.sign(v)) * 8 for v in clause] for clause in large]
    f = Formula([*small.clauses(), *shift], n_vars=35)  # the last variable is free
    theta = np.random.default_rng(7).normal(size=35)
    found = log_partition(f, theta)
    by_part = (
        exact_log_z(small, theta[:8])
        + log_partition(large, theta[8:34], method="circuit").value
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
    single = log_partition(one, method="count").value
    for method in ("count", "circuit"):
        found = log_partition(Formula(clauses, n_vars=240), method=method)
        assert found.value == pytest.approx(10 * single, rel=1e-12)


@pytest.mark.process
def test_ganak_and_d4_agree_beyond_enumeration() -> None:
    for seed in range(3):
        f = random_ksat(36, 36, 5, seed=seed)
        theta = weights(f, seed)
        found = [log_partition(f, theta, method=method).value for method in ("count", "circuit")]
        assert found[0] == pytest.approx(found[1], abs=1e-11)


@pytest.mark.process
def test_values_far_outside_the_range_of_a_double() -> None:
    """P(C) below e^-900: counting must not call that 0, nor a circuit."""
    f = Formula([[i, i + 1] for i in range(1, 8)], n_vars=8)
    theta = np.full(8, -300.0) + weights(f)
    truth = exact_log_z(f, theta)
    assert truth < -890
    for method in EXACT:
        assert log_partition(f, theta, method=method).value == pytest.approx(truth, rel=1e-13)
    found = log_partition(f, 4 * theta, method="circuit")  # weights no double holds
    assert found.value == pytest.approx(exact_log_z(f, 4 * theta), rel=1e-13)
    with pytest.raises(BudgetExceeded, match="theta"):
        log_partition(f, 4 * theta, method="count")
    with pytest.raises(BudgetExceeded, match="resolution"):
        log_partition(f, 4 * theta, method="telescope")


@pytest.mark.process
def test_only_the_room_of_circuits_starts_d4(compilations: list) -> None:
    log_partition(random_ksat(24, 20, 4, seed=8), method="circuit")
    assert len(compilations) == 1
    sources = (ROOT / "src").rglob("*.py")
    assert [p.name for p in sources if "import py_d4" in p.read_text()] == ["compile_child.py"]


def test_circuit_of_a_known_text() -> None:
    text = "o 1 0\na 2 0\no 3 0\nt 4 0\n3 4 -1 2 0\n3 4 1 3 0\n2 3 0\n1 2 0\n"
    log_p = np.log([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]])
    assert Circuit.parse(text).log_value(log_p) == pytest.approx(math.log(0.7 * 0.6 + 0.3 * 0.1))
    assert Circuit.parse("f 1 0\n").log_value(log_p) == -math.inf
    assert Circuit.parse("t 1 0\n").log_value(log_p) == 0.0
    with pytest.raises(ValueError, match="order"):
        Circuit.parse("o 1 0\no 2 0\nt 3 0\n1 2 0\n2 3 1 0\n")


# --- unsatisfiable -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", EACH.values())
def test_unsatisfiable(method: str) -> None:
    with pytest.raises(Unsatisfiable):
        log_partition(pigeonhole(4), method=method, seed=1)
    with pytest.raises(Unsatisfiable):
        log_partition(Formula([[1, 2], []]), method=method)
    with pytest.raises(Unsatisfiable):
        log_partition(Formula([[1, 2]]), [-np.inf, -np.inf], method=method)


# --- budgets -------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize("method", [exact.by_counting, exact.by_circuits])
def test_a_child_is_killed_when_its_time_is_up(method) -> None:
    parts = reduce(blow_up(), None).parts
    started = time.monotonic()
    values, ended = method(parts, 0.5)
    assert values == [None] * len(parts) and ended.startswith("stopped after 0.5")
    assert time.monotonic() - started < 30  # a minute's work ended; no claim on speed
    with pytest.raises(ChildProcessError):  # nobody is left behind
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.process
def test_a_child_is_held_to_its_memory() -> None:
    large = reduce(random_ksat(100_000, 100_000, 5), None).parts
    values, ended = exact.by_counting(large, 60.0, memory=150 << 20)
    assert values == [None] * len(large) and "memory" in ended
    small = reduce(random_ksat(24, 24, 5), None).parts  # the same limit suffices where it should
    values, ended = exact.by_counting(small, 60.0, memory=150 << 20)
    assert ended == "done" and None not in values


@pytest.mark.process
def test_finished_components_outlive_the_kill() -> None:
    easy, hard = reduce(random_ksat(24, 20, 4, seed=8), None).parts, reduce(blow_up(), None).parts
    values, ended = exact.by_counting([*easy, *hard], 2.0)
    assert values[: len(easy)] != [None] * len(easy) and values[-1] is None
    assert "stopped" in ended and "variables" in ended


@pytest.mark.process
def test_an_exact_method_alone_raises_when_the_budget_ends() -> None:
    with pytest.raises(BudgetExceeded, match="stopped"):
        log_partition(blow_up(), method="count", seconds=0.5)
    with pytest.raises(BudgetExceeded, match="too large"):
        log_partition(blow_up(), method="enumerate")
    with pytest.raises(BudgetExceeded):
        log_partition(random_ksat(2000, 2000, 5), method="telescope", seconds=0.05, seed=1)


@pytest.mark.process
def test_auto_falls_through_and_says_why() -> None:
    f = random_ksat(150, 150, 5, seed=2)
    found = log_partition(f, weights(f), seconds=6.0, half_width=0.2, seed=3)
    assert found.method == "rejection" and not found.exact and 0 < found.half_width <= 0.2
    assert found.info["tried"].keys() == {"enumerate", "tables", "count", "circuit"}
    assert "stopped" in found.why and "too large" in found.why and "too wide" in found.why
    assert "proposals were valid" in found.why


def test_what_is_not_installed_is_skipped_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "GANAK", "no_such_module")
    monkeypatch.setitem(build.COMPILERS, "d4", ("nor_this_one", "D4"))
    f = random_ksat(500, 500, 5, seed=2)
    found = log_partition(f, half_width=0.2, seed=1)
    assert found.method == "bridge" and "ganak is not installed" in found.why
    with pytest.raises(NelsonError, match="samplers"):
        log_partition(f, method="count")


def test_too_little_time_gives_a_wider_interval_that_says_so() -> None:
    f = random_ksat(100, 100, 5, seed=2)
    options = {"method": "telescope", "seed": 1, "threads": 1}
    found = log_partition(f, weights(f), half_width=1e-5, seconds=2.0, **options)
    assert found.half_width > 1e-5 and not found.info["reached"] and "not reached" in found.why


def test_wrong_arguments() -> None:
    f = Formula([[1, 2]])
    for bad in (
        {"method": "guess"},
        {"half_width": 0.0},
        {"seconds": -1.0},
        {"threads": 0},
        {"device": "gpu"},
    ):
        with pytest.raises(FormulaError):
            log_partition(f, **bad)
    for theta in ([0.0], [0.0, np.nan], [[0.0, 0.0]], "ab"):
        with pytest.raises(FormulaError):
            log_partition(f, theta)
