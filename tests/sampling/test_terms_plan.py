"""`nelson.sample(..., terms=...)`: exact laws, and sweeps with the conditionals of the terms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nelson
from nelson.budget import TimeUp
from nelson.formula.polynomial import Polynomial
from nelson.sampling.terms_plan import TermsPlan
from tests.distribution.terms import ALPHA, SEED, SMALL, law, terms_of, theta_of
from tests.problems import chi_square, random_ksat

DRAWS = 20_000
#: Formulas where single variables can move from anywhere to anywhere.
CONNECTED = ("example1", "complete4", "bowtie", "tree", "free variable", "shared literal", "path",
             "horn", "random 5-SAT")  # fmt: skip


def by_chains(formula, terms, theta, n, **options):
    """The samples of chains, though the law may be known exactly."""
    return nelson.sample(formula, theta, n, method="lovasz", terms=terms, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONNECTED)
def test_chains_draw_the_law_of_the_terms(name):
    formula = SMALL[name]
    phi, theta = Polynomial.of(terms_of()), theta_of(formula)
    s = by_chains(formula, terms_of(), theta, DRAWS, seed=SEED)
    x = s.to_numpy()
    p = chi_square(x, law(formula, phi, theta))
    print(f"{s!r} sweeps={s.info['sweeps']} seed={SEED} p={p:.3g}")
    assert s.guarantee == "diagnosed" and s.status == "ok" and formula.satisfied(x).all()
    assert p > ALPHA
    # Twins: without the terms, or with their sign turned, the same test rejects.
    for wrong in (Polynomial({}), -1 * phi):
        y = by_chains(formula, wrong, theta, DRAWS, seed=SEED).to_numpy()
        assert chi_square(y, law(formula, phi, theta)) < ALPHA


def test_stuck_chains_say_so():
    for name in ("cycle3", "triangles"):  # two orientations of a cycle: no street turns alone
        s = by_chains(SMALL[name], terms_of(), None, 1000, seed=SEED)
        assert s.guarantee == "heuristic" and "remember" in s.info["why"]
    encoded = nelson.Formula([], n_vars=30).exactly(range(1, 31), 15)
    s = by_chains(encoded, {(1, 2): 1.0}, None, 256, seed=SEED)
    assert s.guarantee == "heuristic" and encoded.satisfied(s.to_numpy()).all()


def test_evidence_holds_in_every_sample():
    """Weights of +-inf, and `given`: sweeps leave both alone."""
    formula = random_ksat(7, 12, 3, seed=4)
    theta = theta_of(formula)
    theta[5] = np.inf
    x = by_chains(formula, terms_of(), theta, 500, seed=SEED, sweeps=4, given=[-2]).to_numpy()
    assert x[:, 5].all() and not x[:, 1].any() and formula.satisfied(x).all()
    assert x[:, [0, 2, 3, 4, 6]].any() and not x[:, [0, 2, 3, 4, 6]].all()


def test_detailed_balance():
    """The exact kernel of one variable's update, built from conditionals, leaves the law as it is.

    A chain with the log-odds halved does not: the check would notice.
    """
    formula = SMALL["random 3-SAT"]
    phi, theta = Polynomial.of(terms_of()), theta_of(formula)
    states, p = law(formula, phi, theta)
    place = {row.tobytes(): i for i, row in enumerate(states)}
    for factor, stationary in ((1.0, True), (0.5, False)):
        q = p.copy()
        for v in range(formula.n_vars):
            after = np.zeros(len(q))
            for i, row in enumerate(states):
                flipped = row.copy()
                flipped[v] ^= True
                j = place.get(flipped.tobytes())
                if j is None:
                    after[i] += q[i]
                    continue
                on, off = (i, j) if row[v] else (j, i)
                score = states @ theta + phi(states)
                chance = 1 / (1 + math.exp(factor * (score[off] - score[on])))
                after[on] += q[i] * chance
                after[off] += q[i] * (1 - chance)
            q = after
        assert np.allclose(q, p) == stationary


def test_same_seed_same_samples_for_any_count():
    formula, terms = SMALL["random 5-SAT"], terms_of()
    many = by_chains(formula, terms, None, 1000, sweeps=5, seed=7).to_numpy()
    few = by_chains(formula, terms, None, 100, sweeps=5, seed=7).to_numpy()
    np.testing.assert_array_equal(many[:100], few)
    other = by_chains(formula, terms, None, 100, sweeps=5, seed=8).to_numpy()
    assert (few != other).any()


@pytest.mark.parametrize("name", ["cycle3", "random 3-SAT", "horn"])
def test_the_law_of_few_structures_is_drawn_exactly(name):
    """Chains on the first of these formulas are stuck."""
    formula, theta = SMALL[name], theta_of(SMALL[name])
    s = nelson.sample(formula, theta, DRAWS, seed=SEED, terms=terms_of())
    assert s.guarantee == "exact" and s.variables == tuple(range(1, formula.n_vars + 1))
    p = chi_square(s.to_numpy(), law(formula, Polynomial.of(terms_of()), theta))
    print(f"{s!r} seed={SEED} p={p:.3g}")
    assert p > ALPHA
    without = nelson.sample(formula, theta, DRAWS, seed=SEED).to_numpy()
    assert chi_square(without, law(formula, Polynomial.of(terms_of()), theta)) < ALPHA


def test_a_plan_with_terms_draws_what_sample_draws():
    formula, theta = SMALL["random 5-SAT"], theta_of(SMALL["random 5-SAT"])
    for method, guarantee in (("auto", "exact"), ("lovasz", "diagnosed")):
        plan = nelson.plan(formula, theta, method=method, terms=terms_of())
        assert plan.guarantee == guarantee and plan.why
        drawn = nelson.sample(formula, theta, 200, seed=3, method=method, terms=terms_of())
        np.testing.assert_array_equal(plan.sample(200, seed=3).packed, drawn.packed)
    exact = nelson.plan(formula, theta, terms=terms_of())
    moved = exact.sample(DRAWS, seed=SEED, theta=-theta).to_numpy()
    assert chi_square(moved, law(formula, Polynomial.of(terms_of()), -theta)) > ALPHA


def test_evidence_and_projection_of_the_exact_law():
    formula = random_ksat(7, 12, 3, seed=4)
    theta = theta_of(formula)
    theta[5] = np.inf
    options = {"terms": terms_of(), "given": [-2], "seed": SEED}
    s = nelson.sample(formula, theta, 500, **options)
    x = s.to_numpy()
    assert s.guarantee == "exact" and formula.satisfied(x).all()
    assert x[:, 5].all() and not x[:, 1].any()
    part = nelson.sample(formula, theta, 500, project=[6, 1], **options)
    assert part.variables == (6, 1)
    np.testing.assert_array_equal(part.to_numpy(), x[:, [5, 0]])


def test_terms_refuse_what_they_cannot_do():
    formula = SMALL["random 5-SAT"]
    for options in ({"unique": True}, {"method": "prs"}, {"moves": "joint", "sweeps": 3}):
        with pytest.raises(nelson.FormulaError, match="terms with"):
            nelson.sample(formula, None, 10, terms=terms_of(), **options)
    with pytest.raises(nelson.FormulaError, match="2 rows of theta"):
        nelson.sample(formula, np.zeros((2, formula.n_vars)), 10, terms=terms_of())
    with pytest.raises(nelson.FormulaError, match="stream"):
        nelson.plan(formula, terms=terms_of()).stream(10)


def test_no_time_means_fewer_samples():
    """Chains that the deadline stops give no samples that are not theirs."""
    s = by_chains(SMALL["random 5-SAT"], terms_of(), None, 1000, seed=1, seconds=0.0)
    assert len(s) < 1000 and s.status == "budget" and s.info["reason"]


def test_a_solver_stands_in_reserve_for_laws_with_terms(monkeypatch):
    """No time for a law or for chains: solutions of a solver, heuristic. The twin has no solver."""

    def late(*_: object) -> None:
        raise TimeUp("the time was up")

    pytest.importorskip("pysat")
    f = random_ksat(40, 100, 3, 1)
    monkeypatch.setattr(TermsPlan, "_in_time", late)
    s = nelson.sample(f, n=10, seed=1, seconds=10.0, terms={(1, 2): 0.5}, given={3: True})
    assert len(s) == 10 and s.guarantee == "heuristic" and f.satisfied(s.to_numpy()).all()
    assert s.to_numpy()[:, 2].all()
    monkeypatch.setattr(TermsPlan, "_reserve", lambda *_: None)
    assert not len(nelson.sample(f, n=10, seed=1, seconds=10.0, terms={(1, 2): 0.5}))
