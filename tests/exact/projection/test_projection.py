"""Projected solutions: every route finds a formula or a circuit that has each of them once.

All of it is compared with brute force over 2^n assignments. Nothing here is random beyond fixed
seeds, so there are no false alarms.
"""

from __future__ import annotations

import numpy as np
import pytest

from nelson.errors import Unsatisfiable
from nelson.exact.circuit import solutions as circuits
from nelson.exact.circuit.decisions import NnfCircuit
from nelson.exact.circuit.frontier import circuit_of_rows
from nelson.exact.law import law
from nelson.exact.projection import circuits as routes
from nelson.exact.projection import dependence as padoa
from nelson.exact.projection import projected, quantification, search
from nelson.exact.queries import count
from nelson.formula import Formula
from tests.problems import all_states, encoded, random_ksat
from tests.structured.circuits import random_circuit

AND = [[-3, 1], [-3, 2], [3, -1, -2]]  # x3 = x1 and x2


def brute_force(f, shown, evidence=()):
    """The assignments of `shown` that a solution extends, (m, k) bool, sorted."""
    states = all_states(f.n_vars)
    states = states[np.asarray(f.satisfied(states), bool)]
    for literal in evidence:
        states = states[states[:, abs(literal) - 1] == (literal > 0)]
    return np.unique(states[:, np.array(shown) - 1], axis=0)


def found(f, shown, evidence=()):
    """The projected solutions that `projected` finds, sorted; and its route."""
    try:
        result = projected(f, shown, evidence)
        if result.formula is None:
            return None, ""
        every = law(result.formula, evidence)
    except Unsatisfiable:
        return np.zeros((0, len(shown)), bool), "unsatisfiable"
    rows = every.rows(1 << 20, np.array(shown) - 1)
    assert every.count() == len(rows) == len(np.unique(rows, axis=0)), "a projected solution twice"
    return np.unique(rows, axis=0), result.route


def cases(count):
    """Random formulas with random projections, every third one under evidence."""
    for seed in range(count):
        rng = np.random.default_rng([seed, 5])
        n = int(rng.integers(6, 12))
        f = random_ksat(n, int(rng.integers(2, 3 * n)), int(rng.integers(2, 5)), seed)
        shown = rng.choice(n, int(rng.integers(1, n)), replace=False) + 1
        given = (rng.choice(n, 2, replace=False) + 1) * rng.choice([-1, 1], 2)
        yield f, shown.tolist(), given.tolist() if seed % 3 == 0 else []


def no_resolution(monkeypatch):
    monkeypatch.setattr(quantification, "GROWTH", ())


def no_elimination(monkeypatch):
    no_resolution(monkeypatch)
    monkeypatch.setattr(search, "by_cases", lambda done, n: None)


def no_proof(monkeypatch):
    monkeypatch.setattr(padoa, "ALL_CONFLICTS", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (None, {"determined", "eliminated"}),
        (no_proof, {"eliminated"}),
        (no_resolution, {"determined", "eliminated", "circuit"}),
        (no_elimination, {"determined", "eliminated", "circuit"}),
    ],
)
def test_every_route_has_each_projected_solution_once(change, expected, monkeypatch):
    if change:
        change(monkeypatch)
    taken = set()
    for f, shown, evidence in cases(60):
        rows, route = found(f, shown, evidence)
        want = brute_force(f, shown, evidence)
        assert len(rows) == len(want) and np.array_equal(rows, want), (f.clauses(), shown, evidence)
        taken.add(route)
    assert expected <= taken


@pytest.mark.process
def test_d4_compiles_projected_solutions(monkeypatch):
    pytest.importorskip("py_d4")
    no_elimination(monkeypatch)
    monkeypatch.setattr(routes, "FEW", 0)
    monkeypatch.setattr(routes, "MANY", 0)
    taken = set()
    for f, shown, evidence in cases(12):
        rows, route = found(f, shown, evidence)
        if rows is None:  # a component without projected variables is not compiled
            continue
        want = brute_force(f, shown, evidence)
        assert len(rows) == len(want) and np.array_equal(rows, want), (f.clauses(), shown, evidence)
        taken.add(route)
    assert "circuit" in taken


@pytest.mark.parametrize("name", encoded())
def test_auxiliary_variables(name):
    f = encoded()[name]
    shown = [5, 2, 7]
    rows, _ = found(f, shown)
    assert np.array_equal(rows, brute_force(f, shown))
    assert count(f, project=shown) == len(rows)


def test_padoa_finds_the_functions_of_the_projected_variables():
    # x3 = x1 and x2, x5 = x3 xor x4: both are functions of 1, 2, 4. x6 is not.
    xor = [[-5, 3, 4], [-5, -3, -4], [5, -3, 4], [5, 3, -4]]
    test = padoa.determined([*AND, *xor, [6, 1], [-6, 5, 2]], 6, np.array([0, 1, 3]))
    assert test.proved.tolist() == [2, 4] and test.refuted.tolist() == [5]
    result = projected(Formula([*AND, *xor]), [1, 2, 4])
    assert result.route == "determined" and "Padoa" in result.why
    assert result.formula == Formula([*AND, *xor])


@pytest.mark.slow
def test_gates_need_no_search():
    f = random_circuit(inputs=30, gates=1_000, outputs=0, seed=1)
    test = padoa.determined(f.clauses(), f.n_vars, np.arange(30))
    assert len(test.proved) == f.n_vars - 30 and test.conflicts == 0
    # Twin: a variable that only half a gate defines is no function of the inputs.
    half = [clause for clause in f if -f.n_vars not in clause]
    assert f.n_vars - 1 not in padoa.determined(half, f.n_vars, np.arange(30)).proved


def test_padoa_agrees_with_brute_force():
    for f, shown, _ in cases(60):
        test = padoa.determined(f.clauses(), f.n_vars, np.array(shown) - 1)
        states = all_states(f.n_vars)
        states = states[f.satisfied(states)]
        others = np.setdiff1d(np.unique(np.abs(f.literals)), shown)
        many = len(np.unique(states[:, np.array(shown) - 1], axis=0))
        functions = [
            v - 1
            for v in others
            if len(np.unique(states[:, np.array([*shown, v]) - 1], axis=0)) == many
        ]
        assert test.proved.tolist() == functions
        assert test.refuted.tolist() == sorted(set(others - 1) - set(functions))


def test_without_conflicts_padoa_leaves_questions_open_and_the_projection_stays_right(monkeypatch):
    f = random_ksat(11, 38, 3, seed=2)
    shown = [1, 2, 3, 4, 5]
    monkeypatch.setattr(padoa, "ALL_CONFLICTS", 1)
    test = padoa.determined(f.clauses(), 11, np.array(shown) - 1)
    assert len(test.proved) + len(test.refuted) < 6
    assert np.array_equal(found(f, shown)[0], brute_force(f, shown))


def test_a_variable_in_no_clause_does_not_double_the_count():
    f = Formula(AND, n_vars=5)
    result = projected(f, [1, 2])
    assert result.route == "eliminated" and count(result.formula) == 4
    assert count(f, project=[1, 2, 4]) == 8


def left_over(clauses, variables):
    f, none = Formula(clauses), np.zeros(0, np.int32)
    return quantification.Remainder(none, f.literals, f.offsets, np.array(variables) - 1)


@pytest.mark.parametrize("hidden", [1, 2, 4])
def test_cases_remove_a_cluster_and_everything_new_is_a_function_of_the_others(hidden):
    for seed in range(20):
        f, shown = random_ksat(8, 14, 3, seed=seed), list(range(1, 9 - hidden))
        want = brute_force(f, shown)
        try:
            literals, offsets, new = quantification.by_cases(
                left_over(f.clauses(), range(9 - hidden, 9)), 8
            )
        except Unsatisfiable:
            assert not len(want)
            continue
        g = Formula.from_arrays(literals, offsets, n_vars=8 + new)
        used = np.unique(np.abs(g.literals))
        assert not np.isin(used, range(9 - hidden, 9)).any()
        test = padoa.determined(g.clauses(), g.n_vars, np.array(shown) - 1)
        assert len(test.proved) == np.isin(used, range(9, 9 + new)).sum() and not len(test.refuted)
        assert len(want) == 0 or padoa_count(g, shown) == len(want)


def padoa_count(f, shown):
    """The number of projected solutions of a formula whose other variables are functions."""
    unused = np.setdiff1d(np.arange(1, f.n_vars + 1), [*np.unique(np.abs(f.literals)), *shown])
    return count(Formula([*f, *([-int(v)] for v in unused)], n_vars=f.n_vars))


def test_a_large_cluster_does_not_go_by_cases(monkeypatch):
    clauses = [[3, 4, 1], [-3, -4, 2], [3, 2]]
    assert quantification.by_cases(left_over(clauses, [3, 4]), 4) is not None
    monkeypatch.setattr(quantification, "CLUSTER", 1)
    assert quantification.by_cases(left_over(clauses, [3, 4]), 4) is None


def test_elimination_that_grows_too_much_is_taken_back(monkeypatch):
    monkeypatch.setattr(quantification, "TIMES", 0)
    monkeypatch.setattr(quantification, "MORE", 8)
    for f, shown, evidence in cases(30):
        assert np.array_equal(found(f, shown, evidence)[0], brute_force(f, shown, evidence))


def test_no_route(monkeypatch):
    no_elimination(monkeypatch)
    monkeypatch.setattr(routes, "FEW", 2)
    monkeypatch.setattr(routes, "MANY", 2)
    monkeypatch.setattr(routes, "missing", lambda compiler: "D4 is not installed")
    result = projected(Formula([[1, 2, 3], [3, 4, 5], [-3, 1, 5]]), [1, 2, 4])
    assert result.formula is None and "D4 is not installed" in result.why


@pytest.mark.parametrize("columns", [1, 3, 70])
def test_a_circuit_of_rows(columns):
    rng = np.random.default_rng(columns)
    rows = np.unique(rng.integers(0, 2, (40, columns)).astype(bool), axis=0)
    own = rng.permutation(columns + 4)[:columns]
    circuit = circuit_of_rows(rows, own)
    got = circuits.rows(circuit, own)
    assert np.array_equal(np.unique(got, axis=0), rows) and len(got) == len(rows)


def test_a_circuit_that_decides_other_variables_first_is_not_projected():
    # Decides x1, then x2 in both branches: projected on x2, the branches of x1 are not exclusive.
    text = "o 1 0\no 2 0\nt 3 0\n2 3 2 0\n2 3 -2 0\n1 2 1 0\n1 3 -1 2 0\n"
    circuit = NnfCircuit.parse(text)
    assert routes.without_hidden(circuit, np.array([False, True])) is None
    assert routes.without_hidden(circuit, np.array([True, False])) is not None
