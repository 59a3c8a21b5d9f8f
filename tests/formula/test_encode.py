"""XOR, cardinality and pseudo-Boolean constraints: the right solutions, one completion each."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nelson.errors import FormulaError
from nelson.formula import Formula, encode

pysat_solvers = pytest.importorskip("pysat.solvers")
pysat_card = pytest.importorskip("pysat.card")


def cube(n: int) -> np.ndarray:
    return np.array(list(itertools.product([False, True], repeat=n)), dtype=bool).reshape(-1, n)


def completions(clauses: list[list[int]], n: int) -> Counter[tuple[bool, ...]]:
    """Visible solution -> number of full solutions that extend it, by a solver."""
    count: Counter[tuple[bool, ...]] = Counter()
    if [] in clauses:
        return count
    top = max([n, *(abs(lit) for clause in clauses for lit in clause)])
    with pysat_solvers.Solver(
        "m22", bootstrap_with=[*clauses, *([v, -v] for v in range(1, top))]
    ) as s:
        s.add_clause([top, -top])
        for model in s.enum_models():
            full = dict.fromkeys(range(1, top + 1), False) | {abs(lit): lit > 0 for lit in model}
            count[tuple(full[v] for v in range(1, n + 1))] += 1
    return count


def check(f: Formula, expected: np.ndarray) -> None:
    """f's visible solutions are `expected` of the cube, each with one completion."""
    x = cube(f.n_vars)
    assert f.satisfied(x).tolist() == expected.tolist()
    found = completions(f.clauses(), f.n_vars)
    assert set(found) == {tuple(row) for row in x[expected].tolist()}
    assert set(found.values()) <= {1}


def literal_values(literals: list[int], x: np.ndarray) -> np.ndarray:
    columns = [x[:, abs(lit) - 1] == (lit > 0) for lit in literals]
    return np.array(columns, dtype=int).reshape(len(literals), len(x)).T


@pytest.mark.slow
def test_pysat_encodings_have_many_completions_and_ours_one() -> None:
    """Why PySAT's counters are not used: a uniform draw over them is not uniform over x."""
    n, k = 6, 3
    kinds = pysat_card.EncType
    for kind in (kinds.seqcounter, kinds.totalizer, kinds.cardnetwrk, kinds.kmtotalizer):
        theirs = pysat_card.CardEnc.atmost(list(range(1, n + 1)), k, encoding=kind)
        counts = completions(theirs.clauses, n)
        assert len(set(counts.values())) > 1, kind
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "MAX_PLAIN_CLAUSES", 0)
        ours = Formula(n_vars=n).at_most(range(1, n + 1), k)
    assert ours.n_aux > 0
    assert set(completions(ours.clauses(), n)) == set(counts)
    assert set(completions(ours.clauses(), n).values()) == {1}


def test_at_most_one_is_pysats_pairwise() -> None:
    theirs = pysat_card.CardEnc.atmost([1, 2, 3, 4], 1, encoding=pysat_card.EncType.pairwise)
    ours = Formula(n_vars=4).at_most([1, 2, 3, 4], 1)
    assert ours.n_aux == 0
    assert {frozenset(c) for c in ours} == {frozenset(c) for c in theirs.clauses}


LITERALS = st.lists(st.integers(1, 7).flatmap(lambda v: st.sampled_from([v, -v])), max_size=8)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(LITERALS, st.booleans())
def test_xor(literals: list[int], parity: bool) -> None:
    x = cube(7)
    f = Formula(n_vars=7).xor(literals, parity)
    check(f, literal_values(literals, x).sum(1) % 2 == parity)


@pytest.mark.parametrize("n", [5, 6, 9, 11])
def test_long_xor(n: int) -> None:
    f = Formula(n_vars=n).xor(range(1, n + 1), False)
    assert (f.n_aux > 0) == (n > encode.MAX_PLAIN_XOR)
    check(f, cube(n).sum(1) % 2 == 0)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-9, 9), st.sampled_from([1, -1, 2, -2, 3, 4, -5, 6])), max_size=8
    ),
    st.sampled_from(["<=", ">=", "=="]),
    st.integers(-12, 25),
    st.sampled_from([0, 2000]),
)
def test_linear(terms: list[tuple[int, int]], relation: str, bound: int, direct: int) -> None:
    weights, literals = [w for w, _ in terms], [lit for _, lit in terms]
    sums = literal_values(literals, cube(6)) @ np.array(weights, dtype=int)
    expected = {"<=": sums <= bound, ">=": sums >= bound, "==": sums == bound}[relation]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "MAX_PLAIN_CLAUSES", direct)
        f = Formula(n_vars=6).linear(weights, literals, relation, bound)
    check(f, np.asarray(expected).reshape(-1))


@pytest.mark.parametrize("direct", [0, 2000])
@pytest.mark.parametrize("k", range(-1, 8))
def test_cardinalities(k: int, direct: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "MAX_PLAIN_CLAUSES", direct)
    literals = [1, -2, 3, 4, -5, 6]
    true = literal_values(literals, cube(6)).sum(1)
    f = Formula(n_vars=6)
    check(f.at_most(literals, k), true <= k)
    check(f.at_least(literals, k), true >= k)
    check(f.exactly(literals, k), true == k)


def test_several_constraints_on_a_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "MAX_PLAIN_CLAUSES", 0)
    f = Formula([[1, 2], [-3, 7]], n_vars=7).exactly(range(1, 8), 3).xor([1, 3, 5, 6, 7, 2])
    f = f.linear([3, 2, 2, 5], [1, -4, 6, 7], "<=", 7)
    x = cube(7)
    expected = (x[:, 0] | x[:, 1]) & (~x[:, 2] | x[:, 6]) & (x.sum(1) == 3)
    expected &= x[:, [0, 2, 4, 5, 6, 1]].sum(1) % 2 == 1
    expected &= 3 * x[:, 0] + 2 * ~x[:, 3] + 2 * x[:, 5] + 5 * x[:, 6] <= 7
    check(f, expected)
    assert len(f.constraints) == 3
    # Conditioning keeps constraints and completions.
    check(f.given([1, -6]), expected & x[:, 0] & ~x[:, 5])


def test_all_variables_may_be_given_to_satisfied() -> None:
    f = Formula(n_vars=9).xor(range(1, 10))
    for visible, full in zip(*_with_completions(f), strict=True):
        assert f.satisfied(full)
        assert f.satisfied(visible)
        wrong = full.copy()
        wrong[-1] ^= True
        assert not f.satisfied(wrong)


def _with_completions(f: Formula) -> tuple[np.ndarray, np.ndarray]:
    with pysat_solvers.Solver("m22", bootstrap_with=f.clauses()) as s:
        full = np.array(list(s.enum_models())) > 0
    return full[:, : f.n_vars], full


def test_size_of_the_counter() -> None:
    """O(n min(k, n - k)) auxiliary variables, and huge weights do not need huge tables."""
    n = 300
    for k in (3, n - 4):
        assert Formula(n_vars=n).at_most(range(1, n + 1), k).n_aux <= 4 * n
    weights = [10**15 + i for i in range(12)]
    f = Formula(n_vars=12).linear(weights, range(1, 13), "<=", 3 * 10**15 + 5)
    x = cube(12)
    check(f, x @ np.array(weights) <= 3 * 10**15 + 5)
    huge = Formula(n_vars=3).linear([10**30, 10**30, 1], [1, 2, 3], ">=", 10**30 + 1)
    y = cube(3).astype(int)
    check(huge, (y[:, 0] + y[:, 1] == 2) | ((y[:, 0] + y[:, 1] == 1) & (y[:, 2] == 1)))


def test_too_large_to_encode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "MAX_AUXILIARY", 100)
    with pytest.raises(FormulaError, match="too large"):
        Formula(n_vars=40).exactly(range(1, 41), 20)


def test_bad_constraints() -> None:
    f = Formula(n_vars=3)
    for bad in (
        lambda: f.xor([4]),
        lambda: f.xor([0]),
        lambda: f.xor([1.5]),  # type: ignore[list-item]
        lambda: f.linear([1], [1, 2], "<=", 1),
        lambda: f.linear([1], [1], "<", 1),
        lambda: f.linear([0.5], [1], "<=", 1),  # type: ignore[list-item]
        lambda: f.at_most([1, 2], 1.0),  # type: ignore[arg-type]
        lambda: f.at_least([1, 5], 1),
    ):
        with pytest.raises(FormulaError):
            bad()
