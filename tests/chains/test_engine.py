"""Work spaces that stay with a problem change no sample."""

from __future__ import annotations

import pickle

import numpy as np

import nelson
from nelson.chains.problem import prepare
from nelson.kernels.core.rng import MAX_ROUNDS
from tests.problems import random_ksat


def drawn(formula: nelson.Formula, seed: int, **options: object) -> np.ndarray:
    return nelson.sample(formula, None, 500, method="lovasz", sweeps=3, seed=seed, **options).packed


def test_work_spaces_are_used_again_and_give_the_same_bits():
    formula = random_ksat(60, 120, 3, seed=1)
    first = drawn(formula, 1)
    idle = prepare(formula).idle_scratch
    before = {id(space) for spaces in idle.values() for space in spaces}
    again = drawn(formula, 2)
    assert before and before <= {id(space) for spaces in idle.values() for space in spaces}
    assert np.array_equal(again, drawn(random_ksat(60, 120, 3, seed=1), 2))
    assert np.array_equal(first, drawn(formula, 1))


def test_a_work_space_that_a_deadline_left_in_disorder_is_not_kept():
    hard = random_ksat(200, 800, 3, seed=1)  # satisfiable, but resampling does not converge
    options = {"method": "lovasz", "sweeps": 0, "max_rounds": MAX_ROUNDS, "seconds": 0.2}
    s = nelson.sample(hard, None, 500, seed=1, **options)
    assert s.status == "budget" and not any(prepare(hard).idle_scratch.values())


def test_pickles_hold_no_work_space():
    formula = random_ksat(60, 120, 3, seed=1)
    drawn(formula, 1)
    problem = prepare(formula)
    assert any(problem.idle_scratch.values())
    assert not any(pickle.loads(pickle.dumps(problem)).idle_scratch.values())
