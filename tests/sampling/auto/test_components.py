"""`method="auto"` on formulas of several components, and what holds for every method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.chains.problem import prepare
from nelson.chains.request import Request
from nelson.exact.preprocess import result as preprocessed
from nelson.formula import Formula
from nelson.kernels.core.bits import tail_mask, unpack
from nelson.policy import Policy, RejectionPolicy
from nelson.sampling.auto import draw as auto_draw
from nelson.sampling.registry import get
from tests.problems import (
    chi_square,
    exact_law,
    example1,
    random_ksat,
    sink_free,
    weights,
)
from tests.sampling.auto.decisions import ALPHA, decided, joined, mixed, needs_d4

# --- components ---------------------------------------------------------------------------------


@needs_d4
@pytest.mark.process
def test_components_have_methods_of_their_own():
    policy = Policy(rejection=RejectionPolicy(violated=-1.0))  # else it draws all of them at once
    f = joined(example1(), Formula([[1, 2], [1, 3]]), random_ksat(18, 18, 5, seed=4))
    f = Formula(f.clauses(), n_vars=f.n_vars + 2)  # and two free variables
    s = nelson.sample(f, None, 2000, seed=1, policy=policy)
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


def plainly_joined(formula, decision, request):
    """The specification of a draw in parts: each variable of each sample by itself."""
    reduced, x = (
        decision.reduced,
        np.zeros((len(request.theta), request.count, formula.n_total), bool),
    )
    for k, group in enumerate(decision.groups):
        asked = replace(request, theta=group.theta, columns=np.arange(len(group.variables)))
        seed = auto_draw._asked(k, group, request).seed
        block = next(get(group.method).blocks(group.problem, replace(asked, seed=seed, sweeps=0)))
        for c in range(len(x)):
            x[c][:, group.variables] = unpack(block.packed[c], request.count)
    entries = reduced.rebuild
    for i in reversed(range(len(entries.target))):
        value = np.full(x.shape[:2], bool(entries.flip[i]))
        violated = np.zeros_like(value)
        for clause in range(entries.first[i], entries.first[i + 1]):
            literals = entries.literals[entries.start[clause] : entries.start[clause + 1]]
            violated |= (x[..., np.abs(literals) - 1] != (literals > 0)).all(-1)
        x[..., entries.target[i]] = value ^ violated
    return x


@pytest.mark.parametrize("count", [1, 64, 517, 2500])
@pytest.mark.parametrize("threads", [1, 3])
def test_parts_are_joined_sample_by_sample(count, threads, monkeypatch):
    """Tiles, tails, contexts, pieces, threads and projections give what a plain join gives."""
    gates = [[-1, 2], [-1, 3], [1, -2, -3], [4, -5], [-4, 5], [6]]
    f = joined(Formula([*gates, [2, 4, 7], [-3, 7, 8]], n_vars=9), mixed())
    every = np.arange(f.n_total)
    theta = np.zeros((3, f.n_total))
    theta[:, -9:] = np.random.default_rng(1).normal(size=(3, 9))
    request = Request(theta, np.arange(3), count, count, 5, every, 0, 1000, Budget(threads=threads))
    decision = decided(f, theta=theta)
    assert decision.reduced.gates and len(decision.groups) > 1
    expected = plainly_joined(f, decision, request)
    assert f.satisfied(expected.reshape(-1, f.n_total)).all()
    monkeypatch.setattr(preprocessed, "_MIN_THREADED_ROWS", 1)
    for pieces, columns in ((1 << 16, every), (128, every), (1 << 16, np.array([7, 0, 12]))):
        monkeypatch.setattr(auto_draw, "_SAMPLES", pieces)
        asked = replace(request, columns=columns)
        block = next(auto_draw.blocks(decision, prepare(f), asked))
        for c in range(3):
            assert np.array_equal(block.valid[c], tail_mask(count))
            assert np.array_equal(unpack(block.packed[c], count), expected[c][:, columns])
            assert not (block.packed[c] & ~block.filled[c][:, None]).any()


def test_a_join_that_breaks_a_clause_is_seen(monkeypatch):
    """The twin: one definition is wrong, and every lane that violates a clause is marked."""
    f = Formula([[-1, 2], [-1, 3], [1, -2, -3], [2, 3, 4]], n_vars=4)
    decision = decided(f)
    wrong = replace(decision.reduced.rebuild, flip=1 - decision.reduced.rebuild.flip)
    decision = replace(decision, reduced=replace(decision.reduced, rebuild=wrong))
    request = Request(
        np.zeros((1, 4)), np.zeros(1, int), 999, 999, 5, np.arange(4), 0, 1000, Budget(threads=1)
    )
    block = next(auto_draw.blocks(decision, prepare(f), request))
    good = f.satisfied(unpack(block.packed[0], 999))
    assert np.array_equal(unpack(block.valid[0][:, None], 999)[:, 0], good) and not good.all()


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
