"""`nelson.compat.pycmsgen.Solver` beside pycmsgen's own, call by call; and the law of its draws."""

from __future__ import annotations

import itertools
import random
from array import array

import numpy as np
import pytest
from scipy.stats import chisquare

import nelson.compat
from nelson.compat.pycmsgen import Solver

#: (method, arguments, keywords), one after the other on one solver.
CALLS = [
    ("nb_vars", (), {}),
    ("get_model", (), {}),
    ("solve", (), {}),
    ("add_clause", ([1, 2, 4],), {}),
    ("solve", ([-1, -2, -4],), {}),
    ("solve", (), {"assumptions": [-1, -2, -4]}),
    ("is_satisfiable", (), {}),
    ("nb_vars", (), {}),
    ("add_clause", ([0],), {}),
    ("add_clause", (3,), {}),
    ("add_clause", (["a"],), {}),
    ("add_clause", ([1.5],), {}),
    ("add_clause", ([2**40],), {}),
    ("add_clause", ((-1, 7),), {}),
    ("add_clause", (range(1, 3),), {}),
    ("solve", ([9],), {}),
    ("solve", ([0],), {}),
    ("solve", (), {"verbose": -1}),
    ("solve", (), {"time_limit": -1.0}),
    ("solve", (), {"confl_limit": -1}),
    ("solve", (), {"foo": 1}),
    ("set_var_weight", (1, 2.0), {}),
    ("set_var_weight", (0, 0.5), {}),
    ("set_var_weight", (9, 0.5), {}),
    ("nb_vars", (), {}),
    ("add_xor_clause", ([1, -2], True), {}),
    ("add_xor_clause", ([1, 2], 1), {}),
    ("add_xor_clause", ([1, 2], True), {}),
    ("solve", ([1, 2],), {}),
    ("add_clauses", ([[3], [-3, 5]],), {}),
    ("add_clauses", ([1, 0],), {}),
    ("add_clauses", (3,), {}),
    ("add_clauses", (array("i", [10, 11, 0, 0, -12, 0]),), {}),
    ("add_clauses", (np.array([10, -11, 0]),), {}),
    ("add_clauses", (array("q", [1, 2]),), {}),
    ("add_clauses", (array("d", [1, 0]),), {}),
    ("add_clauses", (np.zeros((2, 2), np.int32),), {}),
    ("nb_vars", (), {}),
    ("solve", ([12],), {}),
    ("solve", ([-10],), {}),
    ("solve", ([-5],), {}),
    ("add_clause", ([-3],), {}),
    ("solve", (), {}),
    ("is_satisfiable", (), {}),
    ("get_model", (), {}),
]


def outcome(solver, method, arguments, keywords):
    """The result, with a solution as its length; or the error."""
    try:
        found = getattr(solver, method)(*arguments, **keywords)
    except (TypeError, ValueError, SystemError) as error:
        # Of arguments that Python itself refuses the text depends on who refuses.
        return type(error), "" if "keyword" in str(error) else str(error)
    if isinstance(found, tuple) and found[1] is not None:
        return found[0], found[1][0], len(found[1]), {type(x) for x in found[1][1:]}
    return found


def test_each_call_has_the_outcome_of_the_original():
    theirs = pytest.importorskip("pycmsgen", reason="NO PYCMSGEN: calls are not compared")
    one, other = theirs.Solver(seed=3), Solver(seed=3)
    for call in CALLS:
        assert outcome(other, *call) == outcome(one, *call), call
    for wrong in ({"verbose": -1}, {"time_limit": -1.0}, {"confl_limit": -1}, {"foo": 1}):
        assert outcome_of_new(Solver, wrong) == outcome_of_new(theirs.Solver, wrong)
    assert {name for name in dir(theirs.Solver) if name[0] != "_"} <= set(dir(Solver))
    assert set(dir(theirs)) - {"__version__"} <= set(dir(nelson.compat.pycmsgen)) | {"_"}


def outcome_of_new(cls, keywords):
    try:
        cls(**keywords)
    except (TypeError, ValueError) as error:
        return type(error), "" if "keyword" in str(error) else str(error)
    return None


@pytest.mark.parametrize("seed", range(8))
def test_random_formulas_have_the_solutions_of_the_original(seed):
    theirs = pytest.importorskip("pycmsgen", reason="NO PYCMSGEN: solutions are not compared")
    chosen = random.Random(seed)
    one, other = theirs.Solver(), Solver()
    clauses, xors = [], []
    for _ in range(chosen.randint(2, 25)):
        clause = [chosen.choice([-1, 1]) * chosen.randint(1, 7) for _ in range(3)]
        clauses.append(clause)
        one.add_clause(clause), other.add_clause(clause)
    for _ in range(chosen.randint(0, 2)):
        xor = chosen.sample(range(1, 8), 3), chosen.random() < 0.5
        xors.append(xor)
        one.add_xor_clause(*xor), other.add_xor_clause(*xor)
    for v in range(1, one.nb_vars() + 1):
        for given in ([v], [-v]):
            assert one.solve(given)[0] == other.solve(given)[0]
    found, model = other.solve()
    assert found == one.solve()[0]
    if found:
        assert all(any(model[abs(x)] == (x > 0) for x in clause) for clause in clauses)
        assert all(sum(model[v] for v in xor) % 2 == parity for xor, parity in xors)
        assert other.get_model() == [v if x else -v for v, x in enumerate(model)][1:]


def shares(solver: Solver, n: int) -> dict[tuple, int]:
    found: dict[tuple, int] = {}
    for _ in range(n):
        row = solver.solve()[1][1:]
        found[row] = found.get(row, 0) + 1
    return found


def test_draws_have_the_law_of_the_weights():
    """Chi-square at 1e-6; the twins are the uniform law, and an unweighted solver."""
    weights, n = {1: 0.9, 2: 0.3}, 4000
    rows = [r for r in itertools.product([False, True], repeat=3) if any(r)]
    law = [(0.9 if r[0] else 0.1) * (0.3 if r[1] else 0.7) for r in rows]
    expected = [n * p / sum(law) for p in law]
    solver, plain = Solver(seed=1), Solver(seed=1)
    for one in (solver, plain):
        one.add_clause([1, 2, 3])
    for v, weight in weights.items():
        solver.set_var_weight(v, weight)
    weighted, uniform = shares(solver, n), shares(plain, n)
    found = [weighted.get(r, 0) for r in rows]
    assert chisquare(found, expected).pvalue > 1e-6
    assert chisquare(found, [n / 7] * 7).pvalue < 1e-6
    assert chisquare([uniform.get(r, 0) for r in rows], [n / 7] * 7).pvalue > 1e-6


def test_weights_of_zero_and_one_are_facts():
    solver = Solver()
    solver.add_clause([1, 2, 3])
    solver.set_var_weight(1, 0), solver.set_var_weight(2, 1)
    assert {row[:2] for row in shares(solver, 50)} == {(False, True)}
    solver.add_clause([-2])
    assert solver.solve() == (False, None)


def test_the_same_seed_gives_the_same_solutions():
    def drawn(seed):
        solver = Solver(seed=seed)
        solver.add_clauses([[1, 2], [3, 4, 5], [-1, -6]])
        return [solver.solve()[1] for _ in range(70)] + [solver.solve([1])[1] for _ in range(5)]

    assert drawn(4) == drawn(4) != drawn(5)


def test_install_replaces_the_modules(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pycmsgen", None)
    monkeypatch.setitem(__import__("sys").modules, "pyunigen", None)
    nelson.compat.install()
    import pycmsgen
    import pyunigen

    assert pycmsgen.Solver is Solver
    assert pyunigen.Sampler is nelson.compat.pyunigen.Sampler
