"""`unique=True`: the law of distinct samples by enumeration, and the guarantee that follows.

A test of a law rejects a right sampler with probability ALPHA. Seeds are fixed.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nelson
from tests.problems import chi_square, exact_law

ALPHA = 1e-6
RUNS = 3000
FORMULA = nelson.Formula([[1, 2, 3], [-1, -2]])
THETA = np.array([1.5, 0.0, -1.0])
#: 5 solutions; the parity makes auxiliary variables.
PARITY = nelson.Formula([[1, 2]], n_vars=7).xor([1, 2, 3, 4, 5, 6, 7])


def pairs_of(formula, theta):
    """The law of (x_1, x_2) drawn without replacement, and that of two independent draws that
    happen to differ; both as (pairs of states (m, 2 n), probabilities)."""
    states, p = exact_law(formula, theta)
    pairs = np.array(list(itertools.permutations(range(len(p)), 2)))
    joined = np.concatenate([states[pairs[:, 0]], states[pairs[:, 1]]], axis=1)
    first, second = p[pairs[:, 0]], p[pairs[:, 1]]
    independent = first * second / (first * second).sum()
    return (joined, first * second / (1 - first)), (joined, independent)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_two_distinct_samples_follow_the_law_that_is_stated(scale):
    """The twin, independent draws given that they differ, is rejected if theta is not uniform."""
    stated, twin = pairs_of(FORMULA, scale * THETA)
    options = {"unique": True, "method": "prs", "threads": 1}
    drawn = [nelson.sample(FORMULA, scale * THETA, 2, seed=seed, **options) for seed in range(RUNS)]
    pairs = np.array([s.to_numpy().reshape(-1) for s in drawn])
    assert chi_square(pairs, stated) > ALPHA
    assert (chi_square(pairs, twin) > ALPHA) == (scale == 0.0)
    # Each sample by itself has the law of theta only if theta is uniform: the label must agree.
    alone = chi_square(pairs[:, 3:], exact_law(FORMULA, scale * THETA)) > ALPHA
    assert alone == (scale == 0.0)
    assert {s.guarantee for s in drawn} == {"exact" if alone else "heuristic"}


def test_shares_move_and_the_label_says_so():
    """P = (0.9, 0.1); among two distinct samples each has the share 1/2."""
    formula, theta = nelson.Formula([[1, 2], [-1, -2]]), [np.log(9.0), 0.0]
    plain = nelson.sample(formula, theta, 1000, seed=1)
    assert plain.guarantee == "exact" and "law" not in plain.info
    s = nelson.sample(formula, theta, 2, unique=True, seed=1)
    assert s.mean().tolist() == [0.5, 0.5] and s.guarantee == "heuristic"
    assert "single draws: exact" in s.info["law"] and "shares of theta" in s.info["why"]


@pytest.mark.parametrize(
    ("formula", "options", "guarantee"),
    [
        (FORMULA, {}, "exact"),
        (FORMULA, {"given": [3]}, "exact"),
        (FORMULA, {"theta": [0, 0, np.inf]}, "exact"),  # evidence: uniform over what is left
        (FORMULA, {"theta": THETA, "n": 1}, "exact"),  # the first sample follows P_theta
        (FORMULA, {"project": [3, 1, 2]}, "exact"),
        (FORMULA, {"project": [1, 3]}, "heuristic"),  # 2 solutions for (0, 1), 1 for (0, 0)
        (FORMULA, {"theta": THETA}, "heuristic"),
        (PARITY, {}, "exact"),  # auxiliary variables are functions of the others
        (nelson.Formula([[1, 2, 3]], n_vars=2, n_aux=1), {}, "heuristic"),
    ],
)
def test_the_guarantee_stays_only_if_the_rows_are_uniform(formula, options, guarantee):
    s = nelson.sample(formula, **{"n": 2, "unique": True, "seed": 1, "method": "prs", **options})
    assert s.status == "ok" and s.guarantee == guarantee


def test_sweeps_stay_asymptotic_and_chains_without_promise_heuristic():
    swept = {"method": "lovasz", "sweeps": 5}
    plain = nelson.sample(FORMULA, None, 3, seed=1, **swept).guarantee
    assert nelson.sample(FORMULA, None, 3, unique=True, seed=1, **swept).guarantee == plain
    s = nelson.sample(FORMULA, None, 3, unique=True, seed=1, method="gibbs")
    assert s.guarantee == "heuristic" and "single draws: heuristic" in s.info["law"]
