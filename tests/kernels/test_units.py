"""Sweeps over units: the kernel against the NumPy reference, and both against the law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nelson.formula import Formula
from nelson.kernels.core import reference_units
from nelson.kernels.core.bits import pack, unpack
from nelson.kernels.core.reference import threshold
from nelson.sampling.chain import resumed
from nelson.sampling.diagnosis.diagnose import pilot_request
from nelson.sampling.problem import prepare
from nelson.sampling.sampler import Request
from nelson.sampling.terms import Terms
from nelson.sampling.units import Units, unit_moves
from tests.problems import chi_square, exact_law, random_ksat, weights

#: A right sweep fails a chi-square test with this probability; seeds are fixed.
ALPHA = 1e-4


def pairwise(groups: int, size: int, exactly: bool, clauses: list[list[int]]) -> Formula:
    """Groups of which at most one, or exactly one, is true; and clauses across them."""
    rows = [list(range(1 + g * size, 1 + (g + 1) * size)) for g in range(groups)]
    apart = [[-a, -b] for row in rows for a in row for b in row if a < b]
    return Formula([*(rows if exactly else []), *apart, *clauses], n_vars=groups * size)


ACROSS = [[-1, -4], [2, 5, 9], [-3, -8, 6], [-7, 1, 2], [4, -9]]
FORMULAS = {
    "3-sat": random_ksat(9, 14, 3, 1),
    "exactly one": pairwise(3, 3, True, ACROSS),
    "at most one": pairwise(3, 3, False, ACROSS),
    "colours": pairwise(3, 3, True, [[-k, -k - 3] for k in range(1, 7)]),
    "implications": Formula([[-1, 2], [-2, 3], [-3, 4], [1, 5], [-5, -4, 6], [7, -8]], n_vars=9),
    "evidence": Formula([[1], [-1, 2, 3], [-2, -3], [-2, -4], [-3, -4], [5, 6, -4]], n_vars=9),
}
TERMS = [(1, 4), (2, 5), (4, 7), (1, 6, 8), (1, 2), (3, 9), (2, 4, 6, 9), (5, 8)]
COEFFICIENTS = np.array([1.5, -2.0, 3.0, 4.0, 5.0, -1.0, 2.5, -0.7])


def units_of(f: Formula, moves: Units) -> list[list[int]]:
    p = moves.program
    literals = ((p.literal >> 1) + 1) * np.where(p.literal & 1, 1, -1)
    return [literals[a:b].tolist() for a, b in zip(p.unit_at[:-1], p.unit_at[1:], strict=True)]


def model_of(f: Formula, moves: Units, theta: np.ndarray) -> reference_units.Model:
    problem, w = prepare(f), moves.weights(prepare(f), theta[None])
    p = moves.program
    fields = np.zeros(f.n_total, np.int64)
    fields[p.row >= 0] = w.theta[p.row[p.row >= 0]]
    kept = [term for term, keep in zip(TERMS, moves.kept, strict=False) if keep]
    return reference_units.Model(
        list(problem.rest), units_of(f, moves), threshold(theta), theta, kept, fields,
        w.coefficient.astype(np.int64), float(w.scale.view(np.float64)[0]),
    )  # fmt: skip


def moves_of(f: Formula, terms: bool, fields: bool = True) -> Units:
    found = unit_moves(prepare(f), Terms.of(TERMS) if terms else None, fields)
    assert found is not None
    return found.weighted(COEFFICIENTS) if terms else found


def law_of(f: Formula, theta: np.ndarray, terms: bool) -> tuple[np.ndarray, np.ndarray]:
    states, p = exact_law(f, theta)
    if terms:
        products = np.array([states[:, np.array(t) - 1].all(1) for t in TERMS]).T
        p = p * np.exp(products @ COEFFICIENTS)
    return states, p / p.sum()


def starts(f: Formula, theta: np.ndarray, terms: bool, count: int, seed: int = 1) -> np.ndarray:
    """Solutions drawn from the law: (count, n_total)."""
    states, p = law_of(f, theta, terms)
    return states[np.random.default_rng(seed).choice(len(states), count, p=p)]


def request_for(theta: np.ndarray, count: int, moves: Units, **more: object) -> Request:
    return replace(pilot_request(np.atleast_2d(theta), count, 1, None), moves=moves, **more)


def swept(f, moves, theta, x, sweeps, seed=3, **more) -> np.ndarray:
    request = request_for(theta, len(x), moves, sweeps=sweeps, seed=seed, **more)
    block = resumed(prepare(f), request, pack(x)[None], 0, 0, len(x))
    assert (block.valid == ~np.uint64(0)).all()
    return unpack(block.packed[0], len(x))


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("terms", [False, True])
def test_the_kernel_is_the_reference_bit_for_bit(name, terms):
    f = FORMULAS[name]
    theta = weights(f)
    moves, x = moves_of(f, terms), starts(f, theta, terms, 192)
    x[5] ^= True  # a state that may violate clauses: it is treated the same
    request = request_for(theta, 192, moves, sweeps=4, seed=7, contexts=np.array([3]))
    block = resumed(prepare(f), request, pack(x)[None], 2, 4, 192)
    expected = x
    for k in range(2, 6):
        expected = reference_units.sweep(model_of(f, moves, theta), expected, 7, k, 3, 4)
    got = unpack(block.packed[0], 192)
    assert np.array_equal(got, expected) and (got != x).any()
    sound = np.array([f.satisfied(row) for row in x])
    assert np.array_equal(f.satisfied(got), sound)  # no state becomes valid or invalid


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("terms", [False, True])
def test_a_sweep_from_the_law_stays_in_the_law(name, terms):
    """Chi-square of 64,000 samples; a right sweep fails with probability 1e-4."""
    f = FORMULAS[name]
    theta = weights(f)
    x = starts(f, theta, terms, 64_000)
    y = swept(f, moves_of(f, terms), theta, x, 1)
    assert (x != y).any(1).mean() > 0.1
    assert chi_square(y, law_of(f, theta, terms)) > ALPHA
