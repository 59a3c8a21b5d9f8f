"""Inputs and gates: what is found in clauses, and the kernel that proposes, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.chains import engine
from nelson.chains.diagnosis.diagnose import pilot_request
from nelson.chains.problem import prepare
from nelson.exact.inputs import find_gates
from nelson.exact.preprocess import preprocess
from nelson.kernels.core.bits import unpack
from nelson.sampling.methods import rejection
from tests.kernels.reference_gates import propose
from tests.problems import encoded, random_ksat, weights
from tests.structured import circuits, words

SEED = 11
FORMULAS = {
    **encoded(),
    "adder": circuits.adder(3, 9),
    "circuit": circuits.random_circuit(5, 30, 2, seed=3),
    "cipher": words.feistel(4, 2, 1, 4, seed=2),
    "units": nelson.Formula([[1], [-1, 2, 3], [-4, 2], [4, -2], [5, 6, -4]], n_vars=8),
    "no gate": random_ksat(12, 20, 4, seed=1),
}


def proposals(formula, theta, count, given=(), threads=1):
    """(proposals that stay (m, n_total), mask (count,)) of the kernel."""
    problem = prepare(formula, given)
    kernel = rejection.kernel_for(problem)
    asked = pilot_request(theta[None], count, Budget(threads=threads), SEED)
    asked = replace(asked, columns=np.arange(formula.n_total), contexts=np.array([3]), max_rounds=0)
    table = kernel.laws(problem, asked.theta)
    block = engine.draw(kernel, 0, problem, asked, table, asked.contexts, 0, count)
    stays = unpack(block.filled[0][:, None], count)[:, 0].astype(bool)
    return unpack(block.packed[0], count)[stays], stays


@pytest.mark.parametrize("name", [name for name in FORMULAS if name != "no gate"])
def test_the_kernel_is_the_reference(name):
    """Weighted gates, fixed variables, evidence, and lanes behind the last sample."""
    formula, count = FORMULAS[name], 64 * 17 + 5
    theta = 0.3 * weights(formula)
    theta[::3] = 0.0
    problem = prepare(formula, (-2,))
    entries = rejection.entries(problem, rejection.gates_of(problem))
    every = np.concatenate([theta, np.zeros(formula.n_aux)])
    thr = problem.thresholds(theta[None])[0]
    x, stays = propose(problem.program, entries, thr, every, SEED, count, context=3)
    kept, mask = proposals(formula, theta, count, (-2,))
    assert np.array_equal(mask, stays) and stays.any()
    assert np.array_equal(kept, x[stays])
    assert np.array_equal(kept, proposals(formula, theta, count, (-2,), threads=2)[0])


def staying_and_valid(formula, change=lambda entries: entries):
    """Of 4,096 proposals without weights: which stay, and which satisfy all clauses?"""
    problem, none = prepare(formula), np.zeros(formula.n_total)
    entries = change(rejection.entries(problem, rejection.gates_of(problem)))
    thr = problem.thresholds(none[None, : formula.n_vars])[0]
    x, stays = propose(problem.program, entries, thr, none, SEED, 4096)
    return stays, nelson.Formula(list(formula.clauses()), n_vars=formula.n_total).satisfied(x)


@pytest.mark.parametrize("name", FORMULAS)
def test_gates_and_tests_are_the_whole_formula(name):
    """A proposal stays if and only if it satisfies all clauses: each clause is a test, or part of a
    gate, or implied by gates.
    """
    stays, valid = staying_and_valid(FORMULAS[name])
    assert np.array_equal(stays, valid) and valid.any()


def test_a_lost_test_is_noticed():
    """The twin of the test above: one test gets a literal and its negation."""

    def without_one(entries):
        term = entries.first[np.flatnonzero(entries.target < 0)[-1]]
        codes = entries.codes.copy()
        codes[entries.start[term]] = codes[entries.start[term + 1] - 1] ^ 1
        return entries._replace(codes=codes)

    stays, valid = staying_and_valid(FORMULAS["exactly"], without_one)
    assert (stays & ~valid).any()


def test_few_inputs_are_left():
    """The inputs of an adder, whatever order its variables have; fewer if an output defines one."""
    adder = circuits.adder(8)
    assert len(find_gates(adder).inputs) == 16
    for seed in range(3):
        new = np.random.default_rng(seed).permutation(adder.n_vars) + 1
        literals = np.sign(adder.literals) * new[np.abs(adder.literals) - 1]
        mixed = nelson.Formula.from_arrays(
            literals.astype(np.int32), adder.offsets, n_vars=adder.n_vars
        )
        assert len(find_gates(mixed).inputs) <= 18
    assert len(find_gates(random_ksat(30, 60, 3, seed=1)).targets) == 0


@pytest.mark.slow
def test_outputs_define_inputs_of_a_cipher():
    """80 key bits, 36 bits of output known. Without the local search 80 inputs are left, without
    the clauses that S-boxes imply 70; with 62, one proposal in 2^18 is valid.
    """
    cipher = words.feistel(16, 5, 2, 18, seed=1)
    reduced = preprocess(cipher, np.zeros((1, cipher.n_vars)), steps=("equal", "subsume"))
    (part,) = reduced.components
    formula = nelson.Formula.from_arrays(part.literals, part.offsets, n_vars=part.n_vars)
    assert len(find_gates(formula).inputs) <= 64
