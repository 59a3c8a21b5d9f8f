"""The exact number of solutions: against brute force, and against numbers known by other means."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.errors import BudgetExceeded, FormulaError, Unsatisfiable
from nelson.exact import counter
from nelson.exact.circuit import build
from nelson.exact.circuit import solutions as circuits
from nelson.exact.compiled import compiled
from nelson.exact.law import law
from nelson.exact.queries import count
from nelson.formula import Formula
from nelson.policy import ExactPolicy, Policy
from tests.problems import pigeonhole, random_ksat
from tests.structured.circuits import ordered

needs_d4 = pytest.mark.skipif(build.missing("d4") is not None, reason="D4 is not installed")
needs_ganak = pytest.mark.skipif(counter.missing() is not None, reason="ganak is not installed")
#: No structure is enumerated: circuits decide. And: nor is anything compiled.
CIRCUITS = Policy(exact=ExactPolicy(few_cells=0, inputs=0))
COUNTER = Policy(
    exact=ExactPolicy(few_cells=0, inputs=0, structures=0, effort=0.0, compiler_share=0.0)
)


def all_assignments(n):
    return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)


def small_formulas():
    """Random clauses over up to 10 variables, some of which are in no clause."""
    for seed in range(40):
        random = np.random.default_rng(seed)
        n, k = int(random.integers(4, 11)), int(random.integers(2, 4))
        f = random_ksat(n - 1, int(random.integers(1, 3 * n)), k, seed=seed)
        evidence = random.permutation(n)[: random.integers(0, 3)] + 1
        signs = random.choice([-1, 1], len(evidence))
        yield Formula(f.clauses(), n_vars=n), tuple((evidence * signs).tolist())


def brute_force(formula, evidence):
    states = all_assignments(formula.n_vars)
    good = formula.satisfied(states)
    for literal in evidence:
        good &= states[:, abs(literal) - 1] == (literal > 0)
    return states[good]


def as_set(rows):
    return sorted(map(bytes, np.packbits(rows, axis=1)))


def test_small_formulas_against_brute_force():
    numbers = [
        (count(f, evidence), len(brute_force(f, evidence))) for f, evidence in small_formulas()
    ]
    assert all(mine == right for mine, right in numbers)
    assert (
        sum(right == 0 for _, right in numbers) > 2 and sum(right > 9 for _, right in numbers) > 9
    )


@needs_d4
@pytest.mark.process
@pytest.mark.slow
def test_circuits_against_brute_force():
    """Number and rows by the circuit. It is not smooth, so branches leave variables out."""
    for f, evidence in small_formulas():
        right = brute_force(f, evidence)
        assert count(f, evidence, policy=CIRCUITS) == len(right)
        try:
            circuit = compiled(f).circuit
        except Unsatisfiable:
            assert len(right) == 0
            continue
        # Some columns only, in another order, if they determine the others: here, all of them.
        columns = np.random.default_rng(len(right)).permutation(f.n_vars)
        rows = circuits.rows(circuit, columns, evidence)
        assert as_set(rows) == as_set(right[:, columns])


@needs_d4
@pytest.mark.process
def test_rows_on_columns_that_determine_the_others():
    """Variables 4.. are functions of 1..3: each solution appears once."""
    f = Formula([[-4, 1], [-4, 2], [4, -1, -2], [-5, 4], [-5, 3], [5, -4, -3], [1, 3]])
    rows = circuits.rows(compiled(f).circuit, np.arange(3))
    assert as_set(rows) == as_set(brute_force(f, ())[:, :3])


@needs_d4
@pytest.mark.process
def test_numbers_beyond_a_machine_word():
    f = Formula([[1, 2, 3]], n_vars=300)
    assert count(f) == 7 << 297
    assert count(f, [-1, 250]) == 3 << 296
    assert count(f, [-1, -2, -3]) == 0
    assert count(f, [5, -5]) == 0
    many = Formula([[3 * k + 1, 3 * k + 2, 3 * k + 3] for k in range(30)])  # 30 components
    assert count(many) == 7**30
    assert count(many, [-1, -2]) == 7**29


@needs_d4
@pytest.mark.process
def test_ordered_numbers_with_gaps():
    """a_1 + g <= a_2 of 8 and 3 bits: counted by hand."""
    right = sum(256 - a - g for a in range(256) for g in range(8) if a + g < 256)
    f = ordered(2, 8, 3)
    assert count(f) == right
    # Three numbers in order with gaps of 0 or 1: by adding up.
    right = sum(
        64 - b - h
        for a in range(64)
        for g in range(2)
        for b in range(a + g, 64)
        for h in (0, 1)
        if b + h < 64
    )
    assert count(ordered(3, 6, 1)) == right


@pytest.mark.process
def test_no_solution_counts_zero():
    assert count(Formula([[]], n_vars=3)) == 0
    assert count(Formula([[1], [-1]])) == 0
    assert count(pigeonhole(4)) == 0
    assert count(pigeonhole(5)) == 0


def test_no_clause_and_no_variable():
    assert count(Formula([], n_vars=0)) == 1
    assert count(Formula([], n_vars=3)) == 8


@needs_ganak
@pytest.mark.process
def test_ganak_counts_what_does_not_compile():
    f = Formula([[3 * k + 1, 3 * k + 2, 3 * k + 3] for k in range(50)], n_vars=200)
    assert by_counter(f) == 7**50 << 50
    assert by_counter(f, [-1, -2, 200]) == 7**49 << 49
    assert by_counter(pigeonhole(4)) == 0
    assert by_counter(Formula([], n_vars=15_000)) == 1 << 15_000  # over 4300 decimal digits


def by_counter(formula, evidence=()):
    return counter.GanakCounter(formula, Budget.of(60.0)).count(evidence)


@pytest.mark.process
def test_what_was_not_counted_says_why(monkeypatch):
    f = random_ksat(20, 30, 3, seed=1)
    monkeypatch.setattr("nelson.exact.law.compiled", lambda *_, **__: None)
    with pytest.raises(BudgetExceeded, match=r"were not counted: ganak: stopped; give it more"):
        count(f, seconds=1e-9, policy=COUNTER)
    monkeypatch.setattr(counter, "GANAK", "no_such_module")
    with pytest.raises(BudgetExceeded, match=r"were not counted: a component of .* install ganak"):
        count(f, policy=COUNTER)


def test_bad_input():
    with pytest.raises(FormulaError, match="given literal 9"):
        count(nelson.Formula([[1, 2]]), [9])
    with pytest.raises(FormulaError, match="seconds"):
        count(nelson.Formula([[1, 2]]), seconds=-1)


@needs_d4
@pytest.mark.process
def test_the_count_agrees_with_log_z():
    f = random_ksat(30, 40, 3, seed=7)
    assert math.log(count(f)) == pytest.approx(compiled(f).log_z(np.zeros((1, 30)))[0])
    assert law(f).rows(1 << 24).shape == (count(f), 30)
