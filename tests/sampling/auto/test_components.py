"""`method="auto"` on formulas of several components, and what holds for every method."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.formula import Formula
from tests.problems import (
    chi_square,
    exact_law,
    example1,
    random_ksat,
    sink_free,
    weights,
)
from tests.sampling.auto.decisions import ALPHA, joined, mixed, needs_d4

# --- components ---------------------------------------------------------------------------------


@needs_d4
@pytest.mark.process
def test_components_have_methods_of_their_own():
    f = joined(example1(), Formula([[1, 2], [1, 3]]), random_ksat(18, 18, 5, seed=4))
    f = Formula(f.clauses(), n_vars=f.n_vars + 2)  # and two free variables
    s = nelson.sample(f, None, 2000, seed=1)
    assert s.guarantee == "exact"
    assert {part["method"] for part in s.info["auto"]} == {"lovasz", "enumerate", "circuit"}
    assert sum(part["variables"] for part in s.info["auto"]) == f.n_vars
    assert f.satisfied(s.to_numpy()).all()


def test_components_are_independent_and_each_has_its_law():
    """The joint law of two components is the product; the twin shows them the same numbers."""
    one, two = Formula([[1, 2], [1, 3]]), sink_free([(0, 1), (1, 2), (2, 0)])
    f = joined(one, two)
    theta = weights(f)
    s = nelson.sample(f, theta, 20_000, seed=3)
    assert len({part["method"] for part in s.info["auto"]}) == 2
    law = exact_law(f, theta)
    x = s.to_numpy()
    assert chi_square(x, law) > ALPHA
    # The same two marginal laws, sorted so that they go together: rejected.
    order = np.argsort(x[:, :3] @ [4, 2, 1], kind="stable")
    other = np.argsort(x[:, 3:] @ [4, 2, 1], kind="stable")
    assert chi_square(np.hstack([x[order, :3], x[other, 3:]]), law) < 1e-12


def test_reduced_formulas_are_rebuilt():
    """Equal literals, a gate and a unit: the law over all variables is kept."""
    f = Formula(
        [[9], [1, -2], [-1, 2], [-3, 1], [-3, 4], [3, -1, -4], [4, 5, 6], [5, 7], [-5, 8, 6]],
        n_vars=9,
    )
    theta = weights(f)
    theta[2] = 0.0  # the gate weighs nothing
    for given in (None, [6]):
        s = nelson.sample(f, theta, 20_000, seed=4, given=given)
        assert s.info["preprocessing"]
        assert s.guarantee == "exact"
        hard = theta.copy()
        hard[5] = np.inf if given else theta[5]
        assert chi_square(s.to_numpy(), exact_law(f, hard)) > ALPHA
    # The twin: without the weight of the variable that was merged it is another law.
    wrong = theta.copy()
    wrong[1] = 0.0
    assert (
        chi_square(nelson.sample(f, wrong, 20_000, seed=4).to_numpy(), exact_law(f, theta)) < 1e-6
    )


# --- what holds for every method ------------------------------------------------------------------


def test_seeds_tails_streams_contexts_projection_distinct():
    f = mixed()
    whole = nelson.sample(f, None, 1000, seed=7)
    x = whole.to_numpy()
    assert whole.info["preprocessing"]
    assert np.array_equal(nelson.sample(f, None, 130, seed=7).to_numpy(), x[:130])
    assert np.array_equal(
        nelson.sample(mixed(), None, 1000, seed=7, threads=1).packed, whole.packed
    )
    assert not np.array_equal(nelson.sample(f, None, 1000, seed=8).packed, whole.packed)
    blocks = list(nelson.stream(f, None, 1000, block=192, seed=7))
    assert [len(block) for block in blocks] == [192] * 5 + [40]
    assert np.array_equal(np.concatenate([block.to_numpy() for block in blocks]), x)
    part = nelson.sample(f, None, 1000, seed=7, project=[8, 2])
    assert np.array_equal(part.to_numpy(), x[:, [7, 1]])
    rows = np.random.default_rng(0).normal(size=(3, 9))
    many = nelson.sample(f, rows, 5000, seed=1)
    assert many.to_numpy().shape == (3, 5000, 9)
    for row, samples in zip(rows, many.to_numpy(), strict=True):
        assert chi_square(samples, exact_law(f, row)) > ALPHA
    rows[1, 0] = np.inf  # evidence in one context: two problems in one call
    hard = nelson.sample(f, rows, 500, seed=1)
    assert hard.mean()[1, 0] == 1.0
    few = nelson.sample(example1(), None, 100, unique=True, seed=1)
    assert len(few) == 4
    assert few.info["exhausted"]
    assert len(nelson.sample(f, None, 0, seed=1)) == 0


def test_large_draws_come_in_chunks(monkeypatch):
    from nelson.sampling.auto import draw

    f = mixed()
    whole = nelson.sample(f, None, 1000, seed=7).packed
    monkeypatch.setattr(draw, "_SAMPLES", 192)
    assert np.array_equal(nelson.sample(f, None, 1000, seed=7).packed, whole)


def test_sweeps_asked_for_mean_lovasz():
    f = random_ksat(12, 12, 5, seed=1)
    s = nelson.sample(f, None, 500, seed=1, sweeps=3)
    named = nelson.sample(f, None, 500, seed=1, sweeps=3, method="lovasz")
    assert np.array_equal(s.packed, named.packed)
    assert s.guarantee == "heuristic" and "diagnosed" in s.info["why"]
    assert "auto" not in s.info


@pytest.mark.process
def test_a_new_theta_costs_no_new_circuit(monkeypatch):
    f = joined(random_ksat(18, 18, 5, seed=4), example1())
    nelson.sample(f, None, 10, seed=1)

    def refuse(*args, **more):
        raise AssertionError("compiled again")

    monkeypatch.setattr("nelson.exact.compiled.build", refuse)
    for k in range(3):
        s = nelson.sample(f, np.random.default_rng(k).normal(size=f.n_vars), 10, seed=1)
        assert s.guarantee == "exact"
