"""Sampling by random parities: what `xor` (PAWS) and `weightgen` promise. Their parts are tested in
test_cells.py.

A promise "within a factor f" is tested on many events A (every state, every pair of literals): the
number of samples in A among m is between m P(A) / f and m P(A) f, up to 6 sigma of a binomial. A
right sampler fails one such event with probability below 1e-8, and there are some thousands: 1e-4
for all tests of this file. Seeds are fixed. Every such test has a twin that is rejected.
"""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

import nelson
from tests.problems import chi_square, exact_law, random_ksat, state_codes, weights

pytest.importorskip("pycryptosat")

from nelson_paper.samplers.hashing import cells, counting, paws, weightgen
from nelson_paper.samplers.scripts import hashing as script

ALPHA = 1e-6
FORMULA = random_ksat(12, 10, 4, seed=3)  # 1966 solutions
LAW = exact_law(FORMULA)
#: Weights that a sampler had better not ignore.
THETA = np.array([3.0, -3, 0, 0.5, -0.5, 0, 4, 0, 0, -0.2, 0, 1])


def space(formula, theta=None, tilt=2.0):
    theta = np.zeros(formula.n_vars) if theta is None else theta
    return cells.HashedSpace(formula.n_total, formula.clauses(), list(theta), tilt)


# --- what is promised ---------------------------------------------------------------------------


def events(x):
    """Samples (m, n) -> (m, events): every literal, and every pair of them."""
    literals = np.concatenate([x, ~x], axis=1)
    n = literals.shape[1]
    pairs = [literals[:, i] & literals[:, j] for i in range(n) for j in range(i)]
    return np.concatenate([literals, np.array(pairs).T], axis=1)


def within(x, law, factor, sigmas=6.0):
    """Is the promise kept on all states and on all pairs of literals?"""
    states, p = law
    order = np.argsort(state_codes(states))
    place = np.searchsorted(state_codes(states)[order], state_codes(x))
    counts = np.bincount(order[place], minlength=len(p))
    counts = np.concatenate([counts, events(x).sum(0)])
    expected = np.concatenate([p, p @ events(states)]).clip(0, 1)
    m, high, low = len(x), np.minimum(1, expected * factor), expected / factor
    above = counts > m * high + sigmas * np.sqrt(m * high * (1 - high) + 1)
    below = counts < m * low - sigmas * np.sqrt(m * low * (1 - low) + 1)
    return not (above | below).any()


def taken(source, count):
    """`count` samples of a generator of tries, and the number of tries."""
    tries = list(itertools.takewhile(lambda left: left is not None, _until(source, count)))
    rows = [row for row in tries if row != "failed"]
    return np.array(rows, bool), len(tries)


def _until(source, count):
    done = 0
    for row in source:
        yield "failed" if row is None else row
        done += row is not None
        if done == count:
            return


METHODS = {
    "weightgen": (weightgen.draws, (1 + weightgen.EPSILON) / 0.62),
    "xor": (paws.draws, 1 / paws.factor()),
}


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_the_promised_law(method, weighted):
    theta = THETA if weighted else None
    draws, factor = METHODS[method]
    whole, info = space(FORMULA, theta), {}
    x, tries = taken(draws(whole, random.Random(7), info), 4000)
    law = exact_law(FORMULA, theta)
    assert 0 < info["parities"] < whole.m
    assert within(x, law, factor)
    assert chi_square(x, law) > ALPHA  # closer than promised
    # Success: 6 sigma below what is promised.
    promised = 0.62 if method == "weightgen" else paws.success() / whole.tilt
    print(f"{method}: {len(x) / tries:.3f} of the tries succeed, {promised:.3f} promised")
    assert len(x) / tries > promised - 6 * math.sqrt(promised * (1 - promised) / tries)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_promised_law_with_a_solver_for_every_cell(method, monkeypatch):
    monkeypatch.setattr(cells, "DIMENSIONS", -1)
    monkeypatch.setattr(counting, "DIMENSIONS", -1)
    theta = 0.1 * THETA
    draws, factor = METHODS[method]
    x, _ = taken(draws(space(FORMULA, theta, 4.0), random.Random(7), {}), 300)
    assert within(x, exact_law(FORMULA, theta), factor)
    assert chi_square(x, exact_law(FORMULA, theta)) > ALPHA
    assert not within(x, exact_law(FORMULA, 10 * theta), factor)


@pytest.mark.slow
def test_plain_weightgen():
    """The paper's own form, no extra bits: weights of a small tilt are handled inside the cells."""
    theta = 0.2 * np.sign(THETA)
    whole = space(FORMULA, theta, tilt=math.inf)
    assert whole.m == 12 and whole.tilt == pytest.approx(math.exp(np.abs(theta).sum()))
    x, _ = taken(weightgen.draws(whole, random.Random(3), {}), 4000)
    assert within(x, exact_law(FORMULA, theta), METHODS["weightgen"][1])
    assert chi_square(x, exact_law(FORMULA, theta)) > ALPHA
    assert chi_square(x, LAW) < ALPHA


def first_solutions(whole, count, rng):
    """No parities: the solver's first solutions, drawn from by weight."""
    from pycryptosat import Solver

    solver = Solver()
    solver.add_clauses(whole.clauses)
    rows = []
    for _ in range(62):
        row = [bool(value) for value in solver.solve()[1][1:]]
        rows.append(row)
        solver.add_clause([-v if value else v for v, value in enumerate(row, 1)])
    return np.array(rows)[
        rng.choices(range(62), [whole.weight([0, *row]) for row in rows], k=count)
    ]


@pytest.mark.parametrize("method", METHODS)
def test_wrong_samplers_break_the_promise(method):
    factor = METHODS[method][1]
    rng = random.Random(4)
    states, _ = LAW
    uniform = states[rng.choices(range(len(states)), k=4000)]
    assert within(uniform, LAW, factor)
    assert not within(uniform, exact_law(FORMULA, THETA), factor)
    x = first_solutions(space(FORMULA, None, math.inf), 4000, rng)
    assert not within(x, LAW, factor)


@pytest.mark.slow
def test_a_draw_that_ignores_what_is_left_of_the_weights_is_noticed():
    """A twin for `xor`: without its last step the law is off by up to the tilt."""
    theta = np.full(12, 0.12)  # no extra bits: all of it is left
    whole = space(FORMULA, theta, tilt=5.0)
    assert whole.m == 12
    x, _ = taken(paws.draws(whole, random.Random(1), {}), 4000)
    law = exact_law(FORMULA, theta)
    assert within(x, law, 1 / paws.factor())
    uniform, _ = taken(paws.draws(space(FORMULA), random.Random(1), {}), 4000)
    assert chi_square(x, law) > ALPHA > chi_square(uniform, law)


# --- as samplers --------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize("method", METHODS)
class TestSamplers:
    def test_draws(self, method):
        s = nelson.sample(FORMULA, THETA, 500, method=method, seed=1)
        assert s.guarantee == "approximate" and s.status == "ok"
        assert s.info["epsilon"] == pytest.approx(METHODS[method][1] - 1)
        assert s.info["tries"] >= 500 and s.info["hash_bits"] > 12 and 1 < s.info["tilt"] <= 2
        assert within(s.to_numpy(), exact_law(FORMULA, THETA), METHODS[method][1])
        again = nelson.sample(FORMULA, THETA, 500, method=method, seed=1)
        assert np.array_equal(s.packed, again.packed)

    def test_few_solutions_are_listed_and_drawn_exactly(self, method):
        formula = random_ksat(10, 30, 3, seed=1)
        theta = 30 * weights(formula)  # far beyond what bits could say
        law = exact_law(formula, theta)
        s = nelson.sample(formula, theta, 20_000, method=method, seed=1)
        assert s.info["structures"] == len(law[0]) and "parities" not in s.info
        assert chi_square(s.to_numpy(), law) > ALPHA
        theta = weights(formula)
        s = nelson.sample(formula, theta, 20_000, method=method, seed=1)
        assert chi_square(s.to_numpy(), exact_law(formula, theta)) > ALPHA
        assert chi_square(s.to_numpy(), exact_law(formula, theta + 0.2)) < ALPHA

    def test_variables_in_no_clause_keep_their_own_law(self, method):
        formula = nelson.Formula([[1, 2], [5], [-5, 6, 7]], n_vars=8)
        theta = np.array([0.5, -1, 2, -2, 0, 1, 0, 0.3])
        s = nelson.sample(formula, theta, 20_000, method=method, seed=2, given=[-7])
        x = s.to_numpy()
        assert x[:, 4].all() and not x[:, 6].any() and s.info["structures"] == 3
        assert chi_square(x, exact_law(formula.given([-7]), theta)) > ALPHA
        free = nelson.sample(nelson.Formula([], n_vars=3), [1, 0, -1], 20_000, method=method)
        assert free.guarantee == "exact" and free.info["epsilon"] == 0

    def test_unsatisfiable_is_proved(self, method):
        with pytest.raises(nelson.Unsatisfiable, match="CryptoMiniSat"):
            nelson.sample(nelson.Formula([[1, 2], [1, -2], [-1, 2], [-1, -2]]), method=method)

    def test_a_weight_beyond_all_bits_says_so(self, method):
        theta = np.full(12, 800.0)
        s = nelson.sample(FORMULA, theta, 10, method=method, seed=1)
        assert len(s) == 0 and s.status == "budget" and "needs more than" in s.info["reason"]

    def test_what_was_finished_is_kept(self, method):
        s = nelson.sample(random_ksat(50, 50, 5, seed=1), None, 10**6, method=method, seconds=2)
        assert 0 < len(s) < 10**6 and s.status == "budget" and "time" in s.info["reason"]


def test_the_script_says_what_it_does():
    literals = np.array([literal for c in FORMULA.clauses() for literal in (*c, 0)], np.int32)
    task = {"method": "xor", "n": 12, "clauses": literals.tobytes(), "count": 30, "seed": 5}
    answers = list(script.solve({**task, "theta": np.zeros(12).tobytes()}))
    rows = np.frombuffer(b"".join(a["rows"] for a in answers), np.uint8).reshape(-1, 12)
    assert len(rows) == 30 == answers[-1]["drawn"] <= answers[-1]["tries"]
    assert FORMULA.satisfied(rows).all()
