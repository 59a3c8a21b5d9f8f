"""The diagnostics that let `auto` call chains asymptotic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nelson.formula import Formula
from nelson.sampling import engine
from nelson.sampling.auto import agree
from nelson.sampling.chain import Chains, resumed
from nelson.sampling.mixing import pilot_request
from nelson.sampling.problem import prepare
from tests.problems import (
    random_ksat,
    weights,
)
from tests.sampling.auto.decisions import decided, xor3

# --- diagnostics ----------------------------------------------------------------------------------


def test_j_sweeps_and_k_more_are_j_plus_k():
    f = random_ksat(100, 150, 5, seed=1)
    theta = np.random.default_rng(0).normal(size=(2, 100))
    problem = prepare(f)
    for count in (50, 64 * 16 + 7):
        request = pilot_request(theta, count, 1, None)
        request = replace(request, columns=np.arange(100))
        early = next(engine.blocks(0, problem, replace(request, sweeps=3)))
        late = next(engine.blocks(0, problem, replace(request, sweeps=8)))
        block = resumed(problem, replace(request, sweeps=5), early.packed, 3, 0, count)
        assert np.array_equal(block.packed, late.packed)
        assert np.array_equal(block.valid, late.valid)


def test_a_start_that_is_not_valid_is_not_handed_out():
    f = random_ksat(20, 40, 3, seed=1)
    request = pilot_request(np.zeros((1, 20)), 64, 1, None)
    bad = np.zeros((1, 20), bool)
    bad[0] = ~f.satisfied(bad)[0]
    chains = Chains.given(prepare(f), request, [np.vstack([bad, ~bad])])
    right = f.satisfied(np.vstack([bad, ~bad]))
    chains.sweep_to(3)
    assert chains.lanes() == 32 * right.sum()


@pytest.mark.parametrize("skip", [(), ("resampling",)])
@pytest.mark.process
def test_chains_that_are_cut_off_are_called_heuristic(skip):
    """Two parities with a shared variable; 3-SAT whose space falls apart. The twin is connected."""
    for f in (xor3(), random_ksat(12, 24, 3, seed=3)):
        choice = decided(f, "enumerate", "circuit", *skip, theta=weights(f)).choice
        assert choice.guarantee == "heuristic", choice
    free = random_ksat(12, 12, 5, seed=3)
    choice = decided(free, "enumerate", "circuit", *skip).choice
    assert choice.guarantee == "asymptotic", choice


def test_starts_elsewhere_show_what_correlations_do_not():
    """Two far apart cubes, {x1..x4 = 0} and {x1..x4 = 1}, within which chains mix at once: of the
    free variables x5.. nothing is seen. Marginals from other starts tell; where there is one cube
    only, they agree.
    """
    clauses = [[-1, 2], [-2, 3], [-3, 4], [-4, 1], [1, 5, 6], [-1, 7, 8]]
    f = Formula(clauses, n_vars=8)
    problem = prepare(f)
    theta = np.zeros((1, 8))
    request = pilot_request(theta, 64, 1, None)
    kinds = agree.looks(agree.shifted(problem, request), 50)
    plain = Chains.resampled(problem, pilot_request(theta, 4096, 1, None), theta)
    kinds += agree.looks([plain], 50)
    assert agree.compare(kinds).agree is False
    one = prepare(Formula([[1, 5, 6], [-1, 7, 8], [5, 7]], n_vars=8))
    kinds = agree.looks(agree.shifted(one, request), 50)
    kinds += agree.looks([Chains.resampled(one, pilot_request(theta, 4096, 1, None), theta)], 50)
    assert agree.compare(kinds).agree is True
    assert agree.compare(kinds[:1]).agree is None
