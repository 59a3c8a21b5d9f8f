"""Potentials over several variables: the expansion and the lifted formula."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

import nelson
from nelson.formula.polynomial import Polynomial, lift
from nelson.log_z import log_z
from nelson.sampling.method_choice import verdict_for
from tests.distribution.terms import ALPHA, DRAWS, SEED, SMALL, law, terms_of, theta_of
from tests.problems import all_states, chi_square, exact_law


@pytest.mark.slow
@settings(max_examples=60)
@forall(st.integers(0, 10_000), st.integers(0, 5))
def test_a_table_is_its_polynomial(seed, k):
    rng = np.random.default_rng(seed)
    scope = (rng.permutation(7)[:k] + 1).tolist()
    table = rng.normal(size=(2,) * k) * 10.0 ** rng.integers(-3, 4)
    phi = Polynomial.table(scope, table)
    x = all_states(7)
    want = table[tuple(x[:, v - 1].astype(int) for v in scope)]
    np.testing.assert_allclose(phi(x), want, rtol=1e-10, atol=1e-10 * np.abs(table).max())
    # Moebius, as the definition has it.
    for monomial, c in phi.coefficients.items():
        total = 0.0
        for size in range(len(monomial) + 1):
            for subset in itertools.combinations(monomial, size):
                at = tuple(int(v in subset) for v in scope)
                total += (-1) ** (len(monomial) - size) * table[at]
        assert c == pytest.approx(total, rel=1e-8, abs=1e-10 * np.abs(table).max())


def test_hand_computed():
    both = Polynomial.table([1, 2], [[0, 0], [0, 3]])
    assert both.coefficients == {(1, 2): 3.0}  # erratum 6: only the product carries it
    either = Polynomial.table([1, 2], [0, 1, 1, 1])
    assert either.coefficients == {(1,): 1.0, (2,): 1.0, (1, 2): -1.0}
    same = Polynomial.table([2, 1], [[5, 0], [0, 5]])
    assert same.coefficients == {(): 5.0, (1,): -5.0, (2,): -5.0, (1, 2): 10.0}
    assert Polynomial({(1, -2): 2.0}).coefficients == {(1,): 2.0, (1, 2): -2.0}
    assert Polynomial({(-1, -2): 1.0}).coefficients == {(): 1, (1,): -1, (2,): -1, (1, 2): 1}
    assert Polynomial({(2, 2, 1): 1.0, (1, 2): -1.0}).coefficients == {}
    assert Polynomial({(1, -1): 7.0}).coefficients == {}
    assert (both + 2 * both).coefficients == {(1, 2): 9.0}
    assert Polynomial.table([], 4.0).constant == 4.0
    constant = Polynomial.table([1, 2, 3], np.full(8, 0.1) + 1e-17)
    assert set(constant.coefficients) == {()}  # rounding noise makes no monomials


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Polynomial.table([1, 1], np.zeros(4)),
        lambda: Polynomial.table([1, 2], np.zeros(3)),
        lambda: Polynomial.table([0, 2], np.zeros(4)),
        lambda: Polynomial.table([1], [0, -math.inf]),
        lambda: Polynomial({(1,): math.nan}),
        lambda: Polynomial({(0, 1): 1.0}),
        lambda: lift(nelson.Formula([], n_vars=2), {(1, 3): 1.0}),
        lambda: lift(nelson.Formula([], n_vars=2), {(1, 2): 1.0}, [0.0]),
    ],
)
def test_bad_terms(wrong):
    with pytest.raises(nelson.FormulaError):
        wrong()


# --- the lifted formula ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SMALL, "encoded"])
def test_lifted_law_is_the_original_one(name):
    encoded = nelson.Formula([[1, 2, 3]], n_vars=6).exactly(range(1, 7), 3).xor(range(1, 7))
    formula = {**SMALL, "encoded": encoded}[name]
    phi, theta = Polynomial.of(terms_of()), theta_of(formula)
    lifted = lift(formula, terms_of(), theta)
    states, p = law(formula, phi, theta)
    assert lifted.n == formula.n_vars and lifted.formula.n_vars == lifted.n + len(phi.products)
    assert not lifted.formula.is_extremal  # erratum 7
    both = lifted.complete(states)
    assert lifted.formula.satisfied(both).all()
    np.testing.assert_array_equal(lifted.project(both), states)
    np.testing.assert_allclose(both @ lifted.theta + lifted.constant, states @ theta + phi(states))
    # Each structure has exactly one completion, and the law is that of the original.
    every, q = exact_law(lifted.formula, lifted.theta)
    assert len(every) == len(states)
    order = np.lexsort(lifted.project(every).T[::-1])
    np.testing.assert_array_equal(every[order], both)
    np.testing.assert_allclose(q[order], p, atol=1e-12)
    # log Z of the two differ by the constant.
    value = log_z(lifted.formula, lifted.theta).value + lifted.constant
    assert value == pytest.approx(np.log(np.exp(states @ theta + phi(states)).sum()))


def test_the_papers_own_rewriting_is_a_constant():
    """Appendix C.1 puts theta_3 on all four indicators: one of them is always true (erratum 6)."""
    formula = nelson.Formula([], n_vars=2)
    theta3 = 1.7
    paper = sum(
        (Polynomial({(a, b): theta3}) for a in (1, -1) for b in (2, -2)), start=Polynomial({})
    )
    assert paper.coefficients == {(): theta3}
    assert lift(formula, {(1, 2): theta3}).theta.tolist() == [0.0, 0.0, theta3]


def test_nothing_to_lift():
    formula = SMALL["complete4"]
    lifted = lift(formula, {(1,): 2.0, (): 1.0}, np.ones(6))
    assert lifted.formula.clauses() == formula.clauses() and lifted.formula.is_extremal
    assert lifted.theta.tolist() == [3.0, 1, 1, 1, 1, 1] and lifted.constant == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["complete4", "horn", "random 5-SAT"])
def test_prs_draws_the_lifted_law(name):
    formula = SMALL[name]
    phi, theta = Polynomial.of(terms_of()), theta_of(formula)
    lifted = lift(formula, phi, theta)
    # Most of a lifted formula is drawn at once or not at all: many short rounds.
    options = {"method": "prs", "max_rounds": 30_000, "seed": SEED}
    s = nelson.sample(lifted.formula, lifted.theta, DRAWS // 5, **options)
    assert s.guarantee == "exact" and len(s) > DRAWS // 10
    x = lifted.project(s.to_numpy())
    assert chi_square(x, law(formula, phi, theta)) > ALPHA
    assert chi_square(x, law(formula, Polynomial({}), theta)) < ALPHA


def test_sweeps_of_single_variables_cannot_move_a_lifted_formula_and_say_so():
    formula = nelson.Formula([], n_vars=3)
    lifted = lift(formula, {(1, 2): 1.0, (2, 3): -1.0, (1, 3): 0.5})
    verdict = verdict_for(lifted.formula, lifted.theta)
    assert verdict.guarantee == "heuristic" and "remember" in verdict.why


def test_a_distribution_over_a_lifted_formula():
    torch = pytest.importorskip("torch")
    from nelson.distribution.mrf import ConstrainedMRF

    formula = SMALL["complete4"]
    phi, theta = Polynomial.of(terms_of()), theta_of(formula)
    lifted = lift(formula, phi, theta)
    mrf = ConstrainedMRF(lifted.formula, torch.from_numpy(lifted.theta))
    states, p = law(formula, phi, theta)
    x = torch.from_numpy(lifted.complete(states)).double()
    np.testing.assert_allclose(mrf.log_prob(x).exp(), p, atol=1e-12)
    torch.manual_seed(0)
    drawn = lifted.project(mrf.sample((DRAWS,))).numpy() > 0  # falls back to an exact draw
    assert mrf.info["sample"]["guarantee"] == "exact"
    assert chi_square(drawn, (states, p)) > ALPHA
    assert chi_square(drawn, law(formula, phi, theta * 0.8)) < ALPHA
