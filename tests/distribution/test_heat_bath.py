"""Sweeps with the full conditionals of the terms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nelson
from nelson.distribution.heat_bath import heat_bath
from nelson.formula.polynomial import Polynomial
from tests.distribution.terms import ALPHA, SEED, SMALL, law, terms_of, theta_of
from tests.problems import chi_square, random_ksat

DRAWS = 20_000
#: Formulas where single variables can move from anywhere to anywhere.
CONNECTED = ("example1", "complete4", "bowtie", "tree", "free variable", "shared literal", "path",
             "horn", "random 5-SAT")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CONNECTED)
def test_heat_bath_draws_the_law_of_the_terms(name):
    formula = SMALL[name]
    phi, theta = Polynomial.of(terms_of()), theta_of(formula)
    s = heat_bath(formula, terms_of(), theta, DRAWS, seed=SEED)
    x = s.to_numpy()
    p = chi_square(x, law(formula, phi, theta))
    print(f"{s!r} sweeps={s.info['sweeps']} seed={SEED} p={p:.3g}")
    assert s.guarantee == "asymptotic" and s.status == "ok" and formula.satisfied(x).all()
    assert p > ALPHA
    # Twins: without the terms, or with their sign turned, the same test rejects.
    for wrong in (Polynomial({}), -1 * phi):
        y = heat_bath(formula, wrong, theta, DRAWS, seed=SEED).to_numpy()
        assert chi_square(y, law(formula, phi, theta)) < ALPHA


def test_stuck_chains_say_so():
    for name in ("cycle3", "triangles"):  # two orientations of a cycle: no street turns alone
        s = heat_bath(SMALL[name], terms_of(), None, 1000, seed=SEED)
        assert s.guarantee == "heuristic" and "remember" in s.info["why"]
    encoded = nelson.Formula([], n_vars=30).exactly(range(1, 31), 15)
    s = heat_bath(encoded, {(1, 2): 1.0}, None, 256, seed=SEED)
    assert s.guarantee == "heuristic" and encoded.satisfied(s.to_numpy()).all()


def test_evidence_holds_in_every_sample():
    """Weights of +-inf, and `given`: sweeps leave both alone."""
    formula = random_ksat(7, 12, 3, seed=4)
    theta = theta_of(formula)
    theta[5] = np.inf
    x = heat_bath(formula, terms_of(), theta, 500, seed=SEED, sweeps=4, given=[-2]).to_numpy()
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
    many = heat_bath(formula, terms, None, 1000, sweeps=5, seed=7).to_numpy()
    few = heat_bath(formula, terms, None, 100, sweeps=5, seed=7).to_numpy()
    np.testing.assert_array_equal(many[:100], few)
    other = heat_bath(formula, terms, None, 100, sweeps=5, seed=8).to_numpy()
    assert (few != other).any()
