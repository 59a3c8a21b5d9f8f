"""The exact law: every route against brute force, and the questions that stand on it.

Tests of samples: chi-square at level 1e-6 with fixed seeds. Four routes and two kinds of theta are
tested, so a right law is rejected with probability 1e-5 if random numbers change. Each has a twin
that must reject.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

import nelson
from nelson.budget import Budget
from nelson.errors import BudgetExceeded, FormulaError, Unsatisfiable
from nelson.exact import counter
from nelson.exact.circuit import build
from nelson.exact.compiled import compiled
from nelson.exact.law import COUNT, MODE, Law, law
from nelson.exact.routes import Reason
from nelson.exact.rows_by_inputs import rows_by_inputs
from nelson.formula import Formula
from nelson.policy import ExactPolicy, Policy
from tests.cli.commands import run
from tests.problems import pigeonhole, random_ksat

LEVEL = 1e-6
#: Policies that leave out all routes but some.
ROUTES = {
    "enumerate": Policy(),
    "inputs": Policy(exact=ExactPolicy(few_cells=0)),
    "circuit": Policy(exact=ExactPolicy(few_cells=0, inputs=0)),
    "counter": Policy(exact=ExactPolicy(few_cells=0, inputs=0, structures=0)),
}
needs_d4 = pytest.mark.skipif(build.missing("d4") is not None, reason="D4 is not installed")
needs_ganak = pytest.mark.skipif(counter.missing() is not None, reason="ganak is not installed")


def xor_gates(inputs: int, n: int, tests: int, seed: int = 0) -> Formula:
    """n - inputs variables that are each the XOR of two before them, and clauses of three."""
    random, clauses = np.random.default_rng(seed), []
    for v in range(inputs + 1, n + 1):
        a, b = (int(u) + 1 for u in random.choice(v - 1, 2, replace=False))
        clauses += [[-v, a, b], [-v, -a, -b], [v, -a, b], [v, a, -b]]
    for _ in range(tests):
        chosen = random.choice(n, 3, replace=False) + 1
        clauses.append((chosen * random.choice([-1, 1], 3)).tolist())
    return Formula(clauses, n_vars=n)


def small_formulas(count: int):
    """Random clauses, some gates, a variable in no clause, two equal ones, and several parts."""
    for seed in range(count):
        random = np.random.default_rng(seed)
        n = int(random.integers(3, 8))
        clauses = random_ksat(n, int(random.integers(1, 2 * n)), 3, seed=seed).clauses()
        for _ in range(int(random.integers(0, 4))):
            a, b = (int(u) + 1 for u in random.choice(n, 2, replace=False))
            n += 1
            clauses += [[-n, a, b], [-n, -a, -b], [n, -a, b], [n, a, -b]]
        if random.random() < 0.5:
            clauses += [[-(n + 1), n], [n + 1, -n]]
            n += 1
        if random.random() < 0.3:
            clauses += [[n + 1, n + 2]]
            n += 2
        yield Formula(clauses, n_vars=n + 1), random


def structures_of(formula: Formula, evidence=()) -> np.ndarray:
    n = formula.n_vars
    states = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
    good = np.asarray(formula.satisfied(states), bool)
    for literal in evidence:
        good &= states[:, abs(literal) - 1] == (literal > 0)
    return states[good]


def law_of(formula: Formula, route: str, **how) -> Law | None:
    """The law by a route; None if the formula is unsatisfiable."""
    try:
        exact = law(formula, policy=ROUTES[route], **how)
    except Unsatisfiable:
        assert not len(structures_of(formula))
        return None
    assert isinstance(exact, Law), exact
    return exact


def check(exact: Law, formula: Formula, theta: np.ndarray) -> None:
    """Count, log Z, mean, covariance, mode, rows for one theta, which may be infinite."""
    fixed = np.flatnonzero(np.isinf(theta)) + 1
    evidence = np.where(theta[fixed - 1] > 0, fixed, -fixed).tolist()
    states = structures_of(formula, evidence)
    assert exact.count(evidence) == len(states)
    if not len(states):
        for question in (exact.log_z, exact.mean, exact.covariance):
            with pytest.raises(Unsatisfiable):
                question(theta[None])
        return
    soft = np.where(np.isinf(theta), 0.0, theta)
    score = states @ soft
    log_z = np.logaddexp.reduce(score)
    p = np.exp(score - log_z)
    mean = p @ states
    covariance = (states - mean).T @ (p[:, None] * (states - mean))
    v = np.random.default_rng(0).normal(size=len(theta))
    assert exact.log_z(theta[None])[0] == pytest.approx(log_z, abs=1e-10)
    np.testing.assert_allclose(exact.mean(theta[None])[0], mean, atol=1e-10)
    np.testing.assert_allclose(exact.covariance(theta[None])[0], covariance, atol=1e-7)
    np.testing.assert_allclose(exact.pull(theta[None], v[None])[0], covariance @ v, atol=1e-7)
    best = exact.mode(theta)
    assert soft @ best == pytest.approx(score.max()) and (states == best).all(axis=1).any()
    rows = exact.given(evidence).rows(1 << 16)
    assert sorted(map(bytes, rows)) == sorted(map(bytes, states))


@pytest.mark.parametrize("route", ["enumerate", "inputs", pytest.param("circuit", marks=needs_d4)])
@pytest.mark.process
def test_every_route_against_brute_force(route):
    taken = set()
    for formula, random in small_formulas(30):
        if (exact := law_of(formula, route)) is None:
            continue
        taken |= set(exact.routes)
        theta = 2 * random.normal(size=formula.n_vars)
        check(exact, formula, theta)
        hard = random.permutation(formula.n_vars)[:2]
        theta[hard] = random.choice([-np.inf, np.inf], 2)
        check(exact, formula, theta)
    assert route in taken


@needs_ganak
@pytest.mark.process
@pytest.mark.slow
def test_the_counter_against_brute_force(monkeypatch):
    monkeypatch.setattr("nelson.exact.law.compiled", lambda *_, **__: None)
    for formula, random in small_formulas(6):
        exact = law_of(formula, "counter", needs=COUNT)
        if exact is None or "counter" not in exact.routes:
            continue
        theta = random.normal(size=formula.n_vars)
        theta[int(random.integers(formula.n_vars))] = np.inf
        literal = int(np.flatnonzero(np.isinf(theta))[0]) + 1
        states = structures_of(formula, [literal])
        assert exact.count([literal]) == len(states)
        if len(states):
            score = states @ np.where(np.isinf(theta), 0.0, theta)
            assert exact.log_z(theta[None])[0] == pytest.approx(np.logaddexp.reduce(score))


@pytest.mark.parametrize("route", ["enumerate", "inputs", pytest.param("circuit", marks=needs_d4)])
@pytest.mark.parametrize("scale", [0.0, 0.7])
@pytest.mark.process
def test_draws_follow_the_law(route, scale):
    """One formula with a gate, equal variables, a free variable and two parts."""
    gate = [[-4, 1, 2], [-4, -1, -2], [4, -1, 2], [4, 1, -2]]
    formula = Formula([*gate, [1, 2, 3], [-5, 4], [5, -4], [6, 7]], n_vars=8)
    exact = law_of(formula, route)
    states = structures_of(formula)
    theta = scale * np.random.default_rng(1).normal(size=8)
    p = np.exp(states @ theta)
    p /= p.sum()

    def p_value(x: np.ndarray) -> float:
        code = {bytes(state): k for k, state in enumerate(states)}
        seen = np.bincount([code[bytes(row)] for row in x], minlength=len(states))
        return chisquare(seen, len(x) * p).pvalue

    assert p_value(exact.draw(theta[None], 20_000, seed=3)[0]) > LEVEL
    tilted = theta + np.array([0.3, 0, 0, 0, 0, 0, 0, 0])
    assert p_value(exact.draw(tilted[None], 20_000, seed=3)[0]) < LEVEL


def test_evidence_of_the_law_weighs_and_infinite_log_odds_do_not():
    formula = Formula([[1, 2]])
    theta = np.array([[0.5, 0.25]])
    right = np.logaddexp(0.5, 0.75)
    assert law(formula, [1]).log_z(theta)[0] == pytest.approx(right)
    assert law(formula).given([1]).log_z(theta)[0] == pytest.approx(right)
    infinite = np.array([[np.inf, 0.25]])
    assert law(formula).log_z(infinite)[0] == pytest.approx(right - 0.5)
    with pytest.raises(Unsatisfiable):
        law(formula, [1]).log_z(np.array([[-np.inf, 0.0]]))


@pytest.mark.slow
def test_what_has_no_law_says_why():
    formula = random_ksat(300, 900, 3, seed=1)
    reason = law(formula, budget=Budget.of(0.5))
    assert isinstance(reason, Reason) and "300 variables" in str(reason)
    with pytest.raises(Unsatisfiable):
        law(pigeonhole(3))
    with pytest.raises(FormulaError, match="given literal 9"):
        law(Formula([[1, 2]]), [9])


def test_a_mode_is_not_rounded():
    """Of weights that differ by one unit in the last place, the larger one wins."""
    formula = Formula([[1, 2], [-1, -2]])
    one = 1.0
    more = np.nextafter(1.0, 2.0)
    assert nelson.mode(formula, [one, more]).tolist() == [False, True]
    assert nelson.mode(formula, [more, one]).tolist() == [True, False]


def test_a_mode_by_search_is_that_of_the_list():
    formula = random_ksat(14, 30, 3, seed=5)
    theta = np.random.default_rng(2).normal(size=14)
    searched = law(formula, policy=ROUTES["counter"], needs=MODE)
    assert searched.routes == ("search",)
    assert np.array_equal(searched.mode(theta), nelson.mode(formula, theta))
    assert nelson.mode(formula, theta, given={1: True})[0]


# --- formulas of which few inputs decide all variables --------------------------------------------

#: 14 inputs, 2,000 variables: wide, and hard for a compiler. 3,228 structures.
GATES = xor_gates(14, 2000, 12)


@pytest.mark.slow
def test_few_inputs_decide_a_wide_formula():
    """Counted by NumPy: all values of the inputs."""
    exact = law(GATES)
    assert exact.routes == ("inputs",) and exact.count() == 3228
    x = np.zeros((1 << 14, 2000), bool)
    x[:, :14] = np.arange(1 << 14)[:, None] >> np.arange(14) & 1
    gates = GATES.clauses()[: 4 * (2000 - 14) : 4]
    for v, (_, a, b) in enumerate(gates, start=14):
        x[:, v] = x[:, a - 1] ^ x[:, b - 1]
    states = x[np.asarray(GATES.satisfied(x), bool)]
    assert len(states) == 3228
    np.testing.assert_allclose(exact.mean(np.zeros((1, 2000)))[0], states.mean(axis=0))


@pytest.mark.slow
def test_count_marginals_and_mode_of_a_wide_formula():
    assert nelson.count(GATES) == 3228
    given = nelson.count(GATES, {1: True}) + nelson.count(GATES, [-1])
    assert given == 3228
    shares = nelson.marginals(GATES)
    assert shares.guarantee == "exact" and shares.error == 0.0
    assert shares.mean[0] == pytest.approx(nelson.count(GATES, [1]) / 3228)
    assert np.asarray(shares).shape == (2000,)
    true = nelson.marginals(GATES, given={1: True})
    assert true.mean[0] == 1.0
    assert true.mean[1] == pytest.approx(nelson.count(GATES, [1, 2]) / nelson.count(GATES, [1]))
    theta = np.random.default_rng(0).normal(size=2000)
    best, drawn = nelson.mode(GATES, theta), law(GATES).draw(theta[None], 100, 0)[0]
    assert (drawn @ theta).max() <= theta @ best + 1e-9 and GATES.satisfied(best[None])[0]


@pytest.mark.slow
def test_projected_solutions_of_a_wide_formula():
    """The inputs decide: each solution is one projected solution."""
    assert nelson.count(GATES, project=range(1, 15)) == 3228
    few = nelson.count(GATES, project=[1, 2, 3])
    assert few == len(np.unique(law(GATES).rows(4000)[:, :3], axis=0))


@pytest.mark.slow
def test_the_judge_sees_all_structures_of_a_wide_formula():
    def right(formula, theta, n, seed):
        return law(formula).draw(np.zeros((1, 2000)), n, seed)[0]

    def wrong(formula, theta, n, seed):
        tilted = np.zeros((1, 2000))
        tilted[0, 0] = 0.2
        return law(formula).draw(tilted, n, seed)[0]

    verdict = nelson.judge(GATES, right, delta=1e-4, seed=1)
    assert verdict.test == "chi-square" and verdict.accept is True
    assert nelson.judge(GATES, wrong, delta=1e-4, seed=1).accept is False


@pytest.mark.slow
@pytest.mark.process
def test_the_commands_answer_on_a_wide_formula(tmp_path):
    path = tmp_path / "gates.cnf"
    formula = xor_gates(12, 600, 9)
    number = law(formula).count()
    assert law(formula).routes == ("inputs",)
    lines = [f"{' '.join(map(str, clause))} 0" for clause in formula.clauses()]
    shown = f"c ind {' '.join(map(str, range(1, 13)))} 0"
    path.write_text("\n".join([shown, f"p cnf 600 {len(lines)}", *lines]) + "\n")
    assert run("count", path).stdout.strip() == str(number)
    assert run("count", path, "--projected").stdout.strip() == str(number)
    means = run("marginals", path)
    assert means.returncode == 0 and "exact" in means.stderr
    told = run("judge", path, "--method", "auto", "-n", 20_000, "--project-law", "solutions")
    assert told.returncode == 0 and "chi-square" in told.stdout and f"{number:,}" in told.stdout


def mixed_gates(inputs: int, n: int, tests: int, seed: int = 0) -> Formula:
    """As `xor_gates`, with AND and OR gates of random literals, too."""
    random, clauses = np.random.default_rng(seed), []
    for v in range(inputs + 1, n + 1):
        a, b = ((random.choice(v - 1, 2, replace=False) + 1) * random.choice([-1, 1], 2)).tolist()
        kinds = (
            [[-v, a, b], [-v, -a, -b], [v, -a, b], [v, a, -b]],
            [[-v, a], [-v, b], [v, -a, -b]],
            [[v, -a], [v, -b], [-v, a, b]],
        )
        clauses += kinds[random.integers(3)]
    for _ in range(tests):
        chosen = random.choice(n, 3, replace=False) + 1
        clauses.append((chosen * random.choice([-1, 1], 3)).tolist())
    return Formula(clauses, n_vars=n)


def xor_constraints(n: int, chains: int, length: int, seed: int = 0) -> Formula:
    """Long XORs, whose encoding has auxiliary variables."""
    random, formula = np.random.default_rng(seed), Formula([], n_vars=n)
    for _ in range(chains):
        chosen = (random.choice(n, length, replace=False) + 1).tolist()
        formula = formula.xor(chosen, bool(random.integers(2)))
    return formula


def models_of(formula: Formula, inputs: int) -> np.ndarray:
    """All solutions, (m, n_total) bool, one by one from a CDCL solver; inputs decide the rest."""
    from pysat.solvers import Solver

    found = []
    with Solver("glucose4", bootstrap_with=formula.clauses()) as solver:
        while solver.solve():
            found.append(np.array(solver.get_model()) > 0)
            solver.add_clause([-literal for literal in solver.get_model()[:inputs]])
    return np.array(found)


#: Formula, number of its inputs (the first variables), variables to project on.
SOLVED_BY_INPUTS = {
    "xor gates": (xor_gates(12, 300, 6), 12, range(5, 41, 3)),
    "mixed gates": (mixed_gates(12, 300, 4, seed=3), 12, range(1, 11)),
    "xor constraints": (xor_constraints(24, 14, 9, seed=5), 24, range(1, 25)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVED_BY_INPUTS)
def test_all_questions_are_answered_exactly_where_samples_are_exact(name):
    formula, inputs, shown = SOLVED_BY_INPUTS[name]
    models = models_of(formula, inputs)
    assert nelson.sample(formula, n=64, seed=1).guarantee == "exact"
    assert nelson.count(formula) == len(models)
    shares = nelson.marginals(formula)
    assert shares.guarantee == "exact"
    np.testing.assert_allclose(shares.mean, models[:, : formula.n_vars].mean(axis=0))
    log_z = nelson.log_z(formula)
    assert log_z.exact and log_z.value == pytest.approx(np.log(len(models)))
    assert nelson.judge(formula, "auto", seed=1).test == "chi-square"
    # And for projected solutions, each counted once.
    asked = formula.replace(projection=shown)
    drawn = nelson.sample(asked, n=64, seed=1, project=shown, project_law="solutions")
    assert drawn.guarantee == "exact"
    states = np.unique(models[:, np.array(shown) - 1], axis=0)
    assert nelson.count(formula, project=shown) == len(states)
    verdict = nelson.judge(asked, "auto", seed=1, project_law="solutions")
    assert verdict.test == "chi-square" and verdict.accept


@pytest.mark.slow
def test_a_compiler_leaves_time_for_the_inputs(monkeypatch):
    """It used to take all the time of a caller who wants moments."""
    formula = xor_gates(14, 400, 8)
    policy = Policy(exact=ExactPolicy(few_cells=0, first_input_work=0))
    given: list[float] = []

    def fails(clauses, budget, *_, **__):
        given.append(budget.left)

    monkeypatch.setattr("nelson.exact.law.compiled", fails)
    assert law(formula, budget=Budget.of(60.0), policy=policy).routes == ("inputs",)
    assert given and max(given) < 35


@pytest.mark.slow
def test_inputs_that_are_too_many_say_so():
    formula = xor_gates(30, 200, 0)
    assert "30 inputs are too many" in str(rows_by_inputs(formula, Budget()))
    assert "no gates" in str(rows_by_inputs(random_ksat(20, 30, 3, seed=1), Budget()))
    late = rows_by_inputs(xor_gates(20, 2000, 0, seed=1), Budget.of(0.0))
    assert isinstance(late, Reason) and "time was up" in str(late)


def test_a_count_that_is_not_known_raises(monkeypatch):
    monkeypatch.setattr("nelson.exact.queries.law", lambda *_, **__: Reason("it is too wide"))
    with pytest.raises(BudgetExceeded, match="were not counted: it is too wide"):
        nelson.count(Formula([[1, 2]]))


@pytest.mark.slow
@needs_d4
def test_the_circuit_of_a_formula_answers_whatever_was_asked_before():
    """Samples that are weighted by these means are the same bits then. The twin: the law that was
    made from components before differs in its parts.
    """
    clauses = [*random_ksat(40, 90, 3, seed=3), [41], [41, 42]]  # 41 is a unit: preprocessing helps
    asked, fresh = Formula(clauses), Formula(clauses)
    policy = Policy(exact=ExactPolicy(few_cells=0))
    before = law(asked, policy=policy)
    for formula in (asked, fresh):
        assert compiled(formula) is not None
    answers = [law(formula, policy=policy) for formula in (asked, fresh)]
    theta = np.random.default_rng(0).normal(size=(1, asked.n_vars))
    assert len(before.parts[0].variables) < asked.n_total
    assert [len(answer.parts[0].variables) for answer in answers] == [asked.n_total] * 2
    assert np.array_equal(answers[0].mean(theta), answers[1].mean(theta))
