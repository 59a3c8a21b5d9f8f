"""Condition 1, the dependency graph, local-lemma criteria and the report, against brute force."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nelson.errors import FormulaError
from nelson.formula import Formula, clause_graph
from nelson.theory import local_lemma
from tests import problems

# --- the plain versions --------------------------------------------------------------------------


def is_witness(f: Formula, i: int, j: int) -> bool:
    a, b = set(f.clauses()[i]), set(f.clauses()[j])
    shares = bool({abs(x) for x in a} & {abs(x) for x in b})
    return i != j and shares and not any(-x in b for x in a)


def plain_condition1(f: Formula) -> bool:
    m = f.n_clauses
    return not any(is_witness(f, i, j) for i in range(m) for j in range(i + 1, m))


def plain_neighbours(f: Formula) -> list[set[int]]:
    sets = [{abs(x) for x in c} for c in f]
    return [{i for i, b in enumerate(sets) if i != j and a & b} for j, a in enumerate(sets)]


def plain_components(f: Formula) -> int:
    groups = [{v} for v in range(1, f.n_total + 1)]
    for clause in f:
        held = {abs(x) for x in clause}
        joined = [g for g in groups if g & held]
        groups = [g for g in groups if not g & held] + ([set().union(*joined)] if joined else [])
    return len(groups)


def plain_q(f: Formula, theta: np.ndarray) -> tuple[float, float]:
    """(q_empty, sum_j q_j) from the definition."""
    states = problems.all_states(f.n_vars)
    p = np.prod(np.where(states, 1 / (1 + np.exp(-theta)), 1 / (1 + np.exp(theta))), axis=1)
    violated = np.zeros(len(states), int)
    for clause in f:
        violated += ~np.any([states[:, abs(x) - 1] == (x > 0) for x in clause], axis=0)
    return p[violated == 0].sum(), p[violated == 1].sum()


@st.composite
def formulas(draw, max_vars=8, max_clauses=12, min_length=1):
    n = draw(st.integers(min_length, max_vars))
    literal = st.integers(1, n).flatmap(lambda v: st.sampled_from([v, -v]))
    clause = st.lists(literal, min_size=min_length, max_size=5)
    return Formula(draw(st.lists(clause, max_size=max_clauses)), n_vars=n)


# --- Condition 1 ---------------------------------------------------------------------------------


@given(formulas())
@settings(deadline=None, max_examples=300)
def test_condition1_is_brute_force(f):
    witness = local_lemma.condition1(f)
    assert (witness is None) == plain_condition1(f) == f.is_extremal
    assert witness is None or (witness[0] < witness[1] and is_witness(f, *witness))


@pytest.mark.parametrize("name", problems.extremal())
def test_extremal_problems_are(name):
    f = problems.extremal()[name]
    assert local_lemma.condition1(f) is None
    assert plain_condition1(f)


@pytest.mark.parametrize("name", problems.non_extremal())
def test_non_extremal_problems_are_not(name):
    f = problems.non_extremal()[name]
    assert is_witness(f, *local_lemma.condition1(f))


@given(st.integers(3, 9), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_condition1_finds_the_one_bad_pair_at_a_hub(depth, seed):
    """Decision trees have hub literals with 2^(depth-1) clauses; one flipped sign breaks them.

    Dropping the last inner literal of a leaf makes it compatible with its sibling, and only that:
    the search for hubs, which skips pairs it knows to clash, must still find the pair.
    """
    f = problems.decision_tree(depth)
    assert local_lemma.condition1(f) is None
    rng = np.random.default_rng(seed)
    clauses = f.clauses()
    rng.shuffle(clauses)
    victim = int(rng.integers(len(clauses)))
    inner = max(abs(x) for x in clauses[victim] if abs(x) < 2**depth)
    clauses[victim] = [x for x in clauses[victim] if abs(x) != inner]
    g = Formula(clauses, n_vars=f.n_vars)
    witness = local_lemma.condition1(g)
    assert is_witness(g, *witness)
    assert victim in witness


def test_condition1_long_clauses_without_a_split():
    """A hub whose clauses clash in pairs over private variables: all pairs must be compared."""
    m = 60
    clauses: list[list[int]] = [[1] for _ in range(m)]
    variable = 1
    for i in range(m):
        for j in range(i):
            variable += 1
            clauses[i].append(variable)
            clauses[j].append(-variable)
    assert local_lemma.condition1(Formula(clauses)) is None
    clauses[41].remove(next(x for x in clauses[41] if -x in clauses[17]))
    assert local_lemma.condition1(Formula(clauses)) == (17, 41)


@given(formulas(max_vars=6, max_clauses=4), st.data())
@settings(deadline=None, max_examples=200)
def test_conditioning_keeps_extremal(f, data):
    """x and -x in two clauses: fix x, and one of the two is gone."""
    from nelson.errors import Unsatisfiable

    v = data.draw(st.integers(1, f.n_vars))
    try:
        g = f.given({v: data.draw(st.booleans())})
    except Unsatisfiable:
        return
    assert not f.is_extremal or g.is_extremal


# --- dependency graph ----------------------------------------------------------------------------


@given(formulas())
@settings(deadline=None, max_examples=200)
def test_degree_and_components_are_brute_force(f):
    near = plain_neighbours(f)
    d = local_lemma.degree(f)
    assert d.exact
    assert d.max == max(map(len, near), default=0)
    assert d.edges == sum(map(len, near)) // 2
    labels = local_lemma.components(f)
    assert labels.dtype == np.int32
    assert labels.shape == (f.n_total,)
    assert set(labels.tolist()) == set(range(plain_components(f)))
    for clause in f:
        assert len({labels[abs(x) - 1] for x in clause}) <= 1


def test_degree_bound_is_above_the_exact_one(monkeypatch):
    f = problems.random_ksat(30, 60, 3, seed=3)
    exact = local_lemma.degree(f)
    monkeypatch.setattr(clause_graph, "WALK", 0)
    bound = local_lemma.degree(problems.random_ksat(30, 60, 3, seed=3))
    assert exact.exact
    assert not bound.exact
    assert exact.max <= bound.max <= f.n_clauses - 1
    assert exact.edges <= bound.edges


# --- criteria ------------------------------------------------------------------------------------


@given(formulas(max_clauses=8, min_length=2), st.floats(-3, 3), st.integers(0, 1000))
@settings(deadline=None, max_examples=200)
def test_criteria_imply_each_other_and_a_solution(f, shift, seed):
    """symmetric => asymmetric => Shearer, cluster => Shearer, and Shearer => satisfiable."""
    theta = problems.weights(f, seed) + shift
    shearer = local_lemma.shearer(f, theta).holds
    asymmetric = local_lemma.asymmetric(f, theta, slack=False).holds
    if local_lemma.symmetric(f, theta).holds:
        assert asymmetric
    if asymmetric or local_lemma.cluster(f, theta, slack=False).holds:
        assert shearer
    if shearer:
        assert len(problems.exact_law(f, theta)[1]) > 0


@given(formulas(max_clauses=6, min_length=3), st.integers(0, 1000))
@settings(deadline=None, max_examples=200)
def test_theorem_2_is_below_the_bound_of_the_criteria(f, seed):
    """q_j / q_empty <= mu_j wherever mu exists (extremal formulas are Shearer's worst case)."""
    theta = problems.weights(f, seed)
    if f.is_extremal:
        for criterion in (local_lemma.asymmetric(f, theta), local_lemma.cluster(f, theta)):
            if criterion.holds:
                assert local_lemma.expected_resamplings(f, theta) <= criterion.bound * (1 + 1e-6)


@given(formulas(max_clauses=6, min_length=2))
@settings(deadline=None, max_examples=100)
def test_shearer_of_an_extremal_formula_is_satisfiability(f):
    if f.is_extremal:
        assert local_lemma.shearer(f).holds == (len(problems.exact_law(f)[1]) > 0)


def test_criteria_by_hand():
    """One clause of length k: mu = p / (1 - p), so a slack of 1 / p. Two disjoint ones: twice."""
    f = Formula([[1, 2, 3], [4, 5, 6]])
    for criterion in (local_lemma.asymmetric(f), local_lemma.cluster(f)):
        assert criterion.holds
        assert criterion.slack == pytest.approx(8, rel=0.02)
        assert criterion.bound == pytest.approx(2 / 7)
    assert local_lemma.symmetric(f).slack == pytest.approx(8 / math.e)
    # Sink-free orientations of a 4-regular graph: p = 1/16, and mu = p / (1 - p) (1 + mu)^4 has a
    # solution up to p / (1 - p) = max mu / (1 + mu)^4 = 27/256, at mu = 1/3.
    f = problems.sink_free(problems.complete_edges(5))
    assert local_lemma.cluster(f).slack == pytest.approx(16 * 27 / 283, rel=0.02)
    assert not local_lemma.asymmetric(Formula([[1, 2], [-2, 3], [-3, -1]])).holds


@given(formulas(), st.integers(0, 1000))
@settings(deadline=None, max_examples=100)
def test_violation_probability(f, seed):
    theta = problems.weights(f, seed)
    true = 1 / (1 + np.exp(-theta))
    p = [np.prod([1 - true[x - 1] if x > 0 else true[-x - 1] for x in c]) for c in f]
    np.testing.assert_allclose(local_lemma.violation(f, theta), p, rtol=1e-12)


# --- Theorem 2 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(3, 21))
def test_cycle_takes_n_choose_2(n):
    """C_n: q_empty = 2 / 2^n, and n(n-1) orientations have one sink: n(n-1)/2 in all."""
    f = problems.sink_free(problems.cycle_edges(n))
    assert local_lemma.expected_resamplings(f) == pytest.approx(n * (n - 1) / 2, rel=1e-12)


@given(formulas(), st.integers(0, 1000))
@settings(deadline=None, max_examples=200)
def test_expected_resamplings_is_the_definition(f, seed):
    """On one component the ratio of the definition; over several it adds up for Theorem 2."""
    theta = problems.weights(f, seed)
    if f.has_empty_clause or not f.is_extremal:
        return
    empty, one = plain_q(f, theta)
    expected = one / empty if empty > 0 else math.inf
    assert local_lemma.expected_resamplings(f, theta) == pytest.approx(expected, rel=1e-9)


def test_expected_resamplings_adds_over_components():
    two = problems.sink_free([*problems.cycle_edges(5), (5, 6), (6, 7), (7, 5)])
    assert local_lemma.expected_resamplings(two) == pytest.approx(10 + 3)
    assert local_lemma.expected_resamplings(problems.sink_free(problems.cycle_edges(30))) is None


def test_expected_resamplings_at_extreme_weights():
    """theta = +-50 does not underflow: x_i = 0 for all i is needed 20 times over."""
    f = Formula([[-(i + 1), i + 2] for i in range(19)] + [[-20, 1, 21]], n_vars=21)
    assert local_lemma.expected_resamplings(f) is None
    f = Formula([[-(2 * i + 1), -(2 * i + 2)] for i in range(3)])
    assert local_lemma.expected_resamplings(f, np.full(6, 50.0)) == pytest.approx(
        3 * np.exp(50) / 2
    )


# --- the report ----------------------------------------------------------------------------------


def words(r) -> str:
    """The printed report without its line breaks."""
    return " ".join(str(r).split())


def edge_cases() -> dict[str, Formula]:
    return {
        "no variables": Formula([]),
        "no clauses": Formula([], n_vars=3),
        "empty clause": Formula([[1, 2], []], n_vars=2),
        "only an empty clause": Formula([[]], n_vars=0),
        "units": Formula([[1], [-2], [3]]),
        "contradiction": Formula([[1], [-1]]),
        "unsatisfiable": Formula([[1, 2], [1, -2], [-1, 2], [-1, -2]]),
        "pigeonhole": problems.pigeonhole(3),
        "extremal after propagation": Formula([[1], [1, 2], [3, 4], [-3, 5]]),
        "auxiliary": Formula([[1, 2, -3], [-1, 3], [-2, 3]], n_vars=2, n_aux=1),
    }


@pytest.mark.parametrize("name", edge_cases())
@pytest.mark.parametrize("weighted", [False, True])
def test_report_on_edge_cases(name, weighted):
    f = edge_cases()[name]
    r = local_lemma.report(f, problems.weights(f) if weighted else None, pilot=False)
    text = json.dumps(r.to_dict(), allow_nan=False)
    assert json.loads(text) == r.to_dict()
    assert "Condition 1" in str(r)
    assert r.extremal == plain_condition1(f)
    solutions = len(problems.exact_law(f)[1]) if not f.n_aux else 3
    if r.satisfiable is not None:
        assert r.satisfiable == (solutions > 0)
    if name in ("empty clause", "contradiction", "unsatisfiable", "pigeonhole"):
        assert r.satisfiable is False
        assert r.choice is None
    if name == "extremal after propagation":
        assert not r.extremal
        assert r.work.equality
        assert r.notes
        assert r.fixed == 1


def test_report_shows_the_witness_as_literals():
    r = local_lemma.report(Formula([[5, 4], [1, -2], [3, -2]]), pilot=False)
    assert r.witness == (1, 2)
    assert "clause 2 (1 -2) and clause 3 (3 -2)" in words(r)


def test_report_conditions_on_infinite_theta():
    f = problems.sink_free(problems.cycle_edges(5))
    r = local_lemma.report(f, np.array([np.inf, 0, 0, 0, 0]), pilot=False)
    # 0 -> 1 forces the whole cycle round.
    assert (r.evidence, r.fixed, r.satisfiable, r.work.value) == (1, 5, True, 0.0)
    theta = np.array([np.inf, -np.inf, 0, 0, 0])
    assert local_lemma.report(f, theta, pilot=False).satisfiable is False
    for bad in (np.full(5, np.nan), np.zeros(4)):
        with pytest.raises(FormulaError):
            local_lemma.report(f, bad)


def test_report_on_cycle_by_enumeration_and_by_pilot():
    small = local_lemma.report(problems.sink_free(problems.cycle_edges(10)))
    assert small.work.how == "enumerated"
    assert small.work.value == pytest.approx(45)
    assert small.choice is not None
    assert (small.choice.method, small.choice.guarantee) == ("lovasz", "exact")
    # 24 variables: too large to enumerate. 6 standard errors of 8 batches (7 degrees of freedom):
    # a false alarm once in 1,800 seeds, and the seed is fixed. Twin: it is not the answer for C_23.
    big = local_lemma.report(problems.sink_free(problems.cycle_edges(24)), seed=1)
    assert big.work.how.startswith("pilot run")
    assert big.work.equality
    assert abs(big.work.value - 276) < 6 * big.work.standard_error
    assert abs(big.work.value - 23 * 11) > 0.5 * 6 * big.work.standard_error


def test_report_on_a_non_extremal_formula():
    f, theta = problems.errata3(1)
    r = local_lemma.report(f, theta)
    assert not r.extremal
    assert not r.work.equality
    assert r.work.standard_error > 0
    assert r.choice.guarantee in ("asymptotic", "exact")
    assert "Theorem 2 is for extremal formulas" in words(r)
