"""QuickSampler: its mutations and combinations exactly, and what comes out of them."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest

import nelson
from nelson_paper.samplers.scripts import quicksampler as script
from tests.problems import all_states, chi_square, exact_law, random_ksat

SEED = 11


def formula_of(formula, s=None):
    return script.ClauseSet(formula.clauses(), formula.n_total, s or formula.n_vars)


def rows_of(samples, n):
    return np.array([[sample >> v & 1 for v in range(n)] for sample in samples], bool)


def pairs(k):
    """x1 = x2, x3 = x4, ..: the two of a pair only flip together."""
    return nelson.Formula(
        [c for i in range(1, 2 * k, 2) for c in ([i, -i - 1], [-i, i + 1])], n_vars=2 * k
    )


# --- the rule -----------------------------------------------------------------------------------


def test_an_example_by_hand():
    """x1 = x2 and (x3 or x4), sigma = 1101: x1 and x2 flip together, x3 alone, x4 with x3."""
    formula = nelson.Formula([[1, -2], [-1, 2], [3, 4]])
    f, sigma = formula_of(formula), [0, 1, 2, -3, 4]
    assert script.bits(sigma, 4) == 0b1011
    found = [f.mutation(sigma, v) for v in (1, 2, 3, 4)]
    assert found == [0b0011, 0b0011, 0b0100, 0b1100]
    samples = script.combinations(0b1011, [0b0011, 0b0100, 0b1100])
    # Mutations 0100 and 1100 share a bit, which is flipped once: their union is 1100 again.
    assert samples == [0b1011, 0b1000, 0b1111, 0b0111, 0b1100, 0b0100]
    assert formula.satisfied(rows_of(samples, 4)).all()


def test_unions_not_sums():
    assert set(script.combinations(0, [0b011, 0b110])) == {0, 0b011, 0b110, 0b111}
    assert script.combinations(0b101, []) == [0b101]


def test_at_most_six_mutations():
    masks = [1 << k for k in range(8)]
    samples = script.combinations(0, masks)
    assert len(samples) == sum(math.comb(8, k) for k in range(7))
    assert max(sample.bit_count() for sample in samples) == 6
    assert len(script.combinations(0, masks, levels=2)) == 1 + 8 + 28


def test_some_of_the_combinations():
    """Drawn distinct, and each choice of mutations as likely as any other: 5 sigma on the number of
    mutations, 7 bins, false alarm below 1e-5.
    """
    rng = random.Random(SEED)
    masks = [1 << k for k in range(20)]
    every = set(script.combinations(0, masks, levels=6))
    found = script.some(0, masks, 2000, rng)
    assert len(set(found)) == len(found) == 2000 and set(found) <= every
    ways = np.array([math.comb(20, k) for k in range(7)], float)
    counts = np.bincount([sample.bit_count() for sample in found], minlength=7)
    p = ways / ways.sum()
    assert (np.abs(counts - 2000 * p) <= 5 * np.sqrt(2000 * p * (1 - p)) + 1).all()
    uniform_over_levels = Counter(rng.randrange(7) for _ in range(2000))  # the twin
    assert abs(uniform_over_levels[0] - 2000 * p[0]) > 5 * math.sqrt(2000 * p[0]) + 1
    few = script.some(5, masks[:3], 2000, rng)
    assert sorted(few) == sorted(script.combinations(5, masks[:3]))


@pytest.mark.parametrize("seed", range(4))
def test_mutations_are_the_closest_solutions(seed):
    """Against enumeration: as few bits as any solution that differs there."""
    formula = random_ksat(9, 24, 3, seed=seed)
    f, rng = formula_of(formula), random.Random(seed)
    states = all_states(9)
    states = states[formula.satisfied(states)]
    target = rng.getrandbits(9)
    base = f.closest(target)
    row = np.array(base[1:]) > 0
    distance = (states != rows_of([target], 9)).sum(1).min()
    assert formula.satisfied(row) and (row != rows_of([target], 9)[0]).sum() == distance
    for v in range(1, 10):
        other = states[states[:, v - 1] != row[v - 1]]
        mutation = f.mutation(base, v)
        if not len(other):
            assert mutation is None
            continue
        assert mutation >> v - 1 & 1 and mutation.bit_count() == (other != row).sum(1).min()
        assert formula.satisfied(row ^ rows_of([mutation], 9)[0])


def test_an_epoch():
    formula = random_ksat(9, 24, 3, seed=1)
    f, frozen = formula_of(formula), set()
    base, mutations = script.epoch(f, frozen, random.Random(1))
    single = rows_of(script.combinations(base, mutations, levels=1), 9)
    assert formula.satisfied(single).all() and len(single) == 1 + len(mutations)
    states, _ = exact_law(formula)
    constant = {v for v in range(1, 10) if states[:, v - 1].min() == states[:, v - 1].max()}
    assert frozen == constant
    nothing, _ = script.epoch(formula_of(nelson.Formula([[1], [-1]])), set(), random.Random(1))
    assert nothing is None


def test_time_that_is_up():
    f = script.ClauseSet([[1, 2]], 2, 2, deadline=-1.0)
    with pytest.raises(script.TimeUp):
        f.closest(0)
    task = {"n": 2, "clauses": np.array([1, 2, 0], np.int32).tobytes(), "set": 2, "known": []}
    assert list(script.solve({**task, "count": 5, "seed": 1, "seconds": 0})) == [
        {"error": "stopped"}
    ]


# --- what comes out -----------------------------------------------------------------------------


@pytest.mark.process
def test_parts_that_do_not_meet_are_always_valid():
    """Mutations of different components never disturb each other. The twin flips single bits."""
    formula = pairs(15)
    s = nelson.sample(formula, None, 2000, method="quicksampler", seed=SEED, check=False)
    assert len(s) == 2000 and s.info["validity"] == 1.0
    rng = random.Random(SEED)
    base, _ = script.epoch(formula_of(formula), set(), rng)
    bits = [1 << k for k in range(30)]
    wrong = rows_of(script.some(base, bits, 2000, rng), 30)
    assert formula.satisfied(wrong).mean() < 0.1


@pytest.mark.process
def test_most_are_valid_where_clauses_are_loose():
    """5-SAT, n = L = 50: 0.82 of 5000 are valid. The band is 5 sigma below 0.7 of independent
    samples times 3, for samples of one epoch depend on each other. The twin, six random single
    flips of a random assignment, has (31/32)^50 = 0.2.
    """
    formula = random_ksat(50, 50, 5, seed=1)
    s = nelson.sample(formula, None, 5000, method="quicksampler", seed=SEED, check=False)
    assert s.guarantee == "heuristic" and s.status == "ok" and s.info["epochs"] == 5
    assert s.info["validity"] > 0.7 - 15 * math.sqrt(0.21 / 5000)
    assert s.info["validity"] == pytest.approx(formula.satisfied(s.to_numpy()).mean())
    random_rows = np.random.default_rng(SEED).integers(0, 2, (5000, 50)).astype(bool)
    assert formula.satisfied(random_rows).mean() < 0.5
    good = nelson.sample(formula, None, 1000, method="quicksampler", seed=SEED)
    assert len(good) == 1000 and formula.satisfied(good.to_numpy()).all()
    assert good.info["invalid"] > 0 and good.info["drawn"] > 1000


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.process
def test_every_solution_is_found(seed):
    formula = random_ksat(10, 20, 4, seed=seed)
    states, _ = exact_law(formula)
    s = nelson.sample(formula, None, 6000, method="quicksampler", seed=SEED)
    found = np.unique(s.to_numpy(), axis=0)
    assert len(found) == len(states)


@pytest.mark.process
def test_it_is_not_uniform_and_does_not_say_so():
    """Which the twin is: `enumerate` passes the same test, which errs with probability 1e-6."""
    formula = random_ksat(14, 14, 5, seed=1)
    law = exact_law(formula)
    s = nelson.sample(formula, None, 5000, method="quicksampler", seed=SEED)
    assert s.guarantee == "heuristic" and chi_square(s.to_numpy(), law) < 1e-6
    s = nelson.sample(formula, None, 5000, method="enumerate", seed=SEED)
    assert chi_square(s.to_numpy(), law) > 1e-6


@pytest.mark.process
def test_auxiliary_variables_follow():
    formula = nelson.Formula([[1, 2, 3]], n_vars=10).xor(range(1, 11))
    assert formula.n_aux
    s = nelson.sample(formula, None, 500, method="quicksampler", seed=SEED, given=[4])
    x = s.to_numpy()
    assert x.shape == (500, 10) and formula.satisfied(x).all() and x[:, 3].all()
    # Nobody says what these stand for, so they are mutated like the others.
    plain = nelson.Formula(formula.clauses(), n_vars=10, n_aux=formula.n_aux)
    s = nelson.sample(plain, None, 50, method="quicksampler", seed=SEED)
    assert len(s) == 50 and formula.satisfied(s.to_numpy()).all()


@pytest.mark.process
def test_weights_are_refused_and_unsatisfiable_is_proved():
    formula = nelson.Formula([[1, 2]])
    with pytest.raises(nelson.FormulaError, match="quicksampler"):
        nelson.sample(formula, [1.0, 0.0], 5, method="quicksampler")
    nothing = nelson.Formula([list(c) for c in itertools.product((1, -1), (2, -2), (3, -3))])
    with pytest.raises(nelson.Unsatisfiable, match="RC2"):
        nelson.sample(nothing, None, 5, method="quicksampler")


@pytest.mark.process
def test_a_budget_keeps_what_was_found():
    hard = random_ksat(200, 800, 3, seed=1)
    s = nelson.sample(hard, None, 10**6, method="quicksampler", seed=SEED, check=False, seconds=4)
    assert s.status == "budget" and "time" in s.info["reason"]
    assert s.guarantee == "heuristic"
