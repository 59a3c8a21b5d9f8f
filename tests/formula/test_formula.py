"""Formula: normal form, evaluation, conditioning."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nelson.errors import FormulaError, Unsatisfiable
from nelson.formula import Formula
from nelson.formula.memo import Slot

N = 6
LITERALS = st.integers(1, N).flatmap(lambda v: st.sampled_from([v, -v]))
CLAUSES = st.lists(st.lists(LITERALS, max_size=4), max_size=12)
EVIDENCE = st.dictionaries(st.integers(1, N), st.booleans(), max_size=N)
ALL = np.array(list(itertools.product([False, True], repeat=N)))


def holds(clauses: list[list[int]], x: np.ndarray) -> bool:
    """Plain evaluation, literal by literal."""
    return all(any(x[abs(lit) - 1] == (lit > 0) for lit in clause) for clause in clauses)


def solutions(f: Formula) -> set[tuple[bool, ...]]:
    return {tuple(x) for x in ALL[f.satisfied(ALL)].tolist()}


# --- normal form ----------------------------------------------------------------------------------


def test_normal_form() -> None:
    f = Formula([[3, 1, 3], [1, -2, 2], [], [1, 3], [-4], [-4, -4]])
    assert f.clauses() == [[3, 1], [], [-4]]
    assert f.has_empty_clause
    assert (f.n_vars, f.n_clauses, f.n_aux, f.n_total) == (4, 3, 0, 4)
    assert not f.satisfied(np.zeros(4, bool))


def test_variables_that_no_clause_mentions_are_variables() -> None:
    f = Formula([[1, 2]], n_vars=5)
    assert f.n_vars == 5
    assert f.satisfied([0, 1, 0, 0, 0])


def test_empty_formulas() -> None:
    assert Formula().n_vars == 0
    assert Formula().satisfied(np.zeros((3, 0), bool)).tolist() == [True] * 3
    assert Formula(n_vars=2).satisfied(np.zeros((0, 2), bool)).shape == (0,)
    assert not Formula([[]]).satisfied(np.zeros(0, bool))


def test_two_dimensional_array_and_pysat() -> None:
    clauses = [[1, -2, 3], [-1, 2, -3]]
    assert Formula(np.array(clauses)) == Formula(clauses)

    class CNF:  # what pysat.formula.CNF looks like
        def __init__(self) -> None:
            self.clauses, self.nv = clauses, 4

    assert Formula.from_pysat(CNF()) == Formula(clauses, n_vars=4)
    assert Formula.from_arrays([1, -2, 3, -1, 2, -3], [0, 3, 6]) == Formula(clauses)


def test_pysat_itself() -> None:
    pysat = pytest.importorskip("pysat.formula")
    cnf = pysat.CNF(from_clauses=[[1, 2], [-2, 5]])
    assert Formula.from_pysat(cnf).clauses() == [[1, 2], [-2, 5]]


@pytest.mark.slow
@given(CLAUSES)
def test_normal_form_is_equivalent_minimal_and_stable(clauses: list[list[int]]) -> None:
    f = Formula(clauses, n_vars=N)
    expected = [holds(clauses, x) for x in ALL]
    assert f.satisfied(ALL).tolist() == expected
    kept = f.clauses()
    assert len({frozenset(clause) for clause in kept}) == len(kept)
    assert all(len({abs(lit) for lit in clause}) == len(clause) for clause in kept)
    assert Formula(kept, n_vars=N) == f


def test_blocks_of_the_normal_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, so that repetitions lie in different ones."""
    rng = np.random.default_rng(7)
    clauses = [rng.choice([1, -1], 3) * rng.integers(1, 6, 3) for _ in range(500)]
    whole = Formula(clauses)
    monkeypatch.setattr("nelson.formula.canonical.BLOCK", 10)
    monkeypatch.setattr("nelson.formula.evaluate.BLOCK", 64)
    assert Formula(clauses) == whole
    assert whole.satisfied(ALL[:, :5]).tolist() == [holds(whole.clauses(), x) for x in ALL]


# --- a value, not an object -----------------------------------------------------------------------


def test_immutable_equal_by_content_hashable() -> None:
    f, g = Formula([[1, 2]], theta=[0.5, 1]), Formula([[1, 2]], theta=[0.5, 1])
    assert f == g
    assert hash(f) == hash(g)
    assert f != Formula([[1, 2]])
    assert f != Formula([[2, 1]], theta=[0.5, 1])
    assert f != Formula([[1, 2]], n_vars=3, theta=[0.5, 1, 0])
    assert f != "f"
    assert Formula([[1]], theta=[-0.0]) == Formula([[1]], theta=[0.0])
    with pytest.raises(AttributeError):
        f.n_vars = 3  # type: ignore[misc]
    for array in (f.literals, f.offsets, f.theta):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_the_callers_arrays_are_copied() -> None:
    literals, offsets, theta = np.array([1, 2], np.int32), np.array([0, 2]), np.zeros(2)
    f = Formula.from_arrays(literals, offsets, theta=theta)
    literals[0] = theta[0] = 2
    assert f == Formula([[1, 2]], theta=[0, 0])
    literals[0] = 1  # still writeable


def test_repr_is_short() -> None:
    f = Formula([[1, 2]], theta=[0, 1], projection=[1]).xor(range(1, 3))
    assert repr(f) == "<Formula: 2 variables, 2 clauses, weighted, projected on 1>"
    assert "auxiliary" in repr(Formula(n_vars=9).xor(range(1, 10)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clauses": [[1, 0]]}, "literal 0"),
        ({"clauses": [[1.5]]}, "float64"),
        ({"clauses": [[True]]}, "bool"),
        ({"clauses": [["1"]]}, "non-zero integers"),
        ({"clauses": [1, 2]}, "a list of literals"),
        ({"clauses": [[2**31]]}, "at most"),
        ({"clauses": [[-(2**63)]]}, "at most"),
        ({"clauses": [[2**70]]}, "non-zero integers"),
        ({"clauses": [[5]], "n_vars": 4}, "variable 5"),
        ({"n_vars": -1}, "a count"),
        ({"n_vars": 2**28 + 1}, "at most"),
        ({"n_vars": 2, "theta": [1.0]}, r"\(2,\)"),
        ({"n_vars": 2, "theta": [1.0, np.nan]}, "variable 2 is NaN"),
        ({"n_vars": 2, "theta": ["a", "b"]}, "2 numbers"),
        ({"n_vars": 2, "projection": [3]}, "projection on variable 3"),
    ],
)
def test_bad_arguments(arguments: dict, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        Formula(**arguments)


def test_bad_arrays() -> None:
    for literals, offsets in (([1], [0]), ([1], [1, 1]), ([1, 2], [0, 2, 1, 2]), ([], [])):
        with pytest.raises(FormulaError):
            Formula.from_arrays(literals, offsets)


def test_bad_assignments() -> None:
    with pytest.raises(FormulaError, match="shape"):
        Formula([[1, 2]]).satisfied([True])
    with pytest.raises(FormulaError, match="booleans"):
        Formula([[1, 2]]).satisfied([2, 0])


def test_shapes_of_satisfied() -> None:
    f = Formula([[1, -2]], n_vars=2)
    x = np.random.default_rng(0).random((3, 5, 2)) < 0.5
    assert f.satisfied(x).shape == (3, 5)
    assert f.satisfied(x).tolist() == (x[..., 0] | ~x[..., 1]).tolist()
    assert f.satisfied([1, 1]).shape == ()


def test_hidden_variables_without_constraints_need_values() -> None:
    f = Formula([[1, 2]], n_vars=1, n_aux=1)
    assert f.satisfied([[0, 1]]).tolist() == [True]
    with pytest.raises(FormulaError, match="all 2 variables"):
        f.satisfied([[0]])
    with pytest.raises(FormulaError, match="explains"):
        f.xor([1])


# --- conditioning ---------------------------------------------------------------------------------


def test_given_propagates() -> None:
    f = Formula([[-1, 2], [-2, 3, 4], [5, 6], [1, 6]], theta=range(6), projection=[2])
    g = f.given({1: True, 3: False})
    assert g.clauses() == [[1], [2], [-3], [4], [5, 6]]
    assert (g.n_vars, g.projection, g.theta.tolist()) == (6, (2,), [0, 1, 2, 3, 4, 5])
    assert f.given([1, -3]) == g
    assert f.given(np.array([1, -3])) == g
    assert f.given([]).clauses() == f.clauses()


def test_given_contradictions() -> None:
    f = Formula([[-1, 2], [-1, -2]])
    assert f.given([-1]).clauses() == [[-1]]
    with pytest.raises(Unsatisfiable, match="given 1"):
        f.given([1])
    with pytest.raises(Unsatisfiable, match="contradicts itself"):
        f.given([2, -2])
    for g in (Formula([[]]), Formula([[1], [-1]])):
        with pytest.raises(Unsatisfiable):
            g.given([])


def test_given_bad_evidence() -> None:
    f = Formula([[1, 2]])
    for evidence in ([0], [3], {-3: True}, [1.0], [True]):
        with pytest.raises(FormulaError):
            f.given(evidence)
    with pytest.raises(FormulaError):  # hidden variables are not the caller's
        Formula(n_vars=9).xor(range(1, 10)).given([10])


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(CLAUSES, EVIDENCE)
def test_given_keeps_exactly_the_solutions_that_agree(
    clauses: list[list[int]], evidence: dict[int, bool]
) -> None:
    f = Formula(clauses, n_vars=N)
    agree = {x for x in solutions(f) if all(x[v - 1] == b for v, b in evidence.items())}
    try:
        g = f.given(evidence)
    except Unsatisfiable:
        assert not agree
        return
    assert solutions(g) == agree
    # A fixpoint: no clause is satisfied or shortened by a unit, and every unit is its own clause.
    units = {clause[0] for clause in g if len(clause) == 1}
    assert {v if b else -v for v, b in evidence.items()} <= units
    for clause in g:
        if len(clause) > 1:
            assert not any(lit in units or -lit in units for lit in clause)
    assert g.given([]) == g


def test_given_is_linear_on_a_long_chain() -> None:
    """1 -> 2 -> ... -> n: each step of the propagation frees the next, and order does not help."""
    n = 200_000
    v = np.arange(1, n)
    clauses = np.stack([-v, v + 1], axis=1)[::-1]
    g = Formula(clauses).given([1])
    assert g.n_clauses == n
    assert (g.literals == np.arange(1, n + 1)).all()


def test_copies_and_worker_processes():
    import copy
    import pickle

    f = Formula([[1, 2], [-1, 3]], n_vars=5, theta=[0.1, 0.2, 0.3, 0.4, 0.5], projection=[2]).xor(
        [1, 2, 3, 4, 5], True
    )
    slot = Slot("something compiled")
    f.memo.put(slot, lambda: None)  # never travels
    assert copy.copy(f) is f
    assert copy.deepcopy([f])[0] is f
    g = pickle.loads(pickle.dumps(f))
    assert g == f
    assert g.constraints == f.constraints
    assert g.memo.get(slot) is None
