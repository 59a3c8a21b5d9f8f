"""Clauses that small groups of clauses imply: by enumeration, and what they define."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nelson
from nelson.exact.inputs import LONGEST, MOST, implied
from nelson.formula.propagate import propagated
from tests.problems import random_ksat
from tests.structured.words import SBOX


def solutions(clauses, n: int) -> np.ndarray:
    rows = np.array(list(itertools.product([False, True], repeat=n)))
    return rows[nelson.Formula(clauses, n_vars=n).satisfied(rows)]


def s_box(ins, outs) -> list[list[int]]:
    """16 implications for each output bit."""
    clauses = []
    for value, image in enumerate(SBOX):
        differs = [-a if value >> k & 1 else a for k, a in enumerate(ins)]
        clauses += [[*differs, b if image >> k & 1 else -b] for k, b in enumerate(outs)]
    return clauses


def shortest(formula: nelson.Formula) -> set[tuple[int, ...]]:
    """All prime implicates of at most LONGEST literals, by the definition."""
    rows, n = solutions(list(formula.clauses()), formula.n_total), formula.n_total
    found: set[tuple[int, ...]] = set()
    for size in range(1, LONGEST + 1):
        for chosen in itertools.combinations(range(1, n + 1), size):
            for signs in itertools.product([1, -1], repeat=size):
                clause = tuple(sorted(np.multiply(chosen, signs).tolist()))
                at = np.abs(clause) - 1
                holds = (rows[:, at] == (np.array(clause) > 0)).any(1).all()
                if holds and not any(set(one) <= set(clause) for one in found):
                    found.add(clause)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_one_group_implies_all_its_prime_implicates(seed):
    """Random clauses of 3 over 6 variables share pairs, so that they are one group."""
    formula = random_ksat(6, 12 + seed % 3, 3, seed=seed)
    own = {tuple(sorted(clause)) for clause in formula.clauses()}
    expected = {clause for clause in shortest(formula) if len(clause) > 1}
    assert set(implied(formula)) == expected - own


def test_the_inputs_of_an_s_box_are_functions_of_its_outputs():
    """Of two S-boxes in a row, each is a group; a flipped literal is noticed (the twin)."""
    middle = (5, 6, 7, 8)
    clauses = s_box((1, 2, 3, 4), middle) + s_box(middle, (9, 10, 11, 12))
    formula = nelson.Formula(clauses)
    more = implied(formula)
    rows = solutions(clauses, formula.n_total)
    assert len(rows) == len(SBOX) and len(solutions(clauses + more, formula.n_total)) == len(rows)
    wrong = [(-more[0][0], *more[0][1:])]
    assert len(solutions(clauses + wrong, formula.n_total)) < len(rows)
    # The new clauses alone compute the bits 1..4 from the bits behind the first S-box.
    back = [clause for clause in more if {abs(a) for a in clause} <= {1, 2, 3, 4, *middle}]
    for image in itertools.product([1, -1], repeat=4):
        units = [[sign * wire] for sign, wire in zip(image, middle, strict=True)]
        known = propagated(nelson.Formula(back + units, n_vars=max(middle)))
        assert {1, 2, 3, 4} <= set(np.abs(known.fixed).tolist())


def test_gates_and_large_groups_are_left_alone():
    gate = nelson.Formula([[-3, 1], [-3, 2], [3, -1, -2]])
    assert implied(gate) == [] and implied(nelson.Formula([[1], [2, 3]])) == []
    assert implied(random_ksat(MOST + 4, 200, 3, seed=1)) == []
