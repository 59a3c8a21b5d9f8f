"""Cuts: proofs that shares are impossible, found with few known solutions or with none."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact import hull
from nelson.exact.enumerated import law
from nelson.exact.hull import Cut, deepest_direction, features, separate
from nelson.formula import Formula

NOTHING_KNOWN = 0


def distance(rows, shares):
    """min over mixtures p of the rows of max_k |shares_k - (p rows)_k|: the primal program."""
    m, k = rows.shape
    below = np.hstack([rows.T, -np.ones((k, 1))])
    above = np.hstack([-rows.T, -np.ones((k, 1))])
    answer = linprog(
        [0.0] * m + [1.0],
        A_ub=np.vstack([below, above]),
        b_ub=[*shares, *(-np.array(shares))],
        A_eq=[[1.0] * m + [0.0]],
        b_eq=[1.0],
    )
    return answer.fun


def random_cases(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        clauses = [
            [int(v * rng.choice([-1, 1])) for v in rng.choice(6, 3, False) + 1] for _ in range(12)
        ]
        formula = Formula(clauses, n_vars=6)
        literals = rng.choice(6, 5, False) + 1
        states, _ = law(formula)
        rows = features(states, literals).astype(float)
        inside = rng.dirichlet(np.full(len(rows), 0.3)) @ rows
        yield formula, literals.tolist(), rng.choice([inside, rng.random(5)]), rows, states


@pytest.mark.slow
@pytest.mark.parametrize("known", [NOTHING_KNOWN, 3, None])
def test_cuts_are_found_exactly_where_a_linear_program_sees_a_distance(known):
    """With no solution known at first, with three, and with all of them."""
    cuts = 0
    for formula, literals, shares, rows, states in random_cases(30, seed=1):
        found = separate(formula, literals, shares, states[:known], complete=known is None)
        far = distance(rows, shares)
        assert (found is not None) == (far > 1e-9)
        if found is not None:
            cuts += 1
            d = np.array(found.direction)
            assert (rows @ d).max() == found.highest
            assert found.asked == pytest.approx(d @ shares) and found.highest < found.asked
            assert found.depth <= far + 1e-9
    assert 6 < cuts < 24


def test_the_depth_of_the_deepest_cut_is_the_distance():
    for _, _, shares, rows, _ in random_cases(20, seed=2):
        depth, d = deepest_direction(rows, shares)
        assert depth == pytest.approx(distance(rows, shares), abs=1e-9)
        assert np.abs(d).sum() < 1 + 1e-9
        assert depth == pytest.approx(d @ shares - (rows @ d).max(), abs=1e-9)


def test_two_fields_of_which_several_values_exclude_several():
    """Values 1, 2 of one field go with values 5, 6 of the other only: 0.7 against 0.6. A transport
    problem: the reason has four values, and all coefficients are 1 or -1."""
    fields = [[1, 2, 3, 4], [5, 6, 7, 8]]
    clauses = [[-a, -b] for f in fields for a, b in itertools.combinations(f, 2)] + fields
    formula = Formula([*clauses, [-1, 5, 6], [-2, 5, 6]])
    shares = [0.35, 0.35, 0.2, 0.1, 0.3, 0.3, 0.2, 0.2]
    found = separate(
        formula, range(1, 9), shares, np.zeros((0, 8), bool), groups=[range(4), range(4, 8)]
    )
    assert found == Cut((1, 1, 0, 0, -1, -1, 0, 0), 0, pytest.approx(0.1))


def test_without_time_nothing_is_claimed():
    formula = Formula([[-1, -2, -3]])
    with pytest.raises(BudgetExceeded, match="not decided in 0 seconds"):
        separate(formula, [1, 2, 3], [0.7] * 3, np.zeros((0, 3), bool), budget=Budget.of(0.0))


def test_without_solutions():
    for clauses in ([[]], [[1], [-1]]):
        with pytest.raises(Unsatisfiable):
            separate(Formula(clauses, n_vars=1), [1], [0.5], np.zeros((0, 1), bool))


def test_rounding_is_no_reason():
    """Shares that sum to 1 - 1e-16, as 0.6 + 0.3 + 0.1 does, are possible."""
    fields = [[1, 2, 3], [-1, -2], [-1, -3], [-2, -3]]
    nothing = np.zeros((0, 3), bool)
    shares = [0.6, 0.3, 0.1]
    assert sum(shares) != 1.0
    assert separate(Formula(fields), [1, 2, 3], shares, nothing, groups=[[0, 1, 2]]) is None
    assert separate(Formula(fields), [1, 2, 3], [0.6, 0.3, 0.1 + 1e-6], nothing) is not None


def test_many_known_solutions_do_not_make_a_large_program(monkeypatch):
    """The program starts with few of them; the maximum over all of them adds what is missing."""
    monkeypatch.setattr(hull, "_MAX_FIRST_ROWS", 5)
    formula = Formula([[-1, -2, -3, -4, -5]], n_vars=8)
    states, _ = law(formula)
    found = separate(formula, [1, 2, 3, 4, 5], [0.85] * 5, states, complete=True)
    assert found == Cut((1,) * 5, 4, pytest.approx(4.25))
    assert separate(formula, [1, 2, 3, 4, 5], [0.79] * 5, states, complete=True) is None
