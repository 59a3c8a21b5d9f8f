"""Preprocessing keeps the law: solutions of the reduced problem, rebuilt, are the solutions of the
original with the same weights. Checked by enumeration, to 1e-9; nothing here is statistical.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nelson.budget import Budget
from nelson.errors import FormulaError, Unsatisfiable
from nelson.exact.preprocess import STEPS, gates, pipeline, preprocess
from nelson.formula import Formula
from nelson.kernels.core.bits import pack, tail_mask, unpack
from tests.problems import all_states, state_codes
from tests.structured import feature_model, multiplier, random_ksat, suite

TOLERANCE = 1e-9


# --- the two sides of the comparison --------------------------------------------------------------


def weighted_solutions(formula, rows, evidence=()):
    """All solutions, auxiliary variables included, (m, n), and log weights, (m, contexts)."""
    states = all_states(formula.n_total)
    states = states[np.asarray(formula.satisfied(states))]
    for literal in evidence:
        states = states[states[:, abs(literal) - 1] == (literal > 0)]
    return states, states[:, : formula.n_vars] @ np.asarray(rows).T


def rebuilt_solutions(formula, rows, reduced):
    """The same from the reduced problem: a product over components and free variables, rebuilt."""
    parts = [
        (part.variables, *weighted_solutions(part.formula, part.theta))
        for part in reduced.components
    ]
    for v, theta in zip(reduced.free, reduced.free_theta.T, strict=True):
        parts.append((np.array([v]), np.array([[False], [True]]), np.stack([0 * theta, theta])))
    x = np.zeros((1, formula.n_total), bool)
    weight = np.array(reduced.log_constant)[None]
    for variables, states, log_weights in parts:
        before = len(x)
        x, weight = (np.repeat(a, len(states), axis=0) for a in (x, weight))
        x[:, variables] = np.tile(states, (before, 1))
        weight = weight + np.tile(log_weights, (before, 1))
    words = pack(x)
    reduced.rebuild(words, tail_mask(len(x)))
    return unpack(words, len(x)), weight


def differs(formula, rows, evidence=(), steps=STEPS):
    """None if the laws and log Z agree, else what does not. Unsatisfiable only if there is none."""
    states, weight = weighted_solutions(formula, rows, evidence)
    try:
        reduced = preprocess(formula, rows, evidence, steps=steps)
    except Unsatisfiable:
        return "called unsatisfiable" if len(states) else None
    x, other = rebuilt_solutions(formula, rows, reduced)
    if len(x) != len(states):
        return f"{len(x)} solutions for {len(states)}: {reduced.steps}"
    if not len(x):
        return None
    a, b = np.argsort(state_codes(x)), np.argsort(state_codes(states))
    if not np.array_equal(x[a], states[b]):
        return f"other solutions: {reduced.steps}"
    error = np.abs(other[a] - weight[b]).max()
    if error > TOLERANCE:
        return f"weights differ by {error}: {reduced.steps}"
    z, other_z = (np.logaddexp.reduce(w, axis=0) for w in (weight, other))
    return None if np.abs(z - other_z).max() < TOLERANCE else "log Z differs"


# --- random formulas with structure ---------------------------------------------------------------

N = 9
literal = st.integers(1, N).flatmap(lambda v: st.sampled_from([v, -v]))


@st.composite
def structured(draw):
    """Clauses, gates, equivalences, parities and units over nine variables, in any order."""
    clauses = []
    for kind in draw(st.lists(st.integers(0, 7), max_size=7)):
        a, b, c, d = (draw(literal) for _ in range(4))
        clauses += [
            [[a, b, c]],
            [[a, b, c], [-a, c, d], [b, d]],
            [[-a, b], [-a, c], [a, -b, -c]],
            [[-a, b], [a, -b]],
            [[a, b, c], [a, -b, -c], [-a, b, -c], [-a, -b, c]],
            [[-a, -b, c], [-a, b, -c], [a, -d, c], [a, d, -c]],
            [[-a, -b, d], [-a, -c, d], [-b, -c, d], [a, b, -d], [a, c, -d], [b, c, -d]],
            [[a]],
        ][kind]
    weighted = draw(st.sampled_from([0.0, 0.3, 1.0]))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    rows = random.normal(size=(2, N)) * (random.random(N) < weighted)
    return Formula(clauses, n_vars=N), rows, draw(st.lists(literal, max_size=1))


@pytest.mark.slow
@settings(max_examples=400)
@given(structured(), st.sampled_from([STEPS, (), *((step,) for step in STEPS)]))
def test_the_law_is_kept_by_all_steps_and_by_each_alone(problem, steps):
    formula, rows, evidence = problem
    assert differs(formula, rows, evidence, steps) is None


@pytest.mark.parametrize("density", [1.0, 2.5, 4.0])
@pytest.mark.parametrize("seed", range(8))
def test_random_3sat_of_any_density(density, seed):
    formula = random_ksat(11, round(11 * density), 3, seed)
    rows = np.random.default_rng(seed).normal(size=(2, 11)) * (seed % 2)
    assert differs(formula, rows) is None


@pytest.mark.parametrize("seed", range(6))
def test_auxiliary_variables_of_encodings(seed):
    random = np.random.default_rng(seed)
    formula = Formula([[1, -2, 3]], n_vars=8).xor(range(1, 8), bool(seed % 2))
    formula = formula.linear([3, 1, 2, 2], range(1, 5), "<=", 4 + seed % 3)
    assert formula.n_aux > 0
    rows = random.normal(size=(1, 8)) * (random.random(8) < 0.5)
    assert differs(formula, rows) is None
    reduced = preprocess(formula, np.zeros((1, 8)))
    assert sum(part.n_vars for part in reduced.components) < formula.n_total


# --- tests that the test can fail -----------------------------------------------------------------


def test_eliminating_undefined_variables_breaks_the_law(monkeypatch):
    """The twin: resolution of any variable keeps satisfiability, and the comparison sees it."""
    formula = Formula([[1, 2, 3], [-1, 4, 5], [2, -4, 6]], n_vars=6)
    assert differs(formula, np.zeros((1, 6)), steps=("gates",)) is None

    def careless(state, share):
        gates.eliminate(state, share, np.ones(state.n, bool), only_defined=False)

    monkeypatch.setattr(gates, "gates", careless)
    assert "solutions for" in differs(formula, np.zeros((1, 6)), steps=("gates",))


def test_eliminating_a_weighted_gate_breaks_the_law(monkeypatch):
    formula = Formula([[-1, 2], [-1, 3], [1, -2, -3], [2, 3, 4]], n_vars=4)
    rows = np.array([[1.0, 0.0, 0.0, 0.0]])
    assert differs(formula, rows) is None

    def careless(state, share):
        gates.eliminate(state, share, np.ones(state.n, bool))

    monkeypatch.setattr(gates, "gates", careless)
    assert "weights differ" in differs(formula, rows)


def test_a_merge_that_forgets_a_sign_breaks_the_law(monkeypatch):
    formula = Formula([[1, 2], [-1, -2], [2, 3]], n_vars=3)
    rows = np.array([[0.5, -1.0, 2.0]])
    assert differs(formula, rows) is None
    merge = pipeline.State.merge
    monkeypatch.setattr(pipeline.State, "merge", lambda s, v, into: merge(s, v, np.abs(into)))
    assert differs(formula, rows) is not None


# --- each step finds what it is for ---------------------------------------------------------------

GATES = {
    "and": [[-1, 2], [-1, 3], [-1, 4], [1, -2, -3, -4]],
    "or": [[1, -2], [1, -3], [-1, 2, 3]],
    "xor": [[-1, 2, 3], [-1, -2, -3], [1, -2, 3], [1, 2, -3]],
    "xor of three": [
        [s * a for s, a in zip(signs, (1, 2, 3, 4), strict=True)]
        for signs in np.array(np.meshgrid(*[[1, -1]] * 4)).T.reshape(-1, 4).tolist()
        if signs.count(-1) % 2 == 1
    ],
    "if-then-else": [[-2, -3, 1], [-2, 3, -1], [2, -4, 1], [2, 4, -1]],
    "majority": [[-2, -3, 1], [-2, -4, 1], [-3, -4, 1], [2, 3, -1], [2, 4, -1], [3, 4, -1]],
    "equivalence": [[-1, 2], [1, -2]],
    # s <-> p or (l and q) where p implies q: no gate by itself, but defined wherever it holds
    "counter": [[-1, 2, 3], [-1, 4], [1, -2], [1, -3, -4]],
}


@pytest.mark.parametrize("name", GATES)
def test_gates_are_found_and_rebuilt(name):
    users = [[1, 5, 6], [-1, -5, 7]]
    formula = Formula([*GATES[name], *users], n_vars=7)
    rows = np.linspace(0.0, 1.0, 7)[None]  # variable 1 weighs nothing
    reduced = preprocess(formula, rows, steps=("gates",))
    assert reduced.rebuild.target.tolist() == [0]
    assert reduced.changed and "1 gates" in reduced.steps
    assert differs(formula, rows, steps=("gates",)) is None
    assert not preprocess(formula, rows + 1.0, steps=("gates",)).changed


def test_a_weight_in_any_context_keeps_a_gate():
    formula = Formula([*GATES["and"], [1, 5]], n_vars=5)
    rows = np.zeros((3, 5))
    rows[2, 0] = 0.1
    assert 0 not in preprocess(formula, rows, steps=("gates",)).rebuild.target
    assert differs(formula, rows) is None


def test_equivalent_literals_add_their_weights():
    formula = Formula([[-1, 2], [1, -2], [2, 3], [-2, -3], [1, 4, 5]], n_vars=5)
    reduced = preprocess(formula, np.array([[0.5, 0.25, 2.0, 0.0, 1.0]]), steps=("equal",))
    (part,) = reduced.components
    assert part.variables.tolist() == [0, 3, 4]
    assert part.theta.tolist() == [[0.5 + 0.25 - 2.0, 0.0, 1.0]]
    assert reduced.log_constant.tolist() == [2.0] and "2 literals merged" in reduced.steps
    with pytest.raises(Unsatisfiable, match="its own negation"):
        preprocess(
            Formula([[1, 2], [1, -2], [-1, 3], [-1, -3]]), np.zeros((1, 3)), steps=("equal",)
        )


def test_failed_necessary_and_equivalent_literals():
    failed = Formula([[-1, 2], [-1, 3], [-2, -3, 4], [-2, -3, -4]], n_vars=4)
    reduced = preprocess(failed, np.zeros((1, 4)), steps=("probe",))
    assert reduced.fixed.tolist() == [-1] and "1 failed literals" in reduced.steps
    necessary = Formula([[-1, 2], [-2, 4, 5], [-2, 4, -5], [1, 3], [-3, 4]], n_vars=5)
    assert 4 in preprocess(necessary, np.zeros((1, 5)), steps=("probe",)).fixed
    # 1 -> 2 and so 3; not 1 -> 4 and so not 3. No circle of binary clauses says that.
    equal = Formula([[-1, 2], [-1, -2, 3], [1, 4], [1, -4, -3], [2, 3, 5]], n_vars=5)
    assert not preprocess(equal, np.zeros((1, 5)), steps=("equal",)).changed
    merged = preprocess(equal, np.zeros((1, 5)), steps=("equal", "probe"))
    assert "1 literals merged" in merged.steps
    for formula in (failed, necessary, equal):
        assert differs(formula, np.ones((1, formula.n_vars))) is None
    both = Formula([[-1, 2], [-1, 3], [-2, -3], [1, 4], [1, 5], [-4, -5]], n_vars=5)
    with pytest.raises(Unsatisfiable):
        preprocess(both, np.zeros((1, 5)), steps=("probe",))


def test_subsumption_and_self_subsuming_resolution():
    formula = Formula([[1, 2], [1, 2, 3], [-1, 2, 4, 5], [2, 6, 7]], n_vars=7)
    reduced = preprocess(formula, np.ones((1, 7)), steps=("subsume",))
    assert reduced.steps[:2] == ["1 clauses subsumed", "1 literals removed from clauses"]
    (part,) = reduced.components
    names = part.variables + 1
    found = [[int(np.sign(k)) * int(names[abs(k) - 1]) for k in clause] for clause in part.formula]
    assert found == [[1, 2], [2, 4, 5], [2, 6, 7]]


def test_components_free_variables_and_evidence():
    formula = Formula([[1, 2], [3, 4, -5], [6, 7]], n_vars=9)
    rows = np.arange(9.0)[None]
    reduced = preprocess(formula, rows, [6])
    assert [part.variables.tolist() for part in reduced.components] == [[2, 3, 4], [0, 1]]
    assert reduced.free.tolist() == [6, 7, 8] and reduced.free_theta.tolist() == [[6.0, 7.0, 8.0]]
    assert reduced.fixed.tolist() == [6] and reduced.log_constant.tolist() == [5.0]
    assert not reduced.changed and reduced.complete
    assert differs(formula, rows, [6]) is None
    with pytest.raises(Unsatisfiable):
        preprocess(formula, rows, [6, -6])
    with pytest.raises(Unsatisfiable):
        preprocess(Formula([[]], n_vars=1), np.zeros((1, 1)))


def test_many_components_are_bundled():
    pairs = 2 * pipeline.COMPONENTS
    formula = Formula([[2 * k + 1, 2 * k + 2] for k in range(pairs)], n_vars=2 * pairs)
    reduced = preprocess(formula, np.ones((1, 2 * pairs)))
    assert len(reduced.components) == pipeline.COMPONENTS
    variables = np.concatenate([part.variables for part in reduced.components])
    assert np.array_equal(np.sort(variables), np.arange(2 * pairs))
    assert sum(part.n_clauses for part in reduced.components) == pairs


def test_no_variables_and_wrong_arguments():
    reduced = preprocess(Formula([], n_vars=0), np.zeros((1, 0)))
    assert not reduced.components and not reduced.changed and len(reduced.free) == 0
    formula = Formula([[1, 2]])
    for rows in (np.zeros(2), np.zeros((1, 3)), np.array([[np.inf, 0.0]])):
        with pytest.raises(FormulaError):
            preprocess(formula, rows)
    with pytest.raises(FormulaError, match="step"):
        preprocess(formula, np.zeros((1, 2)), steps=("magic",))


def test_rebuild_sets_no_bit_outside_its_lanes_and_takes_any_layout():
    formula = Formula([[1], [-2, 3], [2, -3], [3, 4]], n_vars=4)
    reduced = preprocess(formula, np.zeros((1, 4)))
    lanes = tail_mask(70)
    words = np.zeros((2, 4), np.uint64)
    assert reduced.rebuild(words, lanes) is words
    assert words[:, 0].tolist() == lanes.tolist()
    turned = np.zeros((4, 2), np.uint64).T
    reduced.rebuild(turned, lanes)
    assert np.array_equal(turned, words)


# --- budget ---------------------------------------------------------------------------------------


def test_a_full_store_is_compacted_and_goes_on(monkeypatch):
    formula = multiplier(6)
    rows = np.zeros((1, formula.n_vars))
    expected = preprocess(formula, rows)
    monkeypatch.setattr(gates, "ROOM", 1)
    monkeypatch.setattr(gates, "PASSES", 1000)
    reduced = preprocess(formula, rows)
    assert len(reduced.free) == len(expected.free) == 12
    x = np.random.default_rng(0).random((500, formula.n_total)) < 0.5
    words = pack(x)
    reduced.rebuild(words, tail_mask(500))
    assert formula.satisfied(unpack(words, 500)).all()


def test_what_a_deadline_leaves_undone_is_still_the_law():
    formula, rows = Formula([*GATES["xor"], [1, 4], [5]], n_vars=5), np.zeros((1, 5))
    reduced = preprocess(formula, rows, budget=Budget.of(0.0))
    assert not reduced.complete and not reduced.changed and "ended by the budget" in reduced.steps
    x, _ = rebuilt_solutions(formula, rows, reduced)
    assert len(x) == len(weighted_solutions(formula, rows)[0])


@pytest.mark.parametrize("visits", [1, 30, 100, 300, 1000])
def test_any_budget_of_visits_keeps_the_law(monkeypatch, visits):
    monkeypatch.setattr(pipeline, "VISITS", visits)
    monkeypatch.setattr(pipeline, "VISITS_PER_LITERAL", 0)
    clauses = [*GATES["xor"], *GATES["counter"], [5, 6], [-5, 6, 7], [-6, 8], [6, -8, 1], [-7, 9]]
    assert differs(Formula(clauses, n_vars=9), np.zeros((1, 9))) is None


@pytest.mark.slow
def test_a_million_clauses_are_bounded():
    """The work is bounded in visits, with at most one pass of each step beyond them."""
    formula, _ = suite()[-1].make()
    assert formula.n_clauses > 999_000
    state = pipeline.begin(formula, np.zeros((1, formula.n_vars)), (), Budget())
    visits, size = state.visits.left, len(formula.literals)
    assert visits <= pipeline.VISITS + pipeline.VISITS_PER_LITERAL * size
    pipeline._reduce(state, STEPS)
    assert state.visits.left > -20 * size


def test_the_same_reduction_every_time():
    for formula in (feature_model(100, 15), multiplier(8, 3599)):
        one, two = (preprocess(formula, np.zeros((1, formula.n_vars))) for _ in range(2))
        assert one.steps == two.steps
        for a, b in zip(one.components, two.components, strict=True):
            assert a.formula == b.formula and np.array_equal(a.variables, b.variables)


def test_no_sample_at_all_is_rebuilt():
    """No assignment satisfies these clauses, and no step proves it if none is made."""
    signs = [[a, b, c] for a in (1, -1) for b in (2, -2) for c in (3, -3)]
    assert differs(Formula(signs, n_vars=N), np.zeros((2, N)), steps=()) is None
